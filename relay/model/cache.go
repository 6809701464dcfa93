package model

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// CacheConfig bounds what an [Origin] holds.
type CacheConfig struct {
	// MaxBytes is a hard ceiling for the charge of all groups: bytes held, 128
	// for each frame and 256 for each group. 0 means no ceiling.
	MaxBytes int64
	// MaxAge is the longest that a group which is not its track's latest is held
	// after it was last written or read; a track's own Info.MaxAge may be
	// shorter. 0 means 30 s.
	MaxAge time.Duration
}

const defaultMaxAge = 30 * time.Second

// cachePosition is where a group stands in the cache's books.
type cachePosition struct {
	held    bool          // counted; false after it was removed
	element *list.Element // in cache.old; nil while the group is its track's latest
}

// cache counts what all groups hold and drops some when that is too much.
type cache struct {
	max    atomic.Int64 // bytes; 0 = no ceiling
	maxAge atomic.Int64 // time.Duration
	total  atomic.Int64 // charge of all groups
	stats  *Stats

	mu     sync.Mutex
	old    list.List           // *group; not the latest of their track; roughly the least recently used first
	latest map[*group]struct{} // the latest of their track
}

func newCache(cfg CacheConfig, stats *Stats) *cache {
	c := &cache{stats: stats, latest: make(map[*group]struct{})}
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

// add begins to count a group.
func (c *cache) add(g *group, latest bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.place.held, g.used = true, now
	if latest {
		c.latest[g] = struct{}{}
	} else {
		g.place.element = c.old.PushBack(g)
	}
	g.charged.Store(groupCharge)
	c.total.Add(groupCharge)
	c.stats.CachedGroups.Add(1)
}

// demote says that a group is no longer its track's latest.
func (c *cache) demote(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.place.held && g.place.element == nil {
		delete(c.latest, g)
		g.place.element = c.old.PushBack(g)
	}
}

// remove stops counting a group. It reports false when it was not counted.
func (c *cache) remove(g *group) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removeLocked(g)
}

func (c *cache) removeLocked(g *group) bool {
	if !g.place.held {
		return false
	}
	if g.place.element != nil {
		c.old.Remove(g.place.element)
	}
	delete(c.latest, g)
	g.place = cachePosition{}
	g.gone.Store(true)
	c.settle(g)
	c.stats.CachedGroups.Add(-1)
	return true
}

// settle takes what a removed group is charged with off the books. Its writer
// may add a last piece while it is removed; whoever comes second settles that.
func (c *cache) settle(g *group) {
	if g.gone.Load() {
		c.total.Add(-g.charged.Swap(0))
	}
}

// charge counts n more bytes for g, and drops others where that is over the
// ceiling. It reports false when nothing could be dropped.
func (c *cache) charge(g *group, n int64) bool {
	g.charged.Add(n)
	total := c.total.Add(n)
	c.settle(g)
	ceiling := c.max.Load()
	if ceiling <= 0 || total <= ceiling {
		return true
	}
	return c.shrink(g, ceiling)
}

// uncharge counts n bytes less for g.
func (c *cache) uncharge(g *group, n int64) {
	g.charged.Add(-n)
	c.total.Add(-n)
	c.settle(g)
	c.stats.EvictedTailBytes.Add(n)
}

// shrink drops groups and fronts of groups until the charge is at most ceiling:
// groups that are not the latest of their track, least recently used first; then
// the front of latest groups, largest first. Every step frees something or ends.
//
// It drops a little more than it must, so that writes under a full cache look for
// something to drop once in a while, not each of them.
func (c *cache) shrink(writing *group, ceiling int64) bool {
	for target := ceiling - slack(ceiling); c.total.Load() > target; {
		g := c.leastRecent(writing)
		if g == nil {
			return c.dropFronts(target, ceiling)
		}
		c.evict(g, ErrEvicted)
	}
	return true
}

// slack is what is dropped beyond the ceiling: 1/64 of it, at most 1 MiB, and
// nothing where the ceiling is below that.
func slack(ceiling int64) int64 {
	if ceiling < 1<<20 {
		return 0
	}
	return min(ceiling/64, 1<<20)
}

// dropFronts drops the front of latest groups, up to half of each at a time.
func (c *cache) dropFronts(target, ceiling int64) bool {
	for c.total.Load() > ceiling {
		progress := false
		for _, g := range c.largestLatest() {
			over := c.total.Load() - target
			if over <= 0 {
				return true
			}
			if freed := g.dropFront(min(over, g.charged.Load()/2)); freed > 0 {
				c.uncharge(g, freed)
				progress = true
			}
		}
		if !progress {
			break
		}
	}
	return c.total.Load() <= ceiling
}

// leastRecent picks the next group to evict, other than the one that is being
// written. Groups in use since they were last looked at get one more round.
func (c *cache) leastRecent(writing *group) *group {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 2 * c.old.Len() {
		e := c.old.Front()
		g := e.Value.(*group)
		if g != writing && !g.touched.Swap(false) {
			return g
		}
		g.used = now
		c.old.MoveToBack(e)
	}
	return nil
}

// largestLatest returns the latest groups that may have something to drop, largest first.
func (c *cache) largestLatest() []*group {
	type entry struct {
		g    *group
		size int64 // as it was: others write meanwhile
	}
	c.mu.Lock()
	entries := make([]entry, 0, len(c.latest))
	for g := range c.latest {
		if g.begun.Load() > 1 {
			entries = append(entries, entry{g, g.charged.Load()})
		}
	}
	c.mu.Unlock()
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(b.size, a.size) })
	groups := make([]*group, len(entries))
	for i, e := range entries {
		groups[i] = e.g
	}
	return groups
}

// evict drops a whole group: its writer is told to stop, its readers are cut.
func (c *cache) evict(g *group, why error) {
	charged := g.charged.Load()
	if !c.remove(g) {
		return
	}
	c.stats.EvictedGroups.Add(1)
	c.stats.EvictedBytes.Add(charged)
	g.track.drop(g)
	g.end(why)
	g.cutReaders(why, func(*Reader) bool { return true })
}

// sweep evicts what is past its age.
func (c *cache) sweep(now time.Time) {
	for _, g := range c.expired(now) {
		c.evict(g, ErrExpired)
	}
}

func (c *cache) expired(now time.Time) []*group {
	ceiling := time.Duration(c.maxAge.Load())
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*group
	for e := c.old.Front(); e != nil; e = e.Next() {
		g := e.Value.(*group)
		if g.touched.Swap(false) {
			g.used = now
		} else if now.Sub(g.used) >= min(ceiling, g.track.retention()) {
			out = append(out, g)
		}
	}
	return out
}
