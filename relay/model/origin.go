package model

import (
	"context"
	"math/rand/v2"
	"sync"
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
	return c
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
	cfg   Config
	cache *cache
	stats *Stats

	pacing sync.Mutex
	cap    int64 // guarded by pacing

	mu       sync.Mutex // the rest; before track.mu
	routes   map[Path]map[*Announcement]struct{}
	tracks   map[trackKey]*track
	watchers map[*Watcher]struct{}
	recency  uint64 // of the last announcement
}

// NewOrigin returns an origin without routes.
func NewOrigin(cfg Config) *Origin {
	cfg = cfg.withDefaults()
	stats := &Stats{}
	return &Origin{
		cfg: cfg, stats: stats, cache: newCache(cfg.Cache, stats), cap: cfg.PacingCap,
		routes:   make(map[Path]map[*Announcement]struct{}),
		tracks:   make(map[trackKey]*track),
		watchers: make(map[*Watcher]struct{}),
	}
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
// The error is [ErrUnroutable].
func (o *Origin) Subscribe(path Path, name string, peer Peer, options Options) (*Subscription, error) {
	for {
		t, fresh, err := o.track(path, name, peer)
		if err != nil {
			return nil, err
		}
		s := t.join(options)
		if s != nil && fresh {
			t.key.route.source().Pull(&Producer{track: t})
		}
		if s != nil {
			return s, nil
		}
		o.forgetTrack(t) // it ended between the two steps: ask anew
	}
}

// track returns the running request for a track, or a fresh one.
func (o *Origin) track(path Path, name string, peer Peer) (t *track, fresh bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	route := o.coveringLocked(path, peer)
	if route == nil {
		return nil, false, ErrUnroutable
	}
	key := trackKey{route: route, path: path, name: name}
	if t := o.tracks[key]; t != nil {
		return t, false, nil
	}
	t = newTrack(o, key)
	o.tracks[key] = t
	return t, true, nil
}

// join adds a subscriber; nil when the track has ended.
func (t *track) join(options Options) *Subscription {
	s := &Subscription{track: t, passive: options.Passive, options: options, open: make(map[*Reader]struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil
	}
	if t.linger != nil {
		t.linger.Stop()
	}
	t.subs[s] = struct{}{}
	t.origin.stats.Subscriptions.Add(s.viewers())
	s.beginLocked()
	t.mergeLocked()
	return s
}

// forgetTrack makes the next subscriber of a track start a fresh request.
func (o *Origin) forgetTrack(t *track) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tracks[t.key] == t {
		delete(o.tracks, t.key)
	}
}
