package machine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Proc is a mounted proc filesystem, "/proc" outside of tests.
type Proc string

// A Process is one that runs, zombies aside.
type Process struct {
	PID  int
	Name string // the kernel's short name, at most 15 bytes
	Args string // the command line, blanks between the arguments
}

func (p Process) String() string {
	return fmt.Sprintf("%s (pid %d)", p.Name, p.PID)
}

// Processes lists those for which keep is true, by rising pid. A process that ends
// while it is looked at is left out.
func (p Proc) Processes(keep func(Process) bool) []Process {
	dirs, _ := filepath.Glob(filepath.Join(string(p), "[0-9]*"))
	var out []Process
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		one, ok := p.process(pid)
		if ok && keep(one) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

func (p Proc) process(pid int) (Process, bool) {
	stat, err := os.ReadFile(p.path(pid, "stat"))
	if err != nil || hasEnded(stat) {
		return Process{}, false
	}
	name, _ := os.ReadFile(p.path(pid, "comm"))
	args, _ := os.ReadFile(p.path(pid, "cmdline"))
	return Process{
		PID:  pid,
		Name: strings.TrimSpace(string(name)),
		Args: strings.TrimSpace(string(bytes.ReplaceAll(args, []byte{0}, []byte{' '}))),
	}, true
}

// hasEnded reads the state and the number of threads, the first and the eighteenth
// field behind the name in parentheses. A zombie that still has other threads has
// not ended: they hold its sockets and ports until the last one is gone.
func hasEnded(stat []byte) bool {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 18 || !bytes.ContainsAny(f[0], "ZX") {
		return false
	}
	return string(f[17]) == "0" || string(f[17]) == "1"
}

func (p Proc) path(pid int, file string) string {
	return filepath.Join(string(p), strconv.Itoa(pid), file)
}

// Named lists the processes with one of these short names.
func (p Proc) Named(names ...string) []Process {
	return p.Processes(func(one Process) bool { return slices.Contains(names, one.Name) })
}

// Marked lists the processes that were started with the environment entry
// "KEY=value". Children inherit it, and a process cannot lose it, so it finds a
// daemon's helpers too, and those whose pid nobody had time to write down.
func (p Proc) Marked(entry string) []Process {
	return p.Processes(func(one Process) bool {
		env, err := os.ReadFile(p.path(one.PID, "environ"))
		return err == nil && slices.Contains(strings.Split(string(env), "\x00"), entry)
	})
}

// Alive says whether the process runs.
func (p Proc) Alive(pid int) bool {
	_, ok := p.process(pid)
	return ok
}

// Stop asks the processes to end and kills those that still run after grace.
func (p Proc) Stop(list []Process, grace time.Duration) error {
	for _, one := range list {
		_ = syscall.Kill(one.PID, syscall.SIGTERM)
	}
	if len(p.waitGone(list, grace)) == 0 {
		return nil
	}
	for _, one := range list {
		_ = syscall.Kill(one.PID, syscall.SIGKILL)
	}
	if left := p.waitGone(list, 10*time.Second); len(left) > 0 {
		return fmt.Errorf("processes do not end: %v", left)
	}
	return nil
}

// waitGone returns those that still run after the given time.
func (p Proc) waitGone(list []Process, wait time.Duration) []Process {
	until := time.Now().Add(wait)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		list = slices.DeleteFunc(slices.Clone(list), func(one Process) bool { return !p.Alive(one.PID) })
		if len(list) == 0 || time.Now().After(until) {
			return list
		}
		<-tick.C
	}
}

// A Port is one that the cluster is about to listen on.
type Port struct {
	Number  int
	Program string
}

// A PortConflict is a port that somebody listens on already.
type PortConflict struct {
	Port
	By *Process // nil when the listener's process cannot be seen
}

func (c PortConflict) String() string {
	by := "a process that cannot be seen from here"
	if c.By != nil {
		by = c.By.String()
		if c.By.Args != "" {
			by += ": " + cut(c.By.Args, 100)
		}
	}
	return fmt.Sprintf("TCP port %d (for %s) is taken by %s", c.Number, c.Program, by)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}

// Conflicts lists the ports that are taken. A listener on any address counts: the
// cluster wants these numbers on the node's address or on loopback, and a wildcard
// listener has both.
func (p Proc) Conflicts(ports []Port) ([]PortConflict, error) {
	inodes, err := p.listeners()
	if err != nil {
		return nil, err
	}
	var out []PortConflict
	for _, port := range ports {
		if inode, ok := inodes[port.Number]; ok {
			out = append(out, PortConflict{Port: port, By: p.holder(inode)})
		}
	}
	return out, nil
}

// listeners maps each listening TCP port to its socket's inode.
func (p Proc) listeners() (map[int]string, error) {
	out := map[int]string{}
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		b, err := os.ReadFile(filepath.Join(string(p), file))
		if errors.Is(err, os.ErrNotExist) && file == "net/tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("listening ports: %w", err)
		}
		for line := range strings.Lines(string(b)) {
			if port, inode, ok := parseListener(line); ok {
				out[port] = inode
			}
		}
	}
	return out, nil
}

// parseListener reads a line of /proc/net/tcp: number, local address, remote
// address, state (0A is LISTEN), four more, then uid, timeout, inode.
func parseListener(line string) (port int, inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return 0, "", false
	}
	_, hex, _ := strings.Cut(f[1], ":")
	n, err := strconv.ParseUint(hex, 16, 16)
	return int(n), f[9], err == nil
}

// holder finds the process that has the socket open; nil if none can be seen.
func (p Proc) holder(inode string) *Process {
	want := "socket:[" + inode + "]"
	found := p.Processes(func(one Process) bool {
		fds, _ := filepath.Glob(p.path(one.PID, "fd/*"))
		return slices.ContainsFunc(fds, func(fd string) bool {
			to, err := os.Readlink(fd)
			return err == nil && to == want
		})
	})
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}
