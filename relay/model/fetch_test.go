package model

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// library is a source that can be asked for single groups, too.
type library struct {
	publisher
	asked chan *GroupRequest
}

func newLibrary() *library {
	return &library{publisher: *newPublisher(), asked: make(chan *GroupRequest, 64)}
}

func (l *library) Fetch(r *GroupRequest) { l.asked <- r }

// newFetchable returns an origin whose path "room" is served by a library.
func newFetchable() (*Origin, *library) {
	o, l := NewOrigin(Config{}), newLibrary()
	o.Announce(Route{Path: "room", Source: l})
	return o, l
}

func wantFetch(t *testing.T, o *Origin, options FetchOptions) *Fetch {
	t.Helper()
	f, err := o.Fetch("room", "video", Peer{}, options)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// answer is what a fetch has come to.
type answer struct {
	r   *Reader
	err error
}

// reading asks for the reader in a goroutine of its own.
func reading(t *testing.T, f *Fetch) <-chan answer {
	t.Helper()
	got := make(chan answer, 1)
	go func() {
		r, err := f.Reader(t.Context())
		got <- answer{r, err}
	}()
	synctest.Wait()
	return got
}

// wantFetched reads a fetch to its end.
func wantFetched(t *testing.T, f *Fetch, payloads ...string) {
	t.Helper()
	r, err := f.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantPayloads(t, r, payloads...)
}

func wantPayloads(t *testing.T, r *Reader, payloads ...string) {
	t.Helper()
	for i, want := range payloads {
		if _, err := r.NextFrame(t.Context()); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		var got []byte
		for {
			b, err := r.Payload(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
			got = append(got, b...)
			r.Taken(len(b))
		}
		if string(got) != want {
			t.Fatalf("frame %d is %q, want %q", i, got, want)
		}
	}
	if _, err := r.NextFrame(t.Context()); err != io.EOF {
		t.Fatalf("after %d frames: %v, want io.EOF", len(payloads), err)
	}
}

// written writes frames of a letter each.
func written(t *testing.T, w *GroupWriter, frames string) {
	t.Helper()
	for _, c := range frames {
		wantFrame(t, w, []byte(string(c)))
	}
}

func wantAsked(t *testing.T, l *library, want int) {
	t.Helper()
	synctest.Wait()
	if n := len(l.asked); n != want {
		t.Fatalf("%d requests for a group wait at the source, want %d", n, want)
	}
}

// begun answers a request with a group of some frames, not ended.
func begun(t *testing.T, r *GroupRequest, frames string) *GroupWriter {
	t.Helper()
	w, err := r.Begin(Window{})
	if err != nil {
		t.Fatal(err)
	}
	written(t, w, frames)
	return w
}

func wantFinished(t *testing.T, w *GroupWriter) {
	t.Helper()
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

func TestAFetchOutsideEveryRouteIsUnroutableAtOnce(t *testing.T) {
	_, err := NewOrigin(Config{}).Fetch("room", "video", Peer{}, FetchOptions{})
	wantError(t, err, ErrUnroutable)
}

func TestAFetchOfWhatIsHeldAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		sub := wantSubscription(t, o, Options{})
		p := <-l.pulled
		p.Accept(anyInfo)
		for seq := range uint64(3) {
			w := wantGroup(t, p, seq, Window{})
			written(t, w, "abcde")
			wantFinished(t, w)
		}
		for _, c := range []struct {
			name    string
			options FetchOptions
			want    []string
		}{
			{"an old group", FetchOptions{Group: 0}, []string{"a", "b", "c", "d", "e"}},
			{"the latest", FetchOptions{Latest: true}, []string{"a", "b", "c", "d", "e"}},
			{"from frame 3", FetchOptions{Group: 1, FrameStart: 3}, []string{"d", "e"}},
			{"frames 1 and 2", FetchOptions{Group: 1, FrameStart: 1, FrameEnd: 2, HasFrameEnd: true}, []string{"b", "c"}},
			{"frame 0 alone", FetchOptions{Group: 1, HasFrameEnd: true}, []string{"a"}},
			{"a group that is shorter than asked", FetchOptions{Group: 1, FrameStart: 4, FrameEnd: 9, HasFrameEnd: true}, []string{"e"}},
		} {
			f := wantFetch(t, o, c.options)
			wantFetched(t, f, c.want...)
			f.Close()
		}
		f := wantFetch(t, o, FetchOptions{Group: 1, FrameStart: 5})
		_, err := f.Reader(t.Context())
		wantError(t, err, ErrNotFound) // the group ends before it
		f.Close()
		wantAsked(t, l, 0)
		if hits := o.Stats().FetchHit.Load(); hits != 6 {
			t.Errorf("%d fetches are counted as hits, want 6", hits)
		}
		sub.Close()
		p.Fail(ErrSourceGone)
	})
}

func TestAFetchOfAGroupInFlightFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		sub := wantSubscription(t, o, Options{})
		p := <-l.pulled
		p.Accept(anyInfo)
		w := wantGroup(t, p, 7, Window{})
		written(t, w, "ab")
		whole, late := wantFetch(t, o, FetchOptions{Group: 7}), wantFetch(t, o, FetchOptions{Group: 7, FrameStart: 2})
		got := reading(t, whole)
		waits := reading(t, late)
		if len(waits) != 0 {
			t.Fatal("the fetch from frame 2 is answered before frame 2 has begun")
		}
		sub.Close() // the fetch is reason enough to go on
		advance(time.Minute)
		wantDone(t, p.Done(), false)
		written(t, w, "c")
		wantFinished(t, w)
		first, second := <-got, <-waits
		if first.err != nil || second.err != nil {
			t.Fatal(first.err, second.err)
		}
		wantPayloads(t, first.r, "a", "b", "c")
		wantPayloads(t, second.r, "c")
		first.r.Close()
		second.r.Close()
		whole.Close()
		late.Close()
		wantAsked(t, l, 0)
		advance(time.Second)
		wantDone(t, p.Done(), true)
	})
}

func TestOneUpstreamFetchServesAllThatWaitAndIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		var fetches []*Fetch
		var waits []<-chan answer
		for i := range 10 {
			f := wantFetch(t, o, FetchOptions{Group: 5, FrameStart: uint64(i % 2)})
			fetches, waits = append(fetches, f), append(waits, reading(t, f))
		}
		wantAsked(t, l, 1)
		r := <-l.asked
		if r.Path() != "room" || r.Track() != "video" || r.Sequence() != 5 {
			t.Fatalf("asked for %q %q group %d", r.Path(), r.Track(), r.Sequence())
		}
		w := begun(t, r, "abc")
		wantFinished(t, w)
		for i, wait := range waits {
			got := <-wait
			if got.err != nil {
				t.Fatal(got.err)
			}
			wantPayloads(t, got.r, []string{"a", "b", "c"}[i%2:]...)
			got.r.Close()
			fetches[i].Close()
		}
		again := wantFetch(t, o, FetchOptions{Group: 5})
		wantFetched(t, again, "a", "b", "c")
		again.Close()
		wantAsked(t, l, 0)
		if len(l.pulled) != 0 {
			t.Error("fetching a group has subscribed to the track")
		}
		stats := o.Stats()
		if miss, joined, hit := stats.FetchMiss.Load(), stats.FetchJoined.Load(), stats.FetchHit.Load(); miss != 1 || joined != 9 || hit != 1 {
			t.Errorf("%d misses, %d joined, %d hits are counted, want 1, 9, 1", miss, joined, hit)
		}
		wantHeld(t, o, groupCharge+3*(frameCharge+6))
		withdrawAll(o)
		wantHeld(t, o, 0)
	})
}

func TestAFetchThatCannotBeAnsweredFailsInTime(t *testing.T) {
	refused := &AbortError{Code: 0x33}
	for _, c := range []struct {
		name   string
		answer func(*GroupRequest)
		after  time.Duration
		want   error
	}{
		{"refused", func(r *GroupRequest) { r.Fail(refused) }, 0, refused},
		{"silent", func(*GroupRequest) {}, 5 * time.Second, ErrUpstreamTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, l := newFetchable()
				f := wantFetch(t, o, FetchOptions{Group: 5})
				defer f.Close()
				asked := time.Now()
				got := reading(t, f)
				r := <-l.asked
				c.answer(r)
				wantError(t, (<-got).err, c.want)
				if took := time.Since(asked); took != c.after {
					t.Errorf("it took %v, want %v", took, c.after)
				}
				wantDone(t, r.Done(), true)
				_, err := r.Begin(Window{})
				wantError(t, err, ErrClosed)
			})
		})
	}
}

func TestASourceThatCannotFetchHasNothingElse(t *testing.T) {
	o := NewOrigin(Config{})
	o.Announce(Route{Path: "room", Source: newPublisher()})
	f := wantFetch(t, o, FetchOptions{Group: 5})
	_, err := f.Reader(t.Context())
	wantError(t, err, ErrNotFound)
	f.Close()
	if n := o.Stats().FetchNotFound.Load(); n != 1 {
		t.Errorf("%d fetches are counted as not found, want 1", n)
	}
	if len(o.shelves) != 0 {
		t.Errorf("%d shelves are left", len(o.shelves))
	}
}

func TestAnUpstreamFetchEndsWhenTheLastThatWaitsLeaves(t *testing.T) {
	for _, begins := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o, l := newFetchable()
			one, two := wantFetch(t, o, FetchOptions{Group: 5}), wantFetch(t, o, FetchOptions{Group: 5})
			a, b := reading(t, one), reading(t, two)
			r := <-l.asked
			done := r.Done()
			leave := func(f *Fetch, got <-chan answer) {
				if begins {
					(<-got).r.Close()
				}
				f.Close()
			}
			var w *GroupWriter
			if begins {
				w = begun(t, r, "a")
				done = w.Done()
				synctest.Wait()
			}
			leave(one, a)
			wantDone(t, done, false)
			leave(two, b)
			wantDone(t, done, true)
			if !begins {
				r.Fail(ErrNotFound) // nobody hears it
				return
			}
			f := wantFetch(t, o, FetchOptions{Group: 5}) // what is cut short is asked for anew
			reading(t, f)
			wantAsked(t, l, 1)
			f.Close()
		})
	}
}

// A fetch that is closed from outside, by its context, gives up its place.
func TestAFetchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		f := wantFetch(t, o, FetchOptions{Group: 5})
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan error, 1)
		go func() {
			_, err := f.Reader(ctx)
			cancelled <- err
		}()
		r := <-l.asked
		cancel()
		wantError(t, <-cancelled, context.Canceled)
		wantDone(t, r.Done(), true)
		f.Close()
	})
}

func TestWhatIsCutShortIsNoAnswerUnlessTheWantedPartIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		sub := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		p := <-l.pulled
		p.Accept(anyInfo)
		w := wantGroup(t, p, 1, Window{})
		written(t, w, "abc")
		if err := w.BeginFrame(t.Context(), head(2), 0, 2); err != nil { // frame 3 has begun and is not whole
			t.Fatal(err)
		}
		w.Abort(&AbortError{Code: 9})
		part := wantFetch(t, o, FetchOptions{Group: 1, FrameStart: 1, FrameEnd: 2, HasFrameEnd: true})
		wantFetched(t, part, "b", "c")
		part.Close()
		wantAsked(t, l, 0)
		for _, options := range []FetchOptions{{Group: 1}, {Group: 1, FrameEnd: 3, HasFrameEnd: true}, {Group: 1, FrameEnd: 7, HasFrameEnd: true}} {
			f := wantFetch(t, o, options)
			reading(t, f)
			wantAsked(t, l, 1)
			(<-l.asked).Fail(ErrNotFound)
			f.Close()
		}
		f := wantFetch(t, o, FetchOptions{Group: 1})
		got := reading(t, f)
		w = begun(t, <-l.asked, "abc")
		w.Abort(&AbortError{Code: 7})
		r := (<-got).r
		_, err := readAll(t, r)
		var abort *AbortError
		if !errors.As(err, &abort) || abort.Code != 7 {
			t.Errorf("the fetch of a group that is cut short ends with %v, want code 7", err)
		}
		r.Close()
		f.Close()
		sub.Close()
		p.Fail(ErrSourceGone)
	})
}

// The public JavaScript publisher is silent for a group that does not exist yet.
func TestAFetchOfTheNextGroupIsServedWhenThatComesLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		sub := wantSubscription(t, o, Options{})
		p := <-l.pulled
		p.Accept(anyInfo)
		filled(t, p, 1)
		f := wantFetch(t, o, FetchOptions{Group: 2})
		got := reading(t, f)
		r := <-l.asked
		w := wantGroup(t, p, 2, Window{})
		written(t, w, "a")
		wantFinished(t, w)
		a := <-got
		if a.err != nil {
			t.Fatal(a.err)
		}
		wantPayloads(t, a.r, "a")
		wantDone(t, r.Done(), true)
		a.r.Close()
		f.Close()
		p.Finish(3)
		f = wantFetch(t, o, FetchOptions{Group: 3})
		_, err := f.Reader(t.Context())
		wantError(t, err, ErrNotFound) // the track has said that it ends before
		wantAsked(t, l, 0)
		f.Close()
		sub.Close()
		p.Fail(ErrSourceGone)
	})
}

func TestGroupsOfATrackWhoseSubscribersHaveLeftAreFetchedAndNotLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		sweeping(t, o)
		sub := wantSubscription(t, o, Options{})
		p := <-l.pulled
		p.Accept(Info{Timescale: 1000, MaxAge: 20 * time.Second})
		filled(t, p, 1, 2)
		open := wantGroup(t, p, 3, Window{})
		written(t, open, "x")
		sub.Close()
		elapse(time.Second)
		wantDone(t, p.Done(), true)
		wantError(t, open.Err(), ErrCancelled)
		for _, seq := range []uint64{1, 2} {
			f := wantFetch(t, o, FetchOptions{Group: seq})
			wantFetched(t, f, "\x01")
			if info, ok := f.Info(); !ok || info.MaxAge != 20*time.Second {
				t.Errorf("the track is known as %+v (%v), want a max age of 20 s", info, ok)
			}
			f.Close()
		}
		wantAsked(t, l, 0)
		next := wantSubscription(t, o, Options{MaxLatency: time.Hour, Start: Start{Mode: StartFloor}})
		q := <-l.pulled // a fresh request
		wantGroups(t, next)
		q.Accept(anyInfo)
		wantGroups(t, next) // nothing of the older is live
		filled(t, q, 2)     // nor does it stand in the way
		wantGroups(t, next, 2)
		next.Close()
		elapse(25 * time.Second)
		wantHeld(t, o, groupCharge+frameCharge+1) // group 2 of the second request, which may stay 30 s
		elapse(10 * time.Second)
		wantHeld(t, o, 0)
		if len(o.shelves) != 0 || len(o.tracks) != 0 {
			t.Errorf("%d shelves and %d tracks are left of nothing", len(o.shelves), len(o.tracks))
		}
	})
}

func TestTheLatestGroupOfATrackNobodyWatchesIsFetchedByASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		f := wantFetch(t, o, FetchOptions{Latest: true})
		got := reading(t, f)
		p := <-l.pulled
		p.Accept(anyInfo)
		w := wantGroup(t, p, 41, Window{})
		written(t, w, "ab")
		r := (<-got).r
		filled(t, p, 42) // a newer one does not cut it off
		written(t, w, "c")
		wantFinished(t, w)
		if r.Sequence() != 41 {
			t.Errorf("got group %d, want 41", r.Sequence())
		}
		wantPayloads(t, r, "a", "b", "c")
		r.Close()
		wantDone(t, p.Done(), false)
		f.Close()
		advance(time.Second)
		wantDone(t, p.Done(), true)

		silent := wantFetch(t, o, FetchOptions{Latest: true})
		got = reading(t, silent)
		(<-l.pulled).Accept(anyInfo) // and no group comes
		wantError(t, (<-got).err, ErrUpstreamTimeout)
		silent.Close()
		advance(time.Second)
	})
}

func TestAFetchWhileThePublisherIsAwayWaitsForItsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := NewOrigin(Config{}), newLibrary()
		a := o.Announce(Route{Path: "room", Source: l})
		a.Lose()
		f := wantFetch(t, o, FetchOptions{Group: 5})
		got := reading(t, f)
		advance(4 * time.Second)
		back := newLibrary()
		b := o.Announce(Route{Path: "room", Source: back})
		wantAsked(t, back, 1)
		wantAsked(t, l, 0)
		wantFinished(t, begun(t, <-back.asked, "a"))
		r := (<-got).r
		wantPayloads(t, r, "a")
		r.Close()
		f.Close()
		b.Lose()
		f = wantFetch(t, o, FetchOptions{Group: 6})
		got = reading(t, f)
		advance(5 * time.Second)
		wantError(t, (<-got).err, ErrUnroutable)
		f.Close()
	})
}
