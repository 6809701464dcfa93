package model

import "sync/atomic"

// wake is a broadcast that costs its sender one atomic load while nobody waits.
// The zero value is ready; it is one pointer, because every group has two.
//
// A waiter takes the channel first, looks at the state second and waits third;
// a sender changes the state first and calls broadcast second. So no wake is lost.
type wake struct {
	signal atomic.Pointer[signal] // nil while nobody waits
}

type signal struct{ raised chan struct{} }

// wait returns a channel that the next broadcast closes.
func (w *wake) wait() <-chan struct{} {
	for {
		if s := w.signal.Load(); s != nil {
			return s.raised
		}
		s := &signal{raised: make(chan struct{})}
		if w.signal.CompareAndSwap(nil, s) {
			return s.raised
		}
	}
}

// broadcast wakes all that wait.
func (w *wake) broadcast() {
	if w.signal.Load() == nil {
		return
	}
	if s := w.signal.Swap(nil); s != nil {
		close(s.raised)
	}
}
