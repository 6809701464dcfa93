package admin

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// LivenessLimit is how long a part of the relay may make no progress before the
// process is reported dead.
const LivenessLimit = 60 * time.Second

// Liveness knows when each part of the relay last made progress. The zero value
// has no parts and is alive. It is for any number of goroutines.
type Liveness struct {
	mu    sync.Mutex
	parts []*Heartbeat // guarded by mu
}

// Heartbeat is one part's sign of life.
type Heartbeat struct {
	name string
	last atomic.Pointer[time.Time]
}

// Part adds a part that must beat at least every [LivenessLimit] from now on.
// The name is for the message.
func (l *Liveness) Part(name string) *Heartbeat {
	h := &Heartbeat{name: name}
	h.Beat()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = append(l.parts, h)
	return h
}

// Beat says that the part has made progress.
func (h *Heartbeat) Beat() {
	now := time.Now()
	h.last.Store(&now)
}

// Check names every part that has made no progress for [LivenessLimit]; nil when
// there is none.
func (l *Liveness) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var dead []error
	for _, h := range l.parts {
		if silent := time.Since(*h.last.Load()); silent >= LivenessLimit {
			dead = append(dead, fmt.Errorf("%s: no progress for %d s", h.name, int(silent.Seconds())))
		}
	}
	return errors.Join(dead...)
}
