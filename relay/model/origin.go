package model

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// MaxID is the largest hop id: JavaScript clients cannot read larger ones.
const MaxID = 1<<53 - 1

// sweepInterval is how often ages are looked at.
const sweepInterval = time.Second

// Config are the settings of an [Origin]. The zero value of a field means its default.
type Config struct {
	// ID is this relay's hop id, 1 to [MaxID]; 0 means a random one.
	ID uint64
	// Cache bounds what is held.
	Cache CacheConfig
	// PacingCap bounds the pacing window, bytes; 0 means 16 MiB. Sessions read it
	// through [Origin.PacingCap].
	PacingCap int64
	// GroupTail is the most that one group holds, bytes; 0 means 32 MiB.
	GroupTail int64
	// MaxFrame is the largest frame, bytes, at most GroupTail; 0 means 32 MiB.
	MaxFrame int64
	// UpstreamTimeout bounds a source's silence after it was asked; 0 means 5 s.
	UpstreamTimeout time.Duration
	// UnsubscribeDelay is how long an upstream request outlives its last
	// subscriber; 0 means 1 s.
	UnsubscribeDelay time.Duration
	// Linger is how long a path stays announced after its last route was lost
	// without a word; 0 means 5 s.
	Linger time.Duration
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.ID == 0 {
		c.ID = 1 + rand.Uint64N(MaxID)
	}
	fill(&c.PacingCap, 16<<20)
	fill(&c.GroupTail, 32<<20)
	fill(&c.MaxFrame, 32<<20)
	fill(&c.UpstreamTimeout, 5*time.Second)
	fill(&c.UnsubscribeDelay, time.Second)
	fill(&c.Linger, 5*time.Second)
	return c
}

// Limits are the bounds that may change while an [Origin] runs. The zero value of
// a field means its default; see [Config].
type Limits struct {
	UpstreamTimeout     time.Duration
	MaxFrame, GroupTail int64
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Origin is the process-wide set of routes and the tracks that are requested
// through them.
type Origin struct {
	cfg    Config
	limits atomic.Pointer[Limits]
	cache  *cache
	stats  *Stats

	pacing sync.Mutex
	cap    int64 // guarded by pacing

	hold time.Duration // holdDown; tests count what it saves

	mu        sync.Mutex      // the rest; before shelf.mu and track.mu
	root      place           // of the tree of paths
	contents  map[content]int // routes that carry it
	tracks    map[trackKey]*track
	parked    map[*track]*time.Timer // requests whose source is gone and may return
	shelves   map[trackKey]*shelf
	recency   uint64  // of the last announcement
	lastEpoch instant // of the last epoch that was assigned
}

// NewOrigin returns an origin without routes.
func NewOrigin(cfg Config) *Origin {
	cfg = cfg.withDefaults()
	stats := &Stats{}
	o := &Origin{
		cfg: cfg, stats: stats, cache: newCache(cfg.Cache, stats), cap: cfg.PacingCap, hold: holdDown,
		contents: make(map[content]int),
		tracks:   make(map[trackKey]*track),
		parked:   make(map[*track]*time.Timer),
		shelves:  make(map[trackKey]*shelf),
	}
	o.SetLimits(Limits{cfg.UpstreamTimeout, cfg.MaxFrame, cfg.GroupTail})
	return o
}

// SetLimits changes bounds for what begins afterwards.
func (o *Origin) SetLimits(l Limits) {
	fill(&l.UpstreamTimeout, 5*time.Second)
	fill(&l.MaxFrame, 32<<20)
	fill(&l.GroupTail, 32<<20)
	o.limits.Store(&l)
}

// ID is this relay's hop id.
func (o *Origin) ID() uint64 { return o.cfg.ID }

// Stats returns the counters.
func (o *Origin) Stats() *Stats { return o.stats }

// CacheBytes is the charge of all that is held now, and its ceiling (0 = none).
func (o *Origin) CacheBytes() (held, ceiling int64) {
	return o.cache.total.Load(), o.cache.max.Load()
}

// SetCache changes the bounds of the cache; a lower ceiling acts with the next write.
func (o *Origin) SetCache(cfg CacheConfig) { o.cache.set(cfg) }

// PacingCap is the ceiling of the pacing window, in bytes.
func (o *Origin) PacingCap() int64 {
	o.pacing.Lock()
	defer o.pacing.Unlock()
	return o.cap
}

// SetPacingCap changes the ceiling for groups that begin afterwards; 0 means 16 MiB.
func (o *Origin) SetPacingCap(bytes int64) {
	fill(&bytes, 16<<20)
	o.pacing.Lock()
	defer o.pacing.Unlock()
	o.cap = bytes
}

// Run evicts what is past its age, each second, until ctx is done. It returns
// the context's cause.
func (o *Origin) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			o.sweep(now)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (o *Origin) sweep(now time.Time) {
	o.cache.sweep(now)
	for _, t := range o.allTracks() {
		t.mu.Lock()
		cut := t.expiredLocked()
		t.mu.Unlock()
		t.expire(cut)
	}
	o.trimShelves()
}

func (o *Origin) allTracks() []*track {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]*track, 0, len(o.tracks))
	for _, t := range o.tracks {
		out = append(out, t)
	}
	return out
}

// Subscribe asks for a track on behalf of a peer. It finds the best route that
// does not lead through the peer, joins the track's upstream request or opens
// it, and returns without waiting for the publisher: see [Subscription.Info].
// Where the path's only route is lost the request waits for its return, no longer
// than [Config.Linger]. The error is [ErrUnroutable].
func (o *Origin) Subscribe(path Path, name string, peer Peer, options Options) (*Subscription, error) {
	for {
		t, fresh, err := o.track(path, name, peer)
		if err != nil {
			return nil, err
		}
		s := t.join(options, peer)
		if fresh != nil {
			fresh.pull()
		}
		if s != nil {
			return s, nil
		}
		o.forgetTrack(t) // it ended between the two steps: ask anew
	}
}

// keyLocked names the request that serves a track to a peer whose best route is
// route. Requests are shared by routes of the same content, unless the one that
// is served leads through the peer.
func (o *Origin) keyLocked(route *Announcement, path Path, name string, peer Peer) trackKey {
	key := trackKey{content: route.content, path: path, name: name}
	if t := o.tracks[key]; t != nil && !o.usableLocked(t.route, peer) {
		key.content = content{route: route}
	}
	return key
}

// track returns the running request for a track, or a fresh one: then its source
// is to be asked, unless it has still to return.
func (o *Origin) track(path Path, name string, peer Peer) (t *track, fresh *Producer, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	route := o.coveringLocked(path, peer)
	if route == nil {
		return nil, nil, ErrUnroutable
	}
	key := o.keyLocked(route, path, name, peer)
	if t := o.tracks[key]; t != nil {
		return t, nil, nil
	}
	t = newTrack(o, key)
	o.tracks[key] = t
	o.routeLocked(t, route)
	if route.lost() {
		o.parkLocked(t)
		return t, nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t, t.attemptLocked(route), nil
}

// forgetTrack makes the next subscriber of a track start a fresh request.
func (o *Origin) forgetTrack(t *track) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unpark(t)
	if o.tracks[t.key] == t {
		delete(o.tracks, t.key)
	}
	o.routeLocked(t, nil)
	t.mu.Lock()
	o.carryLocked(t)
	t.mu.Unlock()
}

// routeLocked says from which route a track is asked, or whose return it waits
// for; nil: it has ended.
func (o *Origin) routeLocked(t *track, a *Announcement) {
	if t.route != nil {
		delete(t.route.tracks, t)
	}
	if a == nil {
		return // what it was asked of is still to be known
	}
	t.route = a
	if a.tracks == nil {
		a.tracks = make(map[*track]struct{})
	}
	a.tracks[t] = struct{}{}
}
