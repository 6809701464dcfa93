package session

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWritersShareARateAndABurstOfATenthOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts Paced
		p := NewPacer(10_000, &counts)
		began := time.Now()
		var sent [2]atomic.Int64
		var tasks sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range sent {
			tasks.Go(func() {
				for p.Wait(ctx, 1000) == nil {
					sent[i].Add(1000)
				}
			})
		}
		synctest.Wait()
		if got := sent[0].Load() + sent[1].Load(); got != 2000 { // a tenth of a second's, and the write that this allows
			t.Errorf("%d bytes went at once, want 2000", got)
		}
		<-time.After(10*time.Second - time.Millisecond)
		if a, b := sent[0].Load(), sent[1].Load(); a+b != 101_000 || min(a, b) < 40_000 {
			t.Errorf("%d and %d bytes went in %v, want 101,000 in like parts", a, b, time.Since(began))
		}
		cancel()
		tasks.Wait()
		// 99 writes have waited, and two that were given up.
		if got := counts.Waits.Load(); got != 101 {
			t.Errorf("%d waits are counted, want 101", got)
		}
	})
}

func TestBytesThatAreGivenUpDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPacer(1000, &Paced{})
		_ = p.Wait(t.Context(), 100)
		_ = p.Wait(t.Context(), 1000) // the next may go in a second
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := p.Wait(ctx, 100_000); err == nil {
			t.Error("100,000 bytes went in half a second")
		}
		began := time.Now()
		if err := p.Wait(t.Context(), 1); err != nil || time.Since(began) != 500*time.Millisecond {
			t.Errorf("%v after %v, want the rest of the second", err, time.Since(began))
		}
	})
}

func TestWhatMustNotWaitIsDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts Paced
		p := NewPacer(1000, &counts)
		went := 0
		for range 10 {
			if p.Try(100) {
				went++
			}
		}
		if went != 2 || counts.Dropped.Load() != 8 {
			t.Errorf("%d of 10 went and %d are counted as dropped, want 2 and 8", went, counts.Dropped.Load())
		}
		<-time.After(100 * time.Millisecond)
		if !p.Try(100) || p.Try(100) {
			t.Error("a tenth of a second later one goes, and not two")
		}
	})
}

func TestWithoutARateNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := NewPacer(1, &Paced{})
		_ = changed.Wait(t.Context(), 1_000_000)
		changed.SetRate(0)
		began := time.Now()
		for _, p := range []*Pacer{nil, NewPacer(0, &Paced{}), changed} {
			if err := p.Wait(t.Context(), 1<<40); err != nil || !p.Try(1<<40) || time.Since(began) != 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
	})
}

func BenchmarkWaitWithoutAPacer(b *testing.B) {
	var form Form
	for b.Loop() {
		if form.Pacer != nil {
			_ = form.Pacer.Wait(b.Context(), 1)
		}
	}
}

func BenchmarkWaitWithinTheRate(b *testing.B) {
	p := NewPacer(1<<50, &Paced{})
	for b.Loop() {
		_ = p.Wait(b.Context(), 1200)
	}
}
