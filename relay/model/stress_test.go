package model

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Writers, readers of all kinds, joins, leaves and sweeps at once: whoever reads
// a group to its clean end has every byte of it.
func TestReadersThatComeAndGoNeverSeeOtherBytes(t *testing.T) {
	const groups, frames = 20, 60
	o := NewOrigin(Config{})
	p, anchor := newSubscribed(t, o, Options{Passive: true})
	sums := make([]uint64, groups)
	var tasks sync.WaitGroup
	var whole sync.Map
	for i := range 24 {
		sub := wantSubscription(t, o, Options{MaxLatency: time.Hour, Ordered: i%2 == 0, Start: Start{Mode: StartFloor}})
		tasks.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			defer sub.Close()
			for {
				r, err := sub.Next(t.Context())
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if random.IntN(8) == 0 {
					r.Close() // a viewer that changes its mind
					continue
				}
				h := fnv.New64a()
				for {
					b, err := r.Next(t.Context())
					if err != nil {
						if errors.Is(err, io.EOF) {
							whole.Store([2]uint64{uint64(i), r.Sequence()}, h.Sum64())
						}
						break
					}
					_, _ = h.Write(b)
					r.Taken(len(b))
				}
				r.Close()
			}
		})
	}
	random := rand.New(rand.NewPCG(2, 2))
	for seq := range uint64(groups) {
		w := wantGroup(t, p, seq, Window{Bytes: 64 * kib})
		h := fnv.New64a()
		tasks.Go(func() {
			_ = o.Stats()
			o.sweep(time.Now())
		})
		for range frames {
			payload := bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN(3000))
			_, _ = h.Write(head(len(payload)))
			_, _ = h.Write(payload)
			if err := w.WriteFrame(t.Context(), head(len(payload)), 0, payload); err != nil {
				t.Fatalf("group %d: %v", seq, err)
			}
		}
		sums[seq] = h.Sum64()
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	tasks.Wait()
	read := 0
	whole.Range(func(key, sum any) bool {
		read++
		if seq := key.([2]uint64)[1]; sums[seq] != sum.(uint64) {
			t.Errorf("a reader of group %d got other bytes", seq)
		}
		return true
	})
	if read < groups {
		t.Fatalf("only %d groups were read whole by 24 readers of %d groups", read, groups)
	}
	anchor.Close()
	withdrawAll(o)
	wantHeld(t, o, 0)
}

// Many tracks under a ceiling that holds little of them, viewers of every kind of
// patience, sweeps and changes of mind: the ceiling holds at every moment, and
// nothing is left when all have gone.
func TestManyWritersStayUnderTheCeilingAndLeaveNothing(t *testing.T) {
	const tracks, groups, frames, ceiling = 8, 40, 12, 256 * kib
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: ceiling}, GroupTail: 64 * kib, MaxFrame: 32 * kib, UnsubscribeDelay: time.Nanosecond})
	var most atomic.Int64
	var tasks sync.WaitGroup
	for i := range tracks {
		source := newPublisher()
		path := Path(rune('a' + i))
		route := o.Announce(Route{Path: path, Source: source})
		subs := make([]*Subscription, 4)
		for j := range subs {
			var err error
			options := Options{MaxLatency: []time.Duration{0, time.Millisecond, time.Hour, time.Hour}[j], Ordered: j == 2, Start: Start{Mode: StartMode(j % 3)}}
			if subs[j], err = o.Subscribe(path, "video", Peer{}, options); err != nil {
				t.Fatal(err)
			}
		}
		p := <-source.pulled
		p.Accept(anyInfo)
		for j, sub := range subs {
			tasks.Go(func() { wander(t, sub, rand.New(rand.NewPCG(uint64(i), uint64(j)))) })
		}
		tasks.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 99))
			for seq := range uint64(groups) {
				w, err := p.Group(seq, Window{Bytes: 16 * kib, Credit: NewCredit(0)})
				for n := 0; n < frames && err == nil; n++ {
					err = w.WriteFrame(t.Context(), head(0), 0, make([]byte, random.IntN(8*kib)))
					held, _ := o.CacheBytes()
					for m := most.Load(); held > m && !most.CompareAndSwap(m, held); m = most.Load() {
					}
				}
				if err == nil && random.IntN(4) > 0 {
					_ = w.Finish()
				} else if w != nil {
					w.Abort(&AbortError{Code: seq})
				}
			}
			p.Close()
			route.Withdraw()
		})
	}
	tasks.Go(func() {
		for range 200 {
			o.sweep(time.Now().Add(time.Minute))
			runtime.Gosched()
		}
	})
	tasks.Wait()
	if n := most.Load(); n > ceiling || n < ceiling/2 {
		t.Errorf("%d bytes were held at most, want up to the ceiling of %d", n, ceiling)
	}
	wantHeld(t, o, 0)
	s := o.Stats()
	for name, gauge := range map[string]*atomic.Int64{
		"subscriptions": &s.Subscriptions, "tracks": &s.Tracks, "groups": &s.CachedGroups, "paused": &s.Paused, "routes": &s.Routes,
	} {
		if n := gauge.Load(); n != 0 {
			t.Errorf("%d %s are left", n, name)
		}
	}
	if n := len(o.cache.books()); n != 0 || len(o.tracks) != 0 {
		t.Errorf("%d groups and %d tracks are left in the books", n, len(o.tracks))
	}
}

// books are the groups that the cache counts.
func (c *cache) books() map[*group]bool {
	books := make(map[*group]bool) // and whether it is the latest of its track
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for g := s.old.first; g != nil; g = g.place.next {
			books[g] = false
		}
		for g := s.latest.first; g != nil; g = g.place.next {
			books[g] = true
		}
		s.mu.Unlock()
	}
	return books
}

// wander reads a subscription with changing moods until its track ends.
func wander(t *testing.T, sub *Subscription, random *rand.Rand) {
	defer sub.Close()
	for {
		r, err := sub.Next(t.Context())
		if err != nil {
			return
		}
		if random.IntN(5) == 0 {
			options := sub.Options()
			options.End, options.HasEnd = r.Sequence()+random.Uint64N(4), random.IntN(2) == 0
			options.MaxLatency = time.Duration(random.IntN(3)) * time.Hour
			sub.Update(options)
		}
		for random.IntN(20) > 0 {
			b, err := r.Next(t.Context())
			if err != nil {
				break
			}
			r.Taken(random.IntN(len(b) + 1))
		}
		r.Close()
	}
}
