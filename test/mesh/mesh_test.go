//go:build mesh

package mesh

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/wire/lite"
)

func TestMain(m *testing.M) {
	err := func() error {
		switch {
		case os.Getenv(roleOf) == "collector":
			return collect()
		case os.Getenv(roleOf) != "":
			return play()
		case os.Getenv(inside) == "":
			return apart()
		}
		return furnish()
	}()
	switch {
	case err == nil && os.Getenv(inside) != "" && os.Getenv(roleOf) == "":
		os.Exit(m.Run())
	case err == nil:
		os.Exit(0)
	}
	if exit, ok := err.(*exec.ExitError); ok {
		os.Exit(exit.ExitCode())
	}
	fmt.Fprintf(os.Stderr, "mesh: %v\n", err)
	os.Exit(1)
}

// A shape says which of n relays are joined.
type shape func(n int) (pairs [][2]int)

var shapes = map[string]shape{
	"chain": func(n int) (pairs [][2]int) {
		for i := 1; i < n; i++ {
			pairs = append(pairs, [2]int{i - 1, i})
		}
		return pairs
	},
	"ring": func(n int) [][2]int {
		return each(n, func(i int) [2]int { return [2]int{i, (i + 1) % n} })
	},
	"full": func(n int) (pairs [][2]int) {
		for i := range n {
			for j := range i {
				pairs = append(pairs, [2]int{j, i})
			}
		}
		return pairs
	},
}

// mesh is relays that are joined.
type mesh struct {
	t        *testing.T
	ctx      context.Context
	network  *network
	program  string
	key      string // directory of the TLS key
	hash     [sha256.Size]byte
	pairs    [][2]int
	relays   []*relay
	watchers []*client // one at each relay, which hears every announcement
}

var networks atomic.Int64

// newMesh starts relays and waits until they are joined.
func newMesh(t *testing.T, program string, n int, pairs [][2]int) *mesh {
	t.Helper()
	m := &mesh{t: t, ctx: t.Context(), network: newNetwork(t, int(networks.Add(1)), n), program: program, key: t.TempDir(), pairs: pairs}
	m.hash = newKey(t, m.key, m.network.addresses(n))
	for i := range n {
		var peers []string
		for _, pair := range pairs {
			if at := slices.Index(pair[:], i); at >= 0 {
				peers = append(peers, "--cluster-peers", "dns+https://"+m.network.address(pair[1-at])+":4444")
			}
		}
		m.relays = append(m.relays, m.start(i, peers))
	}
	m.joined()
	for i := range n {
		c, err := join(m.ctx, m.relays[i].at, m.hash, lite.Lite06, lite.RoleSubscriber)
		if err != nil {
			t.Fatalf("a watcher at relay %d: %v", i, err)
		}
		m.watchers = append(m.watchers, c)
	}
	return m
}

// links is how many links relay i is to have.
func (m *mesh) links(i int) (n int64) {
	for _, pair := range m.pairs {
		if slices.Contains(pair[:], i) {
			n++
		}
	}
	return n
}

// until looks at all relays until what they say is as wanted.
func (m *mesh) until(what string, is func([]counts) bool) {
	m.t.Helper()
	deadline := time.Now().Add(failsafe)
	for {
		all := make([]counts, len(m.relays))
		var fault error
		for i, r := range m.relays {
			var err error
			if all[i], err = r.read(m.ctx); err != nil {
				fault = err
			}
		}
		if fault == nil && is(all) {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("waited in vain for %s (%v): %+v", what, fault, all)
		}
		m.pause(100 * time.Millisecond)
	}
}

func (m *mesh) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-m.ctx.Done():
	}
}

// joined waits until every link is there, once.
func (m *mesh) joined() {
	m.t.Helper()
	m.until("every link to be there", func(all []counts) bool {
		for i, c := range all {
			if c.links != m.links(i) {
				return false
			}
		}
		return true
	})
}

// empty waits until no relay has a route or a request.
func (m *mesh) empty() {
	m.t.Helper()
	m.until("no route and no request to be left", func(all []counts) bool {
		for _, c := range all {
			if c.routes != 0 || c.asked != 0 || c.served != 0 {
				return false
			}
		}
		return true
	})
}

// told is how many messages of announcements went over all links so far.
func (m *mesh) told() (sum int64) {
	m.t.Helper()
	for i, r := range m.relays {
		c, err := r.read(m.ctx)
		if err != nil {
			m.t.Fatalf("relay %d: %v", i, err)
		}
		sum += c.told
	}
	return sum
}

// hear waits until all watchers, or those of some relays, see that a path is there,
// or is not.
func (m *mesh) hear(path model.Path, there bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.ctx, failsafe)
	defer cancel()
	for i, w := range m.watchers {
		if err := w.await(ctx, path, there); err != nil {
			m.t.Fatalf("relay %d does not say that %q is %v: %v; routes: %+v", i, path, map[bool]string{true: "there", false: "gone"}[there], err, w.origin.Routes())
		}
	}
}

// versions are those of publishers, in turn.
var versions = append(lite.Released(), lite.Lite07wip)

// come has a publisher come at relay i, and leave.
func (m *mesh) come(i, round int) {
	m.t.Helper()
	path := model.Path("churn/room")
	p, announced, err := publish(m.ctx, m.relays[i].at, m.hash, versions[round%len(versions)], path)
	if err != nil {
		m.t.Fatalf("a publisher at relay %d: %v", i, err)
	}
	m.hear(path, true)
	if round%2 == 0 {
		announced.Withdraw()
		m.hear(path, false)
	}
	p.leave(lite.SessionNoError)
	m.hear(path, false)
	m.empty()
}

// mostTold bounds the messages over one link, both ways, for a publisher that comes
// and goes: two ways, a start and an end, and as many again for what was told before
// a better route was known. Who hears what first is chance, so that one round may
// take twice that.
const mostTold = 8

// churn has publishers come and go at every relay.
func (m *mesh) churn() {
	rounds := max(10, len(m.relays))
	before, most := m.told(), int64(0)
	last := before
	for round := range rounds {
		m.come(round%len(m.relays), round)
		now := m.told()
		most = max(most, now-last)
		last = now
	}
	links := float64(len(m.pairs))
	each := float64(last-before) / float64(rounds)
	m.t.Logf("%d links: %.1f messages for a publisher that comes and goes (%d at most), %.2f for each link", len(m.pairs), each, most, each/links)
	if each > mostTold*links || float64(most) > 2*mostTold*links {
		m.t.Errorf("a publisher that came and went was told %.1f times over %d links, %d once; want %d for each link at most, and %d once", each, len(m.pairs), most, mostTold, 2*mostTold)
	}
}

// crash kills a publisher at relay i.
func (m *mesh) crash(i int) {
	before := m.told()
	cmd := m.doomed(i, "churn/doomed")
	m.hear("churn/doomed", true)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	m.hear("churn/doomed", false)
	m.empty()
	told, links := m.told()-before, len(m.pairs)
	m.t.Logf("%d links: %d messages for a publisher that is killed", links, told)
	if told > 2*mostTold*int64(links) {
		m.t.Errorf("a publisher that was killed was told %d times over %d links, want %d for each at most", told, links, 2*mostTold)
	}
}

// tree waits until every relay but that of the publisher asks exactly one other
// relay for the track, so that the requests are a tree and none goes in a circle.
func (m *mesh) tree(entry int) {
	m.t.Helper()
	m.until("requests to be a tree", func(all []counts) bool {
		served := int64(0)
		for i, c := range all {
			served += c.served
			if want := int64(1); i == entry && c.asked != 0 || i != entry && c.asked != want {
				return false
			}
		}
		return served == int64(len(all)-1)
	})
}

// groupNow is the number of the group of now.
func groupNow() uint64 { return uint64(time.Now().UnixMilli() / every.Milliseconds()) }

// goOn waits until every one of the viewers has a group that begins from now on.
func (m *mesh) goOn(when string, viewers ...*viewer) {
	m.t.Helper()
	now, deadline := groupNow(), time.Now().Add(failsafe)
	for i, v := range viewers {
		for v.last.Load() <= now {
			if time.Now().After(deadline) {
				m.t.Fatalf("%s: viewer %d has nothing newer than group %d; it is %d now, %d when the wait began", when, i, v.last.Load(), groupNow(), now)
			}
			m.pause(every)
		}
	}
}

// absent asks every relay for a track that its publisher does not have, and for a
// broadcast that nobody has.
func (m *mesh) absent(path model.Path) {
	longest := time.Duration(0)
	for i, r := range m.relays {
		c, err := join(m.ctx, r.at, m.hash, lite.Lite06, lite.RoleSubscriber)
		if err != nil {
			m.t.Fatalf("a viewer at relay %d: %v", i, err)
		}
		c.origin.Announce(model.Route{Path: "nobody", Source: c.source})
		ctx, cancel := context.WithTimeout(m.ctx, failsafe)
		if err := c.await(ctx, path, true); err != nil {
			m.t.Fatalf("relay %d: %q is not announced: %v", i, path, err)
		}
		for _, asked := range []model.Path{path, "nobody"} {
			began := time.Now()
			err := subscribe(ctx, c, asked)
			if err == nil || ctx.Err() != nil {
				m.t.Errorf("relay %d, track \"absent\" of %q: %v, want a refusal", i, asked, err)
			}
			longest = max(longest, time.Since(began))
		}
		cancel()
		c.leave(lite.SessionNoError)
	}
	m.t.Logf("what is not there was refused everywhere, after %v at most", longest.Round(time.Millisecond))
}

// subscribe asks for the track "absent" and returns how that ends.
func subscribe(ctx context.Context, c *client, path model.Path) error {
	sub, err := c.origin.Subscribe(path, "absent", model.Peer{}, model.Options{})
	if err != nil {
		return err
	}
	defer sub.Close()
	_, err = sub.Info(ctx)
	return err
}

// watched has a viewer at each relay of a publisher at the first, and takes a link
// away under them.
func (m *mesh) watched(round int, alternative bool) {
	version := versions[round%len(versions)]
	p, _, err := publish(m.ctx, m.relays[0].at, m.hash, version, "live/room")
	if err != nil {
		m.t.Fatalf("a publisher: %v", err)
	}
	viewers := each(len(m.relays), func(i int) *viewer { return m.view(i, "live/room", versions[(round+i)%len(versions)]) })
	m.goOn("at the start", viewers...)
	m.tree(0)
	m.absent("live/room")
	m.tree(0)

	m.network.cut(0, 1)
	m.until("the cut to be noticed", func(all []counts) bool { return all[0].links == m.links(0)-1 && all[1].links == m.links(1)-1 })
	if alternative {
		m.goOn("with a link cut", viewers...)
		m.tree(0)
	}
	m.network.heal(0, 1)
	m.joined()
	m.goOn("with the link healed", viewers...)
	m.tree(0)
	resets := each(len(viewers), func(i int) int64 { return viewers[i].resets.Load() })
	m.t.Logf("publisher of %s, a viewer at each relay, a link cut and healed: subscriptions that ended early, by relay: %d", version, resets)
	for _, v := range viewers {
		v.leave(lite.SessionNoError)
	}
	p.leave(lite.SessionNoError)
	m.hear("live/room", false)
	m.empty()
}

// lasting is how long each mesh is kept busy: MESHTIME, which also means all of
// them; else two rounds.
func lasting(t *testing.T) (d time.Duration, full bool) {
	text := os.Getenv("MESHTIME")
	if text == "" {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("MESHTIME: %v", err)
	}
	return d, true
}

func TestAMeshForgetsWhoHasLeftAndFindsWhoIsThere(t *testing.T) {
	program := buildRelay(t)
	lasts, full := lasting(t)
	sizes := map[string][]int{"chain": {3}, "ring": {5}, "full": {8}}
	if full {
		sizes = map[string][]int{"chain": {3, 5, 8}, "ring": {3, 5, 8}, "full": {3, 5, 8}}
	}
	for name, shape := range shapes {
		for _, n := range sizes[name] {
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) {
				t.Parallel()
				m := newMesh(t, program, n, shape(n))
				began := time.Now()
				var memory [][]int64
				for round := 0; round < 2 || time.Since(began) < lasts; round++ {
					m.churn()
					m.crash(round % n)
					m.watched(round, name != "chain")
					memory = append(memory, each(n, func(i int) int64 { return m.relays[i].resident(t) }))
				}
				flat(t, memory)
				for _, w := range m.watchers {
					w.leave(lite.SessionNoError)
				}
			})
		}
	}
}

// flat holds the resident memory of relays against itself: the largest of the second
// half of all rounds against that of the first half, with what the garbage collector
// may leave lying.
func flat(t *testing.T, memory [][]int64) {
	const slack = 16 << 20
	half := len(memory) / 2
	for i := range memory[0] {
		first, second := int64(0), int64(0)
		for round, of := range memory {
			if round < half {
				first = max(first, of[i])
			} else {
				second = max(second, of[i])
			}
		}
		t.Logf("relay %d: at most %.1f MiB in the first half of %d rounds, %.1f MiB in the second", i, mib(first), len(memory), mib(second))
		if second > first+first/10+slack {
			t.Errorf("relay %d has grown from %.1f to %.1f MiB", i, mib(first), mib(second))
		}
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
