package model

import (
	"slices"
	"sync"
	"time"
)

// shelf is what there is of a track beside its live request: groups that requests
// which are over have left, groups that were fetched, and requests for more. No
// subscription gets any of it: it is not live.
type shelf struct {
	key     trackKey
	fetched *track // never live; its groups were fetched

	fetches int // open ones; guarded by origin.mu

	mu       sync.Mutex // the rest; order: after origin.mu, before track.mu
	retired  []*track   // newest first
	requests map[uint64]*GroupRequest
}

// shelfLocked returns the shelf of a track, a new one where there is none.
func (o *Origin) shelfLocked(key trackKey) *shelf {
	s := o.shelves[key]
	if s == nil {
		s = &shelf{key: key, fetched: newFetched(o, key), requests: make(map[uint64]*GroupRequest)}
		o.shelves[key] = s
	}
	return s
}

// leaveShelf is called when a fetch ends.
func (o *Origin) leaveShelf(s *shelf) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaveShelfLocked(s)
}

func (o *Origin) leaveShelfLocked(s *shelf) {
	s.fetches--
	o.trimLocked(s)
}

// trimLocked forgets a shelf that holds nothing and that nobody asks.
func (o *Origin) trimLocked(s *shelf) {
	if s.trim() && s.fetches == 0 && o.shelves[s.key] == s {
		delete(o.shelves, s.key)
	}
}

// trimShelves forgets what the cache has emptied.
func (o *Origin) trimShelves() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.shelves {
		o.trimLocked(s)
	}
}

// trim forgets retired tracks without groups and reports whether nothing is left.
func (s *shelf) trim() (empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = slices.DeleteFunc(s.retired, func(t *track) bool { return t.held() == 0 })
	return len(s.retired) == 0 && len(s.requests) == 0 && s.fetched.held() == 0
}

// tracks returns where a group may be held: the live request, what was fetched,
// and what was left, newest first.
func (s *shelf) tracks(live *track) []*track {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*track, 0, 2+len(s.retired))
	if live != nil {
		all = append(all, live)
	}
	return append(append(all, s.fetched), s.retired...)
}

// known returns the properties of the track, as the latest request has left them.
func (s *shelf) known() (Info, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.retired {
		if info, ok := t.known(); ok {
			return info, true
		}
	}
	return Info{}, false
}

// retire puts a track whose request has ended on its shelf, unless its content is
// gone: then nobody may have its groups any more.
func (o *Origin) retire(t *track) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.contents[t.key.content] == 0 || t.held() == 0 {
		return
	}
	s := o.shelfLocked(t.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.retired {
		t.retired = true
		s.retired = slices.Insert(s.retired, 0, t)
	}
}

// clearShelvesLocked takes away the shelves of a content and returns the tracks
// whose groups are to be dropped, and the requests that are to fail.
func (o *Origin) clearShelvesLocked(c content) (left []*shelf) {
	for key, s := range o.shelves {
		if key.content == c {
			delete(o.shelves, key)
			left = append(left, s)
		}
	}
	return left
}

// clear drops all that a shelf holds.
func (s *shelf) clear() {
	for _, t := range s.tracks(nil) {
		t.unshelve()
	}
	s.mu.Lock()
	requests := make([]*GroupRequest, 0, len(s.requests))
	for _, r := range s.requests {
		requests = append(requests, r)
	}
	s.mu.Unlock()
	for _, r := range requests {
		r.Fail(nil)
	}
}

// unshelve drops what a track has left for fetches: at once, or when the last
// subscriber that still reads it has closed.
func (t *track) unshelve() {
	t.mu.Lock()
	t.retired = false
	empty := len(t.subs) == 0
	t.mu.Unlock()
	if empty {
		t.settle()
	}
}

// arrived says that a group of the live request is here: whoever waits for its
// copy looks again.
func (s *shelf) arrived(sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.requests[sequence]; r != nil {
		r.answerLocked(nil)
	}
}

// newFetched returns the track that fetched groups belong to.
func newFetched(o *Origin, key trackKey) *track {
	t := &track{origin: o, key: key, groups: make(map[uint64]*group), stopped: true}
	t.maxAge.Store(int64(defaultMaxAge))
	return t
}

// shelve adds a group that is being fetched. Another copy of it gives way.
func (t *track) shelve(sequence uint64) (g, replaced *group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	replaced = t.groups[sequence]
	if replaced != nil {
		t.removeLocked(replaced)
	}
	g = newGroup(t, sequence)
	t.groups[sequence] = g
	t.origin.cache.add(g, false, time.Now())
	t.origin.stats.Groups.Add(1)
	return g, replaced
}

// held is how many groups the track has.
func (t *track) held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.groups)
}

// known returns the properties of the track, if the publisher told them.
func (t *track) known() (Info, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info, t.accepted
}
