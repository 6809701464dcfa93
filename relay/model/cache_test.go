package model

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func wantHeld(t *testing.T, o *Origin, want int64) {
	t.Helper()
	if got, _ := o.CacheBytes(); got != want {
		t.Fatalf("the cache holds %d bytes, want %d", got, want)
	}
}

func wantCount(t *testing.T, what string, counter *atomic.Int64, want int64) {
	t.Helper()
	if got := counter.Load(); got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

// sweeping runs the origin in the background until the test ends.
func sweeping(t *testing.T, o *Origin) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { _ = o.Run(ctx) }()
}

// elapse lets time pass, and what the sweep of that very instant does come to its end.
func elapse(d time.Duration) {
	advance(d)
	synctest.Wait()
}

func TestChargeIsBytesAndAFixedPriceForFrameAndGroup(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	wantHeld(t, o, 0)
	w := wantGroup(t, p, 0, Window{})
	wantHeld(t, o, 320)
	wantFrame(t, w, make([]byte, 1000))
	wantHeld(t, o, 320+128+5+1000)
	if err := w.BeginFrame(t.Context(), head(100), 0, 100); err != nil {
		t.Fatal(err)
	}
	wantHeld(t, o, 320+2*(128+5)+1000+100) // room for a small frame is made when it begins
	room, err := w.Buffer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Commit(len(room))
	wantHeld(t, o, 320+2*(128+5)+1000+100)
	if err := w.BeginFrame(t.Context(), head(20_000), 0, 20_000); err != nil {
		t.Fatal(err)
	}
	wantHeld(t, o, 320+3*(128+5)+1100+16*kib) // and for 16 KiB of a larger one
	sub.Close()
	p.Fail(ErrSourceGone)
	wantHeld(t, o, 0)
}

func TestAGroupThatIsNotTheLatestGoesWhenItWasNotUsedForItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{Cache: CacheConfig{MaxAge: 10 * time.Second}})
		sweeping(t, o)
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		other := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		filled(t, p, 1)
		done, parked := wantReader(t, sub, 1), wantReader(t, other, 1)
		filled(t, p, 2)
		elapse(9500 * time.Millisecond) // swept as used at 1 s, so it stays until 11 s
		wantHeld(t, o, 2*(320+128+1))
		take(t, done, 1)
		elapse(10 * time.Second)
		wantHeld(t, o, 2*(320+128+1)) // reading made it young again
		elapse(2 * time.Second)
		wantHeld(t, o, 320+128+1) // the latest has no age
		wantDone(t, parked.Cut(), true)
		wantError(t, parked.Err(), ErrExpired)
		wantDone(t, done.Cut(), false) // it had all of the group
		_, err := done.Next(t.Context())
		wantError(t, err, io.EOF)
		wantCount(t, "groups evicted by age", &o.stats.EvictedAge.Groups, 1)
		wantCount(t, "bytes evicted by age", &o.stats.EvictedAge.Bytes, 449)
		wantCount(t, "readers expired", &o.stats.ReadersExpired, 1)
		other.Close()
		sub.Close()
		p.Close()
	})
}

func TestAPublisherMayAskForLessAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		sweeping(t, o)
		source := newPublisher()
		o.Announce(Route{Path: "room", Source: source})
		sub := wantSubscription(t, o, Options{Passive: true})
		p := <-source.pulled
		p.Accept(Info{Timescale: 1000, MaxAge: 2 * time.Second})
		filled(t, p, 1, 2)
		elapse(3500 * time.Millisecond)
		wantHeld(t, o, 320+128+1)
		sub.Close()
		elapse(4 * time.Second) // the request ends after 1 s; then the group is old after 2 s
		wantHeld(t, o, 0)
	})
}

func TestTheCeilingHoldsAndTheLeastRecentGroupGoesFirst(t *testing.T) {
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 5 * (320 + 128 + 1)}})
	p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
	filled(t, p, 1, 2, 3, 4, 5)
	for i := range uint64(5) {
		p.track.groups[i+1].touched.Store(i == 0) // as if swept, and group 1 read since
	}
	wantHeld(t, o, 5*449)
	filled(t, p, 6)
	if held, _ := o.CacheBytes(); held > 5*449 {
		t.Fatalf("%d bytes are held, over the ceiling of %d", held, 5*449)
	}
	if got := sortedKeys(p.track.groups); len(got) != 5 || got[0] != 1 || got[1] != 3 {
		t.Fatalf("groups %v are held, want 1 3 4 5 6: group 2 was the least recently used", got)
	}
	sub.Close()
}

func TestAFullCacheDropsTheFrontOfTheLatestGroupThenRefuses(t *testing.T) {
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 10_000}})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	wantFrame(t, w, make([]byte, 1000))
	r := wantReader(t, sub, 0)
	for range 19 {
		wantFrame(t, w, make([]byte, 1000))
	}
	if held, _ := o.CacheBytes(); held > 10_000 || held < 10_000-1133 {
		t.Fatalf("%d bytes are held of one long group, want just below 10,000", held)
	}
	wantError(t, r.Err(), ErrLagged)
	err := w.WriteFrame(t.Context(), head(12_000), 0, make([]byte, 12_000))
	if err == nil { // the frame itself was admitted before it filled the cache; the next is not
		err = w.WriteFrame(t.Context(), head(1), 0, []byte{1})
	}
	wantError(t, err, ErrNoCapacity)
	sub.Close()
	p.Fail(ErrSourceGone)
	wantHeld(t, o, 0)
}

func TestAGroupLongerThanItsTailKeepsItsNewestFrames(t *testing.T) {
	o := NewOrigin(Config{GroupTail: 100_000, MaxFrame: 100_000})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	for range 1000 {
		wantFrame(t, w, make([]byte, 1000))
	}
	held, _ := o.CacheBytes()
	if held > 100_000 || held < 100_000-100_000/64-2*1133 {
		t.Fatalf("%d bytes are held, want just below the tail of 100,000", held)
	}
	g := w.group
	if frames := g.begun.Load() - g.first; frames != uint64(held-320)/1133 {
		t.Fatalf("%d frames are held for %d bytes", frames, held)
	}
	var chunks int64
	for c := g.head; c != nil; c = c.next.Load() {
		chunks += int64(len(c.data))
	}
	if chunks > held+2*maxChunk {
		t.Fatalf("chunks of %d bytes stand behind a charge of %d", chunks, held)
	}
	sub.Close()
}

func TestFramesOverTheLimitEndOnlyTheirGroup(t *testing.T) {
	o := NewOrigin(Config{MaxFrame: 1000})
	p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
	w := wantGroup(t, p, 0, Window{})
	r := wantReader(t, sub, 0)
	wantError(t, w.BeginFrame(t.Context(), head(1001), 0, 1001), ErrFrameTooLarge)
	_, err := r.Next(t.Context())
	wantError(t, err, ErrFrameTooLarge)
	filled(t, p, 1)
	wantGroups(t, sub, 1)
}

func TestAWriterThatOutlivesItsGroupLeavesNoCharge(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	if err := w.BeginFrame(t.Context(), head(100), 0, 100); err != nil {
		t.Fatal(err)
	}
	b, err := w.Buffer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sub.Close()
	p.Fail(ErrSourceGone)
	w.Commit(len(b)) // the read that was under way when the track ended
	wantHeld(t, o, 0)
	if _, err := w.Buffer(t.Context()); err == nil {
		t.Fatal("an ended group still takes bytes")
	}
	if err := w.BeginFrame(t.Context(), nil, 0, 1); !errors.Is(err, ErrSourceGone) {
		t.Fatalf("an ended group answers %v, want the reason of its end", err)
	}
}

// Under a full cache only one write in many looks for something to drop: a ceiling
// of 1 MiB is gone below by 16 KiB, which is 14 frames of 1,133 bytes.
func TestAFullCacheMakesRoomForMoreThanOneWrite(t *testing.T) {
	const ceiling = 1 << 20
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: ceiling}})
	p, sub := newSubscribed(t, o, Options{Passive: true})
	w := wantGroup(t, p, 0, Window{})
	dropped := &o.Stats().EvictedCapacity.Bytes
	for dropped.Load() == 0 {
		wantFrame(t, w, make([]byte, 1000))
	}
	held, _ := o.CacheBytes()
	if held > ceiling-16*kib || held < ceiling-16*kib-1133 {
		t.Fatalf("%d bytes are held after something was dropped, want just below %d", held, ceiling-16*kib)
	}
	before := dropped.Load()
	for range 14 {
		wantFrame(t, w, make([]byte, 1000))
	}
	if n := dropped.Load(); n != before {
		t.Errorf("%d more bytes were dropped for the next 14 frames, want none", n-before)
	}
	for range 1000 {
		wantFrame(t, w, make([]byte, 1000))
		if held, _ := o.CacheBytes(); held > ceiling {
			t.Fatalf("%d bytes are held, over the ceiling", held)
		}
	}
	sub.Close()
	p.Fail(ErrSourceGone)
	wantHeld(t, o, 0)
}
