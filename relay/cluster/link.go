package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// link is one session with another relay.
type link struct {
	c      *Cluster
	target *target // nil where the other side has dialled
	kind   Kind
	conn   transport.Conn
	ctx    context.Context
	cancel context.CancelCauseFunc

	done    chan struct{} // closed when the session has ended
	err     error         // why; set before done is closed
	goaway  chan struct{} // closed when the other side says that it leaves
	settled chan struct{} // closed some time after the other relay was met

	// guarded by Cluster.mu
	began  time.Time
	met    time.Time // zero before
	hop    uint64
	losing bool        // about to be closed in favour of another
	busy   func() bool // nil before the session has begun
}

// Why a session of ours ends that is not needed.
var (
	errSelf      = errors.New("this relay itself answers there")
	errDuplicate = errors.New("there is another session between the two")
	errReplaced  = errors.New("another session has taken its place")
)

func (c *Cluster) newLink(ctx context.Context, t *target, conn transport.Conn) *link {
	l := &link{
		c: c, target: t, kind: Peer, conn: conn, began: time.Now(),
		done: make(chan struct{}), goaway: make(chan struct{}), settled: make(chan struct{}),
	}
	if t != nil {
		l.kind = t.kind
	}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.links[l] = struct{}{}
	if t != nil {
		t.link = l
	}
	return l
}

// run is the session.
func (l *link) run() {
	defer close(l.done)
	defer l.cancel(nil)
	err := l.c.cfg.Serve(l.ctx, l.conn, l.forServe())
	if cause := context.Cause(l.ctx); cause != nil {
		err = cause
	}
	l.err = closeReason(err)
	l.ended()
}

func (l *link) forServe() Link {
	out := Link{
		Kind: l.kind, Dialled: l.target != nil, Met: l.meet,
		Goaway: sync.OnceFunc(l.leaving), Began: l.begin,
	}
	if l.target != nil {
		out.RequestPath, out.Price = l.target.path, l.target.price
	}
	return out
}

func (l *link) begin(busy func() bool) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.busy = busy
}

// leaving notes that the other side has said GOAWAY. A peer stays: it ends the
// session itself when nobody needs it there any more, and there is no other one
// like it. Of an upstream's address there may be.
func (l *link) leaving() {
	if l.kind == Upstream && l.target != nil {
		close(l.goaway)
	}
}

// meet takes note of whom the session leads to.
func (l *link) meet(hop uint64) error {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	t := l.target
	switch {
	case hop != c.cfg.ID:
	case t == nil: // the end that has dialled is to learn of it, and closes
		l.cancelAfter(settleTime, errSelf)
		return nil
	default:
		l.cancel(errSelf)
		return errSelf
	}
	l.hop, l.met = hop, time.Now()
	if t != nil {
		t.hop = hop
		t.becomeLocked(connected, nil)
		c.dials[t.kind].OK.Add(1)
	}
	settle := time.AfterFunc(settleTime, func() { close(l.settled) })
	context.AfterFunc(l.ctx, func() { settle.Stop() })
	level := slog.LevelInfo
	if c.pairLocked(l) {
		level = slog.LevelDebug
	}
	c.log.Log(l.ctx, level, "connected to another relay", "kind", l.kind, "address", l.conn.Info().Remote.String(), "hop", hop, "dialled", l.target != nil)
	return nil
}

// cancelAfter ends the session, unless it has ended by then.
func (l *link) cancelAfter(d time.Duration, cause error) {
	timer := time.AfterFunc(d, func() { l.cancel(cause) })
	context.AfterFunc(l.ctx, func() { timer.Stop() })
}

// pairLocked chooses between a new session and those that lead to the same relay, and
// reports whether there are any.
func (c *Cluster) pairLocked(l *link) (paired bool) {
	if l.kind != Peer || l.hop == 0 {
		return false
	}
	for other := range c.links {
		if other == l || other.kind != Peer || other.hop != l.hop || other.met.IsZero() || other.losing || l.losing {
			continue
		}
		paired = true
		if loser := c.loser(other, l); loser != nil {
			loser.losing = true
			loser.cancelAfter(settleTime, errDuplicate)
		}
	}
	return paired
}

// loser is the one of two sessions that we are to close; nil where that is not for us
// to do. Only who has dialled a session closes it: one that knows of no other, because
// it was started anew and the other has not noticed yet, keeps what it has.
func (c *Cluster) loser(first, second *link) *link {
	ours := second
	switch {
	case first.target != nil && second.target != nil:
		return second
	case first.target == nil && second.target == nil:
		return nil
	case first.target != nil:
		ours = first
	}
	if c.cfg.ID < first.hop {
		return nil
	}
	return ours
}

// linkedLocked reports whether a session to that relay lives and is to stay.
func (c *Cluster) linkedLocked(hop uint64) bool {
	if hop == 0 {
		return false
	}
	for l := range c.links {
		if l.kind == Peer && l.hop == hop && !l.losing {
			return true
		}
	}
	return false
}

// ended forgets the session.
func (l *link) ended() {
	l.c.mu.Lock()
	delete(l.c.links, l)
	close(l.c.linkLost)
	l.c.linkLost = make(chan struct{})
	met, spare, level := l.met, l.c.linkedLocked(l.hop), slog.LevelDebug
	if l.target != nil && l.target.err == nil && !errors.Is(l.err, errSelf) {
		level = slog.LevelWarn // of many in a row the first
	}
	l.c.mu.Unlock()
	log := l.c.log.With("kind", l.kind, "address", l.conn.Info().Remote.String(), "hop", l.hop, "error", l.err)
	if met.IsZero() {
		log.Log(l.ctx, level, "a session with another relay ended before it began")
		return
	}
	if level = slog.LevelInfo; spare {
		level = slog.LevelDebug
	}
	log.Log(l.ctx, level, "a session with another relay ended", "lasted", time.Since(met).Round(time.Millisecond).String())
}

// leave closes a session that another has replaced, as soon as nothing is asked for
// over it, at the latest after leaveTime.
func (l *link) leave() {
	defer l.cancel(errReplaced)
	last := time.NewTimer(leaveTime)
	defer last.Stop()
	tick := time.NewTicker(leaveTime / 20)
	defer tick.Stop()
	for l.inUse() {
		select {
		case <-tick.C:
		case <-last.C:
			return
		case <-l.done:
			return
		}
	}
}

// inUse reports whether anything is asked for over the session.
func (l *link) inUse() bool {
	l.c.mu.Lock()
	busy := l.busy
	l.c.mu.Unlock()
	return busy != nil && busy()
}
