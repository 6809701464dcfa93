package model

import (
	"testing"
	"testing/synctest"
	"time"
)

// carriedRoute announces a route at cost 5, opens a track of it and returns both.
func carriedRoute(t *testing.T, o *Origin, r Route) (*Announcement, *Producer, *Subscription) {
	t.Helper()
	source := newPublisher()
	r.Path, r.Warm, r.Cold, r.Source = "room", 5, 5, source
	a := o.Announce(r)
	sub := wantSubscription(t, o, Options{})
	p := wantPulled(t, source)
	return a, p, sub
}

func TestARouteThatIsCarriedCostsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		wantChanges(t, w)
		a, p, sub := carriedRoute(t, o, Route{Hops: via(7)})
		wantTold(t, w, "0s +room[7 1000]:5")
		p.Accept(anyInfo) // before, nobody knows whether there is such a track
		wantTold(t, w, "0s ~room[7 1000]:0")
		second := wantSubscription(t, o, Options{})
		sub.Close()
		second.Close()
		closed := time.Now()
		wantTold(t, w, "5.1s ~room[7 1000]:5") // 5 s, and worse news is held for 100 ms
		wantDone(t, p.Done(), true)
		if time.Since(closed) != 5100*time.Millisecond {
			t.Error("the clock is wrong")
		}
		a.Withdraw()
	})
}

func TestViewersThatComeAndGoChangeTheCostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		source := &slowSource{}
		a := o.Announce(Route{Path: "room", Hops: via(7), Warm: 5, Source: source})
		w := o.Watch("", Peer{})
		wantTold(t, w, "0s +room[7 1000]:5")
		for range 1000 { // the request ends each time, a second after its viewer
			sub := wantSubscription(t, o, Options{})
			wantInfo(t, sub, nil)
			advance(time.Millisecond)
			sub.Close()
			advance(4900 * time.Millisecond)
		}
		changes, err := w.Next(t.Context())
		if err != nil || len(changes) != 1 || changes[0].Route.Warm != 0 {
			t.Fatalf("the watcher is told %+v (%v), want one change to 0", changes, err)
		}
		wantTold(t, w, "200ms ~room[7 1000]:5") // 100 ms of the 5 s are left
		source.tasks.Wait()
		a.Withdraw()
	})
}

func TestOnlyTheRouteThatServesIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		_, p, sub := carriedRoute(t, o, Route{Hops: []uint64{7, 1}, Epoch: epoch1})
		p.Accept(anyInfo)
		standby := chained(o, 7, 2)
		standby.Update([]uint64{7, 2}, 6, 6)
		wantTold(t, o.Watch("", Peer{}), "0s +room[7 1]:0")
		wantTold(t, o.Watch("", Peer{ID: 1}), "0s +room[7 2]:6") // a peer that feeds us may fall back on us, at the real cost
		sub.Close()
		advance(time.Minute)
		withdrawAll(o)
	})
}

func TestDemandWithoutGroupsAndRefusalsMakeNothingFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		wantChanges(t, w)
		a, p, sub := carriedRoute(t, o, Route{Hops: via(7)})
		wantTold(t, w, "0s +room[7 1000]:5")
		p.Fail(ErrNotFound)
		sub.Close()
		passive := wantSubscription(t, o, Options{Passive: true})
		wantPulled(t, a.route.Source.(*publisher)).Accept(anyInfo)
		if got := told(t, w, time.Minute); got != "nothing" {
			t.Errorf("%s was told", got)
		}
		passive.Close()
		advance(time.Second)
		a.Withdraw()
	})
}

func TestARouteOfTheHighestCostIsNeverFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		wantChanges(t, w)
		a, p, sub := carriedRoute(t, o, Route{Hops: via(7)})
		p.Accept(anyInfo)
		wantTold(t, w, "0s +room[7 1000]:0")
		a.Update(via(7), MaxCost, MaxCost) // its peer goes away: everybody has to know, at once
		wantTold(t, w, "0s ~room[7 1000]:4611686018427387903")
		a.Update(via(7), 5, 5)
		wantTold(t, w, "0s ~room[7 1000]:0")
		sub.Close()
		advance(time.Minute)
		a.Withdraw()
	})
}

// The place of a path is another one when the path comes back.
func TestATrackWhoseRouteIsOverHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		wantChanges(t, w)
		a, p, sub := carriedRoute(t, o, Route{Hops: via(7)})
		p.Accept(anyInfo)
		a.Withdraw()
		again := wantJoined(t, sub)
		b := chained(o, 8, 1)
		sub.Close()
		again.Close()
		wantTold(t, w, "0s +room[8 1]:0")
		b.Withdraw()
		wantTold(t, w, "0s -room[]:0")
		c := chained(o, 8, 2)
		advance(carryGrace)
		wantTold(t, w, "0s +room[8 2]:0")
		c.Withdraw()
		advance(time.Minute)
	})
}

// wantJoined returns one more subscription to the track of another.
func wantJoined(t *testing.T, sub *Subscription) *Subscription {
	t.Helper()
	s := sub.track.join(Options{}, Peer{})
	if s == nil {
		t.Fatal("the track has ended")
	}
	return s
}

// A track that is carried by one route and announced by a better one is still asked
// of the first, and so that is what peers are told: else a chain that they see would
// not be the one that feeds them.
func TestWhatIsCarriedIsShownAndAskedThoughAnotherRouteIsBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		wantChanges(t, w)
		a, p, sub := carriedRoute(t, o, Route{Hops: []uint64{7, 3, 1}, Epoch: epoch1})
		p.Accept(anyInfo)
		wantTold(t, w, "0s +room[7 3 1]:0")
		better := chained(o, 7, 2)
		if got := told(t, w, 900*time.Millisecond); got != "nothing" {
			t.Errorf("%s was told while the first one carries", got)
		}
		audio, err := o.Subscribe("room", "audio", Peer{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		wantPulled(t, a.route.Source.(*publisher))
		if e := o.Epoch("room", Peer{ID: 3}); e != epoch1 {
			t.Error("a peer that the first one leads through has no way")
		}
		audio.Close()
		sub.Close()
		wantTold(t, w, "0s ~room[7 2]:0")
		advance(time.Minute)
		better.Withdraw()
		a.Withdraw()
	})
}
