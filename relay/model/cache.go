package model

import (
	"container/list"
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
func (c *cache) shrink(writing *group, ceiling int64) bool {
	var bare map[*group]struct{} // latest groups with nothing to drop; nil map reads are fine
	for c.total.Load() > ceiling {
		if g := c.leastRecent(writing); g != nil {
			c.evict(g, ErrEvicted)
			continue
		}
		g := c.largestLatest(bare)
		if g == nil {
			return false
		}
		if freed := g.dropFront(c.total.Load() - ceiling); freed > 0 {
			c.uncharge(g, freed)
			continue
		}
		if bare == nil {
			bare = make(map[*group]struct{})
		}
		bare[g] = struct{}{}
	}
	return true
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

// largestLatest picks the largest latest group that may have something to drop;
// those in bare have not.
func (c *cache) largestLatest(bare map[*group]struct{}) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	var largest *group
	for g := range c.latest {
		if _, skip := bare[g]; skip || g.begun.Load() < 2 {
			continue
		}
		if largest == nil || g.charged.Load() > largest.charged.Load() {
			largest = g
		}
	}
	return largest
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
