package model

import (
	"testing"
	"testing/synctest"
	"time"
)

// Group g has its first frame at arrive[g] with timestamp stamp[g], both in
// milliseconds; then each way to count says which of the groups are too old.
func TestHowOldAGroupIsDependsOnTheProtocol(t *testing.T) {
	second := []int64{0, 1000, 2000, 3000}
	all := []uint64{3, 2, 1, 0}
	for _, c := range []struct {
		name           string
		arrive, stamps []int64
		maxLatency     time.Duration
		byTimestamp    []uint64 // what is still given, newest first
		byEither       []uint64
		byArrival      []uint64
	}{
		// By timestamp a group counts from where the one behind it begins.
		{"1 s", second, second, time.Second, []uint64{3, 2}, []uint64{3, 2}, []uint64{3, 2}},
		{"1.5 s", second, second, 1500 * time.Millisecond, []uint64{3, 2, 1}, []uint64{3, 2}, []uint64{3, 2}},
		{"3 s", second, second, 3 * time.Second, all, all, all},
		{"none", second, second, 0, []uint64{3}, []uint64{3}, []uint64{3}},
		{"a burst of old media", []int64{0, 0, 0, 0}, second, 1500 * time.Millisecond, []uint64{3, 2, 1}, []uint64{3, 2}, all},
		{"a stall", []int64{0, 0, 0, 9000}, second, 2500 * time.Millisecond, all, []uint64{3}, []uint64{3}},
		{"timestamps that go back", second, []int64{9000, 8000, 7000, 0}, 1500 * time.Millisecond, []uint64{3, 2, 1}, []uint64{3, 2}, []uint64{3, 2}},
		{"timestamps that stand still", second, []int64{5, 5, 5, 5}, 1500 * time.Millisecond, all, []uint64{3, 2}, []uint64{3, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				p, passive := newSubscribed(t, o, Options{Passive: true})
				began := time.Now()
				var live []*Subscription
				wants := [][]uint64{c.byTimestamp, c.byEither, c.byArrival}
				modes := []Expiry{ExpireByTimestamp, ExpireByEither, ExpireByArrival}
				options := func(mode Expiry) Options {
					return Options{MaxLatency: c.maxLatency, Start: Start{Mode: StartFloor}, Expiry: mode}
				}
				for _, mode := range modes {
					live = append(live, wantSubscription(t, o, options(mode)))
				}
				for seq, at := range c.arrive {
					advance(time.Until(began.Add(time.Duration(at) * time.Millisecond)))
					w := wantGroup(t, p, uint64(seq), Window{})
					if err := w.WriteFrame(t.Context(), head(1), c.stamps[seq], []byte{1}); err != nil {
						t.Fatal(err)
					}
					wantFinished(t, w)
				}
				for i, mode := range modes {
					wantGroups(t, live[i], wants[i]...)
					if got := live[i].Skipped(); got.Groups != int64(4-len(wants[i])) || got.Bytes != 6*got.Groups {
						t.Errorf("mode %d has skipped %+v, want %d groups of 6 bytes", mode, got, 4-len(wants[i]))
					}
					late := wantSubscription(t, o, options(mode)) // the same rule chooses where it begins
					wantGroups(t, late, wants[i]...)
					late.Close()
					live[i].Close()
				}
				passive.Close()
				p.Fail(ErrSourceGone)
			})
		})
	}
}

// Of a track without timestamps of its own, 06 counts the arrival.
func TestWithoutATimescaleAGroupAgesByArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		source := newPublisher()
		o.Announce(Route{Path: "room", Source: source})
		sub := wantSubscription(t, o, Options{MaxLatency: 1500 * time.Millisecond})
		p := <-source.pulled
		for seq := range uint64(4) { // before the answer nothing is known of them
			filled(t, p, seq)
			advance(time.Second)
		}
		p.Accept(Info{MaxAge: time.Hour})
		wantGroups(t, sub, 3, 2, 1)
		sub.Close()
		p.Fail(ErrSourceGone)
	})
}

// The session waits for the peer's credit first and chooses after that: what it
// then gets is the newest group that may be had, never an older one.
func TestWhoWaitedForCreditGetsTheNewestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		if sub.Take() != nil {
			t.Fatal("a group is given before there is one")
		}
		filled(t, p, 1)
		if err := sub.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		filled(t, p, 2) // while the session waits
		silent := wantGroup(t, p, 3, Window{})
		if r := sub.Take(); r.Sequence() != 2 {
			t.Fatalf("got group %d, want 2", r.Sequence())
		}
		written(t, silent, "a")
		if r := sub.Take(); r.Sequence() != 3 {
			t.Fatalf("got group %d, want 3", r.Sequence())
		}
		wantGroups(t, sub, 1)
		p.Close()
		sub.Close()
		wantError(t, sub.Await(t.Context()), ErrClosed)
		withdrawAll(o)
	})
}
