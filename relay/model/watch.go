package model

import (
	"context"
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

// Watcher follows the routes at and below a prefix, as one peer may see them.
type Watcher struct {
	origin *Origin
	prefix Path
	at     *place // of prefix
	peer   Peer
	notify wake

	// guarded by origin.mu
	shown  map[Path]shownRoute
	dirty  map[Path]struct{}
	begun  bool
	closed bool
}

// shownRoute is what the watcher was last told of a path.
type shownRoute struct {
	route   *Announcement
	recency uint64
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
// call returns at once, with what there is, or with nothing; later ones wait. The
// error is [ErrClosed] after Close, or the context's cause.
func (w *Watcher) Next(ctx context.Context) ([]Change, error) {
	for {
		wakened := w.notify.wait()
		changes, ready, err := w.collect()
		if ready || err != nil {
			return changes, err
		}
		select {
		case <-wakened:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
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
	for _, path := range sortedKeys(w.dirty) {
		if c, changed := w.lookLocked(path); changed {
			changes = append(changes, c)
		}
	}
	clear(w.dirty)
	ready = len(changes) > 0 || !w.begun
	w.begun = true
	return changes, ready, nil
}

// lookLocked compares what the watcher was told of a path with what is.
func (w *Watcher) lookLocked(path Path) (Change, bool) {
	best := w.bestLocked(path)
	before, known := w.shown[path]
	switch {
	case best == nil && !known:
		return Change{}, false
	case best == nil:
		delete(w.shown, path)
		return Change{Path: path, Kind: Ended}, true
	case known && before.route == best && before.recency == best.recency:
		return Change{}, false
	}
	w.shown[path] = shownRoute{route: best, recency: best.recency}
	c := Change{Path: path, Kind: Updated, Route: *best.route}
	if !known {
		c.Kind = Started
	}
	return c, true
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

// changedLocked marks a path for every watcher that may see it.
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
