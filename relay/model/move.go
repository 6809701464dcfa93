package model

import (
	"errors"
	"slices"
	"time"
)

// Times of a move to another route.
const (
	// moveDelay is how long a better route must be there before what runs moves to
	// it: longer than an announcement takes to cross a mesh, holds included. As much
	// again at most is added for each relay and path, always the same, so that not
	// all relays move at once.
	moveDelay = time.Second
	// leaveTime is how long a source that was left may still begin older groups, on
	// streams that others overtook.
	leaveTime = time.Second
	// leaveLimit is the longest that it is waited for to end the groups it has begun.
	leaveLimit = 10 * time.Second
)

// errMoved ends what a source that was left did not finish in time.
var errMoved = errors.New("the track has moved to another route")

// reconsiderLocked looks whether what the routes of a place serve should be asked of
// a better one. also is a route that has just left the place, or nil.
func (o *Origin) reconsiderLocked(at *place, also *Announcement, then *aftermath) {
	if also != nil {
		o.improveLocked(also, then)
	}
	for _, a := range at.routes {
		o.improveLocked(a, then)
	}
}

// improveLocked moves the tracks of a route to a better one of the same content: at
// once where theirs is over or leads through a relay that goes away, else after a while.
func (o *Origin) improveLocked(a *Announcement, then *aftermath) {
	if len(a.tracks) == 0 || !a.content.proven() || a.lost() {
		return
	}
	if o.endsLocked(a) {
		if b := o.refugeLocked(a); b != nil {
			o.migrateLocked(a, b, then)
		}
		return
	}
	if a.moving == nil && o.successorLocked(a) != nil {
		spread := time.Duration(pathHash(a.route.Path, o.cfg.ID) % uint64(moveDelay))
		a.moving = time.AfterFunc(moveDelay+spread, a.move)
	}
}

// move decides again when the delay is over.
func (a *Announcement) move() {
	o := a.origin
	var then aftermath
	o.mu.Lock()
	a.moving = nil
	if !o.endsLocked(a) && !a.lost() {
		if b := o.successorLocked(a); b != nil {
			o.migrateLocked(a, b, &then)
		}
	}
	o.mu.Unlock()
	then.run()
}

// endsLocked reports whether the route will not serve for long.
func (o *Origin) endsLocked(a *Announcement) bool {
	return a.over || a.route.draining() || !o.usableLocked(a, Peer{})
}

// refugeLocked finds the route that serves when a ends: none that leads through the
// relay that goes away, which its neighbours may not know yet.
func (o *Origin) refugeLocked(a *Announcement) *Announcement {
	leaving := uint64(0)
	if hops := a.route.Hops; a.route.draining() && len(hops) > 0 {
		leaving = hops[len(hops)-1]
	}
	return o.alternativeLocked(a, func(b *Announcement) bool {
		return !b.route.draining() && o.usableLocked(b, Peer{ID: leaving})
	})
}

// successorLocked finds a route to which what a serves may move while a is as good
// as ever: a cheaper or shorter one, not one that only ranks higher. Two relays that
// carry a content both tell that it costs nothing more; if each of them moved to the
// other, it would have no source. So a relay follows another one only where that is
// nearer to the publisher than itself, by cold cost, length and a hash, in this order
// (moq-lite, moving to another parent): no circle can come of that.
func (o *Origin) successorLocked(a *Announcement) *Announcement {
	return o.alternativeLocked(a, func(b *Announcement) bool {
		return compareCost(b.route, a.route) < 0 && (b.direct() || o.nearerLocked(b, a))
	})
}

// nearerLocked reports whether the relay that route b came from is nearer to the
// publisher than we are by route a.
func (o *Origin) nearerLocked(b, a *Announcement) bool {
	x, y := b.route, a.route
	switch {
	case x.Cold != y.Cold:
		return x.Cold < y.Cold
	case len(x.Hops) != len(y.Hops):
		return len(x.Hops) < len(y.Hops)
	}
	return pathHash(x.Path, x.Hops[len(x.Hops)-1]) < pathHash(y.Path, o.cfg.ID)
}

// alternativeLocked is the best route of the same path, epoch and content as a, but
// from another source, that will do.
func (o *Origin) alternativeLocked(a *Announcement, will func(*Announcement) bool) *Announcement {
	var best *Announcement
	for _, b := range a.at.routes {
		if b == a || b.lost() || b.content != a.content || b.route.Source == a.route.Source || !o.usableLocked(b, Peer{}) {
			continue
		}
		if will(b) && (best == nil || better(b, best)) {
			best = b
		}
	}
	return best
}

// migrateLocked asks route b for the tracks that a serves, from the next group on.
// Nothing else changes until b's source brings one: see promote.
func (o *Origin) migrateLocked(a, b *Announcement, then *aftermath) {
	for t := range a.tracks {
		t.mu.Lock()
		if p := o.candidateLocked(t, b); p != nil {
			then.pulls = append(then.pulls, p)
		}
		t.mu.Unlock()
	}
}

// candidateLocked makes the request for a track that is to move, unless it is not
// for this route, or moves already.
func (o *Origin) candidateLocked(t *track, b *Announcement) *Producer {
	if t.next != nil && o.endsLocked(t.next.route) {
		t.partLocked(t.next)
	}
	if !t.wantsLocked() || t.complete || t.next != nil || t.key.content != b.content || !o.suitsLocked(b, t) {
		return nil
	}
	p := t.produceLocked(b)
	p.behind = standbyBehind
	t.next = p
	return p
}

// awaits reports whether another source was asked to take over.
func (t *track) awaits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next != nil
}

// comes notes that a source has begun a group. Where it was asked to take over it
// does so, unless it brings another generation of the content.
func (t *track) comes(p *Producer, sequence uint64) {
	t.mu.Lock()
	awaited := t.next == p
	if awaited && p.renewsLocked(sequence) {
		t.partLocked(p)
		awaited = false
	}
	t.mu.Unlock()
	if awaited {
		t.origin.promote(t, p, sequence)
	}
}

// promote lets the source that a track moves to serve it, now that something comes
// from there, a group of this number. The one before may end the groups that it has
// begun, and bring those that are missing below them and that one.
func (o *Origin) promote(t *track, p *Producer, sequence uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != p || t.stopped {
		return
	}
	t.next = nil
	if !o.fitsLocked(p) {
		p.endLocked()
		return
	}
	before := t.producer
	p.floor = t.datagrams
	o.adoptLocked(t, p)
	if before != nil {
		t.leaveLocked(before, sequence)
	}
	o.stats.Moves.Add(1)
}

// fitsLocked reports whether a source that was asked may serve its track now: the
// route may be over, or somebody have come who cannot be served from it.
func (o *Origin) fitsLocked(p *Producer) bool {
	return !p.route.over && o.suitsLocked(p.route, p.track)
}

// leaveLocked lets a source that serves the track no more finish.
func (t *track) leaveLocked(p *Producer, sequence uint64) {
	if p.over {
		return
	}
	if p.until = sequence; t.any {
		p.until = max(sequence, t.highest+1)
	}
	if p.until <= p.from && len(t.openLocked(p)) == 0 { // it has nothing to finish
		p.endLocked()
		return
	}
	p.left = time.Now()
	t.leaving = append(t.leaving, p)
	p.finish = time.AfterFunc(leaveTime, p.finished)
	t.changedLocked() // p.Preferences end there now
}

// finished ends a source that was left, once its groups have ended.
func (p *Producer) finished() {
	t := p.track
	t.mu.Lock()
	open := t.openLocked(p)
	lowest, deserted := t.desertedLocked()
	switch {
	case p.over:
	case (len(open) > 0 || deserted && lowest < p.until) && time.Since(p.left) < leaveLimit:
		p.finish.Reset(leaveTime)
		open = nil
	default:
		t.partLocked(p)
	}
	t.mu.Unlock()
	for _, g := range open {
		g.end(errMoved)
	}
}

// partLocked ends a request that does not serve the track: one that was left, or one
// that it was to move to. It reports whether p was one.
func (t *track) partLocked(p *Producer) bool {
	switch i := slices.Index(t.leaving, p); {
	case i >= 0:
		t.leaving = slices.Delete(t.leaving, i, i+1)
	case t.next == p:
		t.next = nil
	default:
		return false
	}
	p.endLocked()
	return true
}

// part is partLocked for a source that has failed with err: the groups that it has
// begun wait for the one that serves, or are cut short.
func (t *track) part(p *Producer, err error) bool {
	var then aftermath
	t.mu.Lock()
	parted := t.partLocked(p)
	open := t.openLocked(p)
	if parted && errors.Is(err, ErrSourceGone) {
		p.lost = true
		if !p.fills { // a source that is gone would be asked for ever
			t.fillLocked(p.until, &then)
		}
	}
	t.mu.Unlock()
	if parted && err != nil {
		p.desert(open, err)
		then.run()
	}
	return parted
}
