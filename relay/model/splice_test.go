package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// payloads are the frames of group 11: one of no bytes, one larger than any buffer.
var payloads = [][]byte{[]byte("a"), {}, bytes.Repeat([]byte("large "), 10_000), []byte("b")}

// wantWhole reads group 11 to its end.
func wantWhole(t *testing.T, r *Reader) {
	t.Helper()
	var want []byte
	for _, p := range payloads {
		want = append(append(want, head(len(p))...), p...)
	}
	wantAll(t, r, want)
	r.Close()
}

// sendUpTo writes so many frames of group 11 whole, and so many bytes of the next one.
func sendUpTo(t *testing.T, w *GroupWriter, whole int, part int) {
	t.Helper()
	for _, p := range payloads[:whole] {
		wantFrame(t, w, p)
	}
	if part < 0 {
		return
	}
	p := payloads[whole]
	if err := w.BeginFrame(t.Context(), head(len(p)), 0, int64(len(p))); err != nil {
		t.Fatal(err)
	}
	for p = p[:part]; len(p) > 0; {
		b, err := w.Buffer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := copy(b, p)
		w.Commit(n)
		p = p[n:]
	}
}

func TestAGroupWhoseSourceIsLostGoesOnFromAnother(t *testing.T) {
	for _, c := range []struct {
		name        string
		whole, part int // what the first source gave; -1: nothing of the next frame
		standsBy    bool
		again       int // so many frames come from the second source before it is lost too
	}{
		{"before its first frame", 0, -1, true, 0},
		{"between frames", 1, -1, true, 0},
		{"behind an empty frame", 2, -1, false, 0},
		{"at the head of a frame", 2, 0, true, 0},
		{"in a frame", 2, 30_001, true, 0},
		{"in a frame, and a source returns", 2, 30_001, false, 0},
		{"in the last frame, twice", 3, 0, true, 1},
		{"behind the last frame", 4, -1, true, 0},
		{"in a frame, twice", 2, 30_001, true, 2},
		{"in a frame, and then behind it", 2, 30_001, true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				one, two := newPublisher(), newPublisher()
				route := by(1, 7, 1)
				route.Path, route.Source = "room", one
				a := o.Announce(route)
				sub := wantSubscription(t, o, Options{MaxLatency: time.Hour})
				p := wantPulled(t, one)
				p.Accept(anyInfo)
				filled(t, p, 10)
				wantGroups(t, sub, 10)
				w := wantGroup(t, p, 11, Window{Bytes: mib})
				r := wantReader(t, sub, 11)
				sendUpTo(t, w, c.whole, c.part)
				next := by(9, 7, 2)
				next.Path, next.Source = "room", two
				if c.standsBy {
					o.Announce(next)
				}
				if c.whole%2 == 0 { // the group's stream ends before the session's request, or after
					w.Abort(ErrSourceGone)
				}
				a.Lose()
				p.Fail(ErrSourceGone)
				w.Abort(ErrSourceGone)
				wantDone(t, r.Cut(), false)
				if !c.standsBy {
					advance(4 * time.Second)
					o.Announce(next)
				}
				q := wantPulled(t, two)
				if got := q.Preferences(); got.Start != 11 || !got.HasStart {
					t.Errorf("the second source is asked to start at %d (%v), want 11", got.Start, got.HasStart)
				}
				q.Accept(anyInfo)
				w = wantGroup(t, q, 11, Window{})
				if c.again > 0 {
					sendUpTo(t, w, c.again, -1)
					w.Abort(ErrSourceGone)
					q.Fail(ErrSourceGone)
					again := by(9, 7, 3)
					again.Path, again.Source = "room", one
					o.Announce(again)
					q = wantPulled(t, one)
					q.Accept(anyInfo)
					w = wantGroup(t, q, 11, Window{Bytes: mib})
				}
				_, err := q.Group(10, Window{})
				wantError(t, err, ErrDuplicate)
				sendUpTo(t, w, len(payloads), -1)
				wantFinished(t, w)
				wantWhole(t, r)
				advance(10 * time.Second)
				filled(t, q, 12)
				wantGroups(t, sub, 12)
				sub.Close()
				withdrawAll(o)
				advance(time.Minute)
				if n := o.Stats().OpenGroups.Load(); n != 0 {
					t.Errorf("%d groups are open when nothing is left", n)
				}
				wantHeld(t, o, 0)
			})
		})
	}
}

// lostInGroup11 is a track whose source was lost behind the byte "l" of a frame.
func lostInGroup11(t *testing.T) (o *Origin, q *Producer, sub *Subscription, r *Reader) {
	t.Helper()
	m, w := newMoving(t, by(1, 7, 1), by(5, 7, 2))
	r = wantReader(t, m.sub, 11)
	if err := w.BeginFrame(t.Context(), head(5), 0, 5); err != nil {
		t.Fatal(err)
	}
	b, err := w.Buffer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Commit(copy(b, "l"))
	w.Abort(ErrSourceGone)
	m.a.Lose()
	m.p.Fail(ErrSourceGone)
	q = wantPulled(t, m.two)
	q.Accept(anyInfo)
	return m.o, q, m.sub, r
}

func TestAGroupThatNobodyGoesOnWithEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		goOn func(t *testing.T, q *Producer)
		took time.Duration
		want error
	}{
		{"it does not come", func(t *testing.T, q *Producer) { filled(t, q, 12) }, 5 * time.Second, ErrSourceGone},
		{"with a frame of another size", func(t *testing.T, q *Producer) {
			w := wantGroup(t, q, 11, Window{})
			wantFrame(t, w, []byte("a"))
			wantError(t, w.BeginFrame(t.Context(), head(6), 0, 6), errSplice)
		}, 0, errSplice},
		{"shorter than it is", func(t *testing.T, q *Producer) {
			w := wantGroup(t, q, 11, Window{})
			wantFrame(t, w, []byte("a"))
			wantError(t, w.Finish(), errFrameOpen)
		}, 0, &AbortError{}},
		{"it is reset", func(t *testing.T, q *Producer) {
			w := wantGroup(t, q, 11, Window{})
			w.Abort(&AbortError{Code: 3})
		}, 0, &AbortError{}},
		{"the track ends", func(_ *testing.T, q *Producer) { q.Fail(ErrNotFound) }, 0, ErrNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, q, sub, r := lostInGroup11(t)
				began := time.Now()
				c.goOn(t, q)
				got, err := readAll(t, r)
				if !bytes.HasSuffix(got, []byte("l")) {
					t.Errorf("the group gave %q", got)
				}
				if abort := (*AbortError)(nil); !errors.Is(err, c.want) && !(asAbort(c.want, &abort) && asAbort(err, &abort)) {
					t.Errorf("the group ended with %v, want %v", err, c.want)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("the group ended after %v, want %v", took, c.took)
				}
				r.Close()
				sub.Close()
				withdrawAll(o)
				advance(time.Minute)
			})
		})
	}
}

// The other source may bring the group before the first one's writer has noticed. It
// waits for that a second; then the group ends with its writer.
func TestAGroupThatComesEarlyWaitsForItsWriterToNotice(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, eleven := newMoving(t, by(1, 7, 1), by(5, 7, 2))
			r := wantReader(t, m.sub, 11)
			m.p.Fail(ErrSourceGone)
			q := wantPulled(t, m.two)
			q.Accept(anyInfo)
			time.AfterFunc(999*time.Millisecond, func() {
				if !late {
					eleven.Abort(ErrSourceGone)
				}
			})
			began := time.Now()
			w, err := q.Group(11, Window{})
			if !late {
				if err != nil || time.Since(began) != 999*time.Millisecond {
					t.Fatalf("after %v the group is %v", time.Since(began), err)
				}
				written(t, w, "a")
				written(t, w, "b")
				wantFinished(t, w)
				wantPayloads(t, r, "a", "b")
			} else {
				wantError(t, err, ErrDuplicate)
				eleven.Abort(ErrSourceGone)
				_, err = readAll(t, r)
				wantError(t, err, ErrSourceGone)
			}
			r.Close()
			m.end()
		})
	}
}

// The track has moved already, and the source that it has left is lost before it has
// finished: the new one is asked for what is missing too.
func TestWhatASourceThatWasLeftHasNotFinishedIsAskedOfTheOther(t *testing.T) {
	for _, moved := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, eleven := newMoving(t, by(1, 7, 1), by(5, 7, 2))
			r := wantReader(t, m.sub, 11)
			m.drain()
			q := wantPulled(t, m.two)
			q.Accept(anyInfo)
			if moved {
				filled(t, q, 12)
			}
			eleven.Abort(ErrSourceGone)
			m.p.Fail(ErrSourceGone)
			f := wantPulled(t, m.two)
			if got := f.Preferences(); got.Start != 11 || got.End != 11 || !got.HasStart || !got.HasEnd {
				t.Errorf("the source is asked for groups %d to %d, want 11 alone", got.Start, got.End)
			}
			f.Accept(anyInfo)
			advance(3 * time.Second)
			wantDone(t, f.Done(), false)
			w := wantGroup(t, f, 11, Window{})
			written(t, w, "a")
			written(t, w, "b")
			wantFinished(t, w)
			wantPayloads(t, r, "a", "b")
			r.Close()
			advance(time.Second)
			wantDone(t, f.Done(), true)
			wantDone(t, q.Done(), false)
			filled(t, q, 13)
			if moved {
				wantGroups(t, m.sub, 13, 12)
			} else {
				wantGroups(t, m.sub, 13)
			}
			m.end()
		})
	}
}

// Group 12 of a lost source had not come, though 13 had; and the other one begins
// with 15, so that 14 is still the first one's.
func TestGroupsThatALostSourceHadStillToBringAreAskedOfTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, eleven := newMoving(t, by(1, 7, 1), by(5, 7, 2))
		wantFinished(t, eleven)
		wantGroups(t, m.sub, 11)
		m.drain()
		filled(t, m.p, 13)
		q := wantPulled(t, m.two)
		q.Accept(anyInfo)
		filled(t, q, 15)
		if got := m.p.Preferences(); got.End != 14 {
			t.Errorf("the first source is asked to end at %d, want 14", got.End)
		}
		filled(t, m.p, 14)
		m.a.Lose()
		m.p.Fail(ErrSourceGone)
		wantNoRequest(t, m.two) // it was asked for 12 and all that follow
		filled(t, q, 12)
		wantGroups(t, m.sub, 15, 14, 13, 12)
		m.b.Lose()
		q.Fail(ErrSourceGone)
		again := newPublisher()
		m.o.Announce(Route{Path: "room", Hops: []uint64{7, 3}, Epoch: epoch1, Source: again})
		r := wantPulled(t, again)
		if got := r.Preferences(); got.Start != 16 {
			t.Errorf("where nothing is missing the next source is asked to start at %d, want 16", got.Start)
		}
		r.Accept(anyInfo)
		filled(t, r, 16, 18)
		r.Fail(ErrSourceGone)
		last := newPublisher()
		m.o.Announce(Route{Path: "room", Hops: []uint64{7, 4}, Epoch: epoch1, Source: last})
		s := wantPulled(t, last)
		if got := s.Preferences(); got.Start != 17 {
			t.Errorf("where 17 is missing the next source is asked to start at %d, want 17", got.Start)
		}
		s.Accept(anyInfo)
		_, err := s.Group(18, Window{})
		wantError(t, err, ErrDuplicate)
		filled(t, s, 17)
		wantGroups(t, m.sub, 18, 17, 16)
		m.end()
	})
}

// The session that serves is gone, though nobody has said so yet: it is not asked for
// ever for what another one has left.
func TestAGoneSourceIsAskedOnceForWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, eleven := newMoving(t, by(1, 7, 1), by(5, 7, 2))
		m.drain()
		q := wantPulled(t, m.two)
		q.Accept(anyInfo)
		filled(t, q, 12)
		eleven.Abort(ErrSourceGone)
		m.p.Fail(ErrSourceGone)
		f := wantPulled(t, m.two)
		f.Fail(ErrSourceGone)
		wantNoRequest(t, m.two)
		wantDone(t, q.Done(), false)
		r := wantReader(t, m.sub, 12)
		r.Close()
		r = wantReader(t, m.sub, 11)
		_, err := readAll(t, r)
		wantError(t, err, ErrSourceGone)
		r.Close()
		m.end()
	})
}

// fragile is a session of a relay that has the same groups as feed, and is lost when
// it is told so: its requests and its groups each notice by themselves.
type fragile struct {
	feed
	gone chan struct{}
	mu   sync.Mutex
}

func (f *fragile) Pull(p *Producer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.gone:
		p.Fail(ErrSourceGone)
		return
	default:
	}
	f.tasks.Go(func() {
		p.Accept(anyInfo)
		next := uint64(time.Since(f.start) / feedPeriod)
		if prefs := p.Preferences(); prefs.HasStart {
			next = prefs.Start
		}
		for seq := next; ; seq++ {
			select {
			case <-time.After(time.Until(f.start.Add(time.Duration(seq)*feedPeriod + f.delay))):
			case <-f.gone:
				p.Fail(ErrSourceGone)
				return
			case <-f.over:
				p.Close()
				return
			case <-p.Done():
				return
			}
			if prefs := p.Preferences(); !prefs.HasEnd || seq <= prefs.End {
				f.tasks.Go(func() { f.send(p, seq) })
			}
		}
	})
}

func (f *fragile) send(p *Producer, sequence uint64) {
	w, err := p.Group(sequence, Window{})
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	for i := range byte(5) {
		select {
		case <-f.gone:
			w.Abort(ErrSourceGone)
			return
		case <-w.Done():
			return
		case <-time.After(7 * time.Millisecond):
		}
		if err := w.WriteFrame(ctx, head(2), int64(sequence), []byte{byte(sequence), i}); err != nil {
			w.Abort(err)
			return
		}
	}
	_ = w.Finish()
}

// Two of three sources are lost at any time, in the midst of groups, and return: the
// viewer has each group once and whole.
func TestNoGroupIsCutByTheLossOfASourceBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(5, 6))
		o := NewOrigin(Config{ID: 42})
		var tasks sync.WaitGroup
		start, over := time.Now(), make(chan struct{})
		announce := func(i int) (*fragile, *Announcement) {
			f := &fragile{feed: feed{ctx: t.Context(), start: start, over: over, delay: time.Duration(i*13) * time.Millisecond, tasks: &tasks}, gone: make(chan struct{})}
			return f, o.Announce(Route{Path: "room", Hops: []uint64{7, uint64(i + 1)}, Epoch: epoch1, Warm: random.Uint64N(3), Cold: 5, Source: f})
		}
		var sources [3]*fragile
		var routes [3]*Announcement
		for i := range sources {
			sources[i], routes[i] = announce(i)
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
		const losses = 200
		for range losses {
			i := random.IntN(3)
			if random.IntN(2) == 0 {
				routes[i].Lose()
			}
			sources[i].mu.Lock()
			close(sources[i].gone)
			sources[i].mu.Unlock()
			advance(time.Duration(random.IntN(20)) * time.Millisecond)
			routes[i].Lose()
			advance(time.Duration(random.IntN(60)) * time.Millisecond)
			sources[i], routes[i] = announce(i)
			advance(time.Duration(random.IntN(60)) * time.Millisecond)
		}
		advance(time.Second)
		last := uint64(time.Since(start)/feedPeriod) - 10
		withdrawAll(o)
		advance(time.Second)
		close(over)
		tasks.Wait()
		synctest.Wait()
		sub.Close()
		viewer.Wait()
		t.Logf("%d groups, %d losses of a source", last, losses)
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
