package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// pacerBurst is what a [Pacer] lets go at once after a rest, as the time that it
// takes at the rate.
const pacerBurst = 100 * time.Millisecond

// Pacer bounds how many bytes a second its writers send together. The order is
// that in which they ask; each asks for one write at a time, so that all get a
// like share. Nil is no bound. Any goroutine may use it.
type Pacer struct {
	counts *Paced
	rate   atomic.Int64 // bytes per second; 0: no bound

	mu   sync.Mutex
	free time.Time // when all that was asked for so far has gone at the rate
}

// Paced counts what pacers did.
type Paced struct {
	// Waits is how often a writer waited, Time for how long, in nanoseconds, those
	// that still wait aside. Dropped is datagrams that could not go at once.
	Waits, Time, Dropped atomic.Int64
}

// NewPacer returns a pacer of rate bytes per second, that counts in counts.
func NewPacer(rate int64, counts *Paced) *Pacer {
	p := &Pacer{counts: counts}
	p.rate.Store(rate)
	return p
}

// SetRate changes the bytes per second for whoever asks from now on; 0: no bound.
func (p *Pacer) SetRate(rate int64) { p.rate.Store(rate) }

// Wait waits until n more bytes may go. The error is the end of ctx; the bytes do
// not count then.
func (p *Pacer) Wait(ctx context.Context, n int) error {
	if p == nil {
		return nil
	}
	now := time.Now()
	wait, takes := p.ask(now, n, false)
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	defer func() {
		p.counts.Waits.Add(1)
		p.counts.Time.Add(int64(time.Since(now)))
	}()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		p.giveBack(takes)
		return ctx.Err()
	}
}

// Try reports whether n more bytes may go now; if not they do not count.
func (p *Pacer) Try(n int) bool {
	if p == nil {
		return true
	}
	wait, _ := p.ask(time.Now(), n, true)
	if wait > 0 {
		p.counts.Dropped.Add(1)
	}
	return wait <= 0
}

// ask returns how long n bytes have to wait, and what they take of the time; now
// is for those that must not wait.
func (p *Pacer) ask(at time.Time, n int, now bool) (wait, takes time.Duration) {
	rate := p.rate.Load()
	if rate <= 0 {
		return 0, 0
	}
	takes = time.Duration(float64(n) / float64(rate) * float64(time.Second))
	p.mu.Lock()
	defer p.mu.Unlock()
	if rested := at.Add(-pacerBurst); p.free.Before(rested) {
		p.free = rested
	}
	wait = p.free.Sub(at)
	if wait <= 0 || !now {
		p.free = p.free.Add(takes)
	}
	return wait, takes
}

// giveBack lets others have what was asked for and is not sent.
func (p *Pacer) giveBack(takes time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = p.free.Add(-takes)
}
