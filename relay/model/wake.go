package model

import (
	"sync"
	"sync/atomic"
)

// wake is a broadcast that costs its sender one atomic load while nobody waits.
// The zero value is ready.
//
// A waiter takes the channel first, looks at the state second and waits third;
// a sender changes the state first and calls broadcast second. So no wake is lost.
type wake struct {
	waiting atomic.Bool
	mu      sync.Mutex
	ch      chan struct{} // guarded by mu; nil while nobody waits
}

// wait returns a channel that the next broadcast closes.
func (w *wake) wait() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
		w.waiting.Store(true)
	}
	return w.ch
}

// broadcast wakes all that wait.
func (w *wake) broadcast() {
	if !w.waiting.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
		w.waiting.Store(false)
	}
}
