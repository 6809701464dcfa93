//go:build soak

package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(role); text != "" {
		var at place
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		crowd(context.Background(), at)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lasting is how long the churn lasts.
func lasting(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SOAKTIME")
	if text == "" {
		text = "30m"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 2*time.Minute {
		t.Fatalf("SOAKTIME %q: want a duration of at least 2m, such as 30m", text)
	}
	return d
}

// makeKey has the relay's program make a key pair; it returns the private key's
// text and the public key's file.
func makeKey(t *testing.T, program string) (private, public string) {
	t.Helper()
	folder := t.TempDir()
	key := filepath.Join(folder, "key.jwk")
	public = filepath.Join(folder, "public.jwk")
	out, err := exec.Command(program, "token", "keygen", "--id", "soak", "--key", key, "--public", public).CombinedOutput()
	if err != nil {
		t.Fatalf("token keygen: %v\n%s", err, out)
	}
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), public
}

// faults collects what went wrong, each text with how often. Of many only the
// first are shown.
type faults struct {
	mu    sync.Mutex
	texts []string
	more  int
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.texts) == 30 {
		f.more++
		return
	}
	f.texts = append(f.texts, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (f *faults) report(t *testing.T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range f.texts {
		t.Error(text)
	}
	if f.more > 0 {
		t.Errorf("and %d more", f.more)
	}
}

// judge reports what a relay said that it must not say.
func judge(t *testing.T, r *relay) {
	found, warnings := r.faults()
	for _, text := range found {
		t.Errorf("relay %s says %s", r.name, text)
	}
	if r.name == "main" {
		t.Logf("its warnings: %v", warnings)
	}
}

func TestNothingIsLeftOfALongChurn(t *testing.T) {
	d := lasting(t)
	program := buildRelay(t)
	private, public := makeKey(t, program)
	main, err := startRelay(t, "main", program, public)
	if err != nil {
		t.Fatal(err)
	}
	at, err := newPlace(main.client, private)
	if err != nil {
		t.Fatal(err)
	}
	before, err := main.metrics()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("at the start: %v goroutines, RSS %s", before["go_goroutines"], mib(before["process_resident_memory_bytes"]))
	var wrong faults
	c := newChurn(at, main, program, wrong.add)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { each(ctx, max(10*time.Second, d/20), func(int) { glance(t, c) }) })
	c.run(ctx, func(ctx context.Context, i int) { c.drainAnother(ctx, t, i, public) })
	watching.Wait()
	wrong.report(t)
	after := settled(t, main, before["go_goroutines"])
	c.summary(t, after)
	checkHeap(t, main, before)
	if err := main.end(t.Context()); err != nil {
		t.Error(err)
	}
	judge(t, main)
}

func mib(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }

// glance says how it goes.
func glance(t *testing.T, c *churn) {
	s, err := c.relay.metrics()
	if err != nil {
		c.fault("%v", err)
		return
	}
	t.Logf("%s %v sessions, %v subscriptions, %v goroutines, cache %s, buffers %s, RSS %s", time.Now().Format("15:04:05"),
		s.sum("moq_relay_sessions"), s.sum("moq_relay_subscriptions"), s["go_goroutines"],
		mib(s["moq_relay_cache_bytes"]), mib(s["moq_relay_buffer_bytes"]), mib(s["process_resident_memory_bytes"]))
}

// settled waits until nothing is left of the churn. Vanished peers take the idle
// timeout, tracks and groups their age.
func settled(t *testing.T, r *relay, goroutines float64) series {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var last series
	var remains []string
	begun := time.Now()
	each(ctx, time.Second, func(int) {
		s, err := r.metrics()
		if err != nil {
			remains = []string{err.Error()}
			return
		}
		last = s
		if remains = s.remains(goroutines); len(remains) == 0 {
			cancel()
		}
	})
	t.Logf("settled %v after the last has left", time.Since(begun).Round(time.Second))
	for _, text := range remains {
		t.Errorf("two minutes after the last has left %s", text)
	}
	if len(remains) > 0 {
		_, stacks, _ := get("http://" + r.statusAt + "/debug/pprof/goroutine?debug=1")
		t.Logf("goroutines: %s", stacks)
	}
	return last
}

// checkHeap compares what is live now with what was at the start. Resident memory
// says nothing here: the race detector keeps its own for ever.
func checkHeap(t *testing.T, r *relay, before series) {
	const most = 16 << 20 // more than the start has; caches of the runtime and of libraries are below
	if _, _, err := get("http://" + r.statusAt + "/debug/pprof/heap?gc=1"); err != nil {
		t.Error(err)
	}
	after, err := r.metrics()
	if err != nil {
		t.Fatal(err)
	}
	was, is := before["go_memstats_heap_alloc_bytes"], after["go_memstats_heap_alloc_bytes"]
	t.Logf("live heap: %s at the start, %s at the end", mib(was), mib(is))
	if is > was+most {
		t.Errorf("%s of heap are live at the end, and %s were at the start", mib(is), mib(was))
	}
}

// summary says what has happened, and that all of it has.
func (c *churn) summary(t *testing.T, s series) {
	for _, w := range ways {
		n := c.tallies[w]
		t.Logf("%-30v %5d viewers, %6d groups, %7d frames, %5d datagrams, %5d fetched", w,
			n.joined.Load(), n.groups.Load(), n.frames.Load(), n.datagrams.Load(), n.fetched.Load())
		if n.frames.Load() == 0 {
			t.Errorf("nobody has got a frame over %v", w)
		}
		if n.datagrams.Load() == 0 && w.Version.HasDatagrams() && w.Kind != transport.WebSocket { // WebSocket has none
			t.Errorf("nobody has got a datagram over %v", w)
		}
		if n.fetched.Load() == 0 && w.Version.HasDatagrams() { // 05 and later answer FETCH
			t.Errorf("nobody has fetched a group over %v", w)
		}
	}
	for name, n := range map[string]int64{
		"publishers": c.published.Load(), "sessions that expired": c.expired.Load(),
		"processes killed": c.killed.Load(), "answers over HTTP": c.pages.Load(), "bad tokens refused": c.refused.Load(), "relays drained": c.drained.Load(),
	} {
		t.Logf("%s: %d", name, n)
		if n == 0 {
			t.Errorf("%s: none", name)
		}
	}
	t.Logf("viewers that were not sent because 80 were there: %d", c.skipped.Load())
	t.Logf("stalled viewers that were let go: %d", c.stalled.Load())
	t.Logf("peers that were too slow: %d", c.late.Load())
	if opened := s.sum("moq_relay_sessions_opened_total"); float64(c.late.Load()) > opened/20 {
		t.Errorf("%d peers were too slow, of %v: the machine has too much to do, or the relay hangs", c.late.Load(), opened)
	}
	for _, reason := range []string{"clean", "lost", "expired", "stalled"} {
		n := s.sum("moq_relay_sessions_closed_total", `reason="`+reason+`"`)
		t.Logf("the relay has closed as %s: %v", reason, n)
		if n == 0 {
			t.Errorf("the relay has closed no session as %s", reason)
		}
	}
	for _, name := range []string{
		"group_streams_reset_total", "cache_evicted_groups_total", "cache_fetch_total", "config_reloads_total",
		"sessions_refused_total", "ingest_pauses_total", "egress_pauses_total", "datagrams_dropped_total", "streams_refused_total",
	} {
		var rows []string
		for key, v := range s {
			if rest, ok := strings.CutPrefix(key, "moq_relay_"+name); ok && v != 0 {
				rows = append(rows, fmt.Sprintf("%s %v", rest, v))
			}
		}
		slices.Sort(rows)
		t.Logf("%s: %s", name, strings.Join(rows, ", "))
	}
	t.Logf("at the end: %v goroutines, RSS %s", s["go_goroutines"], mib(s["process_resident_memory_bytes"]))
}

// drainAnother starts a relay, fills it, and has it drain: of its peers every
// other one leaves when it is told.
func (c *churn) drainAnother(ctx context.Context, t *testing.T, i int, public string) {
	r, err := startRelay(t, fmt.Sprintf("drained-%d", i), c.program, public)
	if err != nil {
		c.fault("%v", err)
		return
	}
	at, err := newPlace(r.client, c.place.Key)
	if err != nil {
		c.fault("relay %s: %v", r.name, err)
		return
	}
	inside, leave := context.WithCancel(ctx)
	var peers, coming sync.WaitGroup
	for n, w := range ways {
		coming.Add(1)
		peers.Go(func() {
			came := sync.OnceFunc(coming.Done)
			defer came()
			role := lite.RoleSubscriber
			if n%9 == 8 {
				role = lite.RolePublisher
			}
			p, err := at.join(inside, w, role, long, nil)
			came()
			if err != nil {
				c.lost(inside, "a peer cannot come to relay "+r.name, w, err)
				return
			}
			if role == lite.RolePublisher {
				p.origin.Announce(model.Route{Path: p.path("cam0"), Source: &studio{inside, "cam0", 0}})
			} else {
				peers.Go(func() { c.watch(inside, p, &tally{}, n, "cam0", "video") })
			}
			select {
			case <-p.ended: // closed at the end of the drain
			case <-p.leave:
				if n%2 == 1 {
					p.stay(inside, time.Minute)
				}
			case <-inside.Done():
			}
			p.close(0)
		})
	}
	coming.Wait()
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
	}
	if err := r.end(t.Context()); err != nil {
		c.fault("%v", err)
	}
	leave()
	peers.Wait()
	judge(t, r)
	c.drained.Add(1)
}
