package model

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Route says that what lies at or below a path can be had from a source.
type Route struct {
	// Path is absolute.
	Path Path
	// Hops is the chain from the original publisher to the peer that the route
	// came from; 0 stands for a hop without identity. It is not changed afterwards.
	Hops []uint64
	// Warm and Cold are the costs of one more subscription now and with nothing
	// running, the link's price included; at most 2^62-1.
	Warm, Cold uint64
	// Epoch names the content, where the protocol has such names (moq-lite-07): routes
	// of an equal epoch carry the same groups, and a higher one replaces a lower one.
	// Zero: none. A route that is announced without one and comes straight from its
	// publisher, with at most one hop, is given one: a UUIDv7 of the time when its
	// content was first announced here.
	Epoch [16]byte
	// HopIdentity is true where the protocol lets routes with an equal, non-zero first
	// hop carry the same groups (moq-lite-05).
	HopIdentity bool
	// Source serves the route's tracks. Sources are compared with ==.
	Source Source
}

// Source is a session that serves tracks, or a local publisher.
type Source interface {
	// Pull starts to fetch a track and returns at once; the source then answers
	// p with Accept or Fail and writes its groups until p.Done is closed. It is
	// called without locks.
	Pull(p *Producer)
}

// Peer is on whose behalf the origin is asked: routes that lead through it are left out.
type Peer struct {
	// ID is the peer's hop id; 0 when it has none.
	ID uint64
	// Source is the peer's own session; routes learned from it are left out whatever their hops.
	Source Source
}

// content names what a route carries. Routes of one content bring the same groups.
// Exactly one field is set: the last one where nothing proves that another route
// brings the same.
type content struct {
	epoch [16]byte
	hop   uint64
	route *Announcement
}

// proven reports whether other routes may be of the same content.
func (c content) proven() bool { return c.route == nil }

// Announcement is a route while it stands, and for a while after it was lost.
type Announcement struct {
	origin *Origin
	at     *place
	// guarded by origin.mu
	route    *Route // not changed once others have seen it, but replaced
	content  content
	hash     uint64 // of path and chain
	recency  uint64
	tracks   map[*track]struct{} // asked of it, or waiting for its return; nil until there is one
	assigned bool                // the epoch was given to it here, or is to be
	over     bool                // withdrawn, or given up
	gone     chan struct{}       // not nil: the route is lost and its path lingers; closed when it is over
	linger   *time.Timer         // ends that
	doomed   *time.Timer         // not nil: see condemnLocked; ends that
	carries  int                 // tracks that are asked of it on behalf of somebody
	warm     bool                // carries is above 0, or was a moment ago
	cooling  *time.Timer         // ends that moment
	moving   *time.Timer         // what it serves may move to a better route then; nil mostly
}

// readLocked takes what the route says now over: given is the epoch that it came with.
func (o *Origin) readLocked(a *Announcement, route Route) {
	if a.assigned {
		route.Epoch = [16]byte{}
	}
	before, epoch := a.content, [16]byte{}
	if a.route != nil {
		epoch = a.route.Epoch
	}
	o.recency++
	a.route, a.recency, a.hash = &route, o.recency, pathHash(route.Path, route.Hops...)
	kept := a.assigned
	a.assigned = route.Epoch == [16]byte{} && a.direct()
	a.content = a.identify()
	if kept && a.assigned && a.content == before {
		a.route.Epoch = epoch
	} else {
		o.assignLocked(a)
	}
}

// identify returns the content of the route. An epoch that was assigned here proves
// nothing here: a publisher whose protocol has none is not spliced.
func (a *Announcement) identify() content {
	r := a.route
	switch {
	case r.Epoch != [16]byte{} && !a.assigned:
		return content{epoch: r.Epoch}
	case r.HopIdentity && len(r.Hops) > 0 && r.Hops[0] != 0:
		return content{hop: r.Hops[0]}
	}
	return content{route: a}
}

func (a *Announcement) lost() bool { return a.gone != nil }

// Announce adds a route. A route whose chain holds this relay's own id is kept,
// so that an update may make it usable, but never used. Requests that wait for the
// path's return go on here; those that another content of the path serves end where
// this one replaces it.
func (o *Origin) Announce(route Route) *Announcement {
	var then aftermath
	o.mu.Lock()
	a := &Announcement{origin: o, at: o.placeLocked(route.Path)}
	o.readLocked(a, route)
	if a.at.add(a) {
		o.stats.Broadcasts.Add(1)
	}
	o.contents[a.content]++
	o.stats.Routes.Add(1)
	o.unparkLocked(a, &then)
	o.absolveLocked(a, &then)
	for _, b := range slices.Clone(a.at.routes) {
		if b.lost() {
			o.removeLocked(b, &then)
		}
	}
	o.supersedeLocked(a, &then)
	o.reconsiderLocked(a.at, nil, &then)
	o.changedLocked(a.at)
	o.mu.Unlock()
	then.run()
	return a
}

// Update replaces the chain and the costs. Subscribers through whom the route now
// leads are told, and come again: they could not have asked for it as it is.
func (a *Announcement) Update(hops []uint64, warm, cold uint64) {
	o := a.origin
	var then aftermath
	o.mu.Lock()
	if !a.over && !a.lost() {
		a.pardonLocked()
		before, route := a.content, *a.route
		route.Hops, route.Warm, route.Cold = hops, warm, cold
		o.readLocked(a, route)
		o.contents[a.content]++
		o.releaseLocked(before, &then)
		o.unparkLocked(a, &then)
		o.absolveLocked(a, &then)
		o.recheckLocked(a, &then)
		o.reconsiderLocked(a.at, nil, &then)
		o.changedLocked(a.at)
	}
	o.mu.Unlock()
	then.run()
}

// Withdraw removes the route: its source says that it is over. Subscriptions that
// run under it go on until their source ends them. What the source says is proof
// that routes which came through it are over too: see condemnLocked.
func (a *Announcement) Withdraw() { a.end(true) }

// Leave removes the route as Withdraw does, because its source has left in good
// order. That proves nothing about routes that came through it and others.
func (a *Announcement) Leave() { a.end(false) }

func (a *Announcement) end(proof bool) {
	o := a.origin
	var then aftermath
	o.mu.Lock()
	if !a.over {
		if proof && !a.lost() {
			o.condemnLocked(a)
		}
		o.removeLocked(a, &then)
		o.reconsiderLocked(a.at, a, &then)
		o.changedLocked(a.at)
		a.at.prune()
	}
	o.mu.Unlock()
	then.run()
}

// Lose removes the route because its source is gone without a word. Where it was
// the last one of its path the path stays announced for [Config.Linger]: requests
// for it wait that long for a new route, which may come from the same peer.
func (a *Announcement) Lose() {
	o := a.origin
	var then aftermath
	o.mu.Lock()
	switch {
	case a.over || a.lost():
	case a.doomed != nil || a.hasOtherLocked():
		o.removeLocked(a, &then)
		o.changedLocked(a.at)
		a.at.prune()
	default:
		a.gone = make(chan struct{})
		a.linger = time.AfterFunc(o.cfg.Linger, a.Leave)
		o.stats.Routes.Add(-1)
	}
	o.mu.Unlock()
	then.run()
}

func (a *Announcement) hasOtherLocked() bool {
	return slices.ContainsFunc(a.at.routes, func(b *Announcement) bool { return b != a && b.standsLocked() })
}

// standsLocked reports whether the route is neither lost nor condemned.
func (a *Announcement) standsLocked() bool { return !a.lost() && a.doomed == nil }

// removeLocked takes a route out of the books. The caller prunes its place.
func (o *Origin) removeLocked(a *Announcement, then *aftermath) {
	a.over = true
	a.pardonLocked()
	for _, timer := range []*time.Timer{a.cooling, a.moving} {
		if timer != nil {
			timer.Stop()
		}
	}
	if a.at.remove(a) {
		o.stats.Broadcasts.Add(-1)
	}
	if a.lost() {
		a.linger.Stop()
		close(a.gone)
	} else {
		o.stats.Routes.Add(-1)
	}
	for t := range a.tracks {
		if o.parked[t] != nil {
			then.failed = append(then.failed, t)
		} else if !a.direct() {
			t.awaitEnd(a)
		}
	}
	o.releaseLocked(a.content, then)
	if c := (content{route: a}); c != a.content {
		then.shelves = append(then.shelves, o.clearShelvesLocked(c)...)
	}
}

// releaseLocked counts one route less of a content. With the last one nobody may
// have its groups any more.
func (o *Origin) releaseLocked(c content, then *aftermath) {
	o.contents[c]--
	if o.contents[c] == 0 {
		delete(o.contents, c)
		then.shelves = append(then.shelves, o.clearShelvesLocked(c)...)
	}
}

// supersedeLocked ends what other routes of exactly the same path serve, where a
// is better and certainly brings something else: another publisher has taken the
// path, or the same one has returned while its dead session is still counted.
func (o *Origin) supersedeLocked(a *Announcement, then *aftermath) {
	if o.bestLocked(a.at, Peer{}) != a {
		return
	}
	for _, b := range a.at.routes {
		if b.lost() || b.route.Source == a.route.Source || b.content == a.content {
			continue // a source itself ends what it serves no more
		}
		if !(a.content.proven() && b.content.proven() || a.named() && b.named()) {
			continue
		}
		for t := range maps.Clone(b.tracks) {
			o.moveLocked(t, a, then)
		}
	}
}

// named reports whether the route has an epoch. Two contents have never the same:
// not even those that were given theirs here.
func (a *Announcement) named() bool { return a.route.Epoch != [16]byte{} }

// direct reports whether the route came from the publisher itself.
func (a *Announcement) direct() bool { return len(a.route.Hops) <= 1 }

// aftermath is what is to be done once origin.mu is free.
type aftermath struct {
	pulls   []*Producer
	failed  []*track        // their source does not return
	moved   []*track        // their subscribers are to come again
	cut     []*Subscription // likewise, these alone
	sources []*Producer     // gone for good
	shelves []*shelf
}

func (x *aftermath) run() {
	for _, t := range x.failed {
		t.fail(t.loss())
	}
	for _, t := range x.moved {
		t.fail(errReplaced)
	}
	for _, p := range x.sources {
		p.Fail(errLooped)
	}
	for _, s := range x.cut {
		s.fail(errLooped)
	}
	for _, s := range x.shelves {
		s.clear()
	}
	for _, p := range x.pulls {
		p.pull()
	}
}

// usableLocked reports whether the route may be shown to, and served for, a peer.
func (o *Origin) usableLocked(a *Announcement, peer Peer) bool {
	r := a.route
	switch {
	case a.doomed != nil,
		peer.Source != nil && r.Source == peer.Source,
		peer.ID != 0 && slices.Contains(r.Hops, peer.ID):
		return false
	}
	return !slices.Contains(r.Hops, o.cfg.ID)
}

// bestLocked is the usable route announced for exactly this place that a request
// goes to, and that is shown: the best one, or one of the same content by which that
// is carried already.
func (o *Origin) bestLocked(at *place, peer Peer) *Announcement {
	var best, carrying *Announcement
	for _, a := range at.routes {
		if !o.usableLocked(a, peer) {
			continue
		}
		if best == nil || better(a, best) {
			best = a
		}
		if a.carries > 0 && !a.route.draining() && (carrying == nil || better(a, carrying)) {
			carrying = a
		}
	}
	if carrying != nil && carrying.content == best.content {
		return carrying
	}
	return best
}

// coveringLocked is the best usable route for a path: the most specific one first,
// and one that is lost only where there is no other.
func (o *Origin) coveringLocked(path Path, peer Peer) *Announcement {
	var lost *Announcement
	for at := o.deepestLocked(path); at != nil; at = at.above {
		best := o.bestLocked(at, peer)
		if best != nil && !best.lost() {
			return best
		}
		if lost == nil {
			lost = best
		}
	}
	return lost
}

// Routes returns every route that is announced now, in the order of paths, for a
// person to look at. Those that are lost are left out.
func (o *Origin) Routes() []Route { return o.RoutesUnder("") }

// RoutesUnder is Routes of what is announced at and below prefix: it looks at
// nothing else.
func (o *Origin) RoutesUnder(prefix Path) []Route {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []Route
	if at := o.findLocked(prefix); at != nil {
		at.each(func(p *place) {
			for _, a := range p.routes {
				if a.standsLocked() {
					out = append(out, *a.route)
				}
			}
		})
	}
	slices.SortStableFunc(out, func(x, y Route) int { return cmp.Compare(x.Path, y.Path) })
	return out
}
