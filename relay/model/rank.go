package model

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// MaxCost is the highest cost of a route. One whose Warm is that leads through a
// relay that goes away, and is the last choice.
const MaxCost = 1<<62 - 1

// draining reports whether the route leads through a relay that goes away.
func (r *Route) draining() bool { return r.Warm >= MaxCost }

// better ranks routes of one path (moq-lite, relay routing): the higher epoch, then
// what compareCost says, then the lower hash of path and chain, which spreads the
// paths over parents that cost the same, then recency: a publisher that has come
// again wins over its own dead session.
func better(a, b *Announcement) bool {
	x, y := a.route, b.route
	order := cmp.Or(compareEpoch(x, y), compareCost(x, y), cmp.Compare(a.hash, b.hash))
	if order != 0 {
		return order < 0
	}
	return a.recency > b.recency
}

// compareEpoch is below 0 where x has the higher epoch.
func compareEpoch(x, y *Route) int { return bytes.Compare(y.Epoch[:], x.Epoch[:]) }

// compareCost is below 0 where x is cheaper: without unknown hops, then warm cost,
// cold cost, length.
func compareCost(x, y *Route) int {
	return cmp.Or(
		compareBool(slices.Contains(x.Hops, 0), slices.Contains(y.Hops, 0)),
		cmp.Compare(x.Warm, y.Warm),
		cmp.Compare(x.Cold, y.Cold),
		cmp.Compare(len(x.Hops), len(y.Hops)),
	)
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// pathHash is FNV-1a over a path and hops, stirred so that its high bits depend on
// the last hop too. It is the same in every build and on every machine: relays
// compare each other's.
func pathHash(path Path, hops ...uint64) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(path) {
		h = (h ^ uint64(path[i])) * prime
	}
	var b [8]byte
	for _, hop := range hops {
		binary.BigEndian.PutUint64(b[:], hop)
		for _, x := range b {
			h = (h ^ uint64(x)) * prime
		}
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h
}
