package model

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// chained announces a route of epoch 1 that came by these hops, from a source of its own.
func chained(o *Origin, hops ...uint64) *Announcement {
	return o.Announce(Route{Path: "room", Hops: hops, Epoch: epoch1, Source: newPublisher()})
}

func TestAnEndIsTheEndOfEveryRouteThatCameThroughIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		ended []uint64
		other Route // Path is room
		dead  bool
	}{
		{"the chain and one more", []uint64{7, 1}, Route{Hops: []uint64{7, 1, 2}, Epoch: epoch1}, true},
		{"the chain and two more", []uint64{7, 1}, Route{Hops: []uint64{7, 1, 2, 3}, Epoch: epoch1}, true},
		{"a publisher without an id", []uint64{0, 1}, Route{Hops: []uint64{0, 1, 2}, Epoch: epoch1}, true},
		{"another way through the same relay", []uint64{7, 1}, Route{Hops: []uint64{7, 3, 1, 2}, Epoch: epoch1}, false},
		{"a way around", []uint64{7, 1}, Route{Hops: []uint64{7, 2}, Epoch: epoch1}, false},
		{"a shorter chain", []uint64{7, 1, 2}, Route{Hops: []uint64{7, 1}, Epoch: epoch1}, false},
		{"another content", []uint64{7, 1}, Route{Hops: []uint64{7, 1, 2}, Epoch: epoch2}, false},
		{"a relay without an id", []uint64{7, 0}, Route{Hops: []uint64{7, 0, 2}, Epoch: epoch1}, false},
		{"a publisher, which may go on elsewhere", []uint64{7}, Route{Hops: []uint64{7, 2}, Epoch: epoch1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				c.other.Path, c.other.Source = "room", newPublisher()
				a, b := chained(o, c.ended...), o.Announce(c.other)
				a.Withdraw()
				_, err := o.Subscribe("room", "video", Peer{}, Options{})
				if (err == ErrUnroutable) != c.dead || len(o.Routes()) == 0 != c.dead {
					t.Errorf("a request is answered %v, and %d routes are there; want it dead: %v", err, len(o.Routes()), c.dead)
				}
				b.Withdraw()
				if n := o.Stats().Routes.Load() + o.Stats().Broadcasts.Load(); n != 0 || b.doomed != nil {
					t.Errorf("%d routes and paths are left", n)
				}
			})
		})
	}
}

// None of these is the relay's word that it has nothing.
func TestOnlyAWithdrawalIsTheEndOfOtherRoutes(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(o *Origin, a *Announcement)
	}{
		{"lost", func(_ *Origin, a *Announcement) { a.Lose() }},
		{"left", func(_ *Origin, a *Announcement) { a.Leave() }},
		{"one of two sessions", func(o *Origin, a *Announcement) { chained(o, 7, 1); a.Withdraw() }},
		{"updated to a longer chain", func(_ *Origin, a *Announcement) { a.Update([]uint64{7, 3, 1}, 0, 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				a, b := chained(o, 7, 1), chained(o, 7, 1, 2)
				c.end(o, a)
				if !b.standsLocked() {
					t.Error("the other route is taken for dead")
				}
				withdrawAll(o)
			})
		})
	}
}

func TestARouteTakenForDeadIsBackWhenItsSourceSpeaksOrWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		a := chained(o, 7, 1)
		b, c := chained(o, 7, 1, 2), chained(o, 7, 1, 2, 3)
		wantChanges(t, w, "+room[7 1]")
		a.Withdraw()
		wantChanges(t, w, "-room[]") // not: by 2, then by 2 and 3
		b.Update([]uint64{7, 4, 2}, 0, 0)
		wantChanges(t, w, "+room[7 4 2]")
		b.Withdraw()
		wantChanges(t, w, "-room[]")
		advance(doomTime - time.Second - time.Millisecond) // each empty look takes a second
		wantChanges(t, w)
		advance(time.Millisecond)
		wantChanges(t, w, "+room[7 1 2 3]") // its source has not ended it: it was alive
		c.Withdraw()
		wantChanges(t, w, "-room[]")

		a, b = chained(o, 7, 1), chained(o, 7, 1, 2)
		wantChanges(t, w, "+room[7 1]")
		a.Withdraw()
		wantChanges(t, w, "-room[]")
		a = chained(o, 7, 1) // the end is void: the other one may have been announced since
		a.Lose()
		wantChanges(t, w, "+room[7 1 2]")
		b.Withdraw()
		wantChanges(t, w, "-room[]")

		a = chained(o, 7, 1)
		b = chained(o, 7, 1, 2)
		a.Withdraw()
		b.Lose() // and does not linger: it was dead already
		if n := o.Stats().Broadcasts.Load(); n != 0 {
			t.Errorf("%d paths are left", n)
		}
	})
}

func TestARunningTrackDoesNotGoOnWithADeadRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		one, two, three := newPublisher(), newPublisher(), newPublisher()
		route := Route{Path: "room", Epoch: epoch1}
		announce := func(s Source, hops ...uint64) *Announcement {
			r := route
			r.Hops, r.Source = hops, s
			return o.Announce(r)
		}
		a := announce(one, 7, 1)
		announce(two, 7, 1, 2)
		sub := wantSubscription(t, o, Options{})
		p := wantPulled(t, one)
		p.Accept(anyInfo)
		a.Withdraw()
		p.Fail(ErrSourceGone)
		advance(time.Second)
		announce(three, 8, 3)
		wantPulled(t, three).Accept(anyInfo)
		if len(two.pulled) != 0 {
			t.Error("the dead route was asked")
		}
		sub.Close()
		advance(time.Second)
		withdrawAll(o)
	})
}

// Three relays that lose their route at the same time may ask one another in a circle.
func TestASubscriberThroughWhomTheRouteLeadsNowIsSentAway(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := NewOrigin(Config{ID: 42})
			source := newPublisher()
			a := o.Announce(Route{Path: "room", Hops: []uint64{7, 1}, Epoch: epoch1, Source: source})
			through, err := o.Subscribe("room", "video", Peer{ID: 3}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			other := wantSubscription(t, o, Options{})
			p := wantPulled(t, source)
			if accepted {
				p.Accept(anyInfo)
			}
			a.Update([]uint64{7, 3, 1}, 0, 0)
			if accepted {
				wantEnd(t, through, ErrSourceGone)
			} else {
				wantInfo(t, through, ErrSourceGone)
			}
			wantDone(t, p.Done(), false)
			p.Accept(anyInfo)
			filled(t, p, 0)
			wantGroups(t, other, 0)
			_, err = o.Subscribe("room", "video", Peer{ID: 3}, Options{})
			wantError(t, err, ErrUnroutable)
			through.Close()

			standby := newPublisher()
			o.Announce(Route{Path: "room", Hops: []uint64{7, 5}, Epoch: epoch1, Source: standby, Warm: 9})
			a.Update([]uint64{7, 42, 1}, 0, 0) // through ourselves: the source has nothing of its own
			wantDone(t, p.Done(), true)
			q := wantPulled(t, standby)
			q.Accept(anyInfo)
			filled(t, q, 1)
			wantGroups(t, other, 1)
			other.Close()
			advance(time.Second)
			withdrawAll(o)
			advance(time.Minute)
		})
	}
}

func TestRoutesUnderAPrefixAreThoseAtAndBelowIt(t *testing.T) {
	o := NewOrigin(Config{})
	for _, path := range []Path{"room", "room/b", "room/a", "room/a/x", "roomy", "hall", ""} {
		o.Announce(Route{Path: path})
	}
	for _, c := range []struct {
		prefix Path
		want   []Path
	}{
		{"room", []Path{"room", "room/a", "room/a/x", "room/b"}},
		{"room/a", []Path{"room/a", "room/a/x"}},
		{"", []Path{"", "hall", "room", "room/a", "room/a/x", "room/b", "roomy"}},
		{"roo", nil},
		{"room/a/x/y", nil},
	} {
		var got []Path
		for _, r := range o.RoutesUnder(c.prefix) {
			got = append(got, r.Path)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("under %q there are %q, want %q", c.prefix, got, c.want)
		}
	}
	w := o.Watch("room/a/x/y/z", Peer{})
	withdrawAll(o)
	if len(o.root.below) != 1 || len(o.root.below["room"].below) != 1 {
		t.Error("what the watcher watches is forgotten, or something else is not")
	}
	w.Close()
	if len(o.root.below) != 0 {
		t.Errorf("%d places are left", len(o.root.below))
	}
}

// The relay whose route is over may be fed by us, and never end the track.
func TestATrackUnderARouteThatIsOverEndsWhenNothingComesAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, one := NewOrigin(Config{}), newPublisher()
		route := by(1, 7, 1)
		route.Path, route.Source = "room", one
		a := o.Announce(route)
		sub := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		p := wantPulled(t, one)
		p.Accept(anyInfo)
		open := wantGroup(t, p, 10, Window{})
		written(t, open, "a")
		a.Withdraw()
		advance(time.Minute) // its group is still being sent, to a viewer that may be slow
		wantDone(t, p.Done(), false)
		wantFinished(t, open)
		advance(2500 * time.Millisecond)
		filled(t, p, 11)
		advance(5 * time.Second)
		wantDone(t, p.Done(), false)
		advance(time.Second)
		wantDone(t, p.Done(), true)
		wantGroups(t, sub, 11, 10)
		_, err := sub.Next(t.Context())
		wantError(t, err, ErrSourceGone)
		sub.Close()
		advance(time.Minute)
	})
}
