package model

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A publisher comes and goes, twenty times, at any node.
func TestChurnOfAPublisherIsToldAFewTimesOverEachLink(t *testing.T) {
	all := shapes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, sizeOf(all[name]), 1)
				for _, pair := range all[name] {
					m.join(pair)
				}
				settle()
				most := 0
				const rounds = 20
				for range rounds {
					before := m.told.all()
					p := m.publish(m.random.IntN(len(m.nodes)), "room", 'a')
					settle()
					for i := range m.nodes {
						if len(m.nodes[i].o.Routes()) == 0 {
							t.Errorf("node %d has no route", i)
						}
					}
					p.leave(true)
					settle()
					for i, n := range m.nodes {
						if left := n.o.Stats().Routes.Load(); left != 0 {
							t.Errorf("node %d has %d routes left", i, left)
						}
					}
					most = max(most, m.told.all()-before)
				}
				links := len(all[name])
				t.Logf("%d links, %.1f messages for a publisher that comes and goes (%d at most), %.2f for each link: %s",
					links, float64(m.told.all())/rounds, most, float64(m.told.all())/rounds/float64(links), &m.told)
				if most > 6*links {
					t.Errorf("a publisher that came and went was told %d times over %d links, want 6 for each at most", most, links)
				}
				m.close()
			})
		})
	}
}

// All relays have a viewer, twice; then the publisher's relay is lost, and each
// neighbour notices when it does.
func TestNewsOfALostRelayDoesNotWander(t *testing.T) {
	all := shapes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, hold := range []time.Duration{0, holdDown} {
			t.Run(fmt.Sprint(name, ", held for ", hold), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMesh(t, sizeOf(all[name]), 2)
					for _, n := range m.nodes {
						n.o.hold = hold
					}
					const rounds = 10
					viewers, crash := 0, 0
					for i := range rounds {
						for _, pair := range all[name] {
							m.join(pair)
						}
						settle()
						at := i % len(m.nodes)
						p := m.publish(at, "room", 'a')
						settle()
						before := m.told.all()
						for range 2 {
							for i := range m.nodes {
								if name, err := m.visit(i, "room"); name != 'a' || err != nil {
									t.Errorf("node %d sees %q, %v", i, name, err)
								}
							}
						}
						advance(2 * carryGrace)
						viewers += m.told.all() - before
						before = m.told.all()
						for _, pair := range all[name] {
							if slices.Contains(pair[:], at) {
								m.cut(pair)
							}
						}
						advance(6 * time.Second) // 5 s of linger time
						crash += m.told.all() - before
						for i, n := range m.nodes {
							if left := len(n.o.Routes()); i != at && left != 0 {
								t.Errorf("node %d has %d routes to the lost relay", i, left)
							}
						}
						p.leave(true)
						advance(10 * time.Second)
					}
					links := len(all[name])
					t.Logf("%d links: %.1f messages for viewers at each node (%.2f for each link), %.1f for the loss of a relay (%.2f)", links,
						float64(viewers)/rounds, float64(viewers)/rounds/float64(links), float64(crash)/rounds, float64(crash)/rounds/float64(links))
					if hold > 0 && (viewers > 10*rounds*links || crash > 8*rounds*links) {
						t.Errorf("viewers were told of %d times and losses %d times in %d rounds over %d links, want 10 and 8 for each at most", viewers, crash, rounds, links)
					}
					m.close()
				})
			})
		}
	}
}
