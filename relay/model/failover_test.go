package model

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Epochs from before 1971; the third is from after the year 2100.
var epoch1, epoch2, highest = [16]byte{0, 1}, [16]byte{0, 2}, [16]byte{5}

// wantInfo waits for the answer to a subscription.
func wantInfo(t *testing.T, sub *Subscription, want error) {
	t.Helper()
	_, err := sub.Info(t.Context())
	wantError(t, err, want)
}

func wantEnd(t *testing.T, sub *Subscription, want error) {
	t.Helper()
	_, err := sub.Next(t.Context())
	wantError(t, err, want)
}

// wantPulled takes the only request that was made to a publisher.
func wantPulled(t *testing.T, p *publisher) *Producer {
	t.Helper()
	synctest.Wait()
	if n := len(p.pulled); n != 1 {
		t.Fatalf("%d requests were made to the publisher, want 1", n)
	}
	return <-p.pulled
}

func TestALostPathStaysAnnouncedForTheLingerTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		a := o.Announce(Route{Path: "room", Hops: []uint64{1}, Source: newPublisher()})
		wantChanges(t, w, "+room[1]")
		a.Lose()
		a.Lose()
		advance(3999 * time.Millisecond)
		wantChanges(t, w) // waits for a second
		if routes := o.Routes(); len(routes) != 0 || o.Stats().Routes.Load() != 0 || o.Stats().Broadcasts.Load() != 1 {
			t.Errorf("while the path lingers there are %d routes (%d counted) and %d paths, want 0, 0, 1",
				len(routes), o.Stats().Routes.Load(), o.Stats().Broadcasts.Load())
		}
		advance(time.Millisecond)
		wantChanges(t, w, "-room[]")
		a.Withdraw()
		if n := o.Stats().Broadcasts.Load(); n != 0 || len(o.contents) != 0 {
			t.Errorf("%d paths and %d contents are left", n, len(o.contents))
		}
	})
}

func TestAWithdrawalTakesEffectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		a := o.Announce(Route{Path: "room", Hops: []uint64{1}, Source: newPublisher()})
		wantChanges(t, w, "+room[1]")
		a.Withdraw()
		wantChanges(t, w, "-room[]")
		a = o.Announce(Route{Path: "room", Hops: []uint64{1}, Source: newPublisher()})
		wantChanges(t, w, "+room[1]")
		a.Lose()
		waits := wantSubscription(t, o, Options{})
		a.Withdraw() // its source says after all that it is over
		wantChanges(t, w, "-room[]")
		wantInfo(t, waits, ErrUnroutable)
		waits.Close()
	})
}

func TestALingeringPathDoesNotBlockTheSamePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		source := newPublisher()
		w := o.Watch("", Peer{})
		wantChanges(t, w)
		for range 3 {
			a := o.Announce(Route{Path: "room", Hops: []uint64{1}, Source: source})
			a.Lose()
		}
		b := o.Announce(Route{Path: "room", Hops: []uint64{1}, Source: source})
		wantChanges(t, w, "+room[1]")
		wantSubscription(t, o, Options{}).Close()
		wantPulled(t, source)
		advance(time.Minute)
		wantChanges(t, w) // no linger time of an older one ends the new one
		if n := len(o.findLocked("room").routes); n != 1 {
			t.Errorf("%d routes stand for the path, want 1", n)
		}
		b.Withdraw()
		wantChanges(t, w, "-room[]")
	})
}

func TestALostRouteBesideAnotherIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		a := o.Announce(Route{Path: "room", Hops: []uint64{1}, Source: newPublisher()})
		o.Announce(Route{Path: "room", Hops: []uint64{2, 3}, Source: newPublisher()})
		wantChanges(t, w, "+room[1]")
		a.Lose()
		wantChanges(t, w, "~room[2 3]")
	})
}

func TestARequestForALostPathWaitsForItsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		dead, back := newPublisher(), newPublisher()
		a := o.Announce(Route{Path: "room", Source: dead})
		a.Lose()
		one, two := wantSubscription(t, o, Options{}), wantSubscription(t, o, Options{})
		advance(4 * time.Second)
		b := o.Announce(Route{Path: "room", Source: back})
		p := wantPulled(t, back)
		advance(4 * time.Second) // the publisher's own time counts from its return
		p.Accept(anyInfo)
		wantInfo(t, one, nil)
		wantInfo(t, two, nil)
		filled(t, p, 0)
		wantGroups(t, one, 0)
		one.Close()
		two.Close()
		advance(time.Second)
		wantDone(t, p.Done(), true)

		b.Lose()
		asked := time.Now()
		three := wantSubscription(t, o, Options{})
		wantInfo(t, three, ErrUnroutable)
		if took := time.Since(asked); took != 5*time.Second {
			t.Errorf("the request waited %v, want 5 s", took)
		}
		three.Close()
		synctest.Wait()
		_, err := o.Subscribe("room", "video", Peer{}, Options{})
		wantError(t, err, ErrUnroutable)
		if len(dead.pulled) != 0 || len(back.pulled) != 0 || len(o.tracks) != 0 || len(o.parked) != 0 {
			t.Error("something is left of the requests")
		}
	})
}

// The session's streams may end before its announcements do, or after.
func TestARequestThatWasNotAnsweredIsAskedOfWhoComesNext(t *testing.T) {
	for _, lostFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := NewOrigin(Config{})
			dead, back := newPublisher(), newPublisher()
			a := o.Announce(Route{Path: "room", Source: dead})
			sub := wantSubscription(t, o, Options{})
			p := wantPulled(t, dead)
			if lostFirst {
				a.Lose()
			}
			p.Fail(ErrSourceGone)
			wantDone(t, p.Done(), true)
			late := wantSubscription(t, o, Options{}) // must not be asked of the dead session
			if !lostFirst {
				a.Lose()
			}
			o.Announce(Route{Path: "room", Source: back})
			q := wantPulled(t, back)
			p.Accept(Info{Timescale: 1}) // too late
			q.Accept(anyInfo)
			wantInfo(t, sub, nil)
			wantInfo(t, late, nil)
			p.Fail(ErrNotFound)
			filled(t, q, 3)
			wantGroups(t, sub, 3)
			wantGroups(t, late, 3)
			if len(dead.pulled) != 0 {
				t.Error("the dead session was asked again")
			}
			sub.Close()
			late.Close()
			advance(time.Minute)
		})
	}
}

func TestARequestIsAskedOfEachRouteOnceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		sources := make([]*refuser, 5)
		for i := range sources {
			sources[i] = &refuser{}
			o.Announce(Route{Path: "room", Hops: []uint64{7, uint64(i + 1)}, Source: sources[i]})
		}
		sub := wantSubscription(t, o, Options{})
		wantInfo(t, sub, ErrUnroutable) // after the linger time: one of them might return
		for i, s := range sources {
			if s.asked != 1 {
				t.Errorf("source %d was asked %d times, want once", i, s.asked)
			}
		}
		sub.Close()
	})
}

// refuser is a session that is gone, though its routes stand.
type refuser struct{ asked int }

func (r *refuser) Pull(p *Producer) {
	r.asked++
	p.Fail(ErrSourceGone)
}

// On moq-lite-06 a route proves nothing about its content.
func TestWithoutProofASubscriptionIsResetAndComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		one, two := newPublisher(), newPublisher()
		a := o.Announce(Route{Path: "room", Hops: []uint64{7}, Source: one})
		sub := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		p := wantPulled(t, one)
		p.Accept(anyInfo)
		filled(t, p, 100)
		wantGroups(t, sub, 100)
		a.Lose()
		p.Fail(ErrSourceGone)
		wantEnd(t, sub, ErrSourceGone)
		sub.Close()
		wantHeld(t, o, 0) // what is held of the older is dropped
		again := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		o.Announce(Route{Path: "room", Hops: []uint64{7}, Source: two})
		q := wantPulled(t, two)
		q.Accept(Info{Timescale: 90000, MaxAge: time.Second}) // nothing is taken over from the older
		if info, err := again.Info(t.Context()); err != nil || info.Timescale != 90000 {
			t.Fatalf("the new track is %+v, %v", info, err)
		}
		filled(t, q, 0) // lower numbers: a new generation, not a gap to wait for
		wantGroups(t, again, 0)
		again.Close()
		advance(time.Minute)
	})
}

// splice is a route whose content is known: by its epoch, or by its first hop.
func splice(source Source, epoch bool, via uint64) Route {
	r := Route{Path: "room", Hops: []uint64{7, via}, Source: source}
	if epoch {
		r.Epoch = epoch1
	} else {
		r.HopIdentity = true
	}
	return r
}

func TestKnownContentGoesOnAtAGroupsBoundary(t *testing.T) {
	for _, c := range []struct {
		name             string
		epoch, standsBy  bool
		first            uint64 // of the second source
		start            uint64
		hasStart         bool
		given, duplicate []uint64
	}{
		{"epoch, stands by", true, true, 12, 12, true, []uint64{12, 13}, []uint64{11}},
		{"epoch, returns", true, false, 12, 12, true, []uint64{12}, []uint64{10}},
		{"epoch, with a gap", true, false, 40, 12, true, []uint64{40}, nil},
		{"first hop, stands by", false, true, 11, 0, false, []uint64{12}, []uint64{11}}, // it is one behind
		{"first hop, returns", false, false, 12, 0, false, []uint64{12, 13}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				one, two := newPublisher(), newPublisher()
				a := o.Announce(splice(one, c.epoch, 1))
				sub := wantSubscription(t, o, Options{MaxLatency: time.Hour, Start: Start{StartGroup, 3}})
				p := wantPulled(t, one)
				p.Accept(anyInfo)
				filled(t, p, 10)
				wantGroups(t, sub, 10)
				open := wantGroup(t, p, 11, Window{})
				written(t, open, "a")
				cut := wantReader(t, sub, 11)
				if c.epoch { // else see TestAGroupWhoseSourceIsLostGoesOnFromAnother
					wantFinished(t, open)
				}
				if c.standsBy {
					second := splice(two, c.epoch, 2)
					second.Cold = 9
					o.Announce(second)
				}
				a.Lose()
				p.Fail(ErrSourceGone)
				_, err := readAll(t, cut)
				if c.epoch {
					wantError(t, err, io.EOF)
				} else {
					wantError(t, err, ErrSourceGone) // the group that was under way is lost
				}
				cut.Close()
				if !c.standsBy {
					advance(4 * time.Second)
					o.Announce(splice(two, c.epoch, 2))
				}
				q := wantPulled(t, two)
				if got := q.Preferences(); got.Start != c.start || got.HasStart != c.hasStart {
					t.Errorf("the second source is asked to start at %d (%v), want %d (%v)", got.Start, got.HasStart, c.start, c.hasStart)
				}
				q.Accept(anyInfo)
				q.Begin(c.first)
				for _, seq := range c.duplicate {
					_, err := q.Group(seq, Window{})
					wantError(t, err, ErrDuplicate)
				}
				filled(t, q, c.given...)
				slices.Reverse(c.given)
				wantGroups(t, sub, c.given...)
				_, err = p.Group(99, Window{})
				wantError(t, err, ErrClosed)
				q.Finish(c.given[0] + 1)
				q.Close()
				sub.Close()
				withdrawAll(o)
				wantHeld(t, o, 0)
			})
		})
	}
}

func TestAPublisherThatBeginsAnewIsANewGeneration(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(*Producer)
	}{
		{"a lower group", func(q *Producer) { q.Accept(anyInfo); _, _ = q.Group(0, Window{}) }},
		{"a lower start", func(q *Producer) { q.Accept(anyInfo); q.Begin(2) }},
		{"the same group again", func(q *Producer) { q.Accept(anyInfo); _, _ = q.Group(10, Window{}) }},
		{"another timescale", func(q *Producer) { q.Accept(Info{Timescale: 90000, MaxAge: defaultMaxAge}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				one, two := newPublisher(), newPublisher()
				a := o.Announce(splice(one, false, 1))
				older := wantSubscription(t, o, Options{})
				p := wantPulled(t, one)
				p.Accept(anyInfo)
				filled(t, p, 3)
				older.Close()
				advance(time.Second)
				wantDone(t, p.Done(), true) // and leaves group 3 for a fetch
				sub := wantSubscription(t, o, Options{MaxLatency: time.Hour})
				p = wantPulled(t, one)
				p.Accept(anyInfo)
				filled(t, p, 10)
				wantGroups(t, sub, 10)
				a.Lose()
				p.Fail(ErrSourceGone)
				o.Announce(splice(two, false, 2))
				q := wantPulled(t, two)
				c.begin(q)
				wantEnd(t, sub, ErrSourceGone)
				wantDone(t, q.Done(), true)
				sub.Close()
				wantHeld(t, o, 0)
				again := wantSubscription(t, o, Options{MaxLatency: time.Hour})
				r := wantPulled(t, two)
				r.Accept(anyInfo)
				filled(t, r, 0)
				wantGroups(t, again, 0)
				again.Close()
				advance(time.Minute)
			})
		})
	}
}

func TestKnownContentThatDoesNotReturnEndsAfterTheLingerTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		one := newPublisher()
		a := o.Announce(splice(one, true, 1))
		sub := wantSubscription(t, o, Options{})
		p := wantPulled(t, one)
		p.Accept(anyInfo)
		lost := time.Now()
		a.Lose()
		p.Fail(ErrSourceGone)
		advance(time.Second)
		other := splice(newPublisher(), true, 2)
		other.Epoch = epoch2 // another content: the path is there again, this track is not
		if time.Since(lost) != time.Second {
			t.Fatal("the clock is wrong")
		}
		o.Announce(other)
		wantEnd(t, sub, ErrSourceGone)
		sub.Close()

		withdrawAll(o)
		b := o.Announce(splice(one, true, 1))
		sub = wantSubscription(t, o, Options{})
		p = wantPulled(t, one)
		p.Accept(anyInfo)
		b.Lose()
		lost = time.Now()
		p.Fail(ErrSourceGone)
		wantEnd(t, sub, ErrSourceGone)
		if took := time.Since(lost); took != 5*time.Second {
			t.Errorf("the subscription ended after %v, want 5 s", took)
		}
		sub.Close()
	})
}

// The path is there, with another content: nobody waits for the older one.
func TestKnownContentIsNotWaitedForWhereThereIsAnother(t *testing.T) {
	for _, lostFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := NewOrigin(Config{})
			one, two := newPublisher(), newPublisher()
			a := o.Announce(splice(one, true, 1))
			sub := wantSubscription(t, o, Options{})
			p := wantPulled(t, one)
			p.Accept(anyInfo)
			o.Announce(Route{Path: "room", Hops: []uint64{9, 2}, Source: two})
			lost := time.Now()
			if lostFirst {
				a.Lose()
			}
			p.Fail(ErrSourceGone)
			if !lostFirst {
				a.Lose()
			}
			wantEnd(t, sub, ErrSourceGone)
			if took := time.Since(lost); took != 0 {
				t.Errorf("the subscription ended after %v, want at once", took)
			}
			sub.Close()
			again := wantSubscription(t, o, Options{})
			wantPulled(t, two)
			again.Close()
			advance(time.Second)
		})
	}
}

// Routes of the same content share one request, unless it leads through the peer.
func TestRoutesOfTheSameContentShareOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		one, two := newPublisher(), newPublisher()
		o.Announce(splice(one, true, 1))
		sub := wantSubscription(t, o, Options{})
		p := wantPulled(t, one)
		o.Announce(splice(two, true, 2)) // newer, and so the best for who comes now
		same := wantSubscription(t, o, Options{})
		if len(two.pulled) != 0 {
			t.Fatal("the same content is requested twice")
		}
		behind, err := o.Subscribe("room", "video", Peer{ID: 1}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		q := wantPulled(t, two) // the first route leads through that peer
		for _, s := range []*Subscription{sub, same, behind} {
			s.Close()
		}
		advance(time.Second)
		wantDone(t, p.Done(), true)
		wantDone(t, q.Done(), true)
	})
}

func TestWhatAnotherPublisherReplacesEnds(t *testing.T) {
	direct := func(hop uint64) Route { return Route{Path: "room", Hops: []uint64{hop}} }
	relayed := func(hop uint64) Route { return Route{Path: "room", Hops: []uint64{hop, 50}} }
	known := func(r Route) Route { r.HopIdentity = true; return r }
	dear := func(r Route) Route { r.Warm = 9; return r }
	named := func(r Route, e [16]byte) Route { r.Epoch = e; return r }
	for _, c := range []struct {
		name       string
		older, now Route
		ends       bool
	}{
		{"a new session at the same path", direct(0), direct(0), true}, // the older one may be dead and not know it
		{"another known publisher", dear(known(relayed(1))), known(relayed(2)), true},
		{"the same known publisher", known(relayed(1)), known(relayed(1)), false},
		{"who can tell", relayed(1), relayed(2), false},
		{"a higher epoch", named(relayed(1), epoch1), named(relayed(1), epoch2), true},
		{"a newer publisher elsewhere", direct(1), named(relayed(2), highest), true},
		{"an older publisher elsewhere", direct(1), named(relayed(2), epoch1), false},
		{"a lower epoch", named(relayed(1), epoch2), named(relayed(1), epoch1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				one, two := newPublisher(), newPublisher()
				c.older.Source, c.now.Source = one, two
				o.Announce(c.older)
				told := wantSubscription(t, o, Options{})
				p := wantPulled(t, one)
				p.Accept(anyInfo)
				o.Announce(c.now)
				wantDone(t, p.Done(), c.ends)
				if c.ends {
					wantEnd(t, told, ErrSourceGone)
				}
				told.Close()
				withdrawAll(o)
				advance(time.Minute)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // who was told nothing yet is served by the new one
		o := NewOrigin(Config{})
		one, two := newPublisher(), newPublisher()
		r, s := direct(1), direct(2)
		r.Source, s.Source = one, two
		o.Announce(r)
		sub := wantSubscription(t, o, Options{})
		p := wantPulled(t, one)
		o.Announce(s)
		wantDone(t, p.Done(), true)
		wantPulled(t, two).Accept(anyInfo)
		wantInfo(t, sub, nil)
		sub.Close()
		advance(time.Second)
	})
}

// A catalog: one group, written once, long ago.
func TestAGroupThatWasWrittenOnceIsGivenToALateViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 1 << 20}})
		sweeping(t, o)
		p, first := newSubscribed(t, o, Options{})
		w := wantGroup(t, p, 0, Window{})
		written(t, w, "c")
		wantFinished(t, w)
		wantGroups(t, first, 0)
		source := newPublisher() // pushes everything else out
		o.Announce(Route{Path: "hall", Source: source})
		other, err := o.Subscribe("hall", "video", Peer{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		q := wantPulled(t, source)
		q.Accept(anyInfo)
		for seq := range uint64(100) {
			v := wantGroup(t, q, seq, Window{})
			wantFrame(t, v, make([]byte, 50_000))
			wantFinished(t, v)
			elapse(time.Minute)
		}
		for range 3 {
			late := wantSubscription(t, o, Options{})
			r := wantReader(t, late, 0)
			wantPayloads(t, r, "c")
			r.Close()
			late.Close()
		}
		first.Close()
		other.Close()
		elapse(time.Second)
		synctest.Wait()
		p.Fail(errors.New("over"))
		withdrawAll(o)
		wantHeld(t, o, 0)
	})
}

// A publisher that has written all it has closes its track, takes back its route
// and is gone, while its viewers and fetches are still reading.
func TestWhatIsWholeIsReadToItsEndAfterThePublisherHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		sub := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		p := <-l.pulled
		p.Accept(anyInfo)
		filled(t, p, 1, 2, 3)
		f := wantFetch(t, o, FetchOptions{Group: 2})
		fetched, err := f.Reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		three := wantReader(t, sub, 3)
		p.Close()
		withdrawAll(o)
		wantPayloads(t, three, "\x01")
		wantPayloads(t, fetched, "\x01")
		wantGroups(t, sub, 2, 1) // and what it had not taken yet
		wantEnd(t, sub, io.EOF)
		three.Close()
		fetched.Close()
		f.Close()
		sub.Close()
		wantHeld(t, o, 0)
	})
}
