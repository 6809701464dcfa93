//go:build narrow

package narrow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(role); name != "" {
		if err := play(name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// transports are those that a viewer may come by.
var transports = []transport.Kind{transport.QUIC, transport.WebTransport, transport.WebSocket}

// run plays a plan and returns what the viewer got of each track.
func run(t *testing.T, relay string, p plan) map[string]*outcome {
	t.Helper()
	h := newHosts(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{planOf + "=" + string(text)}
	for _, cmd := range []struct {
		env     []string
		program string
		args    []string
	}{
		{nil, relay, []string{"serve", "--dev", "--listen", relayAddress + ":" + relayPort, "--status-listen", "127.0.0.1:" + statusPort, "--log-level", "error"}},
		{append(env, role+"=publisher"), self, nil},
	} {
		if err := on(t, h.relay, cmd.env, cmd.program, cmd.args...).Start(); err != nil {
			t.Fatal(err)
		}
	}
	viewer := on(t, h.viewer, append(env, role+"=viewer"), self)
	out, err := viewer.Output()
	if err != nil {
		t.Fatalf("the viewer has failed: %v", err)
	}
	seen := make(map[string]*outcome)
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&seen); err != nil {
		t.Fatalf("the viewer said %q: %v", out, err)
	}
	for _, tr := range p.Tracks {
		o := seen[tr.Name]
		t.Logf("%-12s %-5s priority %3d, latency %v: of %d groups %d whole, %d cut short, %d skipped; %d bytes",
			p.Transport, tr.Name, tr.Priority, tr.Latency, tr.Groups, o.Whole, o.Cut, o.Skipped, o.Bytes)
	}
	return seen
}

// The one takes a third of the link, the other alone all of it.
func TestOfTwoTracksThatDoNotBothFitTheOneOfHigherPriorityIsWhole(t *testing.T) {
	relay := buildRelay(t)
	for _, kind := range transports {
		t.Run(string(kind), func(t *testing.T) {
			tr := track{Groups: 12, Frames: 20, Every: time.Second, Spread: true, Latency: 3 * time.Second}
			high, low := tr, tr
			high.Name, high.Priority, high.Size = "high", 200, 4_000
			low.Name, low.Priority, low.Size = "low", 10, 12_500
			seen := run(t, relay, plan{Transport: kind, Tracks: []track{low, high}})
			if got := seen["high"]; got.Whole != 12 || got.Bytes != 12*20*4_000 {
				t.Errorf("of the track of higher priority %d groups and %d bytes came, want all 12 and 960,000", got.Whole, got.Bytes)
			}
			if got := seen["low"]; got.Whole > 9 {
				t.Errorf("of the other track %d groups are whole: the link was not narrow", got.Whole)
			}
		})
	}
}

// Group 0 alone takes the link for six seconds. Group 1 begins after one.
func TestANewGroupDoesNotWaitForAnOldOne(t *testing.T) {
	relay := buildRelay(t)
	for _, kind := range transports {
		t.Run(string(kind), func(t *testing.T) {
			tr := track{
				Name: "video", Groups: 2, First: 60, Frames: 4, Size: 25_000, Every: time.Second,
				Priority: 10, Latency: time.Minute,
			}
			t.Run("both are wanted", func(t *testing.T) {
				got := run(t, relay, plan{Transport: kind, Tracks: []track{tr}})["video"]
				if !slices.Equal(got.Order, []int{1, 0}) {
					t.Errorf("the groups were whole in the order %v, want the newer one first", got.Order)
				}
			})
			t.Run("the old one may go", func(t *testing.T) {
				late := tr
				late.Latency = 0
				got := run(t, relay, plan{Transport: kind, Tracks: []track{late}})["video"]
				if !slices.Equal(got.Order, []int{1}) || got.Whole+got.Cut+got.Skipped != 2 {
					t.Errorf("whole are %v, %d were cut short, %d skipped; want group 1 alone", got.Order, got.Cut, got.Skipped)
				}
			})
		})
	}
}
