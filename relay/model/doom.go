package model

import (
	"slices"
	"time"
)

// doomTime is how long a route is taken for dead that nobody has withdrawn yet. Its
// own source's word is on the way: it heard of the end when we did. That word may
// stand behind that of ten thousand others on a busy machine, and a dead route that is
// believed in again wanders through the mesh. Where it does not come at all, we had
// been told more than was so.
const doomTime = 2 * time.Minute

// condemnLocked is called when a relay withdraws a route. It would show us any other
// way to what it had, unless that led through us; so every route of the same epoch
// whose chain begins with this one's is dead, whoever still announces it. Without
// this such news wanders: relays would try the dead route through one another, each
// time by a longer chain.
//
// The withdrawal of a publisher proves nothing, for it may go on elsewhere; nor that
// of a peer without an id, of whom there may be several; nor one beside an equal
// route, as when one of two sessions of a pair ends.
func (o *Origin) condemnLocked(a *Announcement) {
	chain := a.route.Hops
	if a.direct() || chain[len(chain)-1] == 0 {
		return
	}
	same := func(b *Announcement) bool {
		return b != a && b.standsLocked() && b.route.Epoch == a.route.Epoch && slices.Equal(b.route.Hops, chain)
	}
	if slices.ContainsFunc(a.at.routes, same) {
		return
	}
	for _, b := range a.at.routes {
		if b.standsLocked() && b.route.Epoch == a.route.Epoch && follows(b.route.Hops, chain) {
			b.doomed = time.AfterFunc(doomTime, b.revive)
		}
	}
}

// follows reports whether a chain begins with another one and is longer.
func follows(chain, first []uint64) bool {
	return len(chain) > len(first) && slices.Equal(chain[:len(first)], first)
}

// absolveLocked is called when a route is announced or has changed: what came through
// it need not be dead any more, for its end is void. It was announced anew by others
// before we heard of the end.
func (o *Origin) absolveLocked(a *Announcement, then *aftermath) {
	for _, b := range a.at.routes {
		if b.doomed != nil && b.route.Epoch == a.route.Epoch && follows(b.route.Hops, a.route.Hops) {
			b.pardonLocked()
			o.unparkLocked(b, then)
		}
	}
}

// pardonLocked takes the route for alive again. The caller says that it has changed.
func (a *Announcement) pardonLocked() {
	if a.doomed != nil {
		a.doomed.Stop()
		a.doomed = nil
	}
}

// revive ends a time of doom in which the route was not withdrawn.
func (a *Announcement) revive() {
	o := a.origin
	var then aftermath
	o.mu.Lock()
	if !a.over && a.doomed != nil {
		a.pardonLocked()
		o.unparkLocked(a, &then)
		o.reconsiderLocked(a.at, nil, &then)
		o.changedLocked(a.at)
	}
	o.mu.Unlock()
	then.run()
}

// forsakenTime is how long a request under a route that is over may bring nothing.
const forsakenTime = 5 * time.Second

// awaitEnd is called, with origin.mu, when the route that a track is asked of is over.
// The relay there is to end the track when it has brought the rest; but relays that
// have lost their routes at the same time may have asked one another in a circle, and
// then there is nobody who would. A track that brings nothing any more is given up
// after a while, or soon where the path has another content.
func (t *track) awaitEnd(a *Announcement) {
	o := t.origin
	var highest uint64
	var idle time.Duration
	var look *time.Timer
	look = time.AfterFunc(forsakenTime/5, func() {
		o.mu.Lock()
		t.mu.Lock()
		idle += forsakenTime / 5
		if t.highest != highest || len(t.openLocked(nil)) > 0 {
			highest, idle = t.highest, 0
		}
		waits := t.route == a && !t.stopped
		over := idle >= forsakenTime || idle > 0 && o.elsewhereLocked(t)
		t.mu.Unlock()
		o.mu.Unlock()
		switch {
		case !waits:
		case over:
			t.fail(errReplaced)
		default:
			look.Reset(forsakenTime / 5)
		}
	})
}

// recheckLocked looks at what a route serves after its chain has changed. What is
// fed through its own subscriber is fed by nobody: relays that have lost a route at
// the same time may have asked one another in a circle before they heard of it.
func (o *Origin) recheckLocked(a *Announcement, then *aftermath) {
	looped := !o.usableLocked(a, Peer{})
	for t := range a.tracks {
		t.mu.Lock()
		switch {
		case t.producer == nil:
		case looped:
			then.sources = append(then.sources, t.producer)
		default:
			then.cut = append(then.cut, o.excludedLocked(a, t)...)
		}
		t.mu.Unlock()
	}
}
