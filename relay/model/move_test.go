package model

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// moving is a track of one content, served by route one, with route two beside it.
type moving struct {
	o        *Origin
	one, two *publisher
	a, b     *Announcement
	sub      *Subscription
	p        *Producer // of one
}

// newMoving has group 10 whole and group 11 begun.
func newMoving(t *testing.T, first, second Route) (m *moving, open *GroupWriter) {
	t.Helper()
	m = &moving{o: NewOrigin(Config{ID: 42}), one: newPublisher(), two: newPublisher()}
	first.Path, second.Path = "room", "room"
	first.Source, second.Source = m.one, m.two
	m.a = m.o.Announce(first)
	m.sub = wantSubscription(t, m.o, Options{MaxLatency: time.Hour, Start: Start{StartGroup, 3}})
	m.p = wantPulled(t, m.one)
	m.p.Accept(anyInfo)
	filled(t, m.p, 10)
	wantGroups(t, m.sub, 10)
	open = wantGroup(t, m.p, 11, Window{})
	written(t, open, "a")
	m.b = m.o.Announce(second)
	synctest.Wait()
	return m, open
}

func (m *moving) end() {
	m.sub.Close()
	withdrawAll(m.o)
	advance(time.Minute)
}

func (m *moving) drain() { m.a.Update(m.a.route.Hops, MaxCost, MaxCost) }

// by is a route of epoch 1.
func by(warm uint64, hops ...uint64) Route {
	return Route{Hops: hops, Epoch: epoch1, Warm: warm, Cold: warm}
}

// known is a route whose content is known by its first hop.
func known(warm uint64, hops ...uint64) Route {
	return Route{Hops: hops, HopIdentity: true, Warm: warm, Cold: warm}
}

func wantNoRequest(t *testing.T, p *publisher) {
	t.Helper()
	synctest.Wait()
	if n := len(p.pulled); n != 0 {
		t.Fatalf("%d requests were made, want none", n)
	}
}

func TestATrackMovesFromARelayThatGoesAwayAtAGroupsBoundary(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second Route
		start         uint64
		hasStart      bool
	}{
		{"by epoch", by(1, 7, 1), by(5, 7, 2), 12, true},
		{"by hop", known(1, 7, 1), known(5, 7, 2), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, eleven := newMoving(t, c.first, c.second)
				r := wantReader(t, m.sub, 11)
				wantNoRequest(t, m.two)
				m.drain()
				q := wantPulled(t, m.two)
				if got := q.Preferences(); got.Start != c.start || got.HasStart != c.hasStart {
					t.Errorf("the second source is asked to start at %d (%v), want %d (%v)", got.Start, got.HasStart, c.start, c.hasStart)
				}
				filled(t, m.p, 12) // nothing has changed yet
				q.Accept(anyInfo)
				filled(t, m.p, 13)
				changed := m.p.Changed()
				_, err := q.Group(12, Window{}) // brings what is there, and takes over with it
				wantError(t, err, ErrDuplicate)
				wantDone(t, changed, true)
				if got := m.p.Preferences(); got.End != 13 || !got.HasEnd {
					t.Errorf("the first source is asked to end at %d (%v), want 13", got.End, got.HasEnd)
				}
				_, err = m.p.Group(14, Window{})
				wantError(t, err, ErrClosed)
				_, err = q.Group(13, Window{})
				wantError(t, err, ErrDuplicate)
				filled(t, q, 14)
				filled(t, m.p, 9) // one that was overtaken
				wantDone(t, m.p.Done(), false)
				written(t, eleven, "b")
				advance(time.Second)
				wantDone(t, m.p.Done(), false) // group 11 is open
				wantFinished(t, eleven)
				advance(time.Second)
				wantDone(t, m.p.Done(), true)
				m.p.Close() // as a source says then
				m.p.Fail(ErrSourceGone)
				wantPayloads(t, r, "a", "b")
				r.Close()
				wantGroups(t, m.sub, 14, 13, 12, 9)
				wantDone(t, q.Done(), false)
				if n := m.o.Stats().Moves.Load(); n != 1 {
					t.Errorf("%d moves are counted, want 1", n)
				}
				m.end()
			})
		})
	}
}

func TestASourceThatWasLeftHasTenSecondsForItsGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, eleven := newMoving(t, by(1, 7, 1), by(5, 7, 2))
		r := wantReader(t, m.sub, 11)
		m.drain()
		q := wantPulled(t, m.two)
		q.Accept(anyInfo)
		advance(time.Minute) // for as long as nothing comes the first one is needed
		wantDone(t, m.p.Done(), false)
		filled(t, q, 12)
		advance(9999 * time.Millisecond)
		wantDone(t, m.p.Done(), false)
		written(t, eleven, "b")
		advance(time.Millisecond)
		wantDone(t, m.p.Done(), true)
		got, err := readAll(t, r)
		if len(got) == 0 || !errors.Is(err, errMoved) {
			t.Errorf("the group that did not end gave %q and %v", got, err)
		}
		r.Close()
		wantGroups(t, m.sub, 12)
		m.end()
	})
}

func TestATrackMovesToABetterRouteAfterAWhile(t *testing.T) {
	spread := time.Duration(pathHash("room", 42) % uint64(time.Second))
	// Of two relays that are as near, one follows the other.
	low, high := uint64(1), uint64(1)
	for pathHash("room", low) > pathHash("room", 42) {
		low++
	}
	for pathHash("room", high) < pathHash("room", 42) {
		high++
	}
	cold := func(r Route, cold uint64) Route { r.Cold = cold; return r }
	for _, c := range []struct {
		name          string
		first, second Route
		moves         bool
	}{
		{"cheaper", by(5, 7, 1), by(3, 7, 2), true},
		{"shorter", by(5, 7, 3, 1), by(5, 7, 2), true},
		{"cheaper, by a relay that is farther", cold(by(5, 7, 1), 6), cold(by(1, 7, 2), 7), false},
		{"cheaper and longer", cold(by(5, 7, 1), MaxCost), cold(by(1, 7, 3, 2), MaxCost), false},
		{"cheaper, of two that are as near", cold(by(5, 7, 1), 6), cold(by(1, 7, low), 6), true},
		{"cheaper, the other way round", cold(by(5, 7, 1), 6), cold(by(1, 7, high), 6), false},
		{"cheaper, by the publisher itself", cold(by(5, 7, 1), 0), cold(by(1, 7), 9), true},
		{"as good", by(5, 7, 1), by(5, 7, 2), false},
		{"dearer", by(5, 7, 1), by(6, 7, 2), false},
		{"another content", by(5, 7, 1), Route{Hops: []uint64{7, 2}}, false},
		{"known by hop", known(5, 7, 1), known(3, 7, 2), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := newMoving(t, c.first, c.second)
				advance(time.Second + spread - time.Millisecond)
				wantNoRequest(t, m.two)
				advance(time.Millisecond)
				synctest.Wait()
				if moves := len(m.two.pulled) == 1; moves != c.moves {
					t.Errorf("it moves: %v, want %v", moves, c.moves)
				}
				wantDone(t, m.p.Done(), false)
				m.end()
			})
		})
	}
}

func TestABetterRouteThatIsGoneAgainMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMoving(t, by(5, 7, 1), by(3, 7, 2))
		advance(500 * time.Millisecond)
		m.b.Update([]uint64{7, 2}, 6, 6)
		advance(time.Minute)
		wantNoRequest(t, m.two)
		m.b.Update([]uint64{7, 2}, 3, 3)
		m.a.Leave()
		wantPulled(t, m.two) // at once: what serves is not announced any more
		m.end()
	})
}

// Whatever becomes of the request to the other route, what runs goes on.
func TestAMoveThatFailsDisturbsNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		epoch bool
		fail  func(t *testing.T, m *moving, q *Producer)
	}{
		{"refused", true, func(_ *testing.T, _ *moving, q *Producer) { q.Fail(&AbortError{Code: 7}) }},
		{"gone", true, func(_ *testing.T, _ *moving, q *Producer) { q.Accept(anyInfo); q.Fail(ErrSourceGone) }},
		{"no such track", true, func(_ *testing.T, _ *moving, q *Producer) { q.Close() }},
		{"silent", true, func(_ *testing.T, _ *moving, _ *Producer) { advance(5 * time.Second) }},
		{"another timescale", true, func(_ *testing.T, _ *moving, q *Producer) { q.Accept(Info{Timescale: 1}) }},
		{"another generation", false, func(t *testing.T, _ *moving, q *Producer) {
			q.Accept(anyInfo)
			_, err := q.Group(0, Window{})
			wantError(t, err, ErrClosed)
		}},
		{"a generation that begins anew", false, func(_ *testing.T, _ *moving, q *Producer) { q.Accept(anyInfo); q.Begin(0) }},
		{"a viewer who may not have it", true, func(t *testing.T, m *moving, q *Producer) {
			q.Accept(anyInfo)
			sub, err := m.o.Subscribe("room", "video", Peer{ID: 2}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = q.Group(12, Window{})
			wantError(t, err, ErrClosed)
			sub.Close()
		}},
		{"a route that ends", true, func(t *testing.T, m *moving, q *Producer) {
			q.Accept(anyInfo)
			m.b.Withdraw()
			_, err := q.Group(12, Window{})
			wantError(t, err, ErrClosed)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := known(1, 7, 1), known(5, 7, 2)
				if c.epoch {
					first, second = by(1, 7, 1), by(5, 7, 2)
				}
				m, eleven := newMoving(t, first, second)
				m.drain()
				q := wantPulled(t, m.two)
				c.fail(t, m, q)
				wantDone(t, q.Done(), true)
				wantDone(t, m.p.Done(), false)
				if got := m.p.Preferences(); got.HasEnd {
					t.Errorf("the first source is asked to end at %d", got.End)
				}
				filled(t, m.p, 12)
				wantFinished(t, eleven)
				wantGroups(t, m.sub, 12, 11)
				m.end()
			})
		})
	}
}

func TestASourceThatIsLostWhileItsTrackMovesIsFollowedByTheOther(t *testing.T) {
	for _, err := range []error{ErrSourceGone, &AbortError{Code: 9}} { // however it says so
		synctest.Test(t, func(t *testing.T) {
			m, eleven := newMoving(t, by(1, 7, 1), by(5, 7, 2))
			wantFinished(t, eleven)
			wantGroups(t, m.sub, 11)
			m.drain()
			q := wantPulled(t, m.two)
			m.a.Lose()
			m.p.Fail(err)
			wantNoRequest(t, m.two) // it was asked already
			q.Accept(anyInfo)
			filled(t, q, 12)
			wantGroups(t, m.sub, 12)
			m.end()
		})
	}
	synctest.Test(t, func(t *testing.T) { // and one that was left loses only what it had not finished
		m, _ := newMoving(t, known(1, 7, 1), known(5, 7, 2))
		m.drain()
		q := wantPulled(t, m.two)
		q.Accept(anyInfo)
		filled(t, q, 12)
		eleven := wantReader(t, m.sub, 12)
		eleven.Close()
		eleven = wantReader(t, m.sub, 11)
		m.p.Fail(ErrSourceGone)
		_, cut := readAll(t, eleven)
		wantError(t, cut, ErrSourceGone)
		eleven.Close()
		wantDone(t, q.Done(), false)
		filled(t, q, 13)
		q.Finish(14)
		q.Close()
		wantGroups(t, m.sub, 13)
		wantEnd(t, m.sub, io.EOF)
		m.end()
	})
}

// What leads through the relay that goes away is no refuge, though its neighbours do
// not say so yet.
func TestNoTrackMovesFromARelayThatGoesAwayToOneThatItFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMoving(t, by(1, 7, 1), by(5, 7, 1, 2))
		m.drain()
		advance(time.Minute)
		wantNoRequest(t, m.two)
		other := newPublisher()
		m.o.Announce(Route{Path: "room", Hops: []uint64{7, 3}, Epoch: epoch1, Warm: MaxCost, Cold: 9, Source: other})
		advance(time.Minute)
		wantNoRequest(t, other) // it goes away too
		m.end()
	})
}

func TestARouteThatIsTakenForDeadIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMoving(t, by(1, 7, 3, 1), by(5, 8, 2))
		c := chained(m.o, 7, 3)
		wantNoRequest(t, m.two)
		c.Withdraw()
		wantPulled(t, m.two)
		m.end()
	})
}

// The relay that a track was moving to goes away too, or the route there ends: a third
// one is asked.
func TestATrackThatMovesToARouteWhichEndsIsAskedOfAnother(t *testing.T) {
	for _, end := range []func(*moving){
		func(m *moving) { m.b.Withdraw() },
		func(m *moving) { m.b.Update([]uint64{7, 2}, MaxCost, 5) },
	} {
		synctest.Test(t, func(t *testing.T) {
			m, _ := newMoving(t, by(1, 7, 1), by(5, 7, 2))
			m.drain()
			q := wantPulled(t, m.two)
			q.Accept(anyInfo)
			three := newPublisher()
			m.o.Announce(Route{Path: "room", Hops: []uint64{7, 3}, Epoch: epoch1, Warm: 9, Source: three})
			wantNoRequest(t, three)
			end(m)
			r := wantPulled(t, three)
			wantDone(t, q.Done(), true)
			r.Accept(anyInfo)
			filled(t, r, 12)
			wantGroups(t, m.sub, 12, 11)
			m.end()
		})
	}
}

// Nobody watched when its relay began to go away.
func TestATrackThatIsWatchedAgainMovesThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMoving(t, by(1, 7, 1), by(5, 7, 2))
		m.sub.Close()
		m.drain()
		wantNoRequest(t, m.two)
		m.sub = wantSubscription(t, m.o, Options{})
		wantPulled(t, m.two)
		m.end()
	})
}

func TestNoDatagramIsGivenTwiceByAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMoving(t, by(1, 7, 1), by(5, 7, 2))
		q := NewDatagramQueue(nil)
		sub := wantSubscription(t, m.o, Options{MaxLatency: time.Hour, Datagrams: q})
		m.p.Datagram(20, 0, []byte{1})
		m.p.Datagram(21, 0, []byte{1})
		m.drain()
		next := wantPulled(t, m.two)
		next.Accept(anyInfo)
		next.Datagram(21, 0, []byte{2}) // known
		m.p.Datagram(22, 0, []byte{1})
		next.Datagram(23, 0, []byte{2}) // takes over
		m.p.Datagram(23, 0, []byte{1})
		next.Datagram(22, 0, []byte{2})
		next.Datagram(24, 0, []byte{2})
		var got []uint64
		for range 5 {
			d, err := q.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, d.Sequence)
		}
		if want := []uint64{20, 21, 22, 23, 24}; !slices.Equal(got, want) {
			t.Errorf("the datagrams %d were given, want %d", got, want)
		}
		sub.Close()
		m.end()
	})
}

// feed is a session of a relay that has all groups of a track, a new one each 20 ms
// since the start, of five frames, and sends them late.
type feed struct {
	ctx   context.Context
	start time.Time
	delay time.Duration
	over  chan struct{} // closed when no more groups come
	tasks *sync.WaitGroup
}

const feedPeriod = 20 * time.Millisecond

func (f *feed) Pull(p *Producer) {
	f.tasks.Go(func() {
		p.Accept(anyInfo)
		next := uint64(time.Since(f.start) / feedPeriod)
		if prefs := p.Preferences(); prefs.HasStart {
			next = prefs.Start
		}
		for seq := next; ; seq++ {
			select {
			case <-time.After(time.Until(f.start.Add(time.Duration(seq)*feedPeriod + f.delay))):
			case <-f.over:
				p.Close()
				return
			case <-p.Done():
				return
			}
			if prefs := p.Preferences(); prefs.HasEnd && seq > prefs.End {
				continue
			}
			f.tasks.Go(func() { f.send(p, seq) })
		}
	})
}

func (f *feed) send(p *Producer, sequence uint64) {
	w, err := p.Group(sequence, Window{})
	if err != nil {
		return
	}
	for i := range byte(5) {
		if w.WriteFrame(f.ctx, head(2), int64(sequence), []byte{byte(sequence), i}) != nil {
			return
		}
		advance(7 * time.Millisecond)
	}
	_ = w.Finish()
}

// Relays go away and come back, one after the other, a hundred times: the viewer has
// each group once and whole.
func TestNoGroupIsLostOrGivenTwiceByMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		o := NewOrigin(Config{ID: 42})
		var tasks sync.WaitGroup
		start, over := time.Now(), make(chan struct{})
		routes := make([]*Announcement, 3)
		for i := range routes {
			f := &feed{ctx: t.Context(), start: start, delay: time.Duration(i*13) * time.Millisecond, over: over, tasks: &tasks}
			routes[i] = o.Announce(Route{Path: "room", Hops: []uint64{7, uint64(i + 1)}, Epoch: epoch1, Warm: 5, Cold: 5, Source: f})
		}
		sub := wantSubscription(t, o, Options{MaxLatency: time.Hour, Start: Start{StartGroup, 0}})
		given := make(map[uint64]int)
		var viewer sync.WaitGroup
		viewer.Go(func() {
			for {
				r, err := sub.Next(t.Context())
				if err != nil {
					wantError(t, err, io.EOF)
					return
				}
				viewer.Go(func() {
					defer r.Close()
					got, err := readAll(t, r)
					if want := 5 * (len(head(2)) + 2); err != io.EOF || len(got) != want {
						t.Errorf("group %d gave %d bytes, want %d, and ended with %v", r.Sequence(), len(got), want, err)
					}
				})
				given[r.Sequence()]++
			}
		})
		for range 100 {
			for i, a := range routes { // all but one go away
				warm := uint64(5)
				if keep := random.IntN(len(routes)); i != keep {
					warm = MaxCost
				}
				a.Update(a.route.Hops, warm, 5)
			}
			advance(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		advance(time.Second)
		last := uint64(time.Since(start)/feedPeriod) - 10
		moves := o.Stats().Moves.Load()
		t.Logf("%d groups in %d moves", last, moves)
		if moves < 20 {
			t.Errorf("there were %d moves in 100 rounds", moves)
		}
		withdrawAll(o)
		advance(time.Second)
		close(over)
		tasks.Wait()
		synctest.Wait()
		sub.Close()
		viewer.Wait()
		for seq := range last {
			if n := given[seq]; n != 1 {
				t.Errorf("group %d of %d was given %d times", seq, last, n)
			}
		}
		advance(time.Minute)
		if n := o.Stats().Tracks.Load() + o.Stats().OpenGroups.Load() + int64(len(o.tracks)+len(o.parked)); n != 0 {
			t.Errorf("%d tracks and groups are left", n)
		}
	})
}
