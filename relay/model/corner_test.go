package model

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneFastReaderSetsThePaceAndTheSlowOnesFallBackInsideTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{GroupTail: mib, MaxFrame: mib})
		p, passive := newSubscribed(t, o, Options{Passive: true})
		var slow []*Subscription
		var parked []*Reader
		for range 3 {
			slow = append(slow, wantSubscription(t, o, Options{MaxLatency: time.Hour}))
		}
		fast := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		w := wantGroup(t, p, 0, Window{Bytes: 256 * kib})
		for _, sub := range slow {
			parked = append(parked, wantReader(t, sub, 0))
		}
		r := wantReader(t, fast, 0)
		admitted, ended := ingest(t.Context(), w, 64*kib, 40)
		wantAdmitted(t, admitted, 3) // 3 × 65,669 = 197,007
		take(t, parked[0], 64*kib+5)
		for i := range int64(15) { // a tail of 1 MiB holds 15 such frames
			take(t, r, 64*kib+5)
			wantAdmitted(t, admitted, min(4+i, 15))
			if i == 11 {
				break
			}
		}
		for i, lagging := range parked {
			if err := lagging.Err(); err != nil {
				t.Fatalf("slow reader %d has %v though the tail holds what it needs", i, err)
			}
		}
		go func() { _, _ = readAll(t, r) }()
		wantError(t, <-ended, nil)
		synctest.Wait()
		for _, lagging := range parked {
			wantError(t, lagging.Err(), ErrLagged)
		}
		wantCount(t, "readers lagged", &o.stats.ReadersLagged, 3)
		if o.stats.EvictedTail.Bytes.Load() < 20*64*kib {
			t.Errorf("%d bytes were dropped for the tail, want those of about 25 frames", o.stats.EvictedTail.Bytes.Load())
		}
		filled(t, p, 1) // the subscription stays: it gets the next group from its first frame
		for i, sub := range slow {
			parked[i].Close()
			next := wantReader(t, sub, 1)
			if next.First() != 0 {
				t.Errorf("slow reader %d begins with frame %d", i, next.First())
			}
			sub.Close()
		}
		fast.Close()
		passive.Close()
		p.Close()
	})
}

func TestAGroupThatAllHaveLeftIsStoppedAndStaysIncompleteWhenItIsNotTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		w := wantGroup(t, p, 0, Window{Bytes: 1000})
		r := wantReader(t, sub, 0)
		admitted, ended := ingest(t.Context(), w, 100, 100)
		wantAdmitted(t, admitted, 4) // 4 × (100+5+128) = 932
		next := wantGroup(t, p, 1, Window{Bytes: 1000})
		wantAdmitted(t, admitted, 4)
		r.Close()
		wantError(t, <-ended, ErrExpired) // the pause ends, the stream is stopped
		wantDone(t, w.Done(), true)
		held := p.track.groups[0]
		if held == nil || held.complete() || held.failure() != ErrExpired || held.written.Load() != 4*105 {
			t.Fatalf("group 0 is %v, want its 420 bytes, incomplete", held)
		}
		wantHeld(t, o, 320+4*233+320)

		// The latest one waits instead, for whoever comes.
		r = wantReader(t, sub, 1)
		admitted, ended = ingest(t.Context(), next, 100, 8)
		wantAdmitted(t, admitted, 4)
		r.Close()
		wantAdmitted(t, admitted, 4)
		wantDone(t, next.Done(), false)
		late := wantSubscription(t, o, Options{})
		all, err := readAll(t, wantReader(t, late, 1))
		if len(all) != 8*105 || err != io.EOF {
			t.Fatalf("a late viewer got %d bytes and %v, want all 840", len(all), err)
		}
		wantError(t, <-ended, nil)
		if !p.track.groups[1].complete() {
			t.Error("a group that was finished and is held is not complete")
		}
		late.Close()
		sub.Close()
		p.Close()
	})
}

func TestAFetchReaderLetsTheWriterGoOnLikeAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, passive := newSubscribed(t, o, Options{Passive: true})
		w := wantGroup(t, p, 0, Window{Bytes: 1000})
		admitted, ended := ingest(t.Context(), w, 2000, 3)
		wantAdmitted(t, admitted, 0) // larger than the window: it waits for a reader
		fetch, err := o.Fetch("room", "video", Peer{}, FetchOptions{Latest: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := fetch.Reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantAdmitted(t, admitted, 1)
		all, err := readAll(t, r)
		if len(all) != 3*2005 || err != io.EOF {
			t.Fatalf("the fetch got %d bytes and %v, want all 6,015", len(all), err)
		}
		wantError(t, <-ended, nil)
		r.Close()
		fetch.Close()
		passive.Close()
		p.Close()
	})
}

func TestAFrameLargerThanTheTailIsRefusedAtItsHeadAndTheTrackGoesOn(t *testing.T) {
	o := NewOrigin(Config{GroupTail: 100_000, MaxFrame: 200_000})
	p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
	w := wantGroup(t, p, 0, Window{})
	wantFrame(t, w, make([]byte, 1000))
	wantError(t, w.BeginFrame(t.Context(), head(100_000), 0, 100_000), ErrFrameTooLarge)
	wantHeld(t, o, 320+128+1005) // nothing was stored for it
	got, err := readAll(t, wantReader(t, sub, 0))
	if len(got) != 1005 {
		t.Errorf("the viewer got %d bytes, want the frame before it", len(got))
	}
	wantError(t, err, ErrFrameTooLarge)
	filled(t, p, 1)
	wantGroups(t, sub, 1)
	sub.Close()
	p.Fail(ErrSourceGone)
}

func TestANewPacingCapIsForGroupsThatBeginAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{Passive: true})
		before := wantGroup(t, p, 0, Window{Bytes: min(mib, o.PacingCap())})
		o.SetPacingCap(256 * kib)
		after := wantGroup(t, p, 1, Window{Bytes: min(mib, o.PacingCap())})
		var ends []chan error
		for w, want := range map[*GroupWriter]int64{before: 15, after: 3} {
			admitted, ended := ingest(t.Context(), w, 64*kib, 20)
			wantAdmitted(t, admitted, want)
			ends = append(ends, ended)
		}
		p.Fail(ErrSourceGone)
		for _, ended := range ends {
			<-ended
		}
		sub.Close()
	})
}

// Whole and cut short are never confused: what a group had is known after the
// cache has let go of it.
func TestTheFrameCountOfAGroupOutlivesItsEviction(t *testing.T) {
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 10_000}})
	p, passive := newSubscribed(t, o, Options{Passive: true})
	whole, part := wantSubscription(t, o, Options{MaxLatency: time.Hour}), wantSubscription(t, o, Options{MaxLatency: time.Hour})
	w := wantGroup(t, p, 0, Window{})
	for range 5 {
		wantFrame(t, w, make([]byte, 100))
	}
	had, had2 := wantReader(t, whole, 0), wantReader(t, part, 0)
	take(t, had, 5*105)
	take(t, had2, 2*105+50)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	oneFrame(t, p, 1, make([]byte, 9000)) // the first is not the latest any more, and in the way
	if n := numbers(p); len(n) != 1 || n[0] != 1 {
		t.Fatalf("groups %v are held, want 1 alone", n)
	}
	_, err := had.Next(t.Context())
	wantError(t, err, io.EOF)
	if n := had.Frames(); n != 5 {
		t.Errorf("who had all has %d frames, want 5", n)
	}
	_, err = had2.Next(t.Context())
	wantError(t, err, ErrEvicted)
	if n := had2.Frames(); n != 2 {
		t.Errorf("who had two and a half has %d frames, want 2", n)
	}
	if begun, clean := had2.group.begun.Load(), had2.group.clean.Load(); begun != 5 || !clean {
		t.Errorf("the group is known to have had %d frames, ended cleanly %v; want 5 and true", begun, clean)
	}
	if n := o.stats.BufferBytes.Load(); n < 9000+525 {
		t.Errorf("chunks of %d bytes are counted while readers still hold the group", n)
	}
	had.Close()
	had2.Close()
	if n := o.stats.BufferBytes.Load(); n > 9000+525 {
		t.Errorf("chunks of %d bytes are counted when nobody holds the group", n)
	}
	wantCount(t, "readers evicted", &o.stats.ReadersEvicted, 1)
	whole.Close()
	part.Close()
	passive.Close()
	p.Fail(ErrSourceGone)
}

func TestFramesAreCountedWhereverAReaderBegins(t *testing.T) {
	o := NewOrigin(Config{})
	p, passive := newSubscribed(t, o, Options{Passive: true})
	w := wantGroup(t, p, 0, Window{})
	for range 200 {
		wantFrame(t, w, make([]byte, 10))
	}
	r := newReader(w.group, nil)
	if err := w.group.attach(r, 70); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ take, want int }{{0, 0}, {14, 0}, {1, 1}, {15*63 + 14, 64}, {1, 65}, {15 * 65, 130}} {
		take(t, r, step.take)
		if n := r.Frames(); n != step.want {
			t.Fatalf("after %d more bytes %d frames were taken, want %d", step.take, n, step.want)
		}
	}
	if n := r.Unread(); n != 0 {
		t.Errorf("%d bytes are unread", n)
	}
	r.Close()
	passive.Close()
	p.Close()
}

func TestWhatWasAskedForAfterACutRunsOnce(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	wantGroup(t, p, 0, Window{})
	r := wantReader(t, sub, 0)
	ran := make(chan string, 4)
	r.AfterCut(func() { ran <- "kept" })
	stop := r.AfterCut(func() { ran <- "stopped" })
	if !stop() || stop() {
		t.Error("stop reports true once, when it called the function off")
	}
	r.Close()
	if got := <-ran; got != "kept" {
		t.Errorf("%q ran", got)
	}
	late := r.AfterCut(func() { ran <- "late" })
	if got := <-ran; got != "late" || late() {
		t.Errorf("%q ran after the cut", got)
	}
	r.Close()
	if len(ran) != 0 {
		t.Errorf("%q ran too", <-ran)
	}
	sub.Close()
	p.Close()
}

func TestForwardIsTheTimeFromAGroupsFirstByteToTheFirstViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, passive := newSubscribed(t, o, Options{Passive: true})
		oneFrame(t, p, 0, []byte{1}) // nobody watched when it began
		sub := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		take(t, wantReader(t, sub, 0), 6)
		wantFrame(t, wantGroup(t, p, 1, Window{}), []byte{1})
		r := wantReader(t, sub, 1)
		advance(30 * time.Millisecond)
		take(t, r, 1)
		advance(time.Second)
		take(t, r, 5)
		if s := o.stats.Forward.Snapshot(); s.Count != 1 || s.Sum != 30*time.Millisecond {
			t.Errorf("%d groups took %v, want one that took 30ms", s.Count, s.Sum)
		}
		sub.Close()
		passive.Close()
		p.Close()
	})
}
