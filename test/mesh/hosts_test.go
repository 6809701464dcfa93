//go:build mesh

package mesh

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// inside is the environment variable that says that this process has a network of
// its own already.
const inside = "MOQMESH_INSIDE"

// apart runs this program again, where network and mounts are nobody else's: what
// the tests make there is gone with the process, however it ends.
func apart() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	return cmd.Run()
}

// furnish makes the place that apart has made ready: names of namespaces are kept in
// a file system of its own.
func furnish() error {
	const names = "/run/netns"
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := os.MkdirAll(names, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("mesh", names, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", names, err)
	}
	return run("ip", "link set lo up")
}

// run runs a program; words are its arguments, between spaces.
func run(program, words string) error {
	if out, err := exec.Command(program, strings.Fields(words)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, words, err, out)
	}
	return nil
}

// network is hosts on one bridge, on which this process is too.
type network struct {
	t      *testing.T
	number int // of the network, 1 to 250
}

// newNetwork makes n hosts.
func newNetwork(t *testing.T, number, n int) *network {
	t.Helper()
	w := &network{t: t, number: number}
	w.must("ip", "link add %s type bridge", w.bridge())
	w.must("ip", "addr add 10.204.%d.254/24 dev %s", number, w.bridge())
	w.must("ip", "link set %s up", w.bridge())
	for i := range n {
		w.add(i)
	}
	return w
}

func (w *network) must(program, format string, args ...any) {
	w.t.Helper()
	if err := run(program, fmt.Sprintf(format, args...)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *network) bridge() string           { return fmt.Sprintf("mesh%d", w.number) }
func (w *network) host(i int) string        { return fmt.Sprintf("mesh%d-%d", w.number, i) }
func (w *network) address(i int) string     { return fmt.Sprintf("10.204.%d.%d", w.number, i+1) }
func (w *network) addresses(n int) []string { return each(n, w.address) }

// each is f of 0 to n-1.
func each[T any](n int, f func(int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// add makes host i, which drops what comes from the hosts that it is cut from.
func (w *network) add(i int) {
	w.t.Helper()
	host, port := w.host(i), fmt.Sprintf("mv%d-%d", w.number, i)
	w.must("ip", "netns add %s", host)
	w.must("ip", "link add %s type veth peer name eth0 netns %s", port, host)
	w.must("ip", "link set %s master %s up", port, w.bridge())
	w.must("ip", "-n %s addr add %s/24 dev eth0", host, w.address(i))
	w.must("ip", "-n %s link set lo up", host)
	w.must("ip", "-n %s link set eth0 up", host)
	for _, rule := range []string{
		"add table ip mesh",
		"add set ip mesh cut { type ipv4_addr ; }",
		"add chain ip mesh in { type filter hook input priority 0 ; }",
		"add rule ip mesh in ip saddr @cut drop",
	} {
		w.must("ip", "netns exec %s nft %s", host, rule)
	}
}

// cut loses every packet between two hosts, without a word to either.
func (w *network) cut(i, j int) {
	w.t.Helper()
	w.must("ip", "netns exec %s nft add element ip mesh cut { %s }", w.host(i), w.address(j))
	w.must("ip", "netns exec %s nft add element ip mesh cut { %s }", w.host(j), w.address(i))
}

// heal ends that.
func (w *network) heal(i, j int) {
	w.t.Helper()
	w.must("ip", "netns exec %s nft delete element ip mesh cut { %s }", w.host(i), w.address(j))
	w.must("ip", "netns exec %s nft delete element ip mesh cut { %s }", w.host(j), w.address(i))
}
