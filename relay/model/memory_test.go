package model

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// heap is what is live on the heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC() // the second run frees what the first one's finalizers and pools held
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident is the process's RSS after all free memory was given back.
func resident(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc here: ", err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(b)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// oneFrame writes a group of one frame.
func oneFrame(t *testing.T, p *Producer, sequence uint64, payload []byte) {
	t.Helper()
	w := wantGroup(t, p, sequence, Window{Bytes: 4 * mib})
	wantFrame(t, w, payload)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

// watch takes everything that a subscription has to give now.
func watch(t *testing.T, subs []*Subscription) {
	t.Helper()
	for _, sub := range subs {
		for {
			r := sub.Take()
			if r == nil {
				break
			}
			if _, err := readAll(t, r); err != nil && r.Err() == nil && r.group.failure() != nil {
				t.Fatal(err)
			}
			r.Close()
		}
	}
}

// The charge of 200,000 groups of one small frame is what the heap holds for them,
// whether somebody watches or not, and all of it is free when the track has gone.
func TestHeapOfManySmallGroupsIsTheirCharge(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies the heap")
	}
	const groups = 200_000
	for _, viewers := range []int{0, 1, 8} {
		{
			const size = 4
			t.Run(fmt.Sprintf("viewers=%d", viewers), func(t *testing.T) {
				o := NewOrigin(Config{})
				base, baseRSS := heap(), resident(t)
				p, passive := newSubscribed(t, o, Options{Passive: true})
				var subs []*Subscription
				for range viewers {
					subs = append(subs, wantSubscription(t, o, Options{MaxLatency: time.Hour}))
				}
				payload := make([]byte, size)
				for i := range uint64(groups) {
					oneFrame(t, p, i, payload)
					watch(t, subs)
				}
				charge, _ := o.CacheBytes()
				held, rss := heap()-base, resident(t)-baseRSS
				t.Logf("charge %d, heap %d (%.2f), resident %d (%.2f), buffers %d", charge, held, float64(held)/float64(charge), rss, float64(rss)/float64(charge), o.Stats().BufferBytes.Load())
				if want := int64(groups * (groupCharge + frameCharge + 5 + size)); charge != want {
					t.Errorf("the charge is %d, want %d", charge, want)
				}
				if held > charge*11/10 || held < charge/2 {
					t.Errorf("the heap holds %d bytes for a charge of %d, want half of it to 1.1 of it", held, charge)
				}
				for _, sub := range subs {
					sub.Close()
				}
				passive.Close()
				p.Fail(ErrSourceGone)
				if left := heap() - base; left > 4*mib {
					t.Errorf("%d bytes of heap are left when the track has gone", left)
				}
				if n := o.Stats().BufferBytes.Load(); n != 0 {
					t.Errorf("%d bytes of chunks are counted when the track has gone", n)
				}
				runtime.KeepAlive(o)
			})
		}
	}
}

// As many groups as pass in an hour at 50 a second, and frames of the sizes that
// video has, go through a cache that holds the same all the time: neither the heap
// nor the process grows.
func TestMemoryStaysLevelAtConstantCharge(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies the heap")
	}
	for _, c := range []struct {
		name           string
		size, perGroup int
		groups         int
		ceiling        int64
	}{
		{"an hour of one-frame groups at 50/s", 20, 1, 180_000, 4 * mib},
		{"frames of 8 KiB, 30 in a group", 8 * kib, 30, 3000, 16 * mib},
		{"frames of 1 MiB, 4 in a group", mib, 4, 500, 32 * mib},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: c.ceiling}})
			p, passive := newSubscribed(t, o, Options{Passive: true})
			viewer := []*Subscription{wantSubscription(t, o, Options{MaxLatency: time.Hour})}
			payload := make([]byte, c.size)
			sequence := uint64(0)
			run := func(groups int) (held, rss int64) {
				for range groups {
					w := wantGroup(t, p, sequence, Window{Bytes: 16 * mib})
					for range c.perGroup {
						wantFrame(t, w, payload)
					}
					if err := w.Finish(); err != nil {
						t.Fatal(err)
					}
					watch(t, viewer)
					sequence++
				}
				return heap(), resident(t)
			}
			heap0, rss0 := run(c.groups / 3) // the ceiling is reached
			charge0, _ := o.CacheBytes()
			heap1, rss1 := run(c.groups / 3)
			heap2, rss2 := run(c.groups / 3)
			charge2, _ := o.CacheBytes()
			t.Logf("charge %d then %d; heap %d, %d, %d; resident %d, %d, %d", charge0, charge2, heap0, heap1, heap2, rss0, rss1, rss2)
			if charge0 < c.ceiling*3/4 || charge2 < c.ceiling*3/4 {
				t.Fatalf("the charge is %d and then %d: not constant", charge0, charge2)
			}
			if grown := heap2 - heap0; grown > c.ceiling/8 {
				t.Errorf("the heap has grown by %d bytes in %d groups at constant charge", grown, 2*c.groups/3)
			}
			if grown := min(rss2-rss1, rss2-rss0); grown > 16*mib {
				t.Errorf("the process has grown by %d and %d bytes at constant charge", rss1-rss0, rss2-rss1)
			}
			viewer[0].Close()
			passive.Close()
			p.Fail(ErrSourceGone)
			runtime.KeepAlive(o)
		})
	}
}

// One group that never ends, as an audio track may be, in frames of 100 bytes: what
// is held is its tail, and neither the reader nor the writer holds what is behind.
func TestMemoryOfAGroupWithoutEndIsItsTail(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies the heap")
	}
	o := NewOrigin(Config{GroupTail: mib, MaxFrame: mib})
	base := heap()
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{Bytes: 256 * kib})
	payload, before := make([]byte, 100), head(100)
	r := wantReader(t, sub, 0)
	const frames = 500_000
	for range frames {
		if err := w.WriteFrame(t.Context(), before, 0, payload); err != nil {
			t.Fatal(err)
		}
		take(t, r, 105)
	}
	if n := r.Frames(); n != frames {
		t.Errorf("the reader has %d frames, want %d", n, frames)
	}
	if held := heap() - base; held > 3*mib {
		t.Errorf("the heap holds %d bytes for a tail of %d", held, mib)
	}
	if n := o.stats.BufferBytes.Load(); n > mib+2*maxChunk {
		t.Errorf("chunks of %d bytes are held for a tail of %d", n, mib)
	}
	sub.Close()
	p.Fail(ErrSourceGone)
	wantCount(t, "chunk bytes", &o.stats.BufferBytes, 0)
	runtime.KeepAlive(o)
}

// What each thing costs on the heap, in bytes: docs/memory.md has the figures. The
// limits are a quarter above what was measured.
func TestHeapOfEachThingARelayHolds(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies the heap")
	}
	const n = 4000
	for _, c := range []struct {
		name  string
		limit int64
		fill  func(t *testing.T, o *Origin) any
	}{
		{"a route", 1000, func(t *testing.T, o *Origin) any {
			var all []*Announcement
			for i := range n {
				all = append(all, o.Announce(Route{Path: Path(strconv.Itoa(i)), Source: newPublisher()}))
			}
			return all
		}},
		{"a track with a viewer", 3500, func(t *testing.T, o *Origin) any {
			source := &publisher{pulled: make(chan *Producer, n)}
			o.Announce(Route{Path: "room", Source: source})
			var all []any
			for i := range n {
				sub, err := o.Subscribe("room", strconv.Itoa(i), Peer{}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				p := <-source.pulled
				p.Accept(anyInfo)
				all = append(all, sub, p)
			}
			return all
		}},
		{"a viewer more of a track", 700, func(t *testing.T, o *Origin) any {
			p, _ := newSubscribed(t, o, Options{Passive: true})
			all := []any{p}
			for range n {
				all = append(all, wantSubscription(t, o, Options{}))
			}
			return all
		}},
		{"a group that a viewer has to be given", 40, func(t *testing.T, o *Origin) any {
			p, _ := newSubscribed(t, o, Options{Passive: true})
			all := []any{p}
			for range n / 100 {
				all = append(all, wantSubscription(t, o, Options{MaxLatency: time.Hour}))
			}
			for seq := range uint64(100) {
				oneFrame(t, p, seq, []byte{1})
			}
			return all
		}},
		{"a reader", 250, func(t *testing.T, o *Origin) any {
			p, _ := newSubscribed(t, o, Options{Passive: true})
			w := wantGroup(t, p, 0, Window{})
			wantFrame(t, w, []byte{1})
			all := []any{w}
			for range n {
				r := newReader(w.group, nil)
				if err := w.group.attach(r, 0); err != nil {
					t.Fatal(err)
				}
				all = append(all, r)
			}
			return all
		}},
		{"a frame of 100 bytes", 105 + 60, func(t *testing.T, o *Origin) any {
			p, _ := newSubscribed(t, o, Options{Passive: true})
			w := wantGroup(t, p, 0, Window{})
			for range n {
				wantFrame(t, w, make([]byte, 100))
			}
			return w
		}},
		{"a group of one frame of 8 KiB", 12 * kib, func(t *testing.T, o *Origin) any {
			p, _ := newSubscribed(t, o, Options{Passive: true})
			for seq := range uint64(n) {
				oneFrame(t, p, seq, make([]byte, 8*kib))
			}
			return p
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := NewOrigin(Config{})
			base := heap()
			all := c.fill(t, o)
			cost := (heap() - base) / n
			t.Logf("%s costs %d bytes", c.name, cost)
			if cost > c.limit {
				t.Errorf("%s costs %d bytes, more than %d", c.name, cost, c.limit)
			}
			runtime.KeepAlive(all)
			runtime.KeepAlive(o)
		})
	}
}

// What 10,000 broadcasts cost a relay on the heap: one by itself, and as one of eight
// in a full mesh, where each broadcast has seven routes and six peers are told of it:
// all but the one that has its publisher.
func TestHeapOfTenThousandBroadcasts(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies the heap")
	}
	const broadcasts = 10_000
	for _, c := range []struct {
		name        string
		routes      int
		watchers    int
		each, route int64 // the limits for a broadcast and for each of its routes
	}{
		{"alone, nobody looks", 1, 0, 500, 500},
		{"in a mesh of 8", 7, 7, 3500, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := NewOrigin(Config{ID: 1000})
			base := heap()
			sources := make([]Source, c.routes)
			var watchers []*Watcher
			for i := range sources {
				sources[i] = newPublisher()
			}
			for i := range c.watchers {
				watchers = append(watchers, o.Watch("", Peer{ID: uint64(i + 1), Source: sources[i]}))
			}
			var all []*Announcement
			for i := range broadcasts {
				path := Path(fmt.Sprintf("customer/%d/room/%d", i%100, i))
				for j, source := range sources {
					hops := []uint64{99, uint64(j + 1)}
					if j > 0 {
						hops = []uint64{99, 1, uint64(j + 1)}
					}
					all = append(all, o.Announce(Route{Path: path, Hops: hops, Epoch: epoch1, Warm: uint64(j), Source: source}))
				}
			}
			tell := func() {
				for i, w := range watchers {
					if i == 0 {
						continue
					}
					if changes, err := w.Next(t.Context()); err != nil || len(changes) != broadcasts {
						t.Fatalf("peer %d is told of %d changes, %v", i, len(changes), err)
					}
				}
			}
			tell()
			cost := (heap() - base) / broadcasts
			t.Logf("%d bytes for a broadcast, %d for each of its routes", cost, cost/int64(c.routes))
			if cost > c.each || cost/int64(c.routes) > c.route {
				t.Errorf("a broadcast costs %d bytes, and each of its routes %d, want at most %d and %d", cost, cost/int64(c.routes), c.each, c.route)
			}
			for _, a := range all {
				a.Withdraw()
			}
			all = nil
			tell()
			if left := heap() - base; left > 1<<20 {
				t.Errorf("%d bytes are left of %d broadcasts", left, broadcasts)
			}
			runtime.KeepAlive(watchers)
			runtime.KeepAlive(o)
		})
	}
}
