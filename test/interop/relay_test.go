//go:build interop

package interop

import (
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
