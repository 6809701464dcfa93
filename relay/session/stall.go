package session

import (
	"sync"
	"sync/atomic"
	"time"
)

// stallLooks is how many times within its limit a [Stall] looks.
const stallLooks = 12

// Stall watches whether the peer of a session takes the groups that wait for it.
// Control traffic does not count, nor does time in which nothing waits. A write
// is seen to move when it is over; it is 64 KiB at most.
type Stall struct {
	limit   time.Duration
	stalled func()

	waiting atomic.Int64  // writes that run, groups that wait for a stream
	moves   atomic.Uint64 // writes that moved a byte
	armed   atomic.Bool   // the timer runs

	mu    sync.Mutex // guards the rest
	timer *time.Timer
	seen  uint64    // moves at the last look
	since time.Time // when a look last found that something had moved
	over  bool
}

// NewStall calls stalled, once, when something has waited for limit and nothing
// moved: later by a twelfth of it at most. A limit below 0 never does.
func NewStall(limit time.Duration, stalled func()) *Stall {
	return &Stall{limit: limit, stalled: stalled}
}

// Open waits with open for a stream on which a group is to go. That there is one
// is no move: a peer that reads nothing has credit for many, and a live track asks
// for one each second.
func (s *Stall) Open(open func() error) error {
	s.begin()
	defer s.end(0)
	return open()
}

// Close ends the watch.
func (s *Stall) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// begin says that a write begins, or the wait for a stream.
func (s *Stall) begin() {
	s.waiting.Add(1)
	if !s.armed.Load() && s.limit > 0 {
		s.arm()
	}
}

// end says that it is over, and how many bytes moved.
func (s *Stall) end(moved int) {
	if moved > 0 {
		s.moves.Add(1)
	}
	s.waiting.Add(-1)
}

// arm starts the timer. It runs as long as each look finds something that waits.
func (s *Stall) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.armed.Load() {
		return
	}
	s.armed.Store(true)
	s.seen, s.since = s.moves.Load(), time.Now()
	if s.timer == nil {
		s.timer = time.AfterFunc(s.limit/stallLooks, s.look)
	} else {
		s.timer.Reset(s.limit / stallLooks)
	}
}

// look is called by the timer.
func (s *Stall) look() {
	if s.isStalled() {
		s.stalled()
	}
}

func (s *Stall) isStalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.restLocked() {
		return false
	}
	if moves := s.moves.Load(); moves != s.seen {
		s.seen, s.since = moves, time.Now()
	}
	if time.Since(s.since) >= s.limit {
		s.over = true
		return true
	}
	s.timer.Reset(s.limit / stallLooks)
	return false
}

// restLocked leaves the timer off when nothing waits. Whatever begins to wait
// before armed is false is seen by the second look, what begins after arms it.
func (s *Stall) restLocked() bool {
	if s.waiting.Load() > 0 {
		return false
	}
	s.armed.Store(false)
	if s.waiting.Load() == 0 {
		return true
	}
	s.armed.Store(true)
	s.since = time.Now()
	return false
}
