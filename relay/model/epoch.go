package model

// Epoch returns the epoch of the route that a request for path goes to on behalf
// of peer; zero when that names none, or there is no route.
func (o *Origin) Epoch(path Path, peer Peer) [16]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if route := o.coveringLocked(path, peer); route != nil {
		return route.route.Epoch
	}
	return [16]byte{}
}

// Largest returns the place of the track's newest frame: of the group with the
// highest number, the last frame whose head is there. It is false while the track
// has no frame.
func (s *Subscription) Largest() (group, frame uint64, ok bool) {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.order) - 1; i >= 0; i-- {
		if frames := t.order[i].begun.Load(); frames > 0 {
			return t.order[i].sequence, frames - 1, true
		}
	}
	return 0, 0, false
}
