package model

import (
	"bytes"
	"encoding/hex"
	"testing"
	"testing/synctest"
	"time"
)

// epochOf is what a viewer of the path is told.
func epochOf(o *Origin, path Path) [16]byte { return o.Epoch(path, Peer{}) }

func wantHigher(t *testing.T, what string, now, before [16]byte) {
	t.Helper()
	if bytes.Compare(now[:], before[:]) <= 0 {
		t.Errorf("%s has epoch %x, want one above %x", what, now, before)
	}
}

func TestAnAssignedEpochIsAUUIDOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where it is midnight, 2000-01-01 UTC: 946,684,800,000 ms
		o := NewOrigin(Config{})
		advance(1500 * time.Microsecond)
		o.Announce(Route{Path: "room", Hops: []uint64{1}})
		e := epochOf(o, "room")
		if got, want := hex.EncodeToString(e[:8]), "00dc6acfac017800"; got != want { // and half a millisecond: 0x800 of 0x1000
			t.Errorf("the epoch begins with %s, want %s", got, want)
		}
		if e[8]>>6 != 0b10 {
			t.Errorf("the variant is %b, want 10", e[8]>>6)
		}
		if r := o.Routes()[0]; r.Epoch != e {
			t.Errorf("the list of routes has %x, the request %x", r.Epoch, e)
		}
		c, err := o.Watch("", Peer{}).Next(t.Context())
		if err != nil || len(c) != 1 || c[0].Route.Epoch != e {
			t.Errorf("the watcher is told %+v (%v), want %x", c, err, e)
		}
	})
}

func TestEpochsRiseEvenWithinOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		var before [16]byte
		for range 10_000 { // more than a millisecond has parts
			o.Announce(Route{Path: "room", Hops: []uint64{1}}).Withdraw()
			a := o.Announce(Route{Path: "room"})
			wantHigher(t, "the later one", epochOf(o, "room"), before)
			before = epochOf(o, "room")
			a.Withdraw()
		}
	})
}

func TestAnEpochStandsForOneContent(t *testing.T) {
	known := func(hop uint64, more ...uint64) Route {
		return Route{Path: "room", Hops: append([]uint64{hop}, more...), HopIdentity: true, Source: newPublisher()}
	}
	for _, c := range []struct {
		name  string
		again Route
		same  bool
	}{
		{"another session of the same publisher", known(1), true},
		{"another publisher", known(2), false},
		{"a publisher that proves nothing", Route{Path: "room", Hops: []uint64{1}}, false},
		{"a publisher without a name", known(0), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, lost := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					o := NewOrigin(Config{})
					a := o.Announce(known(1))
					first := epochOf(o, "room")
					if lost {
						a.Lose()
						advance(time.Second)
					}
					o.Announce(c.again)
					if now := epochOf(o, "room"); c.same && now != first {
						t.Errorf("the epoch is %x, want %x as before", now, first)
					} else if !c.same {
						wantHigher(t, "another content", now, first)
					}
					withdrawAll(o)
				})
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		a := o.Announce(known(1))
		first := epochOf(o, "room")
		a.Update([]uint64{1}, 7, 7)
		if now := epochOf(o, "room"); now != first {
			t.Errorf("an update of the cost changed the epoch from %x to %x", first, now)
		}
		a.Update([]uint64{2}, 7, 7)
		second := epochOf(o, "room")
		wantHigher(t, "another publisher behind the same announcement", second, first)
		a.Update([]uint64{2, 5}, 7, 7) // it is a relay's, and relays that give none have none
		if now := epochOf(o, "room"); now != [16]byte{} {
			t.Errorf("a route that came through a relay was given epoch %x", now)
		}
		a.Withdraw()
		o.Announce(known(2))
		wantHigher(t, "a content that was gone", epochOf(o, "room"), second)
		o.Announce(Route{Path: "hall", Hops: []uint64{3, 4}})
		if now := epochOf(o, "hall"); now != [16]byte{} {
			t.Errorf("a route that came through a relay was given epoch %x", now)
		}
		b := o.Announce(Route{Path: "hall", Hops: []uint64{3}, Epoch: epoch1})
		b.Update([]uint64{3}, 1, 1)
		if now := epochOf(o, "hall"); now != epoch1 {
			t.Errorf("the publisher's epoch has become %x", now)
		}
	})
}

// The clocks of two relays differ: who comes later is the newer one all the same,
// unless the other's clock is out of all reason.
func TestANewPublisherOutdoesAnEpochFromAClockAhead(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		wins  bool
	}{{59 * time.Second, true}, {61 * time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			o := NewOrigin(Config{})
			other := epochAt(instantOf(time.Now().Add(c.ahead)))
			o.Announce(Route{Path: "room", Hops: via(7), Epoch: other})
			o.Announce(Route{Path: "room", Hops: []uint64{1}})
			if now := epochOf(o, "room"); (now != other) != c.wins {
				t.Errorf("beside an epoch %v ahead a new publisher wins: %v, want %v", c.ahead, now != other, c.wins)
			}
		})
	}
}

// What a publisher without epochs brings is not spliced here, though its epoch is
// proof for other relays; see TestWithoutProofASubscriptionIsResetAndComesAgain.
func TestAnAssignedEpochProvesNothingWhereItWasAssigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		one := newPublisher()
		a := o.Announce(Route{Path: "room", Hops: []uint64{1}, Source: one})
		if c := a.content; c.proven() {
			t.Errorf("the content is %+v, want unproven", c)
		}
		sub := wantSubscription(t, o, Options{})
		p := wantPulled(t, one)
		p.Accept(anyInfo)
		e := epochOf(o, "room")
		a.Lose()
		p.Fail(ErrSourceGone)
		wantEnd(t, sub, ErrSourceGone)
		sub.Close()
		o.Announce(Route{Path: "room", Hops: []uint64{1}, Source: one})
		wantHigher(t, "a publisher that has returned", epochOf(o, "room"), e)
	})
}

// Another relay takes an epoch for proof that numbers never start anew. A publisher
// that is known by its hop may do that.
func TestANewGenerationHasANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		one, two := newPublisher(), newPublisher()
		direct := Route{Path: "room", Hops: []uint64{7}, HopIdentity: true, Source: one}
		a := o.Announce(direct)
		e := epochOf(o, "room")
		sub := wantSubscription(t, o, Options{})
		p := wantPulled(t, one)
		p.Accept(anyInfo)
		filled(t, p, 10)
		a.Lose()
		p.Fail(ErrSourceGone)
		direct.Source = two
		o.Announce(direct)
		q := wantPulled(t, two)
		q.Accept(anyInfo)
		if now := epochOf(o, "room"); now != e {
			t.Fatalf("the same content has epoch %x, want %x", now, e)
		}
		_, err := q.Group(0, Window{})
		wantError(t, err, ErrClosed)
		wantHigher(t, "the new generation", epochOf(o, "room"), e)
		sub.Close()
		withdrawAll(o)
		advance(time.Minute)
	})
}
