package model

import (
	"testing"
	"testing/synctest"
	"time"
)

// What nobody takes must not outlive its group: a reader that still waits to be
// handed out would keep the group's bytes after the cache let go of them.
func TestAReaderThatWaitsGoesWithItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{Cache: CacheConfig{MaxAge: 3 * time.Second}})
		sweeping(t, o)
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		for seq := range uint64(50) { // a viewer without stream credit takes none of them
			filled(t, p, seq)
			elapse(time.Second)
		}
		sub.track.mu.Lock()
		waiting, held := len(sub.speaking), len(sub.track.groups)
		sub.track.mu.Unlock()
		if waiting != held || waiting > 6 {
			t.Errorf("%d groups wait and %d are held of 50, want the same number, and at most 6", waiting, held)
		}
		sub.Close()
		p.Fail(ErrSourceGone)
		wantHeld(t, o, 0)
	})
}

func TestAGroupWithoutAReaderEndsWhenTheOneThatWaitedExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{})
		one := wantGroup(t, p, 1, Window{})
		wantFrame(t, one, []byte("a"))
		filled(t, p, 2)
		wantDone(t, one.Done(), true) // nobody can want it any more: its stream is to be stopped
		wantError(t, one.Err(), ErrExpired)
		wantGroups(t, sub, 2)
		sub.Close()
		p.Close()
	})
}

// A publisher that begins groups and sends nothing, or one empty group, costs its
// viewers no stream until there is something to say.
func TestASilentGroupIsGivenWhenItSpeaksOrEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		var writers []*GroupWriter
		for seq := range uint64(100) {
			writers = append(writers, wantGroup(t, p, seq, Window{}))
		}
		given := make(chan uint64, 100)
		ended := make(chan error, 1)
		go func() {
			for {
				r, err := sub.Next(t.Context())
				if err != nil {
					ended <- err
					return
				}
				given <- r.Sequence()
				defer r.Close() // a group that everybody has left ends, its writer may be inside a frame
			}
		}()
		want := func(sequence uint64) {
			t.Helper()
			synctest.Wait()
			if len(given) != 1 || <-given != sequence {
				t.Fatalf("%d more groups are given, want group %d alone", len(given), sequence)
			}
		}
		synctest.Wait()
		if len(given) != 0 {
			t.Fatalf("%d silent groups are given", len(given))
		}
		wantFrame(t, writers[40], []byte("a"))
		want(40)
		if err := writers[7].Finish(); err != nil {
			t.Fatal(err)
		}
		want(7)
		p.Close()
		writers[99].Abort(&AbortError{Code: 9})
		want(99)
		select {
		case err := <-ended:
			t.Fatalf("the subscription ended with %v while 97 groups may still speak", err)
		default:
		}
		p.Fail(ErrSourceGone)
		synctest.Wait()
		if len(given) != 97 {
			t.Fatalf("%d of 97 failed groups are given", len(given))
		}
		wantError(t, <-ended, ErrSourceGone)
		sub.Close()
	})
}

// The largest latest group may have nothing to drop but its newest frame: then
// the next one has to give way.
func TestAFullCacheDropsWhatCanBeDropped(t *testing.T) {
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 100_000}})
	p, sub := newSubscribed(t, o, Options{})
	big := wantGroup(t, p, 0, Window{})
	wantFrame(t, big, make([]byte, 10))
	wantFrame(t, big, make([]byte, 60_000))
	source := newPublisher()
	o.Announce(Route{Path: "hall", Source: source})
	other, err := o.Subscribe("hall", "video", Peer{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := <-source.pulled
	q.Accept(anyInfo)
	w := wantGroup(t, q, 0, Window{})
	for range 100 { // 100 kB in all, of which 39 kB fit beside the large frame
		wantFrame(t, w, make([]byte, 1000))
		if held, _ := o.CacheBytes(); held > 100_000 {
			t.Fatalf("%d bytes are held, over the ceiling of 100,000", held)
		}
	}
	other.Close()
	sub.Close()
	p.Fail(ErrSourceGone)
	q.Fail(ErrSourceGone)
	wantHeld(t, o, 0)
}

func TestGroupsWithoutFramesCountAgainstTheCeiling(t *testing.T) {
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 100 * 320}})
	p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
	for seq := range uint64(1000) {
		w := wantGroup(t, p, seq, Window{})
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if held, _ := o.CacheBytes(); held > 100*320 {
			t.Fatalf("%d bytes are held after %d groups, over the ceiling of %d", held, seq+1, 100*320)
		}
	}
	sub.Close()
	p.Fail(ErrSourceGone)
	wantHeld(t, o, 0)
}

// One session may have 1,024 subscriptions and take nothing of a track with as many
// groups as may wait: what it costs is a number for each, 11 MB in all.
func TestAGroupThatWaitsCostsEightBytes(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies memory and time")
	}
	const subscriptions, groups = 128, mostWaiting
	for _, capped := range []bool{false, true} { // waiting, or above what was asked for
		o := NewOrigin(Config{})
		p, one := newSubscribed(t, o, Options{MaxLatency: time.Hour, End: 0, HasEnd: capped})
		subs := []*Subscription{one}
		for len(subs) < subscriptions {
			subs = append(subs, wantSubscription(t, o, one.Options()))
		}
		before := heap()
		var writers []*GroupWriter
		for seq := range uint64(groups) {
			w := wantGroup(t, p, seq+1, Window{})
			wantFrame(t, w, []byte{1})
			writers = append(writers, w)
		}
		grown := heap() - before
		each := float64(grown) / subscriptions / groups
		t.Logf("capped %v: 128 subscriptions in each of which 1,024 groups wait hold %d bytes, %.1f for each", capped, grown, each)
		if each > 24 { // eight, what a slice may have to spare, and a 128th of the group itself
			t.Errorf("a group that waits costs %.1f bytes in each subscription, want 24 at most", each)
		}
		if !capped && len(subs[7].speaking) != groups || capped && len(subs[7].beyond) != groups {
			t.Errorf("%d groups wait and %d lie beyond, of %d", len(subs[7].speaking), len(subs[7].beyond), groups)
		}
		for _, w := range writers {
			wantFinished(t, w)
		}
		for _, sub := range subs {
			sub.Close()
		}
		p.Fail(ErrSourceGone)
		wantHeld(t, o, 0)
	}
}

// Reads keep a group, but one byte a second must not keep it for ever.
func TestAViewerThatTakesAByteASecondHoldsAGroupTenTimesItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{Cache: CacheConfig{MaxAge: 10 * time.Second}})
		sweeping(t, o)
		p, sub := newSubscribed(t, o, Options{Passive: true})
		w := wantGroup(t, p, 1, Window{})
		wantFrame(t, w, make([]byte, 1000))
		wantFinished(t, w)
		filled(t, p, 2)
		f := wantFetch(t, o, FetchOptions{Group: 1})
		r, err := f.Reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 200 {
			if _, err = r.Next(t.Context()); err != nil {
				break
			}
			r.Taken(1)
			elapse(time.Second)
		}
		wantError(t, err, ErrExpired)
		if held := time.Since(began); held < 99*time.Second || held > 103*time.Second {
			t.Errorf("the group was held %v, want 10 times its age of 10 s", held)
		}
		r.Close()
		f.Close()
		sub.Close()
		p.Fail(ErrSourceGone)
	})
}

func TestAnEndThatFallsAndRisesGivesNoGroupTwice(t *testing.T) {
	wish := func(end uint64, has bool) Options {
		return Options{MaxLatency: time.Hour, Start: Start{Mode: StartFloor}, End: end, HasEnd: has}
	}
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, wish(0, false))
	filled(t, p, 1, 2, 3)
	wantGroups(t, sub, 3, 2, 1)
	sub.Update(wish(2, true))
	filled(t, p, 4)
	wantGroups(t, sub)
	sub.Update(wish(0, false))
	wantGroups(t, sub, 4) // and not 3 again
	sub.Update(wish(2, true))
	sub.Update(wish(9, true))
	wantGroups(t, sub)
}

// Two peers at work: one announces and withdraws, the other watches and never
// looks. What came and went in between is nothing to remember.
func TestAWatcherThatNeverLooksRemembersOnlyWhatIs(t *testing.T) {
	o := NewOrigin(Config{})
	w := o.Watch("", Peer{})
	defer w.Close()
	if _, err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	stays := o.Announce(Route{Path: "stays"})
	for i := range 10_000 {
		o.Announce(Route{Path: Path("room/" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)))}).Withdraw()
	}
	if n := len(w.dirty); n != 1 {
		t.Fatalf("%d paths are remembered after 10,000 that came and went, want the one that stays", n)
	}
	changes, err := w.Next(t.Context())
	if err != nil || len(changes) != 1 || changes[0].Path != "stays" || changes[0].Kind != Started {
		t.Fatalf("got %+v, %v, want the start of the path that stays", changes, err)
	}
	stays.Withdraw()
	if changes, _ = w.Next(t.Context()); len(changes) != 1 || changes[0].Kind != Ended {
		t.Fatalf("got %+v, want the end of the path that stayed", changes)
	}
}

// One session may have 1,024 subscriptions of one track and take nothing: what a
// new group costs must not grow with the groups that wait in each.
func TestASubscriberThatTakesNothingIsNotKeptWaitingFor(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour, Ordered: true, Start: Start{Mode: StartFloor}})
	const groups = mostWaiting + 100
	for seq := range uint64(groups) {
		filled(t, p, seq)
	}
	if n := len(sub.speaking); n != mostWaiting {
		t.Errorf("%d groups wait, want %d", n, mostWaiting)
	}
	if n := o.Stats().ReadersExpired.Load(); n != 100 {
		t.Errorf("%d readers are counted as expired, want 100", n)
	}
	r := wantReader(t, sub, 100) // the oldest that is left
	r.Close()
	sub.Close()
	p.Fail(ErrSourceGone)
	wantHeld(t, o, 0)
}
