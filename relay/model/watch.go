package model

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// ChangeKind says what happened to a path.
type ChangeKind int

// What can happen to a path, as one peer may see it.
const (
	Started ChangeKind = iota
	Updated
	Ended
)

// Change is one change of what a peer may see.
type Change struct {
	// Path is absolute: at or below the watched prefix.
	Path Path
	Kind ChangeKind
	// Route is the best route now; zero when Kind is Ended. Its Hops are not to be changed.
	Route Route
}

// holdDown is how long a watcher keeps to itself that a route has become worse. In
// a mesh whose paths change, most such news is true for a moment only: the better
// route comes back by another relay, or the end of all of them is on its way. What
// is told at once makes every relay tell every other one of each step. The time is
// longer than news takes from one relay to the next, queues included, and shorter
// than a viewer notices. TestNewsOfALostRelayDoesNotWander counts what it saves.
const holdDown = 100 * time.Millisecond

// Watcher follows the routes at and below a prefix, as one peer may see them.
type Watcher struct {
	origin *Origin
	prefix Path
	at     *place // of prefix
	peer   Peer
	notify wake

	// guarded by origin.mu
	shown  map[Path]shownRoute
	most   int // paths in it at a time, since it was made
	dirty  map[Path]struct{}
	held   map[Path]time.Time // paths whose route is worse than was told, until then; nil while there are none
	queue  []holding          // the same by time, and some that are not held any more
	begun  bool
	closed bool
}

// shownRoute is what the watcher was last told of a path.
type shownRoute struct {
	route *Route
	warm  uint64 // as told: see shownWarm
}

// holding is the end of one path's hold.
type holding struct {
	path Path
	due  time.Time
}

// Watch begins to follow the routes at and below prefix that do not lead through
// the peer. A route announced above the prefix is shown at the prefix.
func (o *Origin) Watch(prefix Path, peer Peer) *Watcher {
	w := &Watcher{origin: o, prefix: prefix, peer: peer, shown: make(map[Path]shownRoute), dirty: make(map[Path]struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	w.at = o.placeLocked(prefix)
	if w.at.watchers == nil {
		w.at.watchers = make(map[*Watcher]struct{})
	}
	w.at.watchers[w] = struct{}{}
	w.at.each(func(p *place) {
		if len(p.routes) > 0 {
			w.dirty[p.path] = struct{}{}
		}
	})
	w.dirty[prefix] = struct{}{} // what lies above it
	return w
}

// Next returns what changed since the last call, in the order of paths. The first
// call returns at once, with what there is, or with nothing; later ones wait. That a
// route has become worse, by cost, length or an older epoch, is told 100 ms later, if
// it still is so; that it is over, at the highest cost, or better, at once. The
// error is [ErrClosed] after Close, or the context's cause.
func (w *Watcher) Next(ctx context.Context) ([]Change, error) {
	for {
		wakened := w.notify.wait()
		changes, ready, err := w.collect()
		if ready || err != nil {
			return changes, err
		}
		if err := w.wait(ctx, wakened); err != nil {
			return nil, err
		}
	}
}

// wait returns when there may be something to tell.
func (w *Watcher) wait(ctx context.Context, wakened <-chan struct{}) error {
	var due <-chan time.Time
	if at, ok := w.firstDue(); ok {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-wakened:
	case <-due:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func (w *Watcher) firstDue() (at time.Time, ok bool) {
	w.origin.mu.Lock()
	defer w.origin.mu.Unlock()
	if len(w.queue) == 0 {
		return at, false
	}
	return w.queue[0].due, true
}

// Close ends the watcher; a waiting Next returns.
func (w *Watcher) Close() {
	w.origin.mu.Lock()
	w.closed = true
	delete(w.at.watchers, w)
	w.at.prune()
	w.origin.mu.Unlock()
	w.notify.broadcast()
}

func (w *Watcher) collect() (changes []Change, ready bool, err error) {
	o := w.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.closed {
		return nil, false, ErrClosed
	}
	now := time.Now()
	w.dueLocked(now)
	for _, path := range sortedKeys(w.dirty) {
		if c, changed := w.lookLocked(path, now); changed {
			changes = append(changes, c)
		}
	}
	w.emptyLocked()
	ready = len(changes) > 0 || !w.begun
	w.begun = true
	return changes, ready, nil
}

// emptyLocked forgets what was looked at. A map keeps the room that it once needed,
// so that a large one gives way to a new one.
func (w *Watcher) emptyLocked() {
	const large = 1000
	if len(w.dirty) > large {
		w.dirty = make(map[Path]struct{})
	}
	clear(w.dirty)
	w.most = max(w.most, len(w.shown))
	if len(w.shown) == 0 && w.most > large {
		w.shown, w.most = make(map[Path]shownRoute), 0
	}
}

// dueLocked marks the paths whose hold is over.
func (w *Watcher) dueLocked(now time.Time) {
	for len(w.queue) > 0 && !w.queue[0].due.After(now) {
		if h := w.queue[0]; w.held[h.path].Equal(h.due) {
			w.dirty[h.path] = struct{}{}
		}
		w.queue = w.queue[1:]
	}
	if len(w.queue) == 0 {
		w.queue = nil
	}
}

// lookLocked compares what the watcher was told of a path with what is.
func (w *Watcher) lookLocked(path Path, now time.Time) (Change, bool) {
	best := w.bestLocked(path)
	before, known := w.shown[path]
	switch {
	case best == nil && !known:
		return Change{}, false
	case best == nil:
		delete(w.shown, path)
		delete(w.held, path)
		return Change{Path: path, Kind: Ended}, true
	}
	c := Change{Path: path, Route: *best.route}
	c.Route.Warm = best.shownWarm()
	news := true
	if known {
		c.Kind = Updated
		news = before.route != best.route && !before.looksLike(&c.Route) || before.warm != c.Route.Warm
		if news && w.holdsLocked(path, now, &before, &c.Route) {
			return Change{}, false
		}
	}
	delete(w.held, path)
	w.shown[path] = shownRoute{route: best.route, warm: c.Route.Warm}
	return c, news
}

// holdsLocked reports whether the change is to be told later.
func (w *Watcher) holdsLocked(path Path, now time.Time, before *shownRoute, r *Route) bool {
	if r.draining() || !before.exceeds(r) {
		return false
	}
	due, held := w.held[path]
	if !held {
		if w.held == nil {
			w.held = make(map[Path]time.Time)
		}
		due = now.Add(w.origin.hold)
		w.held[path] = due
		w.queue = append(w.queue, holding{path, due})
	}
	return now.Before(due)
}

// told is the route as the watcher was told it.
func (s *shownRoute) told() *Route {
	r := *s.route
	r.Warm = s.warm
	return &r
}

// exceeds reports whether what was told is better than r, or as good.
func (s *shownRoute) exceeds(r *Route) bool {
	before := s.told()
	return cmp.Or(compareEpoch(before, r), compareCost(before, r)) <= 0
}

// looksLike reports whether nothing that a peer may see is different, which says
// something only where the content is known to be the same.
func (s *shownRoute) looksLike(r *Route) bool {
	b := s.told()
	return r.Epoch != [16]byte{} && r.Epoch == b.Epoch && r.Warm == b.Warm && r.Cold == b.Cold && slices.Equal(r.Hops, b.Hops)
}

func (w *Watcher) bestLocked(path Path) *Announcement {
	if path == w.prefix {
		return w.origin.coveringLocked(path, w.peer)
	}
	if at := w.origin.findLocked(path); at != nil {
		return w.origin.bestLocked(at, w.peer)
	}
	return nil
}

// markLocked notes that a path has changed. One that came and went again before
// the watcher looked is nothing to remember.
func (w *Watcher) markLocked(at *place) {
	_, known := w.shown[at.path]
	if !known && at.path != w.prefix && len(at.routes) == 0 {
		delete(w.dirty, at.path)
		return
	}
	w.dirty[at.path] = struct{}{}
	w.notify.broadcast()
}

// changedLocked marks a path for every watcher that may see it. The place is that of
// a route which stands, or is just being removed: an older one knows less than there is.
func (o *Origin) changedLocked(at *place) {
	for p := at; p != nil; p = p.above {
		for w := range p.watchers {
			w.markLocked(at)
		}
	}
	for _, p := range at.below { // the route may be shown at their prefixes
		p.each(func(p *place) {
			for w := range p.watchers {
				w.markLocked(p)
			}
		})
	}
}
