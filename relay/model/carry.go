package model

import "time"

// carryGrace is how long a route is told to cost nothing more after the last viewer
// has left: viewers that come and go change nothing that other relays see.
const carryGrace = 5 * time.Second

// wantsLocked reports whether the source is being asked for groups on behalf of somebody.
func (t *track) wantsLocked() bool {
	return t.producer != nil && t.accepted && t.prefs.Active && !t.stopped
}

// demand notes that the first viewer of a track has come, or that the last one has
// left. Only these cost the origin's lock.
func (t *track) demand() {
	t.mu.Lock()
	same := t.wantsLocked() == (t.carried != nil)
	t.mu.Unlock()
	if same {
		return
	}
	o := t.origin
	var then aftermath
	o.mu.Lock()
	t.mu.Lock()
	o.carryLocked(t)
	by := t.carried
	t.mu.Unlock()
	if by != nil && o.endsLocked(by) { // it went on while nobody watched
		o.improveLocked(by, &then)
	}
	o.mu.Unlock()
	then.run()
}

// carryLocked counts for which route the track stands as carried now. With origin.mu
// and track.mu.
func (o *Origin) carryLocked(t *track) {
	var by *Announcement
	if t.wantsLocked() {
		by = t.route
	}
	before := t.carried
	if by == before {
		return
	}
	t.carried = by
	if before != nil {
		if before.carries--; before.carries == 0 && !before.over {
			before.cooling = time.AfterFunc(carryGrace, before.cool)
			o.changedLocked(before.at)
		}
	}
	if by != nil {
		by.carries++
		by.heatLocked()
	}
}

// heatLocked notes that the route is carried.
func (a *Announcement) heatLocked() {
	if a.cooling != nil {
		a.cooling.Stop()
		a.cooling = nil
	}
	a.warm = true
	if !a.over {
		a.origin.changedLocked(a.at)
	}
}

// cool ends the time after the last viewer.
func (a *Announcement) cool() {
	a.origin.mu.Lock()
	defer a.origin.mu.Unlock()
	if a.carries == 0 && !a.over {
		a.warm, a.cooling = false, nil
		a.origin.changedLocked(a.at)
	}
}

// shownWarm is the warm cost that peers are told of the route, which is the one
// that a request of theirs would go to: nothing, where one more subscription costs
// nothing (moq-lite, routing cost), but never less than the most of a route that
// leads through a relay which goes away.
func (a *Announcement) shownWarm() uint64 {
	if a.warm && !a.route.draining() {
		return 0
	}
	return a.route.Warm
}
