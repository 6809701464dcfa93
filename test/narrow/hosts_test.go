//go:build narrow

package narrow

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The addresses of the two hosts, in namespaces where nothing else is.
const (
	relayAddress  = "10.203.77.1"
	viewerAddress = "10.203.77.2"
	relayPort     = "4443"
	statusPort    = "9090"
)

// rate is the relay's link to the viewer. A packet of burst bytes may go at line speed.
const rate, burst, queue = "2mbit", "8kb", "200ms"

// hosts are the two namespaces.
type hosts struct{ relay, viewer string }

// newHosts makes the namespaces and the link between them. They go with the test.
func newHosts(t *testing.T) hosts {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("network namespaces need root")
	}
	h := hosts{relay: fmt.Sprintf("moqnarrow-r%d", os.Getpid()), viewer: fmt.Sprintf("moqnarrow-v%d", os.Getpid())}
	t.Cleanup(func() {
		_ = exec.Command("ip", "netns", "del", h.relay).Run()
		_ = exec.Command("ip", "netns", "del", h.viewer).Run()
	})
	near, far := fmt.Sprintf("mnr%d", os.Getpid()%1e6), fmt.Sprintf("mnv%d", os.Getpid()%1e6)
	for _, line := range []string{
		"netns add " + h.relay,
		"netns add " + h.viewer,
		"link add " + near + " netns " + h.relay + " type veth peer name " + far + " netns " + h.viewer,
		"-n " + h.relay + " addr add " + relayAddress + "/30 dev " + near,
		"-n " + h.viewer + " addr add " + viewerAddress + "/30 dev " + far,
		"-n " + h.relay + " link set lo up",
		"-n " + h.viewer + " link set lo up",
		"-n " + h.relay + " link set " + near + " up",
		"-n " + h.viewer + " link set " + far + " up",
		"netns exec " + h.relay + " tc qdisc add dev " + near + " root tbf rate " + rate + " burst " + burst + " latency " + queue,
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	return h
}

// on starts a program on a host. It is killed with the test.
func on(t *testing.T, host string, env []string, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", host, program}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// buildRelay compiles the relay.
func buildRelay(t *testing.T) string {
	t.Helper()
	relay := filepath.Join(t.TempDir(), "moq-relay")
	cmd := exec.Command("go", "build", "-trimpath", "-o", relay, "../../cmd/relay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the relay: %v\n%s", err, out)
	}
	return relay
}
