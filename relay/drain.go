package relay

import (
	"context"
	"math/rand/v2"
	"time"
)

// Drain begins to leave, and returns at once; later calls do nothing. New sessions
// are refused, those that are open are told to go, publishers first. Run ends when
// the last one has gone, or drain.timeoutSeconds after this call with the rest closed.
func (s *Server) Drain() {
	s.drainOnce.Do(func() {
		s.draining.Store(true)
		close(s.drain)
	})
}

// runDrain waits for Drain and carries it out.
func (s *Server) runDrain(ctx context.Context) error {
	select {
	case <-s.drain:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	timeout := time.Duration(s.cfg.Drain.TimeoutSeconds) * time.Second
	open, _ := s.sessions.list()
	s.log.Info("draining: no new sessions, those that are open are asked to leave", "sessions", s.sessions.clients(), "timeout", timeout.String())
	asked := ctx // ends early when somebody asks twice
	ctx, cancel := context.WithTimeout(asked, timeout)
	defer cancel()
	spread := min(time.Duration(s.live.Load().GoawaySpreadSeconds)*time.Second, timeout)
	for _, o := range open {
		delay := goawayDelay(spread, o.session.Stats().Announcements > 0)
		if o.isLink() { // first, so that what is here is their last choice before anybody moves
			delay = 0
		}
		s.sessions.running.Go(func() { s.goawayAfter(ctx, o, delay) })
	}
	left := s.sessions.waitForNone(ctx)
	if left > 0 && asked.Err() != nil {
		s.log.Warn("drain was cut short; the sessions that did not leave are closed", "sessions", left)
	} else if left > 0 && timeout == 0 {
		s.log.Info("closed the open sessions: drain.timeoutSeconds is 0", "sessions", left)
	} else if left > 0 {
		s.log.Warn("drain timed out; the sessions that did not leave are closed", "sessions", left, "timeout", timeout.String())
	} else {
		s.log.Info("drained: every session has left")
	}
	return errDrained
}

// goawayDelay spreads GOAWAY so that not all clients come to the next relay at
// once: publishers in the first tenth, viewers in the rest.
func goawayDelay(spread time.Duration, publishes bool) time.Duration {
	first := spread / 10
	if publishes {
		return randomBelow(first)
	}
	return first + randomBelow(spread-first)
}

func randomBelow(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

func (s *Server) goawayAfter(ctx context.Context, o *openSession, delay time.Duration) {
	select {
	case <-time.After(delay):
		s.sendGoaway(o)
	case <-o.conn.Done():
	case <-ctx.Done():
	}
}

func (s *Server) sendGoaway(o *openSession) {
	s.sessions.mu.Lock()
	again := o.drained
	o.drained = true
	s.sessions.mu.Unlock()
	if !again {
		o.session.GoAway("")
	}
}

// drainLook is how often a drain looks whether other relays still take something
// from here: their sessions stay open when they do not.
const drainLook = 200 * time.Millisecond

// waitForNone waits until nobody needs this relay any more or ctx is done, and returns
// how many sessions still do.
func (s *sessions) waitForNone(ctx context.Context) int {
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for {
		left, changed := s.holding()
		if left == 0 {
			return 0
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			left, _ = s.holding()
			return left
		}
	}
}

// holding counts the sessions that a drain waits for, and returns what is closed when
// one ends.
func (s *sessions) holding() (left int, changed <-chan struct{}) {
	open, changed := s.list()
	for _, o := range open {
		if o.holdsDrain() {
			left++
		}
	}
	return left, changed
}
