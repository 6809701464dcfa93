package model

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newTracks returns requests for so many tracks of their own paths, each with a
// subscription that wants everything.
func newTracks(t *testing.T, o *Origin, n int, options Options) ([]*Producer, []*Subscription) {
	t.Helper()
	var producers []*Producer
	var subs []*Subscription
	for i := range n {
		source := newPublisher()
		path := Path(rune('a' + i))
		o.Announce(Route{Path: path, Source: source})
		sub, err := o.Subscribe(path, "video", Peer{}, options)
		if err != nil {
			t.Fatal(err)
		}
		p := <-source.pulled
		p.Accept(anyInfo)
		producers, subs = append(producers, p), append(subs, sub)
	}
	return producers, subs
}

// watchCeiling looks at the charge until the writers are done and returns the most it saw.
func watchCeiling(o *Origin, writers *sync.WaitGroup) (most int64, looks int) {
	over := make(chan struct{})
	go func() {
		writers.Wait()
		close(over)
	}()
	for {
		held, _ := o.CacheBytes()
		most, looks = max(most, held), looks+1
		select {
		case <-over:
			return most, looks
		default:
		}
	}
}

// The charge is taken before the bytes are stored, so no look ever finds it above
// the ceiling, whoever writes and however large the pieces are.
func TestTheChargeIsNeverAboveTheCeiling(t *testing.T) {
	const ceiling = 2 * mib
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: ceiling}})
	producers, subs := newTracks(t, o, 8, Options{MaxLatency: time.Hour})
	var writers sync.WaitGroup
	for i, p := range producers {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			for seq := range uint64(100) {
				w, err := p.Group(seq, Window{})
				for range 10 {
					if err != nil {
						break
					}
					size := random.IntN(1 << random.IntN(19)) // up to 256 KiB, most much smaller
					err = w.WriteFrame(t.Context(), head(size), 0, make([]byte, size))
				}
				if err == nil {
					_ = w.Finish()
				} else if err != ErrNoCapacity {
					t.Error(err)
				}
			}
		})
	}
	most, looks := watchCeiling(o, &writers)
	if most > ceiling || most < ceiling*9/10 {
		t.Errorf("%d bytes were held at most of %d looks, want up to %d", most, looks, ceiling)
	}
	sum := int64(0)
	for g := range o.cache.books() {
		sum += g.charged.Load()
	}
	wantHeld(t, o, sum)
	for i, p := range producers {
		subs[i].Close()
		p.Fail(ErrSourceGone)
	}
	wantHeld(t, o, 0)
	wantCount(t, "chunk bytes", &o.stats.BufferBytes, 0)
	wantCount(t, "open groups", &o.stats.OpenGroups, 0)
}

// numbers are the groups of a track that the cache holds.
func numbers(p *Producer) []uint64 {
	p.track.mu.Lock()
	defer p.track.mu.Unlock()
	return sortedKeys(p.track.groups)
}

// A cache of 90,000 bytes with 84,930 in it, of each kind of thing it may drop: each
// frame of 10,133 drops one more, the first kind first.
func TestWhatIsDroppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 90_000, MaxAge: 10 * time.Second}})
		producers, subs := newTracks(t, o, 3, Options{MaxLatency: time.Hour})
		a, b, c := producers[0], producers[1], producers[2]

		stalled := wantGroup(t, a, 0, Window{}) // open, its publisher says no more
		wantFrame(t, stalled, make([]byte, 10_000))
		parked := wantReader(t, subs[0], 0)
		wantFrame(t, wantGroup(t, a, 1, Window{}), make([]byte, 1000))
		o.sweep(time.Now()) // finds both in use
		advance(5 * time.Second)
		old := wantGroup(t, b, 0, Window{}) // not the latest, and young
		wantFrame(t, old, make([]byte, 10_000))
		if err := old.Finish(); err != nil {
			t.Fatal(err)
		}
		wantFrame(t, wantGroup(t, b, 1, Window{}), make([]byte, 1000))
		long := wantGroup(t, c, 0, Window{}) // the latest, three frames of it taken
		for range 6 {
			wantFrame(t, long, make([]byte, 10_000))
		}
		viewer := wantReader(t, subs[2], 0)
		take(t, viewer, 3*10_005)
		advance(5 * time.Second)

		wantHeld(t, o, 84_930)
		write := func() {
			t.Helper()
			wantFrame(t, long, make([]byte, 10_000))
			if held, _ := o.CacheBytes(); held > 90_000 {
				t.Fatalf("%d bytes are held", held)
			}
		}
		write()
		if n := numbers(a); len(n) != 1 || n[0] != 1 {
			t.Fatalf("groups %v of the stalled publisher are held, want 1 alone: group 0 is past its age", n)
		}
		wantError(t, parked.Err(), ErrExpired)
		wantError(t, stalled.Err(), ErrExpired)
		if n := numbers(b); len(n) != 2 {
			t.Fatalf("groups %v are held, want 0 and 1", n)
		}
		write()
		if n := numbers(b); len(n) != 1 || n[0] != 1 || long.group.first != 0 {
			t.Fatalf("groups %v are held and %d frames of the long one are dropped, want group 1 and none", n, long.group.first)
		}
		wantCount(t, "groups evicted for room", &o.stats.EvictedCapacity.Groups, 1)
		for range 3 {
			write()
		}
		if long.group.first != 3 || viewer.Err() != nil {
			t.Fatalf("%d frames of the long group are dropped and its viewer has %v, want the 3 that it has taken", long.group.first, viewer.Err())
		}
		write()
		wantError(t, viewer.Err(), ErrLagged)
		wantCount(t, "readers lagged", &o.stats.ReadersLagged, 1)
		if n := long.group.begun.Load() - long.group.first; n < 2 {
			t.Fatalf("%d frames of the long group are left", n)
		}
		for i, p := range producers {
			subs[i].Close()
			p.Fail(ErrSourceGone)
		}
	})
}

// Three tracks hold nothing but the newest frame of their latest group: a fourth
// waits for room under its session's credit, and is refused after two seconds.
func TestAFullCachePausesThenRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 100_000}})
		producers, subs := newTracks(t, o, 4, Options{Passive: true})
		for _, p := range producers[:3] {
			wantFrame(t, wantGroup(t, p, 0, Window{}), make([]byte, 30_000))
		}
		refused := func(w *GroupWriter, want error) (waited time.Duration) {
			t.Helper()
			since := time.Now()
			err := w.WriteFrame(t.Context(), head(30_000), 0, make([]byte, 30_000))
			wantError(t, err, want)
			wantError(t, w.Err(), want)
			return time.Since(since)
		}
		credit := NewCredit(mib)
		q := producers[3]
		if d := refused(wantGroup(t, q, 0, Window{Bytes: mib, Credit: credit}), ErrNoCapacity); d != 2*time.Second {
			t.Errorf("a frame without room waited %v, want 2s", d)
		}
		wantCount(t, "pauses", &o.stats.Pauses, 1)
		wantCount(t, "time paused", &o.stats.PauseTime, int64(2*time.Second))
		if d := refused(wantGroup(t, q, 1, Window{Bytes: mib, Credit: NewCredit(0)}), ErrNoCapacity); d != 0 {
			t.Errorf("a frame whose session has no credit waited %v", d)
		}
		if d := refused(wantGroup(t, q, 2, Window{}), ErrNoCapacity); d != 0 {
			t.Errorf("a frame of a transport without a window waited %v", d)
		}
		never := wantGroup(t, q, 3, Window{Bytes: mib, Credit: credit})
		if err := never.BeginFrame(t.Context(), head(100_000), 0, 100_000); err != ErrNoCapacity {
			t.Errorf("a frame as large as the cache got %v", err)
		}
		for _, p := range producers[:3] {
			if n := numbers(p); len(n) != 1 {
				t.Fatalf("groups %v are held of a track that had its newest frame alone", n)
			}
		}
		// Room that comes meanwhile ends the pause.
		w := wantGroup(t, q, 4, Window{Bytes: mib, Credit: credit})
		done := make(chan error)
		go func() { done <- w.WriteFrame(t.Context(), head(30_000), 0, make([]byte, 30_000)) }()
		advance(time.Second)
		wantCount(t, "paused", &o.stats.Paused, 1)
		subs[0].Close()
		producers[0].Fail(ErrSourceGone)
		if err := <-done; err != nil {
			t.Error(err)
		}
		// And so does its group's end.
		w = wantGroup(t, q, 5, Window{Bytes: mib, Credit: credit})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { done <- w.WriteFrame(ctx, head(80_000), 0, make([]byte, 80_000)) }()
		synctest.Wait()
		cancel(ErrClosed)
		wantError(t, <-done, ErrClosed)
		if credit.free != mib {
			t.Errorf("%d bytes of credit are free, want all", credit.free)
		}
		for i, p := range producers {
			subs[i].Close()
			p.Fail(ErrSourceGone)
		}
		wantHeld(t, o, 0)
	})
}

// Group 3 is read again and again. The groups above it may not go before it, so
// that what is held of a track has no hole; those below it go.
func TestAgeMakesNoHoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{Cache: CacheConfig{MaxAge: 10 * time.Second}})
		sweeping(t, o)
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour, Ordered: true})
		filled(t, p, 1, 2, 3, 4, 5, 7, 8) // the publisher has no 6
		wantReader(t, sub, 1).Close()
		wantReader(t, sub, 2).Close()
		r := wantReader(t, sub, 3)
		for range 3 {
			elapse(5 * time.Second)
			r.group.touch()
		}
		if n := numbers(p); len(n) != 4 || n[0] != 3 || n[1] != 4 || n[2] != 5 || n[3] != 8 {
			t.Fatalf("groups %v are held, want 3 4 5, and 8, the latest", n)
		}
		elapse(12 * time.Second)
		if n := numbers(p); len(n) != 1 || n[0] != 8 {
			t.Fatalf("groups %v are held when nobody reads, want 8", n)
		}
		sub.Close()
		p.Close()
	})
}

// A ceiling that is lowered while the relay runs acts within a second, without a write.
func TestALoweredCeilingActsWithTheNextSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		sweeping(t, o)
		p, sub := newSubscribed(t, o, Options{Passive: true})
		for seq := range uint64(10) {
			oneFrame(t, p, seq, make([]byte, 1000))
		}
		wantHeld(t, o, 10*(320+128+1005))
		o.SetCache(CacheConfig{MaxBytes: 5 * (320 + 128 + 1005)})
		elapse(1500 * time.Millisecond)
		if held, _ := o.CacheBytes(); held > 5*1453 || held < 3*1453 {
			t.Fatalf("%d bytes are held, want up to %d", held, 5*1453)
		}
		sub.Close()
		p.Close()
	})
}

// With every lock held that more than one group has, frames are still written, charged,
// paced, read and counted: no other viewer or track can be waited for on their path.
func TestAFrameTakesNoLockThatOtherGroupsHave(t *testing.T) {
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 64 * mib}})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{Bytes: 4 * kib, Credit: NewCredit(mib)})
	wantFrame(t, w, make([]byte, 1000)) // the first one tells the subscriptions
	r := wantReader(t, sub, 0)

	locks := []sync.Locker{&o.mu, &p.track.mu, &o.cache.shrinking, &o.pacing}
	for i := range o.cache.shards {
		locks = append(locks, &o.cache.shards[i].mu)
	}
	for _, l := range locks {
		l.Lock()
	}
	var reader sync.WaitGroup
	reader.Go(func() { take(t, r, 1001*1005) })
	for range 1000 {
		wantFrame(t, w, make([]byte, 1000))
	}
	reader.Wait()
	for _, l := range locks {
		l.Unlock()
	}
	if n := o.stats.Pauses.Load(); n == 0 {
		t.Log("the writer never had to wait")
	}
	wantHeld(t, o, 320+1001*(128+1005))
	sub.Close()
	p.Fail(ErrSourceGone)
}
