package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// unrest is a mesh in which publishers and links come and go.
type unrest struct {
	*mesh
	pairs      [][2]int
	publishers map[Path]*standing
	name       byte
	circles    int           // seen at any time
	longest    time.Duration // that one lasted
	since      time.Time     // when the one that is there began; zero: none is
}

var meshPaths = []Path{"room/a", "room/b", "hall"}

// step changes one thing.
func (u *unrest) step(links bool) {
	pair := u.pairs[u.random.IntN(len(u.pairs))]
	path := meshPaths[u.random.IntN(len(meshPaths))]
	p := u.publishers[path]
	switch n := u.random.IntN(6); {
	case n < 2 && links && u.links[pair] != nil:
		u.cut(pair)
	case n < 2 && links:
		u.join(pair)
	case n == 2 && p != nil:
		p.leave(true)
		delete(u.publishers, path)
	case n == 3 && p != nil:
		p.leave(false)
		delete(u.publishers, path)
	default: // comes, or moves: the older one leaves when the newer one is there
		u.name = u.name%250 + 1
		u.publishers[path] = u.publish(u.random.IntN(len(u.nodes)), path, u.name)
		if p != nil {
			advance(time.Duration(u.random.IntN(30)) * time.Millisecond)
			p.leave(u.random.IntN(2) == 0)
		}
	}
}

// rest lets time pass, and looks for circles meanwhile.
func (u *unrest) rest(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		advance(5 * time.Millisecond)
		synctest.Wait()
		switch n := u.mesh.circles(); {
		case n == 0:
			u.since = time.Time{}
		case u.since.IsZero():
			u.circles++
			u.since = time.Now()
		}
		if !u.since.IsZero() {
			u.longest = max(u.longest, time.Since(u.since))
		}
	}
}

// watchers look at random paths from everywhere, and come again when they are sent away.
func (u *unrest) view(stop <-chan struct{}) {
	for i := range u.nodes {
		for j := range 2 {
			u.tasks.Go(func() {
				for k := 0; ; k++ {
					select {
					case <-stop:
						return
					default:
					}
					u.stay(i, meshPaths[(i+j+k)%len(meshPaths)], stop)
					advance(time.Duration(20+7*i) * time.Millisecond)
				}
			})
		}
	}
}

// stay watches a path for up to two seconds.
func (u *unrest) stay(i int, path Path, stop <-chan struct{}) {
	sub, err := u.nodes[i].o.Subscribe(path, "video", Peer{}, Options{MaxLatency: time.Hour})
	if err != nil {
		return
	}
	defer sub.Close()
	until := time.Now().Add(2 * time.Second)
	for time.Now().Before(until) {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
		for r := sub.Take(); r != nil; r = sub.Take() {
			r.Close()
		}
		if _, err := sub.ready(); err != nil {
			return
		}
	}
}

// parts returns which nodes a node is joined to by links that are up.
func (u *unrest) part(i int) map[int]bool {
	in := map[int]bool{i: true}
	for grown := true; grown; {
		grown = false
		for pair := range u.links {
			if in[pair[0]] != in[pair[1]] {
				in[pair[0]], in[pair[1]], grown = true, true, true
			}
		}
	}
	return in
}

// check wants each node to see each path as its publisher, if that can be reached,
// has it, by the same epoch everywhere; and nothing else.
func (u *unrest) check(round int) {
	for i := range u.nodes {
		for _, path := range meshPaths {
			p := u.publishers[path]
			reached := p != nil && u.part(i)[p.node.i]
			name, err := u.visit(i, path)
			switch {
			case reached && (err != nil || name != p.name):
				u.t.Errorf("round %d: node %d sees %d at %s, want %d of node %d: %v", round, i, name, path, p.name, p.node.i, err)
			case !reached && !errors.Is(err, ErrUnroutable):
				u.t.Errorf("round %d: node %d sees %d at %s, where nobody is: %v", round, i, name, path, err)
			}
			if reached {
				if e, f := u.nodes[i].o.Epoch(path, Peer{}), p.node.o.Epoch(path, Peer{}); !bytes.Equal(e[:], f[:]) {
					u.t.Errorf("round %d: node %d has epoch %x of %s, its publisher's node %x", round, i, e, path, f)
				}
			}
		}
	}
	if n := u.mesh.circles(); n != 0 {
		u.t.Errorf("round %d: %d requests go in circles", round, n)
	}
}

// run is one life of a mesh: rounds of unrest, each followed by rest and a look.
func (u *unrest) run(rounds, steps int, links bool) {
	for round := range rounds {
		stop := make(chan struct{})
		u.view(stop)
		for range steps {
			u.step(links)
			u.rest(time.Duration(u.random.IntN(150)) * time.Millisecond)
		}
		u.rest(2 * time.Second)
		close(stop)
		u.rest(8 * time.Second) // linger, doom and grace are over
		u.check(round)
	}
	for _, p := range u.publishers {
		p.leave(true)
	}
	u.rest(2 * time.Second)
	for i, n := range u.nodes {
		if left := n.o.Stats().Routes.Load(); left != 0 {
			u.t.Errorf("node %d has %d routes left", i, left)
		}
	}
	u.close()
}

// Publishers come, go and move while viewers watch from everywhere, and links are
// cut and healed: afterwards everybody sees who is there, nobody who is not, and no
// request has gone in a circle for longer than it takes to give it up.
func TestAMeshFindsEveryPublisherAndNobodyElse(t *testing.T) {
	all := shapes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, links := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, links are cut: %v", name, links), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u := &unrest{mesh: newMesh(t, sizeOf(all[name]), 5), pairs: all[name], publishers: make(map[Path]*standing)}
					for _, pair := range u.pairs {
						u.join(pair)
					}
					settle()
					const rounds, steps = 4, 15
					u.run(rounds, steps, links)
					t.Logf("%d steps: %s; %d circles, the longest %v", rounds*steps, &u.told, u.circles, u.longest)
					if u.longest > 2*forsakenTime {
						t.Errorf("a request went in a circle for %v", u.longest)
					}
				})
			})
		}
	}
}

// Relays that lose their routes at the same time may fall back on one another before
// they have heard that the others have nothing either. Three that rank alike do not:
// here the first two have been told more than is so.
func TestACircleOfRequestsEndsWithTheNewsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, 1)
		ends := make([]*meshEnd, 3) // of each node towards the next one
		routes := make([]*Announcement, 3)
		for i, n := range m.nodes {
			l := &meshLink{}
			l.ctx, l.cut = context.WithCancelCause(t.Context())
			peer := m.nodes[(i+1)%3]
			l.a, l.b = &meshEnd{link: l, at: n, peer: peer}, &meshEnd{link: l, at: peer, peer: n}
			l.a.other, l.b.other = l.b, l.a
			ends[i] = l.a
			routes[i] = n.o.Announce(Route{Path: "room", Hops: []uint64{7, peer.o.ID()}, Epoch: epoch1, Source: l.a})
		}
		sub, err := m.nodes[0].o.Subscribe("room", "video", Peer{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		advance(100 * time.Millisecond)
		if n := m.circles(); n != 3 {
			t.Fatalf("%d requests go in a circle, want 3", n)
		}
		// Node 0 tells node 2 that its route leads through node 1, whom node 2 feeds.
		routes[2].Update([]uint64{7, m.nodes[1].o.ID(), m.nodes[0].o.ID()}, 2, 2)
		advance(100 * time.Millisecond)
		if n := m.circles(); n != 0 {
			t.Errorf("%d requests go in a circle when the news of it has come", n)
		}
		if _, err := sub.Info(t.Context()); err == nil {
			t.Error("the viewer is told that there is such a track")
		}
		sub.Close()
		for i, e := range ends {
			routes[i].Withdraw()
			e.link.cut(errCut)
			e.link.tasks.Wait()
		}
		m.close()
	})
}
