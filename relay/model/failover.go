package model

import (
	"fmt"
	"slices"
	"time"
)

// standbyBehind is how many groups a route that stood by may be behind the one that
// served, and still be taken for the same generation of the content.
const standbyBehind = 2

var (
	// errReplaced ends what an older content of a path served.
	errReplaced = fmt.Errorf("another publisher has taken the path: %w", ErrSourceGone)
	// errLooped ends what is served through its own subscriber.
	errLooped = fmt.Errorf("the route leads through the subscriber now: %w", ErrSourceGone)
)

// attemptLocked makes the request of the track to a route's source. The caller
// holds origin.mu and track.mu, and calls pull without them.
func (t *track) attemptLocked(route *Announcement) *Producer {
	p := t.produceLocked(route)
	t.origin.adoptLocked(t, p)
	return p
}

// produceLocked makes the request without letting it serve the track yet.
func (t *track) produceLocked(route *Announcement) *Producer {
	p := &Producer{track: t, route: route, source: route.route.Source, done: make(chan struct{})}
	if !route.assigned {
		p.epoch = route.route.Epoch
	}
	p.silence = time.AfterFunc(t.origin.limits.Load().UpstreamTimeout, p.silent)
	p.exact = route.content.epoch != [16]byte{}
	if t.any {
		p.resumed, p.from = true, t.highest+1
		if p.exact && t.producer == nil { // the one before is lost
			p.from = t.missingLocked(p.from)
		}
	}
	return p
}

// adoptLocked makes p the one that serves the track.
func (o *Origin) adoptLocked(t *track, p *Producer) {
	t.producer = p
	o.routeLocked(t, p.route)
	o.carryLocked(t)
}

// resume lets another source go on where p's is gone. It reports false where the
// track must fail for it.
func (t *track) resume(p *Producer) bool {
	o := t.origin
	var then aftermath
	o.mu.Lock()
	t.mu.Lock()
	if t.producer != p || t.stopped || len(t.subs) == 0 || t.accepted && !t.key.content.proven() {
		t.mu.Unlock()
		o.mu.Unlock()
		return false
	}
	t.tried = append(t.tried, p.source)
	open := t.suspendLocked()
	awaited := t.next // was to take over anyway
	t.next = nil
	switch next := o.nextLocked(t); {
	case awaited != nil && o.fitsLocked(awaited):
		o.adoptLocked(t, awaited)
	case next != nil:
		o.switchLocked(t, next, standbyBehind, &then)
	case t.accepted && o.elsewhereLocked(t):
		then.moved = append(then.moved, t)
	default:
		o.parkLocked(t)
		o.carryLocked(t)
	}
	if awaited != nil && t.producer != awaited {
		awaited.endLocked()
	}
	if t.producer != nil {
		t.fillLocked(t.producer.from, &then)
	}
	t.mu.Unlock()
	o.mu.Unlock()
	p.desert(open, ErrSourceGone)
	then.run()
	return true
}

// suspendLocked takes the track from its source and returns the groups that are
// cut short with it.
func (t *track) suspendLocked() []*group {
	p := t.producer
	if p == nil {
		return nil
	}
	p.endLocked()
	p.lost = true
	t.producer = nil
	return t.openLocked(p)
}

// nextLocked finds a route that a track whose source is gone may go on with: for all
// of its subscribers, or else for some.
func (o *Origin) nextLocked(t *track) *Announcement {
	for _, suits := range []func(*Announcement, *track) bool{o.suitsLocked, o.helpsLocked} {
		for at := o.deepestLocked(t.path); at != nil; at = at.above {
			if best := nextAt(at, t, suits); best != nil {
				return best
			}
		}
	}
	return nil
}

func nextAt(at *place, t *track, suits func(*Announcement, *track) bool) *Announcement {
	var best *Announcement
	for _, a := range at.routes {
		if suits(a, t) && (best == nil || better(a, best)) {
			best = a
		}
	}
	return best
}

// suitsLocked reports whether a route may serve a running track: for all of its
// subscribers, and with the same content where they were told anything of it.
func (o *Origin) suitsLocked(a *Announcement, t *track) bool {
	return o.mayServeLocked(a, t) && len(o.excludedLocked(a, t)) == 0
}

// helpsLocked is suitsLocked for a route that may serve some of the subscribers.
func (o *Origin) helpsLocked(a *Announcement, t *track) bool {
	if !o.mayServeLocked(a, t) {
		return false
	}
	for s := range t.subs {
		if s.err == nil && o.usableLocked(a, s.peer) {
			return true
		}
	}
	return false
}

func (o *Origin) mayServeLocked(a *Announcement, t *track) bool {
	return !a.lost() && !slices.Contains(t.tried, a.route.Source) &&
		(!t.accepted || a.content == t.key.content) && o.usableLocked(a, Peer{})
}

// excludedLocked are the subscribers of a track through whom a route leads.
func (o *Origin) excludedLocked(a *Announcement, t *track) (out []*Subscription) {
	for s := range t.subs {
		if s.err == nil && !o.usableLocked(a, s.peer) {
			out = append(out, s)
		}
	}
	return out
}

// elsewhereLocked reports whether another content of the path can be had.
func (o *Origin) elsewhereLocked(t *track) bool {
	route := o.coveringLocked(t.path, Peer{})
	return route != nil && !route.lost() &&
		(route.content != t.key.content || !slices.Contains(t.tried, route.route.Source))
}

// switchLocked makes the request to another route, unless that one serves the
// track to others already: then the subscribers have to come again. behind is how
// many groups the route may be behind. Subscribers through whom the route leads are
// told, and have another way: the route shows it.
func (o *Origin) switchLocked(t *track, a *Announcement, behind uint64, then *aftermath) {
	key := trackKey{content: a.content, path: t.path, name: t.name}
	if other := o.tracks[key]; other != nil && other != t {
		then.moved = append(then.moved, t)
		return
	}
	if o.tracks[t.key] == t {
		delete(o.tracks, t.key)
	}
	t.key = key
	o.tracks[key] = t
	then.cut = append(then.cut, o.excludedLocked(a, t)...)
	p := t.attemptLocked(a)
	p.behind = behind
	then.pulls = append(then.pulls, p)
}

// parkLocked lets a track wait for a route. It fails when none comes within the
// linger time, or when its own route is over.
func (o *Origin) parkLocked(t *track) {
	o.parked[t] = time.AfterFunc(o.cfg.Linger, func() { t.fail(t.loss()) })
}

// unpark is called when a track waits no more, with origin.mu.
func (o *Origin) unpark(t *track) {
	if timer := o.parked[t]; timer != nil {
		timer.Stop()
		delete(o.parked, t)
	}
}

// unparkLocked gives a route the tracks that wait for one like it.
func (o *Origin) unparkLocked(a *Announcement, then *aftermath) {
	for t := range o.parked {
		if !t.path.HasPrefix(a.route.Path) {
			continue
		}
		t.mu.Lock()
		if a.content != t.key.content { // what its source did not have any more was another one
			t.tried = slices.DeleteFunc(t.tried, func(s Source) bool { return s == a.route.Source })
		}
		switch {
		case t.stopped:
		case o.helpsLocked(a, t):
			o.unpark(t)
			o.switchLocked(t, a, 0, then)
		case t.accepted && o.elsewhereLocked(t): // it came while nothing of the path was there
			then.moved = append(then.moved, t)
		}
		t.mu.Unlock()
	}
}

// moveLocked gives a route the track of another content that it replaces, where
// nobody was told anything of it yet. Else the track ends.
func (o *Origin) moveLocked(t *track, a *Announcement, then *aftermath) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accepted || t.stopped || !o.suitsLocked(a, t) {
		then.moved = append(then.moved, t)
		return
	}
	t.suspendLocked()
	o.unpark(t)
	o.switchLocked(t, a, 0, then)
}

// loss is what the subscribers of a track are told whose source does not return.
func (t *track) loss() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accepted {
		return ErrSourceGone
	}
	return ErrUnroutable
}

// resumeLocked asks for what comes behind the groups that another source brought.
// A publisher that is known by its hop alone may have begun anew with lower
// numbers: it is asked for its latest group.
func (p *Producer) resumeLocked(prefs *Preferences) {
	if p.exact {
		prefs.Start, prefs.HasStart = max(prefs.Start, p.from), true
	} else {
		prefs.Start, prefs.HasStart = 0, false
	}
}

// renewsLocked looks at the first group of a source that goes on where another one
// was lost, and reports whether it belongs to a new generation: to a publisher that
// has begun to count anew. It would never reach the numbers that viewers wait for.
func (p *Producer) renewsLocked(first uint64) bool {
	if !p.resumed {
		return false
	}
	p.resumed = false
	return !p.exact && first+p.behind < p.from
}

// renew ends a track whose publisher has returned with something new. Its
// subscribers are told, and come again; what is held of the older is dropped.
func (t *track) renew() {
	t.fail(errReplaced)
	t.dropAll()
	o := t.origin
	o.mu.Lock()
	o.renumberLocked(t.route)
	s := o.shelves[t.key]
	delete(o.shelves, t.key)
	o.mu.Unlock()
	if s != nil {
		s.clear()
	}
}
