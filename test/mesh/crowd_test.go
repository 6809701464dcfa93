//go:build mesh

package mesh

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// collect is a process on a relay's host that has it collect its garbage, which it
// does for nobody else. What pools keep is gone after the second time.
func collect() error {
	for range 3 {
		answer, err := http.Get("http://127.0.0.1:9090/debug/pprof/heap?gc=1")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// heaps are the bytes that are live in every relay.
func (m *mesh) heaps() []int64 {
	m.t.Helper()
	return each(len(m.relays), func(i int) int64 {
		self, err := os.Executable()
		if err != nil {
			m.t.Fatal(err)
		}
		cmd := exec.Command("ip", "netns", "exec", m.network.host(i), self)
		cmd.Env = append(os.Environ(), roleOf+"=collector")
		if out, err := cmd.CombinedOutput(); err != nil {
			m.t.Fatalf("have relay %d collect its garbage: %v: %s", i, err, out)
		}
		c, err := m.relays[i].read(m.ctx)
		if err != nil {
			m.t.Fatal(err)
		}
		return c.heap
	})
}

// mostHeap bounds what one broadcast costs a relay that hears of it from seven
// others, in bytes: seven routes, and what was told to each of them. mostLeft bounds
// what is left of one when it is gone, for whatever reason, beyond what the same
// crowd had left before.
const mostHeap, mostLeft = 16 << 10, 512

func TestManyBroadcastsAreKnownEverywhereAndForgottenEverywhere(t *testing.T) {
	const relays = 8
	broadcasts := 1000
	if _, full := lasting(t); full {
		broadcasts = 10_000
	}
	m := newMesh(t, buildRelay(t), relays, shapes["full"](relays))
	for _, w := range m.watchers { // what they know is not to be counted
		w.leave(lite.SessionNoError)
	}
	before := m.heaps()
	m.crowd(broadcasts, before)
	first := m.heaps()
	m.crowd(broadcasts, first)
	second := m.heaps()
	for i := range second {
		left := (second[i] - first[i]) / int64(broadcasts)
		t.Logf("relay %d: %.1f MiB of heap at the start, %.1f behind the first crowd, %.1f behind the second", i, mib(before[i]), mib(first[i]), mib(second[i]))
		if left > mostLeft {
			t.Errorf("relay %d still holds %d bytes for each broadcast that is gone, want at most %d", i, left, mostLeft)
		}
	}
}

// crowd has a publisher of many broadcasts come and go.
func (m *mesh) crowd(broadcasts int, before []int64) {
	m.t.Helper()
	told, began := m.told(), time.Now()
	p, err := join(m.ctx, m.relays[0].at, m.hash, lite.Lite06, lite.RolePublisher)
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range broadcasts {
		p.origin.Announce(model.Route{Path: model.Path(fmt.Sprintf("crowd/room-%05d", i)), Source: &studio{ctx: m.ctx}})
	}
	m.until("every relay to know all broadcasts", func(all []counts) bool {
		return !slices.ContainsFunc(all, func(c counts) bool { return c.paths != int64(broadcasts) })
	})
	known := time.Since(began)
	m.until("every relay to know every way to them", func(all []counts) bool {
		want := int64(broadcasts * (len(all) - 1))
		return !slices.ContainsFunc(all[1:], func(c counts) bool { return c.routes != want })
	})
	settled, messages := time.Since(began), m.told()-told
	costs := make([]int64, len(m.relays))
	for i, now := range m.heaps() {
		costs[i] = (now - before[i]) / int64(broadcasts)
		if costs[i] > mostHeap {
			m.t.Errorf("relay %d needs %d bytes for each broadcast, want at most %d", i, costs[i], mostHeap)
		}
	}
	began = time.Now()
	p.leave(lite.SessionNoError)
	m.empty()
	m.t.Logf("%d broadcasts on %d relays in a full mesh: known everywhere after %.1f s, by every way after %.1f s, forgotten everywhere %.1f s after their end; %.1f messages over all links for each; bytes of heap for each, by relay: %d",
		broadcasts, len(m.relays), known.Seconds(), settled.Seconds(), time.Since(began).Seconds(), float64(messages)/float64(broadcasts), costs)
}
