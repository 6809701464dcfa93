package model

import "slices"

// place is a node of the tree of paths: what stands at a path, and below it. A
// place lives while it has a route or a watcher, or one below it has; the root for ever.
type place struct {
	path     Path
	above    *place            // nil at the root
	below    map[string]*place // by the next segment; nil while there are none
	routes   []*Announcement
	watchers map[*Watcher]struct{} // nil while there are none
}

// placeLocked returns the place of a path, a new one where there is none.
func (o *Origin) placeLocked(path Path) *place {
	at, end := &o.root, -1
	for segment := range path.segments() {
		end += 1 + len(segment)
		next := at.below[segment]
		if next == nil {
			next = &place{path: path[:end], above: at}
			if at.below == nil {
				at.below = make(map[string]*place)
			}
			at.below[segment] = next
		}
		at = next
	}
	return at
}

// deepestLocked returns the place of a path, or the deepest one above it that there is.
func (o *Origin) deepestLocked(path Path) *place {
	at := &o.root
	for segment := range path.segments() {
		next := at.below[segment]
		if next == nil {
			return at
		}
		at = next
	}
	return at
}

// findLocked returns the place of a path, nil where there is none.
func (o *Origin) findLocked(path Path) *place {
	if at := o.deepestLocked(path); at.path == path {
		return at
	}
	return nil
}

// add puts a route at the place, and reports whether it is the first one.
func (p *place) add(a *Announcement) (first bool) {
	p.routes = append(p.routes, a)
	return len(p.routes) == 1
}

// remove takes a route from the place, and reports whether it was the last one.
func (p *place) remove(a *Announcement) (last bool) {
	i := slices.Index(p.routes, a)
	p.routes = slices.Delete(p.routes, i, i+1)
	return len(p.routes) == 0
}

// prune forgets the place, and those above it, where nothing needs them any more.
func (p *place) prune() {
	for p.above != nil && len(p.routes)+len(p.watchers)+len(p.below) == 0 {
		segment := string(p.path)
		if p.above.above != nil {
			segment = segment[len(p.above.path)+1:]
		}
		delete(p.above.below, segment)
		if len(p.above.below) == 0 {
			p.above.below = nil
		}
		p = p.above
	}
}

// each calls f for the place and all below it, in no order.
func (p *place) each(f func(*place)) {
	f(p)
	for _, q := range p.below {
		q.each(f)
	}
}
