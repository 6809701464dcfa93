package preflight

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/moqrelay/operator/relay/config"
)

// TestMain is also the process that newPod starts: it runs preflight with the
// options of its arguments and prints the report.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "as-pod" {
		c := wanting(number(os.Args[3]), config.RaiseNode)
		r := Run(context.Background(), c, Options{Proc: os.Args[2], MaxNodeBuffer: number(os.Args[4])})
		_, _ = os.Stdout.Write(r.JSON())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// number reads a whole number; 0 for none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// wanting is a configuration that asks for so many bytes both ways.
func wanting(size int64, mode config.BufferMode) config.Config {
	c := config.Development()
	c.SocketBuffers = config.SocketBuffers{
		Receive: config.Bytes(size), Send: config.Bytes(size), Mode: mode, Requirement: config.Required,
	}
	return c
}

// node returns this machine's limits and puts them back after the test. It skips
// where they cannot be written: preflight could not be seen to raise them.
func node(t *testing.T) limits {
	t.Helper()
	alone(t)
	before := limits{mustRead(t, receiveLimit), mustRead(t, sendLimit)}
	for _, path := range []string{receiveLimit, sendLimit} {
		if err := os.WriteFile(path, []byte(strconv.FormatInt(mustRead(t, path), 10)), 0o600); err != nil {
			t.Skipf("needs root in the machine's own network namespace: %v", err)
		}
	}
	t.Cleanup(func() {
		for path, n := range map[string]int64{receiveLimit: before.receive, sendLimit: before.send} {
			if err := os.WriteFile(path, []byte(strconv.FormatInt(n, 10)), 0o600); err != nil {
				t.Errorf("put %s back to %d: %v", path, n, err)
			}
		}
	})
	return before
}

// alone keeps tests of several processes that lower the machine's limits apart:
// each puts back what it has found.
func alone(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "moqrelay-node-limits.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// mustRead reads a limit.
func mustRead(t *testing.T, path string) int64 {
	t.Helper()
	n, err := readLimit(path)
	if err != nil {
		t.Skipf("this machine does not show its limits: %v", err)
	}
	return n
}

// runInPod runs preflight in a process with a network namespace of its own, as
// in a pod, where the node's /proc is at that path.
func runInPod(t *testing.T, proc string, size, maxNode int64) Report {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "as-pod", proc, strconv.FormatInt(size, 10), strconv.FormatInt(maxNode, 10))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("start a process in a new network namespace: %v: %s", err, out)
	}
	r, err := ParseReport(string(out))
	if err != nil {
		t.Fatalf("report %q: %v", out, err)
	}
	return r
}

func TestFromAPodsNamespaceTheNodeIsRaisedToWhatIsAsked(t *testing.T) {
	before := node(t)
	want := max(before.receive, before.send) + 1<<20
	r := runInPod(t, "/proc", want, 0)
	full := Buffer{Want: want, Max: want, Got: want}
	if !r.Raised || r.Err != "" || r.RX == nil || *r.RX != full || *r.TX != full {
		t.Fatalf("report is %s, want both raised to and granted %d", r.JSON(), want)
	}
	if got := mustRead(t, receiveLimit); got != want {
		t.Errorf("net.core.rmem_max of the node is %d, want %d", got, want)
	}
	if r := runInPod(t, "/proc", want, 0); r.Raised || r.Err != "" {
		t.Errorf("the second run reports %s, want nothing raised", r.JSON())
	}
	// The pod has only a loopback interface, and that one is down.
	if r.MTU != 0 || r.V4 || r.V6 || r.Mode != "RaiseNode" || r.Kernel == "" || r.Arch == "" {
		t.Errorf("report is %s, want an empty network namespace", r.JSON())
	}
}

func TestALimitIsNeverLowered(t *testing.T) {
	before := node(t)
	if before.receive <= 1<<20 || before.send <= 1<<20 {
		t.Skip("this machine's limits are under 1 MiB")
	}
	r := runInPod(t, "/proc", 1<<20, 0)
	want := Buffer{Want: 1 << 20, Max: before.receive, Got: 1 << 20}
	if r.Raised || r.Err != "" || *r.RX != want {
		t.Errorf("report is %s, want nothing raised and 1 MiB granted", r.JSON())
	}
	if got := (limits{mustRead(t, receiveLimit), mustRead(t, sendLimit)}); got != before {
		t.Errorf("the limits are %v, want %v as before", got, before)
	}
}

func TestTheNodeIsRaisedNoFurtherThanTheCap(t *testing.T) {
	before := node(t)
	most := max(before.receive, before.send) + 1<<20
	r := runInPod(t, "/proc", most+1<<20, most)
	want := Buffer{Want: most + 1<<20, Max: most, Got: most}
	if !r.Raised || r.Err != ReasonReceiveBelowRequested || *r.RX != want || *r.TX != want {
		t.Errorf("report is %s, want both at %d and ReceiveBelowRequested", r.JSON(), most)
	}
}

func TestWhereTheFirstProcessIsClosedTheSecondIsEntered(t *testing.T) {
	before := node(t)
	proc := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(proc, "1/ns"), 0o700),
		os.MkdirAll(filepath.Join(proc, "2/ns"), 0o700),
		// A file that setns refuses.
		os.WriteFile(filepath.Join(proc, "1/ns/net"), nil, 0o600),
		os.Symlink(fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), filepath.Join(proc, "2/ns/net")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := max(before.receive, before.send) + 1<<20
	if r := runInPod(t, proc, want, 0); !r.Raised || r.RX.Got != want {
		t.Errorf("report is %s, want both raised to %d", r.JSON(), want)
	}
}

func TestANodeThatCannotBeEnteredIsReported(t *testing.T) {
	before := node(t)
	r := runInPod(t, "/nonexistent", before.receive+1<<20, 0)
	if r.Raised || r.Err != ReasonRaiseRefused || !strings.Contains(r.Msg, "/nonexistent/1/ns/net") {
		t.Errorf("report is %s, want RaiseRefused with the path", r.JSON())
	}
	if r.RX.Got != before.receive {
		t.Errorf("granted are %d, want the node's limit %d", r.RX.Got, before.receive)
	}
	// Before Linux 6.10 a pod does not see the limit.
	if r.RX.Max != before.receive && r.RX.Max != 0 {
		t.Errorf("the limit is reported as %d, want %d or unknown", r.RX.Max, before.receive)
	}
}

func TestNothingIsRefusedWhereNothingHasToBeRaised(t *testing.T) {
	r := Run(t.Context(), wanting(208<<10, config.RaiseNode), Options{Proc: "/nonexistent"})
	if r.Err != "" || r.Raised || r.RX.Got != 208<<10 {
		t.Errorf("report is %s, want 208 KiB granted and no fault", r.JSON())
	}
}

func TestVerifyTouchesNothingAndTellsWhatIsGranted(t *testing.T) {
	limit := limits{mustRead(t, receiveLimit), mustRead(t, sendLimit)}
	if limit.receive >= 512<<20 {
		t.Skip("this machine grants everything")
	}
	r := Run(t.Context(), wanting(512<<20, config.Verify), Options{Node: "node-a", Now: noon})
	want := Buffer{Want: 512 << 20, Max: limit.receive, Got: limit.receive}
	if r.Err != ReasonReceiveBelowRequested || *r.RX != want || r.Raised || r.Node != "node-a" {
		t.Errorf("report is %s, want %+v", r.JSON(), want)
	}
	if got := (limits{mustRead(t, receiveLimit), mustRead(t, sendLimit)}); got != limit {
		t.Errorf("the limits are %v, want %v as before", got, limit)
	}
	if !strings.Contains(r.Msg, "net.core.rmem_max") {
		t.Errorf("message is %q, want the sysctl's name", r.Msg)
	}
}

func TestWithoutQUICNoSocketIsOpened(t *testing.T) {
	c := wanting(512<<20, config.RaiseNode)
	c.Transports.QUIC.State = config.Disabled
	if r := Run(t.Context(), c, Options{Proc: "/nonexistent"}); r.RX != nil || r.TX != nil || r.Err != "" {
		t.Errorf("report is %s, want no buffers", r.JSON())
	}
}

func TestCertificatesNeverFailTheRun(t *testing.T) {
	c := wanting(208<<10, config.Verify)
	c.TLS = config.TLS{Mode: config.Files, Directories: []string{"/nonexistent/a", "/nonexistent/b"}}
	r := Run(t.Context(), c, Options{})
	if r.Err != "" || len(r.Certs) != 2 || r.Certs[0].Err != ReasonSecretMissing || r.Certs[1].Secret != "b" {
		t.Errorf("report is %s, want two missing Secrets and no fault", r.JSON())
	}
}
