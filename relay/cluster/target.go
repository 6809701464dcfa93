package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// key is what makes two targets the same.
type key struct {
	kind Kind
	url  string // as configured; all of a peers' name or upstream have the same
	cost string // as configured
	host string // HOST:PORT or IP:PORT
}

// place is the entry of a list that a target comes from.
func (k key) place() key { return key{kind: k.kind, url: k.url, cost: k.cost} }

// state says what became of a target.
type state string

const (
	connecting state = "Connecting"
	connected  state = "Connected"
	self       state = "Self"
	duplicate  state = "Duplicate" // the relay behind it is reached over another session
)

// target is one address that is dialled, for as long as it is listed.
type target struct {
	key
	c      *Cluster
	server string // the name that its certificate must have
	path   string // what an upstream is asked for
	price  *uint64

	ctx    context.Context // ends when it is not to be dialled any more
	cancel context.CancelFunc
	left   []*link // that said they leave, until the next one is up; of pursue alone

	// guarded by Cluster.mu
	listed  bool // its address is in the lists and among its name's
	dropped bool // its entry is not in the lists any more
	state   state
	since   time.Time // of the state
	err     error     // of the last attempt; nil while connected
	hop     uint64    // of the relay behind it; 0: not met yet
	link    *link     // its session
}

// reconcile begins to dial what is new, and ends what is not wanted any more.
func (c *Cluster) reconcile() {
	places := c.places()
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := make(map[key]place)
	entries := make(map[key]bool)
	for _, p := range places {
		entries[p.key()] = true
		for _, k := range c.keysLocked(p) {
			wanted[k] = p
		}
	}
	for k, t := range c.targets {
		_, t.listed = wanted[k]
		t.dropped = !entries[k.place()]
		if !t.listed && (t.link == nil || t.dropped) {
			delete(c.targets, k)
			t.cancel()
		}
	}
	for k, p := range wanted {
		if c.targets[k] == nil {
			c.pursueLocked(k, p)
		}
	}
}

// key is what all targets of an entry have in common.
func (p place) key() key {
	k := key{kind: p.kind, url: p.url.String()}
	if p.cost != nil {
		k.cost = strconv.Itoa(*p.cost)
	}
	return k
}

// keysLocked are the targets of an entry.
func (c *Cluster) keysLocked(p place) (out []key) {
	k := p.key()
	if !p.expands() {
		k.host = p.url.Host
		return []key{k}
	}
	for _, address := range c.answers[p.url.Hostname()] {
		k.host = net.JoinHostPort(address, p.url.Port())
		out = append(out, k)
	}
	return out
}

// pursueLocked makes a target and dials it for as long as it is listed.
func (c *Cluster) pursueLocked(k key, p place) {
	t := &target{key: k, c: c, server: p.url.Hostname(), path: requestPath(p.url), listed: true, state: connecting, since: time.Now()}
	if p.cost != nil {
		t.price = new(uint64(*p.cost))
	}
	t.ctx, t.cancel = context.WithCancel(c.ctx)
	if c.tasks.Go(t.pursue) {
		c.targets[k] = t
	}
}

// requestPath is what an upstream is asked for; "" where its URL has no path and no query.
func requestPath(u *url.URL) string {
	if (u.Path == "" || u.Path == "/") && u.RawQuery == "" {
		return ""
	}
	return u.RequestURI()
}

// pursue dials until the target is given up.
func (t *target) pursue() {
	defer t.giveUp()
	var wait backoff
	for t.await(0) {
		met, err := t.attempt()
		switch {
		case errors.Is(err, errSelf):
			t.become(self, nil)
			<-t.ctx.Done()
			return
		case time.Since(met) >= lastBackoff && !met.IsZero():
			wait = backoff{}
		}
		if errors.Is(err, errMoving) && wait == (backoff{}) {
			continue // the replacement comes first
		}
		if !t.await(wait.next()) {
			return
		}
	}
}

// giveUp forgets the target, and leaves what it has.
func (t *target) giveUp() {
	t.cancel()
	t.c.mu.Lock()
	if t.c.targets[t.key] == t {
		delete(t.c.targets, t.key)
	}
	dropped := t.dropped
	t.c.mu.Unlock()
	for _, l := range t.left {
		if dropped { // else the other side ends it when it is done, and there may be no other way
			t.c.tasks.Go(l.leave)
		}
	}
}

// await waits for that long, and then until no session to the relay behind the
// target lives. It reports whether there is to be an attempt.
func (t *target) await(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		return false
	}
	for {
		linked, lost, listed := t.look()
		switch {
		case !listed:
			return false
		case !linked:
			t.become(connecting, nil)
			return t.ctx.Err() == nil
		}
		t.become(duplicate, nil)
		select {
		case <-lost:
		case <-t.ctx.Done():
			return false
		}
	}
}

// look reports whether the relay behind the target is reached over another session,
// and what is closed when a session ends.
func (t *target) look() (linked bool, lost <-chan struct{}, listed bool) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.kind == Peer && t.c.linkedLocked(t.hop), t.c.linkLost, t.listed
}

// become changes the state. An error stays until the next session, so that whoever
// looks can read it.
func (t *target) become(to state, err error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.becomeLocked(to, err)
}

func (t *target) becomeLocked(to state, err error) {
	if t.state != to {
		t.state, t.since = to, time.Now()
	}
	if err != nil || to != connecting {
		t.err = err
	}
}

// errMoving ends the attention for a session whose other side said that it leaves.
var errMoving = errors.New("the other relay is going away")

// attempt dials and stays until the session has ended, or is about to. It returns
// when the other relay was met, zero if it was not.
func (t *target) attempt() (met time.Time, err error) {
	l, err := t.dial()
	if err != nil {
		t.failed(err)
		return met, err
	}
	defer func() { met = t.released(l, err) }()
	settled := l.settled
	for {
		select {
		case <-settled:
			settled = nil
			for _, old := range t.left {
				t.c.tasks.Go(old.leave)
			}
			t.left = nil
		case <-l.goaway:
			if settled != nil && len(t.left) > 0 { // the same relay again, which is still leaving
				l.cancel(errMoving)
				<-l.done
				return met, fmt.Errorf("the replacement leaves too: %w", errStillLeaving)
			}
			t.left = append(t.left, l)
			return met, errMoving
		case <-l.done:
			return met, l.err
		case <-t.ctx.Done():
			t.left = append(t.left, l)
			return met, context.Cause(t.ctx)
		}
	}
}

var errStillLeaving = errors.New("no other relay answers yet")

// dial opens a connection and begins its session.
func (t *target) dial() (*link, error) {
	ctx, cancel := context.WithTimeout(t.ctx, dialTimeout)
	defer cancel()
	conn, err := t.c.cfg.Dial(ctx, Address{Kind: t.kind, HostPort: t.host, ServerName: t.server})
	if err != nil {
		return nil, err
	}
	l := t.c.newLink(t.c.ctx, t, conn)
	if !t.c.tasks.Go(l.run) {
		conn.Close(0, "")
		return nil, context.Canceled
	}
	return l, nil
}

// failed notes that a dial failed. It is said once until one succeeds.
func (t *target) failed(err error) {
	if t.ctx.Err() != nil {
		return
	}
	t.c.dials[t.kind].Failed.Add(1)
	t.c.mu.Lock()
	again := t.err != nil
	t.becomeLocked(connecting, err)
	t.c.mu.Unlock()
	if again {
		t.c.log.Debug("cannot reach another relay", "kind", t.kind, "address", t.host, "error", err)
		return
	}
	t.c.log.Warn("cannot reach another relay; it is tried again for ever", "kind", t.kind, "address", t.host, "error", err)
}

// released notes that the target's session is over, or about to be, and returns when
// the other relay was met.
func (t *target) released(l *link, err error) time.Time {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.link = nil
	if l.met.IsZero() && !errors.Is(err, errSelf) {
		t.c.dials[t.kind].Failed.Add(1)
	}
	t.becomeLocked(connecting, err)
	return l.met
}

// backoff is how long to wait between attempts.
type backoff struct{ last time.Duration }

// next is half to all of 1 s, twice that at each call, at most 10 s.
func (b *backoff) next() time.Duration {
	b.last = min(max(firstBackoff, 2*b.last), lastBackoff)
	return b.last/2 + rand.N(b.last/2)
}

// closeReason is the text of a connection's end that a person can act on.
func closeReason(err error) error {
	// CRYPTO_ERROR with the TLS alert bad_certificate (RFC 9001, section 4.8).
	const badCertificate = 0x100 + 42
	closed, ok := errors.AsType[*transport.CloseError](err)
	if ok && closed.Transport && closed.Remote && closed.Code == badCertificate {
		return fmt.Errorf("the other relay does not know our TLS key: give both the same tls.directories (%w)", err)
	}
	return err
}
