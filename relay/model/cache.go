package model

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// CacheConfig bounds what an [Origin] holds.
type CacheConfig struct {
	// MaxBytes is a hard ceiling for the charge of all groups: bytes held, 128
	// for each frame and 320 for each group. What would be over it is not stored.
	// 0 means no ceiling.
	MaxBytes int64
	// MaxAge is the longest that a group which is not its track's latest is held
	// after it was last written or read; a track's own Info.MaxAge may be
	// shorter. 0 means 30 s. A group outlives it while one just before it in
	// number is held: age makes no holes. Reads alone keep a group ten times as long.
	MaxAge time.Duration
}

const defaultMaxAge = 30 * time.Second

// cacheShards is how many lists of groups there are. A group is in one of them, in
// turn, so that the lists are about equally old; their locks are taken when a group
// comes, stops being the latest or goes, not for a frame.
const cacheShards = 16

// uncounted is far below zero: what is charged to a group that the cache no longer
// counts stays negative.
const uncounted = math.MinInt64 / 2

// cachePosition is where a group stands in the cache's books; guarded by its shard's mutex.
type cachePosition struct {
	list       *groupList // nil while it is not counted
	prev, next *group
	used       int64 // clock at the last look that found it in use
	wrote      int64 // clock at the last look that found it longer
	logged     int64 // its length then
	shard      uint8 // never changes once counted
}

// cache counts what all groups hold and drops some before that gets too much.
//
// total is the charge of all groups and never above max: bytes are charged before
// they are stored. The path of a frame has no lock, only that counter.
type cache struct {
	max    atomic.Int64 // bytes; 0 = no ceiling
	maxAge atomic.Int64 // time.Duration
	total  atomic.Int64
	stats  *Stats
	freed  wake // total has fallen; writers that found no room wait here

	turn   atomic.Uint32
	shards [cacheShards]shard

	shrinking sync.Mutex // held by the one that drops groups; before track.mu
	swept     int64      // clock at the last sweep; guarded by shrinking
}

// shard is one part of the groups.
type shard struct {
	mu     sync.Mutex
	old    groupList    // not the latest of their track; the least recently used first, roughly
	latest groupList    // the latest of their track
	oldest atomic.Int64 // when the first of old was used; noLimit when there is none
}

func newCache(cfg CacheConfig, stats *Stats) *cache {
	c := &cache{stats: stats}
	for i := range c.shards {
		c.shards[i].oldest.Store(noLimit)
	}
	c.set(cfg)
	return c
}

func (c *cache) set(cfg CacheConfig) {
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = defaultMaxAge
	}
	c.max.Store(cfg.MaxBytes)
	c.maxAge.Store(int64(cfg.MaxAge))
}

// add puts a group into the books, without charge.
func (c *cache) add(g *group, latest bool, now time.Time) {
	g.place.shard = uint8(c.turn.Add(1) % cacheShards)
	s := &c.shards[g.place.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	g.place.used = clockAt(now)
	g.place.wrote = g.place.used
	if latest {
		s.latest.push(g)
	} else {
		s.old.push(g)
	}
	s.notedLocked()
	c.stats.CachedGroups.Add(1)
}

// demote says that a group is no longer its track's latest.
func (c *cache) demote(g *group) {
	s := &c.shards[g.place.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.place.list == &s.latest {
		s.latest.remove(g)
		g.place.used = clock()
		s.old.push(g)
		s.notedLocked()
	}
}

// remove stops counting a group. It reports false when it was not counted.
func (c *cache) remove(g *group) bool {
	_, ok := c.discard(g)
	return ok
}

// discard is remove, and returns the charge that was freed.
func (c *cache) discard(g *group) (charge int64, ok bool) {
	s := &c.shards[g.place.shard]
	s.mu.Lock()
	list := g.place.list
	if list != nil {
		list.remove(g)
		s.notedLocked()
	}
	s.mu.Unlock()
	if list == nil {
		return 0, false
	}
	charge = g.charged.Swap(uncounted)
	c.release(charge)
	c.stats.CachedGroups.Add(-1)
	g.letGo()
	return charge, true
}

// open charges what a group costs that was just added; one for which there is no
// room is evicted again.
func (c *cache) open(g *group) error {
	if c.charge(g, groupCharge, groupCharge) {
		return nil
	}
	c.evict(g, ErrNoCapacity, &c.stats.EvictedCapacity)
	return ErrNoCapacity
}

// charge counts n more bytes for g, which are then stored, and drops others where
// they would not fit. It reports false when not enough may be dropped. whole is
// what they are part of: when that never fits, nothing is dropped for it.
func (c *cache) charge(g *group, n, whole int64) bool {
	if !c.reserve(n) && (!c.fits(whole) || !c.makeRoom(g, n)) {
		return false
	}
	if g.charged.Add(n) < 0 { // dropped meanwhile: its writer will notice
		c.release(n)
	}
	return true
}

// fits reports whether an empty cache would take n bytes.
func (c *cache) fits(n int64) bool {
	ceiling := c.max.Load()
	return ceiling <= 0 || n+groupCharge <= ceiling
}

// reserve takes n bytes of what is free.
func (c *cache) reserve(n int64) bool {
	for {
		ceiling, total := c.max.Load(), c.total.Load()
		if ceiling > 0 && total+n > ceiling {
			return false
		}
		if c.total.CompareAndSwap(total, total+n) {
			return true
		}
	}
}

// release gives bytes back.
func (c *cache) release(n int64) {
	c.total.Add(-n)
	c.freed.broadcast()
}

// uncharge counts n bytes less for g.
func (c *cache) uncharge(g *group, n int64) {
	if g.charged.Add(-n) >= 0 { // else all of it went when the group did
		c.release(n)
	}
}

// trim drops at least n bytes from the front of a group that is longer than tail,
// and a little more: a group without end would look for something with each frame.
func (c *cache) trim(g *group, n, tail int64) {
	if freed := g.dropFront(n+tail/64, false); freed > 0 {
		c.uncharge(g, freed)
		c.stats.EvictedTail.add(freed)
	}
}

// makeRoom takes n bytes for writing, dropping what it must. Every round frees
// something or is the last; what it frees, others may take before it.
func (c *cache) makeRoom(writing *group, n int64) bool {
	c.shrinking.Lock()
	defer c.shrinking.Unlock()
	for !c.reserve(n) {
		if now := clock(); now-c.swept >= int64(sweepInterval) && c.expireLocked(now) > 0 {
			continue
		}
		if !c.shrinkLocked(writing, n) {
			return c.reserve(n)
		}
	}
	return true
}

// shrinkLocked drops groups and fronts of groups until n bytes more would fit, and
// reports whether it freed anything: groups that are not the latest of their
// track, least recently used first; then what everybody has of the latest groups,
// largest first; then what somebody still needs of them. The newest frame of a
// latest group stays.
//
// Once it drops something it drops a little more than it must, so that writes under
// a full cache look for something to drop once in a while, not each of them.
func (c *cache) shrinkLocked(writing *group, n int64) bool {
	ceiling := c.max.Load()
	need := ceiling - n
	target := need - min(ceiling/64, 1<<20)
	if ceiling <= 0 || c.total.Load() <= need {
		return false
	}
	freed := false
	for c.total.Load() > target {
		g := c.leastRecent(writing)
		if g == nil {
			break
		}
		freed = c.evict(g, ErrEvicted, &c.stats.EvictedCapacity) || freed
	}
	for _, sentOnly := range []bool{true, false} {
		for c.total.Load() > need && c.dropFronts(writing, target, sentOnly) {
			freed = true
		}
	}
	return freed
}

// dropFronts drops the front of latest groups, and of the one that is being
// written, largest first and up to half of each, until the charge is at target. It
// reports whether anything was freed.
func (c *cache) dropFronts(writing *group, target int64, sentOnly bool) bool {
	progress := false
	for _, g := range c.largest(writing) {
		over := c.total.Load() - target
		if over <= 0 {
			break
		}
		freed := g.dropFront(min(over, max(g.charged.Load()/2, 1)), sentOnly)
		if freed == 0 {
			continue
		}
		c.uncharge(g, freed)
		c.stats.EvictedCapacity.add(freed)
		progress = true
	}
	return progress
}

// leastRecent picks the next group to evict, other than the one that is being
// written. Groups in use since they were last looked at get one more round.
func (c *cache) leastRecent(writing *group) *group {
	for range 2*c.stats.CachedGroups.Load() + cacheShards {
		s := c.oldestShard()
		if s == nil {
			return nil
		}
		if g := s.pick(writing); g != nil {
			return g
		}
	}
	return nil
}

// oldestShard is the one whose least recently used group is the oldest.
func (c *cache) oldestShard() *shard {
	var found *shard
	oldest := int64(noLimit)
	for i := range c.shards {
		if used := c.shards[i].oldest.Load(); used < oldest {
			found, oldest = &c.shards[i], used
		}
	}
	return found
}

// pick returns the least recently used group of the shard if it was not used since
// the last look; otherwise that goes to the end, as used now.
func (s *shard) pick(writing *group) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.old.first
	if g == nil {
		return nil
	}
	if g != writing && !g.touched.Swap(false) {
		return g
	}
	s.usedLocked(g, clock())
	return nil
}

// usedLocked moves a group to the end of the old ones.
func (s *shard) usedLocked(g *group, now int64) {
	s.old.remove(g)
	g.place.used = now
	s.old.push(g)
	s.notedLocked()
}

func (s *shard) notedLocked() {
	if s.old.first == nil {
		s.oldest.Store(noLimit)
	} else {
		s.oldest.Store(s.old.first.place.used)
	}
}

// largest returns the latest groups that may have something to drop, and the one
// that is being written, largest first.
func (c *cache) largest(writing *group) []*group {
	type entry struct {
		g    *group
		size int64 // as it was: others write meanwhile
	}
	var entries []entry
	add := func(g *group) {
		if g.begun.Load() > 1 {
			entries = append(entries, entry{g, g.charged.Load()})
		}
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for g := s.latest.first; g != nil; g = g.place.next {
			if g != writing {
				add(g)
			}
		}
		s.mu.Unlock()
	}
	if writing != nil {
		add(writing)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(b.size, a.size) })
	groups := make([]*group, len(entries))
	for i, e := range entries {
		groups[i] = e.g
	}
	return groups
}

// evict drops a whole group: its writer is told to stop, its readers are cut unless
// they have all of it. It reports false when the group was dropped before.
func (c *cache) evict(g *group, why error, counter *Evictions) bool {
	charge, ok := c.discard(g)
	if !ok {
		return false
	}
	counter.add(charge)
	g.track.drop(g)
	g.end(why)
	g.cutReaders(why)
	return true
}

// sweep evicts what is past its age, and what is over a ceiling that was lowered.
func (c *cache) sweep(now time.Time) {
	c.shrinking.Lock()
	defer c.shrinking.Unlock()
	c.expireLocked(clockAt(now))
	for c.shrinkLocked(nil, 0) {
		continue
	}
}

// expireLocked evicts what is past its age and returns how many groups that were.
func (c *cache) expireLocked(now int64) int {
	c.swept = now
	old := make(map[*track][]*group)
	for i := range c.shards {
		c.shards[i].expired(now, c.maxAge.Load(), func(g *group) { old[g.track] = append(old[g.track], g) })
	}
	n := 0
	for t, groups := range old {
		for _, g := range t.withoutHoles(groups) {
			if c.evict(g, ErrExpired, &c.stats.EvictedAge) {
				n++
			}
		}
	}
	return n
}

// expired calls f for the groups that are past their age.
func (s *shard) expired(now, maxAge int64, f func(*group)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next *group
	for g, last := s.old.first, s.old.last; g != nil; g = next {
		if next = g.place.next; g == last {
			next = nil // those behind it were moved there just now
		}
		age := min(maxAge, int64(g.track.retention()))
		if written := g.written.Load(); written != g.place.logged {
			g.place.logged, g.place.wrote = written, now
		}
		switch used := g.touched.Swap(false); {
		case (now-g.place.wrote)/mostYouth >= age, !used && now-g.place.used >= age:
			f(g)
		case used:
			s.usedLocked(g, now)
		}
	}
}

// mostYouth is how many times its age a group is kept by reads alone after its last
// byte was written: one who takes a byte a second must not hold it for ever.
const mostYouth = 10

// withoutHoles returns, lowest first, those of the expired groups that have no
// younger one held in the unbroken run of numbers below them.
func (t *track) withoutHoles(expired []*group) []*group {
	slices.SortFunc(expired, func(a, b *group) int { return cmp.Compare(a.sequence, b.sequence) })
	t.mu.Lock()
	defer t.mu.Unlock()
	out := expired[:0]
	blocked := false
	var before uint64 // the number that was looked at last
	for i, g := range expired {
		if i == 0 || g.sequence != before+1 {
			below := t.groups[g.sequence-1] // not among the expired: it is younger
			blocked = g.sequence > 0 && below != nil
		}
		if before = g.sequence; !blocked {
			out = append(out, g)
		}
	}
	return out
}

// groupList is a list of groups through their place.
type groupList struct{ first, last *group }

func (l *groupList) push(g *group) {
	g.place.list, g.place.prev, g.place.next = l, l.last, nil
	if l.last != nil {
		l.last.place.next = g
	} else {
		l.first = g
	}
	l.last = g
}

func (l *groupList) remove(g *group) {
	if p := g.place.prev; p != nil {
		p.place.next = g.place.next
	} else {
		l.first = g.place.next
	}
	if n := g.place.next; n != nil {
		n.place.prev = g.place.prev
	} else {
		l.last = g.place.prev
	}
	g.place.list, g.place.prev, g.place.next = nil, nil, nil
}
