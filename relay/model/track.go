package model

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Info is what a publisher says of a track. It never changes.
type Info struct {
	// Priority is the publisher's own; higher goes first.
	Priority uint8
	// Ordered is the publisher's wish for the oldest group first (moq-lite-03 to -05).
	Ordered bool
	// MaxAge is the longest the publisher keeps a group that is not the latest;
	// 0 means the latest group only.
	MaxAge time.Duration
	// Timescale is the number of timestamp units in a second; never 0.
	Timescale uint64
	// Invented is true where the source's protocol has no timestamps: they are
	// then the arrival of the frame here.
	Invented bool
}

// window of group numbers that a track remembers, to tell a repeated number
// from a late group.
const rememberedGroups = 1024

// track is one upstream request and what came of it.
type track struct {
	origin *Origin
	key    trackKey

	maxAge atomic.Int64 // retention of groups that are not the latest, time.Duration

	mu       sync.Mutex // order: after origin.mu, before group.mu
	groups   map[uint64]*group
	seen     map[uint64]struct{} // numbers used, above latest - rememberedGroups
	order    []*group            // those with a frame, by number
	latest   *group
	subs     map[*Subscription]struct{}
	info     Info
	accepted bool
	answered chan struct{} // closed when accepted or failed
	begin    uint64        // the publisher's first group; valid if hasBegin
	hasBegin bool
	end      uint64 // exclusive end; valid if hasEnd
	hasEnd   bool
	ended    chan struct{} // closed when hasEnd or failed
	complete bool          // no group will come any more
	err      error         // why the track failed
	done     chan struct{} // closed when nobody wants it or it is complete or failed
	stopped  bool

	prefs   Preferences
	changed chan struct{}
	silence *time.Timer // upstream did not answer
	linger  *time.Timer // the last subscriber left
}

type trackKey struct {
	route *Announcement
	path  Path
	name  string
}

func newTrack(o *Origin, key trackKey) *track {
	t := &track{
		origin: o, key: key,
		groups: make(map[uint64]*group), seen: make(map[uint64]struct{}),
		subs:     make(map[*Subscription]struct{}),
		answered: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{}),
	}
	t.maxAge.Store(int64(defaultMaxAge))
	t.silence = time.AfterFunc(o.cfg.UpstreamTimeout, t.silent)
	o.stats.Tracks.Add(1)
	return t
}

// retention is how long a group that is not the latest is kept unused: what the
// publisher says, but at least one sweep.
func (t *track) retention() time.Duration {
	return max(time.Duration(t.maxAge.Load()), sweepInterval)
}

func (t *track) silent() {
	t.mu.Lock()
	pending := !t.accepted
	t.mu.Unlock()
	if pending {
		t.fail(ErrUpstreamTimeout)
	}
}

// accept records the publisher's answer.
func (t *track) accept(info Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accepted || t.stopped {
		return
	}
	t.accepted, t.info = true, info
	t.maxAge.Store(int64(info.MaxAge))
	t.silence.Stop()
	close(t.answered)
	t.mergeLocked()
}

// beginAt records the publisher's first group.
func (t *track) beginAt(first uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.hasBegin {
		t.begin, t.hasBegin = first, true
	}
}

// finish records the exclusive end of the track.
func (t *track) finish(end uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finishLocked(end)
}

func (t *track) finishLocked(end uint64) {
	if t.hasEnd || t.err != nil {
		return
	}
	t.end, t.hasEnd = end, true
	close(t.ended)
	t.notifyLocked()
}

// close says that no group will come any more.
func (t *track) close() {
	t.mu.Lock()
	if !t.accepted && t.err == nil { // ended without an answer
		t.mu.Unlock()
		t.fail(ErrNotFound)
		return
	}
	end := uint64(0)
	if t.latest != nil {
		end = t.latest.sequence + 1
	}
	t.finishLocked(end)
	t.complete = true
	t.notifyLocked()
	empty := t.stopLocked()
	t.mu.Unlock()
	t.detach(empty)
}

// fail ends the track and everything that is open of it.
func (t *track) fail(err error) {
	t.mu.Lock()
	if t.err != nil || t.complete && t.allEndedLocked() {
		t.mu.Unlock()
		return
	}
	t.err = err
	if !t.accepted {
		close(t.answered)
	}
	if !t.hasEnd {
		close(t.ended)
	}
	open := t.openLocked()
	t.notifyLocked()
	empty := t.stopLocked()
	t.mu.Unlock()
	for _, g := range open {
		g.end(err)
	}
	t.detach(empty)
}

func (t *track) openLocked() []*group {
	var open []*group
	for _, g := range t.groups {
		if !g.ended.Load() {
			open = append(open, g)
		}
	}
	return open
}

func (t *track) allEndedLocked() bool { return len(t.openLocked()) == 0 }

// stopLocked tells the source that the request is over, and reports whether no
// subscriber is left to read what is held.
func (t *track) stopLocked() (empty bool) {
	if !t.stopped {
		t.stopped = true
		t.silence.Stop()
		close(t.done)
		t.origin.stats.Tracks.Add(-1)
	}
	return len(t.subs) == 0
}

// detach takes a stopped track out of the origin, so that the next subscriber
// starts a fresh request, and drops its groups when nobody reads them.
func (t *track) detach(empty bool) {
	t.origin.forgetTrack(t)
	if empty {
		t.dropAll()
	}
}

// dropAll drops all groups of a track that nobody reads.
func (t *track) dropAll() {
	t.mu.Lock()
	groups := t.groups
	t.groups, t.order, t.latest = make(map[uint64]*group), nil, nil
	t.mu.Unlock()
	for _, g := range groups {
		t.origin.cache.remove(g)
		g.end(ErrCancelled)
		g.cutReaders(ErrCancelled, func(*Reader) bool { return true })
	}
}

// drop forgets one group that the cache evicted.
func (t *track) drop(g *group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.groups[g.sequence] == g {
		delete(t.groups, g.sequence)
		if i, found := t.placeLocked(g.sequence); found {
			t.order = slices.Delete(t.order, i, i+1)
		}
	}
	if t.latest == g {
		t.latest = nil
	}
}

// group creates a group and offers it to the subscriptions.
func (t *track) group(sequence uint64, window Window) (*GroupWriter, error) {
	now := time.Now()
	t.mu.Lock()
	if err := t.admitLocked(sequence); err != nil {
		t.mu.Unlock()
		return nil, err
	}
	g := newGroup(t, sequence)
	older := t.latest
	g.latest = older == nil || sequence > older.sequence
	t.groups[sequence] = g
	t.rememberLocked(sequence)
	t.origin.cache.add(g, g.latest, now)
	t.origin.stats.Groups.Add(1)
	if g.latest {
		t.latest = g
	}
	if g.latest && older != nil {
		older.latest = false
		t.origin.cache.demote(older)
	}
	for sub := range t.subs {
		sub.offerLocked(g)
	}
	if g.latest && older != nil && older.abandoned() {
		older.end(ErrExpired)
	}
	t.mu.Unlock()
	if !t.origin.cache.charge(g, 0) {
		t.origin.cache.evict(g, ErrNoCapacity)
		return nil, ErrNoCapacity
	}
	return &GroupWriter{group: g, window: window}, nil
}

func (t *track) admitLocked(sequence uint64) error {
	switch {
	case t.err != nil || t.complete || t.stopped:
		return ErrClosed
	case t.hasEnd && sequence >= t.end:
		return ErrClosed
	}
	if _, used := t.seen[sequence]; used {
		return ErrDuplicate
	}
	if t.latest != nil && sequence+rememberedGroups <= t.latest.sequence {
		return ErrOld
	}
	return nil
}

func (t *track) rememberLocked(sequence uint64) {
	t.seen[sequence] = struct{}{}
	if len(t.seen) <= 2*rememberedGroups || t.latest == nil {
		return
	}
	for seq := range t.seen {
		if seq+rememberedGroups <= t.latest.sequence {
			delete(t.seen, seq)
		}
	}
}

// groupBegan notes a group's first frame: from now on it can make older ones expire.
func (t *track) groupBegan(g *group, timestamp int64) {
	now := time.Now()
	t.mu.Lock()
	g.arrived, g.opening = now, timestamp
	if t.groups[g.sequence] == g {
		t.orderLocked(g)
	}
	cut := t.expiredLocked()
	t.mu.Unlock()
	g.announce()
	t.expire(cut)
}

func (t *track) expire(cut []*Reader) {
	for _, r := range cut {
		t.origin.stats.ReadersExpired.Add(1)
		r.lose(ErrExpired)
	}
}

// expiredLocked finds the readers whose group is too old for their subscription.
func (t *track) expiredLocked() []*Reader {
	var cut []*Reader
	for sub := range t.subs {
		cut = append(cut, sub.expiredLocked()...)
	}
	return cut
}

// lastReaderLeft ends a group whose readers have all gone when a newer one exists,
// unless another reader has come meanwhile: readers attach under the track's lock.
func (t *track) lastReaderLeft(g *group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !g.latest && g.abandoned() {
		g.end(ErrExpired)
	}
}

// orderLocked inserts a group that has its first frame into the order by number.
func (t *track) orderLocked(g *group) {
	i, _ := t.placeLocked(g.sequence)
	t.order = slices.Insert(t.order, i, g)
}

// placeLocked finds a number in the order of groups that have a frame.
func (t *track) placeLocked(sequence uint64) (int, bool) {
	return slices.BinarySearchFunc(t.order, sequence, func(g *group, sequence uint64) int {
		return cmp.Compare(g.sequence, sequence)
	})
}

// successorLocked returns the next group by number that has a frame, and the
// highest one that has a frame; nil when g is the highest itself.
func (t *track) successorLocked(g *group) (next, live *group) {
	i, found := t.placeLocked(g.sequence)
	if found {
		i++
	}
	if i == len(t.order) {
		return nil, nil
	}
	return t.order[i], t.order[len(t.order)-1]
}

// staleLocked reports whether a group is past maxLatency: the group after it
// began at least that long before the newest frame, by timestamps or by arrival,
// whichever is longer. The latest group with a frame is never stale
// (draft-lcurley-moq-lite-06, expiration).
func (t *track) staleLocked(g *group, maxLatency time.Duration) bool {
	next, live := t.successorLocked(g)
	if next == nil {
		return false
	}
	age := live.arrived.Sub(next.arrived)
	if t.accepted && !t.info.Invented {
		units := live.newest.Load() - next.opening
		if span := time.Duration(float64(units) / float64(t.info.Timescale) * float64(time.Second)); span > age {
			age = span
		}
	}
	return age >= maxLatency
}

// notifyLocked wakes every subscription.
func (t *track) notifyLocked() {
	for sub := range t.subs {
		sub.notify.broadcast()
	}
}
