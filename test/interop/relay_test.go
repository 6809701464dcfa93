//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// relay is a running moq-relay.
type relay struct {
	*process
	clients string // HOST:PORT, UDP and TCP
	status  string // HOST:PORT
}

// startRelay runs a relay for development on ports that it picks.
func startRelay(t *testing.T, args ...string) *relay {
	t.Helper()
	args = append([]string{
		"serve", "--dev", "--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0", "--log-level", "debug", "--log-format", "text",
	}, args...)
	r := &relay{process: start(t, "moq-relay", filepath.Join(built, "relay"), args...)}
	for field := range strings.FieldsSeq(r.awaitLine("listening ")) {
		name, address, _ := strings.Cut(field, "=")
		switch name {
		case "tcp":
			r.clients = address
		case "status":
			r.status = address
		}
	}
	return r
}

// wantSame compares what a viewer saw with what was published.
func wantSame(t *testing.T, viewer string, got, want frames) {
	t.Helper()
	wrong := 0
	for at, what := range want {
		if got[at] != what {
			if wrong++; wrong <= 5 {
				t.Errorf("%s, group %d frame %d: got %q, published %q", viewer, at.group, at.frame, got[at], what)
			}
		}
	}
	if len(got) != len(want) || wrong > 0 {
		t.Errorf("%s has %d frames, %d of them wrong or missing; %d were published", viewer, len(got), wrong, len(want))
	}
}

// from is the part of a track that begins with a group.
func (f frames) from(group int) frames {
	part := make(frames)
	for at, what := range f {
		if at.group >= group {
			part[at] = what
		}
	}
	return part
}

// bystanders are a publisher and a viewer that nobody may disturb.
type bystanders struct {
	publisher, viewer *process
}

func startBystanders(t *testing.T, r *relay) *bystanders {
	t.Helper()
	b := &bystanders{
		publisher: moqLoad(t, "pub", "http://"+r.clients, "--broadcast", bystander, "--rate", "100", "--frames", "50", "--size", "100..5000", "--hashes"),
		viewer:    moqLoad(t, "sub", "http://"+r.clients, "--broadcast", bystander, "--hashes"),
	}
	b.viewer.await("a first frame", func(p *process) bool { return len(p.frames[0]) > 0 })
	return b
}

// wantUnharmed waits until the viewer has seen more, and ends it: it says itself
// whether a byte was wrong or missing since it came.
func (b *bystanders) wantUnharmed() {
	t := b.viewer.t
	t.Helper()
	before := len(b.viewer.seen(0))
	b.viewer.await("more frames", func(p *process) bool { return len(p.frames[0]) >= before+100 })
	if err := b.viewer.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	b.viewer.wantExit(0)
}

// memory is what the process has in memory now, in bytes. It forgets the peak.
func (r *relay) memory() int64 {
	r.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.cmd.Process.Pid), []byte("5"), 0); err != nil {
		r.t.Fatal(err)
	}
	return r.proc("VmRSS:")
}

// memoryMargin is how far the peak may lie above what the process had before: the
// length bombs of these tests claim hundreds of times that and more.
const memoryMargin = 16 << 20

// wantMemory checks the peak since memory was called.
func (r *relay) wantMemory(before int64) {
	r.t.Helper()
	peak := r.proc("VmHWM:")
	r.t.Logf("resident memory: %d KiB before, %d KiB at the peak", before>>10, peak>>10)
	if peak > before+memoryMargin {
		r.t.Errorf("resident memory rose from %d to %d bytes, by more than %d", before, peak, memoryMargin)
	}
}

// proc reads a line of /proc/PID/status that is in kB.
func (r *relay) proc(name string) int64 {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name)
	var kib int64
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		r.t.Fatalf("%s in /proc: %v", name, err)
	}
	return kib << 10
}
