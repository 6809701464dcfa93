package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what the kernel says of a process at one time.
type usage struct {
	rss, peak int64         // bytes
	cpu       time.Duration // of all its threads since its start
	drops     uint64        // datagrams that its open UDP sockets had no room for
}

// clockTick is the unit of processor time in /proc, the same on every Linux.
const clockTick = 10 * time.Millisecond

// usageOf asks the kernel about a process. Sockets can be counted of own processes,
// and by root.
func usageOf(pid int) (usage, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return usage{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return usage{}, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	cpu, err := parseStat(string(stat))
	if err != nil {
		return usage{}, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	drops, err := socketDrops(dir)
	if err != nil {
		return usage{}, fmt.Errorf("sockets of process %d: %w", pid, err)
	}
	return usage{
		rss: kilobytes(string(status), "VmRSS:"), peak: kilobytes(string(status), "VmHWM:"),
		cpu: cpu, drops: drops,
	}, nil
}

// parseStat reads the processor time from /proc/PID/stat. The program's name in
// it may have spaces and brackets.
func parseStat(text string) (time.Duration, error) {
	const user, system = 11, 12 // fields behind the name
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= system {
		return 0, fmt.Errorf("only %d fields in %.100q", len(fields), text)
	}
	var ticks int64
	for _, field := range fields[user : system+1] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// kilobytes is a line of /proc/PID/status, in bytes; 0 where it is missing.
func kilobytes(text, name string) int64 {
	_, rest, _ := strings.Cut(text, name)
	var n int64
	_, _ = fmt.Sscan(rest, &n)
	return n << 10
}

// socketDrops adds up the drop counters of the UDP sockets that a process has open.
func socketDrops(dir string) (sum uint64, err error) {
	entries, err := os.ReadDir(dir + "fd")
	if err != nil {
		return 0, err
	}
	inodes := map[string]bool{}
	for _, entry := range entries {
		link, err := os.Readlink(filepath.Join(dir, "fd", entry.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); err == nil && ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"net/udp", "net/udp6"} {
		text, err := os.ReadFile(dir + table)
		if err != nil {
			continue // a kernel without IPv6
		}
		sum += parseDrops(text, inodes)
	}
	return sum, nil
}

// parseDrops adds up the last column of /proc/net/udp for some sockets.
func parseDrops(table []byte, inodes map[string]bool) (sum uint64) {
	const inode, least = 9, 13
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) < least || !inodes[fields[inode]] {
			continue
		}
		n, _ := strconv.ParseUint(fields[len(fields)-1], 10, 64)
		sum += n
	}
	return sum
}

// Busy is how much processor time everything on this machine has used since its
// start, interrupts aside. Less what is known of it is what others use.
func Busy() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	return parseBusy(string(text))
}

// parseBusy adds up the first line of /proc/stat: user, nice, system and steal.
func parseBusy(text string) time.Duration {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	var ticks int64
	for _, i := range []int{1, 2, 3, 8} {
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}

// loadAverage is the first figure of /proc/loadavg.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	var average float64
	_, _ = fmt.Sscan(string(text), &average)
	return average
}

// Pin confines this process to processors. Threads that begin later inherit that.
func Pin(cpus []int) error {
	set := cpuSet(cpus)
	// Twice, as a thread that has not been pinned yet may have started another.
	for range 2 {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("pin to processors %v: %w", cpus, err)
		}
		for _, task := range tasks {
			id, _ := strconv.Atoi(task.Name())
			if err := unix.SchedSetaffinity(id, &set); err != nil && err != unix.ESRCH {
				return fmt.Errorf("pin to processors %v of %d: %w", cpus, runtime.NumCPU(), err)
			}
		}
	}
	runtime.GOMAXPROCS(len(cpus))
	return nil
}

// pinned runs start in a thread that is confined to processors, which a process
// started there inherits. No processors: as it is.
func pinned(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("processors of this thread: %w", err)
	}
	set := cpuSet(cpus)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to processors %v of %d: %w", cpus, runtime.NumCPU(), err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	return start()
}

func cpuSet(cpus []int) (set unix.CPUSet) {
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return set
}
