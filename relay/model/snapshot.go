package model

import (
	"cmp"
	"slices"
)

// CachedTrack is what is held of one track.
type CachedTrack struct {
	Path Path
	Name string
	// Groups is how many groups are held, Newest the highest of their numbers.
	Groups int
	Newest uint64
	// Bytes is their charge.
	Bytes int64
}

// Cached returns what is held of each track, in the order of paths and names. It
// is for people: it looks at every group, a part at a time, so that the whole is
// not of one instant.
func (o *Origin) Cached() []CachedTrack {
	type name struct {
		path  Path
		track string
	}
	byName := make(map[name]*CachedTrack)
	for i := range o.cache.shards {
		for _, g := range o.cache.shards[i].groups() {
			key := name{g.track.path, g.track.name}
			t := byName[key]
			if t == nil {
				t = &CachedTrack{Path: key.path, Name: key.track}
				byName[key] = t
			}
			t.Groups++
			t.Newest = max(t.Newest, g.sequence)
			t.Bytes += max(0, g.charged.Load()) // below 0: dropped meanwhile
		}
	}
	out := make([]CachedTrack, 0, len(byName))
	for _, t := range byName {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b CachedTrack) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// groups returns all groups of a shard.
func (s *shard) groups() []*group {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*group
	for _, list := range []*groupList{&s.old, &s.latest} {
		for g := list.first; g != nil; g = g.place.next {
			out = append(out, g)
		}
	}
	return out
}
