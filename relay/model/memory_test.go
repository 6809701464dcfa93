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
