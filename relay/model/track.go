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

// track is one upstream request and what came of it. Where a source is lost and
// another one brings the same content the request goes on with that one.
type track struct {
	origin  *Origin
	path    Path
	name    string
	key     trackKey      // guarded by origin.mu
	route   *Announcement // that it is asked of, or that is to return; guarded by origin.mu
	carried *Announcement // the route that it counts for; written with origin.mu and mu

	maxAge   atomic.Int64 // retention of groups that are not the latest, time.Duration
	orphaned wake         // a group has lost its writer
	spoken   wake         // a group has its first frame or its end, or the track has

	mu       sync.Mutex  // order: after origin.mu and shelf.mu, before group.mu
	producer *Producer   // who may write; nil while the source has still to return
	next     *Producer   // is to take over when it brings something; nil mostly
	leaving  []*Producer // others took over from these, which finish what they have begun
	tried    []Source    // lost since the last answer
	groups   map[uint64]*group
	shelf    *shelf              // where its groups are asked for; nil while nobody does
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
	stopped  bool          // nobody wants it, or it is complete or failed
	highest  uint64        // number of any group; valid if any
	any      bool
	retired  bool // what is whole of it may be fetched

	wishes  map[Preferences]int // how many subscribers want the same
	prefs   Preferences         // all of them together
	changed chan struct{}
	linger  *time.Timer // the last subscriber left

	datagrams uint64 // highest number of a datagram, and one
}

type trackKey struct {
	content content
	path    Path
	name    string
}

func newTrack(o *Origin, key trackKey) *track {
	t := &track{
		origin: o, key: key, path: key.path, name: key.name,
		groups: make(map[uint64]*group), seen: make(map[uint64]struct{}),
		subs: make(map[*Subscription]struct{}), wishes: make(map[Preferences]int),
		answered: make(chan struct{}), ended: make(chan struct{}),
		changed: make(chan struct{}),
	}
	t.maxAge.Store(int64(defaultMaxAge))
	o.stats.Tracks.Add(1)
	return t
}

// retention is how long a group that is not the latest is kept unused: what the
// publisher says, but at least one sweep.
func (t *track) retention() time.Duration {
	return max(time.Duration(t.maxAge.Load()), sweepInterval)
}

// accept records the publisher's answer.
func (t *track) accept(p *Producer, info Info) {
	t.mu.Lock()
	if p.over || p.accepted || t.stopped {
		t.mu.Unlock()
		return
	}
	p.accepted = true
	p.silence.Stop()
	if t.producer != p {
		if t.info != info { // another generation; what runs is not disturbed
			t.partLocked(p)
		}
		t.mu.Unlock()
		return
	}
	t.tried = nil
	if t.accepted {
		same := t.info == info
		t.mu.Unlock()
		if !same {
			t.renew()
		}
		return
	}
	t.accepted, t.info = true, info
	t.maxAge.Store(int64(info.MaxAge))
	close(t.answered)
	t.mergeLocked()
	t.mu.Unlock()
	t.demand()
}

// beginAt records the publisher's first group.
func (t *track) beginAt(p *Producer, first uint64) {
	t.mu.Lock()
	if t.next == p && p.renewsLocked(first) {
		t.partLocked(p)
	}
	renewed := t.producer == p && p.renewsLocked(first)
	if !t.hasBegin && t.producer == p {
		t.begin, t.hasBegin = first, true
	}
	t.mu.Unlock()
	if renewed {
		t.renew()
	}
}

// join adds a subscriber; nil when the track has ended.
func (t *track) join(options Options, peer Peer) *Subscription {
	s := &Subscription{track: t, passive: options.Passive, options: options, peer: peer, open: make(map[*Reader]struct{})}
	t.mu.Lock()
	if t.stopped {
		t.mu.Unlock()
		return nil
	}
	if t.linger != nil {
		t.linger.Stop()
	}
	t.subs[s] = struct{}{}
	t.wishLocked(&s.options, 1)
	t.origin.stats.Subscriptions.Add(s.viewers())
	s.beginLocked()
	t.mergeLocked()
	t.mu.Unlock()
	t.demand()
	return s
}

// finish records the exclusive end of the track.
func (t *track) finish(p *Producer, end uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.producer == p {
		t.finishLocked(end)
	}
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
func (t *track) close(p *Producer) {
	t.mu.Lock()
	if t.partLocked(p) || t.producer != p {
		t.mu.Unlock()
		return
	}
	if !p.accepted && t.err == nil { // ended without an answer
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
	t.detach(empty, true)
}

// failed ends the track where p is still the one that serves it.
func (t *track) failed(p *Producer, err error) {
	t.mu.Lock()
	current := t.producer == p
	t.mu.Unlock()
	if current {
		t.fail(err)
	}
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
	open := t.openLocked(nil)
	t.notifyLocked()
	empty := t.stopLocked()
	t.mu.Unlock()
	for _, g := range open {
		g.end(err)
	}
	t.detach(empty, false)
}

// openLocked returns the groups that have not ended, of one source or of all.
func (t *track) openLocked(from *Producer) []*group {
	var open []*group
	for _, g := range t.groups {
		if !g.ended.Load() && (from == nil || g.from == from) {
			open = append(open, g)
		}
	}
	return open
}

func (t *track) allEndedLocked() bool { return len(t.openLocked(nil)) == 0 }

// stopLocked tells the source that the request is over, and reports whether no
// subscriber is left to read what is held.
func (t *track) stopLocked() (empty bool) {
	if !t.stopped {
		t.stopped = true
		for _, p := range append(t.leaving, t.next, t.producer) {
			if p != nil {
				p.endLocked()
			}
		}
		t.next, t.leaving = nil, nil
		t.origin.stats.Tracks.Add(-1)
	}
	return len(t.subs) == 0
}

// detach takes a stopped track out of the origin, so that the next subscriber
// starts a fresh request. What is whole of it may still be fetched if keep is set;
// the rest is dropped when nobody reads it.
func (t *track) detach(empty, keep bool) {
	t.origin.forgetTrack(t)
	if keep {
		t.origin.retire(t)
	}
	if empty {
		t.settle()
	}
}

// settle drops what nobody may have of a stopped track without subscribers.
func (t *track) settle() {
	t.mu.Lock()
	retired := t.retired
	t.mu.Unlock()
	if retired {
		t.dropUnless((*group).complete)
	} else {
		t.dropAll()
	}
}

// dropAll drops all groups of a track that nobody reads.
func (t *track) dropAll() { t.dropUnless(func(*group) bool { return false }) }

// dropUnless drops the groups of a track that nobody reads, but for those to be
// kept. A fetch may still read what is whole.
func (t *track) dropUnless(kept func(*group) bool) {
	t.mu.Lock()
	var groups []*group
	for _, g := range t.groups {
		if !kept(g) {
			groups = append(groups, g)
			t.removeLocked(g)
		}
	}
	if t.latest != nil { // what is left is live no more
		t.latest.latest = false
		t.origin.cache.demote(t.latest)
		t.latest = nil
	}
	t.mu.Unlock()
	for _, g := range groups {
		t.origin.cache.remove(g)
		if !g.complete() {
			g.end(ErrCancelled)
			g.cutReaders(ErrCancelled)
		}
	}
}

// drop forgets one group that the cache evicted.
func (t *track) drop(g *group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(g)
}

func (t *track) removeLocked(g *group) {
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
func (t *track) group(p *Producer, sequence uint64, window Window) (*GroupWriter, error) {
	now := time.Now()
	t.comes(p, sequence)
	t.mu.Lock()
	if t.producer == p && p.renewsLocked(sequence) {
		t.mu.Unlock()
		t.renew()
		return nil, ErrClosed
	}
	if t.inheritsLocked(p, sequence) && t.groups[sequence].orphan == nil {
		t.mu.Unlock()
		t.awaitOrphan(p, sequence)
		t.mu.Lock()
	}
	if w := t.inheritLocked(p, sequence, window); w != nil {
		t.mu.Unlock()
		return w, nil
	}
	if err := t.admitLocked(p, sequence); err != nil {
		t.mu.Unlock()
		return nil, err
	}
	g := newGroup(t, sequence)
	g.from = p
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
		older.endQuietly(ErrExpired)
	}
	shelf := t.shelf
	t.mu.Unlock()
	if shelf != nil {
		shelf.arrived(sequence)
	}
	if err := t.origin.cache.open(g); err != nil {
		return nil, err
	}
	return &GroupWriter{group: g, window: window}, nil
}

// servesLocked reports whether a source may begin a group of this number: the one
// that serves, or one that was left, below what the other was asked for.
func (t *track) servesLocked(p *Producer, sequence uint64) bool {
	return (t.producer == p || !p.over && sequence < p.until) && t.err == nil && !t.complete && !t.stopped
}

func (t *track) admitLocked(p *Producer, sequence uint64) error {
	switch {
	case !t.servesLocked(p, sequence):
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
	if !t.any || sequence > t.highest {
		t.highest, t.any = sequence, true
	}
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
	for sub := range t.subs {
		sub.spokeLocked(g.sequence)
	}
	cut := t.expiredLocked()
	t.mu.Unlock()
	t.spoken.broadcast()
	t.expire(cut)
}

// spoke notes that a group has ended without a frame.
func (t *track) spoke(g *group) {
	t.mu.Lock()
	for sub := range t.subs {
		sub.spokeLocked(g.sequence)
	}
	t.mu.Unlock()
	t.spoken.broadcast()
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
		g.endQuietly(ErrExpired)
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

// staleLocked reports whether a group is too old for a subscriber. The latest
// group with a frame never is, and none is before a later one has a frame.
func (t *track) staleLocked(g *group, o *Options) bool {
	next, live := t.successorLocked(g)
	if next == nil {
		return false
	}
	if o.MaxLatency <= 0 {
		return true
	}
	switch o.Expiry {
	case ExpireByArrival:
		return t.arrivalAge(g, next, live) > o.MaxLatency
	case ExpireByEither:
		age, ok := t.span(g.opening, live.opening)
		return t.arrivalAge(g, next, live) > o.MaxLatency || ok && !g.arrived.IsZero() && age > o.MaxLatency
	case ExpireByTimestamp:
	}
	age, ok := t.span(next.opening, live.newest.Load())
	if !ok {
		return t.arrivalAge(next, next, live) >= o.MaxLatency
	}
	return age >= o.MaxLatency
}

// arrivalAge is how long before the latest group a group came; one that has no
// frame yet counts as the one after it.
func (t *track) arrivalAge(g, next, live *group) time.Duration {
	if g.arrived.IsZero() {
		g = next
	}
	return live.arrived.Sub(g.arrived)
}

// span is the time between two timestamps, and false where they tell none: they
// go back, or the track has none of its own.
func (t *track) span(from, to int64) (time.Duration, bool) {
	if !t.accepted || t.info.Timescale == 0 || to < from {
		return 0, false
	}
	seconds := (float64(to) - float64(from)) / float64(t.info.Timescale)
	return time.Duration(min(seconds*float64(time.Second), float64(1<<62))), true
}

// notifyLocked wakes every subscription.
func (t *track) notifyLocked() { t.spoken.broadcast() }
