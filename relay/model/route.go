package model

import (
	"slices"
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

// Announcement is a route while it stands.
type Announcement struct {
	origin *Origin
	// guarded by origin.mu
	route     Route
	recency   uint64
	withdrawn bool
}

// Announce adds a route. A route whose chain holds this relay's own id is kept,
// so that an update may make it usable, but never used.
func (o *Origin) Announce(route Route) *Announcement {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recency++
	a := &Announcement{origin: o, route: route, recency: o.recency}
	at := o.routes[route.Path]
	if at == nil {
		at = make(map[*Announcement]struct{})
		o.routes[route.Path] = at
		o.stats.Broadcasts.Add(1)
	}
	at[a] = struct{}{}
	o.stats.Routes.Add(1)
	o.changedLocked(route.Path)
	return a
}

// Update replaces the chain and the costs.
func (a *Announcement) Update(hops []uint64, warm, cold uint64) {
	o := a.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.withdrawn {
		return
	}
	o.recency++
	a.recency = o.recency
	a.route.Hops, a.route.Warm, a.route.Cold = hops, warm, cold
	o.changedLocked(a.route.Path)
}

// Withdraw removes the route. Subscriptions that run under it go on until their
// source ends them.
func (a *Announcement) Withdraw() {
	o := a.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.withdrawn {
		return
	}
	a.withdrawn = true
	path := a.route.Path
	delete(o.routes[path], a)
	if len(o.routes[path]) == 0 {
		delete(o.routes, path)
		o.stats.Broadcasts.Add(-1)
	}
	o.stats.Routes.Add(-1)
	o.changedLocked(path)
}

// source needs no lock: it never changes.
func (a *Announcement) source() Source { return a.route.Source }

// usableLocked reports whether the route may be shown to, and served for, a peer.
func (o *Origin) usableLocked(a *Announcement, peer Peer) bool {
	r := &a.route
	if peer.Source != nil && r.Source == peer.Source {
		return false
	}
	if peer.ID != 0 && slices.Contains(r.Hops, peer.ID) {
		return false
	}
	return !slices.Contains(r.Hops, o.cfg.ID)
}

// bestLocked is the best usable route announced for exactly this path.
func (o *Origin) bestLocked(path Path, peer Peer) *Announcement {
	var best *Announcement
	for a := range o.routes[path] {
		if o.usableLocked(a, peer) && (best == nil || better(a, best)) {
			best = a
		}
	}
	return best
}

// coveringLocked is the best usable route for a path: the most specific one first.
func (o *Origin) coveringLocked(path Path, peer Peer) *Announcement {
	for ok := true; ok; path, ok = path.parent() {
		if best := o.bestLocked(path, peer); best != nil {
			return best
		}
	}
	return nil
}

// better ranks routes: without unknown hops, warm cost, cold cost, length, recency.
func better(a, b *Announcement) bool {
	x, y := &a.route, &b.route
	if xu, yu := slices.Contains(x.Hops, 0), slices.Contains(y.Hops, 0); xu != yu {
		return yu
	}
	switch {
	case x.Warm != y.Warm:
		return x.Warm < y.Warm
	case x.Cold != y.Cold:
		return x.Cold < y.Cold
	case len(x.Hops) != len(y.Hops):
		return len(x.Hops) < len(y.Hops)
	}
	return a.recency > b.recency
}

// Routes returns every route that is announced now, in the order of paths, for a
// person to look at.
func (o *Origin) Routes() []Route {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]Route, 0, len(o.routes))
	for _, path := range sortedKeys(o.routes) {
		for a := range o.routes[path] {
			out = append(out, a.route)
		}
	}
	return out
}
