package model

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sync"
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
	wantHeld(t, o, 0)
}
