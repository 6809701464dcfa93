package qmux

import (
	"time"
)

const (
	// handshakeTimeout is how long the peer's parameters may take.
	handshakeTimeout = 10 * time.Second
	// carrierPingEvery and carrierSilence are the WebSocket draft's pings: the only
	// sign of life on draft 00.
	carrierPingEvery = 5 * time.Second
	carrierSilence   = 30 * time.Second
)

// liveness is what the connection's one timer watches.
type liveness struct {
	timer     *time.Timer
	started   time.Time
	heard     time.Time     // the last sign of life, pongs included
	idle      time.Duration // the idle timeout that both sides agreed on; 0: none
	idleFrom  time.Time     // what it counts from
	answered  bool          // we sent since we last received: sending more does not keep us alive
	sent      time.Time     // the last record that we sent
	nextCheck time.Time     // of the peer, by the carrier's own ping
}

// startTimer arms the timer for the first time.
func (c *conn) startTimer(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.liveness = liveness{started: now, heard: now, idleFrom: now, sent: now, nextCheck: now.Add(carrierPingEvery)}
	c.liveness.timer = time.AfterFunc(c.nextDeadlineLocked().Sub(now), c.tick)
}

// agree takes the smaller idle timeout of the two, where the draft has one.
func (l *liveness) agree(c *conn, peer params, now time.Time) {
	if !c.draft.hasPing() {
		return
	}
	ms := min(c.local.idleTimeout, peer.idleTimeout)
	if ms == 0 {
		ms = max(c.local.idleTimeout, peer.idleTimeout)
	}
	const longest = 1 << 40 // ms; more does not fit a Duration
	l.idle = time.Duration(min(ms, longest)) * time.Millisecond
	l.idleFrom = now
	l.timer.Reset(c.nextDeadlineLocked().Sub(now))
}

// heardRecordLocked notes a whole record of the peer.
func (c *conn) heardRecordLocked(now time.Time) {
	c.liveness.heard, c.liveness.idleFrom = now, now
	c.liveness.answered = false
}

// sentLocked notes a record of ours. Only the first after one of the peer's
// restarts the idle timer: our own pings must not keep a dead peer alive.
func (c *conn) sentLocked(now time.Time) {
	c.liveness.sent = now
	if !c.liveness.answered {
		c.liveness.answered, c.liveness.idleFrom = true, now
	}
}

// heard notes a sign of life that is no record.
func (c *conn) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.liveness.heard = time.Now()
}

// asked has the carrier's own ping answered. A newer one replaces one that waits.
func (c *conn) asked(payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.liveness.heard = time.Now()
	c.control.pong = append([]byte{}, payload...)
	c.work.Signal()
}

// tick does what is due and arms the timer again.
func (c *conn) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, l := time.Now(), &c.liveness
	if c.err != nil {
		return
	}
	switch {
	case c.peer == nil && now.Sub(l.started) >= handshakeTimeout:
		c.endLocked(ErrHandshake, nil)
		return
	case l.idle > 0 && now.Sub(l.idleFrom) >= l.idle:
		c.endLocked(ErrIdle, nil)
		return
	case c.pinger != nil && now.Sub(l.heard) >= carrierSilence:
		c.endLocked(ErrSilent, nil)
		return
	}
	if c.pinger != nil && !now.Before(l.nextCheck) {
		c.control.ping = true
		l.nextCheck = now.Add(carrierPingEvery)
		c.work.Signal()
	}
	if l.idle > 0 && now.Sub(l.sent) >= l.idle/3 {
		c.pings.request = true
		l.sent = now // not again before the writer came to it
		c.work.Signal()
	}
	l.timer.Reset(c.nextDeadlineLocked().Sub(now))
}

// nextDeadlineLocked is the earliest time at which tick has something to do.
func (c *conn) nextDeadlineLocked() time.Time {
	l := &c.liveness
	next := l.started.Add(handshakeTimeout)
	if c.peer != nil {
		next = time.Now().Add(time.Hour)
	}
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if c.pinger != nil {
		earlier(l.nextCheck)
		earlier(l.heard.Add(carrierSilence))
	}
	if l.idle > 0 {
		earlier(l.idleFrom.Add(l.idle))
		earlier(l.sent.Add(l.idle / 3))
	}
	return next
}

// pings is QX_PING in both directions. One request and one answer wait at most.
type pings struct {
	request  bool // send one
	sent     uint64
	answer   bool   // send one, to the newest number that was asked with
	asked    uint64 // that number
	received bool   // at least one request came, so asked counts
}

func (p *pings) waiting() bool { return p.request || p.answer }

// append appends one ping frame; one is waiting.
func (p *pings) append(b []byte) []byte {
	if p.answer {
		p.answer = false
		return appendFrame(b, framePingResponse, p.asked)
	}
	p.request = false
	p.sent++
	return appendFrame(b, framePingRequest, p.sent-1)
}

// receive takes a request or a response. Draft 00 has pings in name only.
func (p *pings) receive(c *conn, f frame) error {
	switch {
	case !c.draft.hasPing():
		return nil
	case f.typ == framePingResponse:
		if c.draft.strict() && f.value >= p.sent {
			return violation(codeProtocolViolation, "ping response %d was never asked for", f.value)
		}
		return nil
	case p.received && f.value <= p.asked && c.draft.strict():
		return violation(codeProtocolViolation, "ping request %d after %d", f.value, p.asked)
	}
	p.asked, p.received, p.answer = f.value, true, true
	c.work.Signal()
	return nil
}
