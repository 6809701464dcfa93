package model

import (
	"cmp"
	"context"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// StartMode says how a subscription's first group is chosen.
type StartMode int

const (
	// StartLatest begins with the latest group there is, else with the first to come.
	StartLatest StartMode = iota
	// StartGroup begins with Start.Group, or the first one held above it.
	StartGroup
	// StartFloor begins with the oldest group at or above Start.Group that
	// MaxLatency has not made stale.
	StartFloor
)

// Start is where a subscription begins.
type Start struct {
	Mode  StartMode
	Group uint64
}

// Options are a subscriber's wishes.
type Options struct {
	// Priority orders this subscriber's tracks; higher goes first.
	Priority uint8
	// Ordered asks for the oldest waiting group first instead of the newest.
	Ordered bool
	// MaxLatency is how stale a group that is not the latest may be before it is
	// skipped; 0 means the latest group only.
	MaxLatency time.Duration
	// Start is where delivery begins.
	Start Start
	// End is the last group wanted, inclusive, if HasEnd. It is a cap: reaching
	// it ends nothing, and it may be raised.
	End    uint64
	HasEnd bool
	// Expiry says how MaxLatency is measured.
	Expiry Expiry
	// FrameStart is the first frame wanted of the group Start.Group.
	FrameStart uint64
	// FrameEnd is the last frame wanted of the group End, inclusive, if HasFrameEnd.
	FrameEnd    uint64
	HasFrameEnd bool
	// Passive is demand without groups: the track is requested upstream, its Info
	// can be had, no group is given.
	Passive bool
	// Datagrams takes the track's datagrams; nil: they are not wanted.
	Datagrams *DatagramQueue
}

// Expiry says how the age of a group is measured against [Options.MaxLatency]
// (moq-lite, expiration).
type Expiry int

const (
	// ExpireByTimestamp counts from the first timestamp of the group behind it to
	// the newest of the latest one (moq-lite-06). Timestamps that go back count as
	// none: then it is the arrival.
	ExpireByTimestamp Expiry = iota
	// ExpireByEither counts from the first frame of the group to that of the latest
	// one, by timestamps or by arrival, whichever is longer (moq-lite-05).
	ExpireByEither
	// ExpireByArrival is that by arrival alone (moq-lite-03 and -04).
	ExpireByArrival
)

// Subscription is one subscriber's share of a track.
type Subscription struct {
	track   *track
	passive bool // Options.Passive at the start, which never changes

	peer   Peer
	notify wake // something to look at

	// guarded by track.mu
	options Options
	floor   uint64 // no group below it is given
	lowest  uint64 // lowest group offered so far; valid if started
	started bool
	beyond  []uint64 // groups above the End of their time, by number
	// Groups that are to be given, by number: a subscriber that takes none of them
	// costs eight bytes for each. Those that speak can be given now.
	speaking, silent []uint64
	open             map[*Reader]struct{} // handed out, not closed
	closed           bool
	err              error // it was ended for itself: see fail
	skipped          Skipped
}

// Skipped is what became too old before it was taken.
type Skipped struct{ Groups, Bytes int64 }

// Info waits for the upstream's answer. It fails with the track's error:
// [ErrNotFound], [ErrUpstreamTimeout], [ErrSourceGone], an [AbortError] with the
// publisher's code.
func (s *Subscription) Info(ctx context.Context) (Info, error) {
	for {
		told := s.notify.wait()
		if info, known, err := s.info(); known || err != nil {
			return info, err
		}
		select {
		case <-s.track.answered:
		case <-told:
		case <-ctx.Done():
			return Info{}, context.Cause(ctx)
		}
	}
}

// info is the upstream's answer, if it has come.
func (s *Subscription) info() (info Info, known bool, err error) {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accepted {
		return t.info, true, nil
	}
	return Info{}, false, cmp.Or(t.err, s.err)
}

// fail ends this subscription alone, with the groups that are read; it still has to
// be closed. The groups may be waiting for the very bytes that the subscriber, who
// is to go elsewhere, brings.
func (s *Subscription) fail(err error) {
	s.track.mu.Lock()
	s.err = err
	readers := slices.Collect(maps.Keys(s.open))
	s.track.mu.Unlock()
	for _, r := range readers {
		r.lose(err)
	}
	s.notify.broadcast()
}

// Next waits for a group that has a frame or has ended and returns its reader:
// the newest that waits, or the oldest when Options.Ordered is set. The caller
// closes the reader. A publisher that begins groups and sends nothing thus costs
// its viewers no stream.
//
// The error is io.EOF when the track has ended and no group waits, the track's
// error when it failed, [ErrClosed] after Close, or the context's cause.
func (s *Subscription) Next(ctx context.Context) (*Reader, error) {
	for {
		if err := s.Await(ctx); err != nil {
			return nil, err
		}
		if r := s.Take(); r != nil {
			return r, nil
		}
	}
}

// Await waits until a group can be taken. Errors are those of [Subscription.Next].
func (s *Subscription) Await(ctx context.Context) error {
	for {
		mine, spoken := s.notify.wait(), s.track.spoken.wait()
		if ready, err := s.ready(); ready || err != nil {
			return err
		}
		select {
		case <-mine:
		case <-spoken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ready reports whether a group can be taken, or says why none will come.
func (s *Subscription) ready() (bool, error) {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case s.closed:
		return false, ErrClosed
	case s.err != nil:
		return false, s.err
	case len(s.speaking) > 0:
		return true, nil
	case len(s.silent) > 0: // their writers will end them
	case t.err != nil:
		return false, t.err
	case t.complete:
		return false, io.EOF
	}
	return false, nil
}

// Take returns the reader of a group that waits, without waiting itself: the
// newest, or the oldest when Options.Ordered is set; nil when there is none. A
// session that has to wait for the peer's credit thus chooses behind the wait.
func (s *Subscription) Take() *Reader {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	for !s.closed && len(s.speaking) > 0 {
		i := len(s.speaking) - 1
		if s.options.Ordered {
			i = 0
		}
		g := t.groups[s.speaking[i]]
		s.speaking = slices.Delete(s.speaking, i, i+1)
		if r := s.openLocked(g); r != nil {
			return r
		}
	}
	return nil
}

// openLocked makes the reader of a group that waited; nil where it has gone, or
// become too old, or where its front has gone: a late joiner begins with the next.
func (s *Subscription) openLocked(g *group) *Reader {
	if g == nil {
		return nil
	}
	if s.track.staleLocked(g, &s.options) {
		s.skipLocked(g)
		return nil
	}
	r := newReader(g, s)
	if s.options.HasEnd && s.options.HasFrameEnd && g.sequence == s.options.End {
		r.bound = s.options.FrameEnd + 1
	}
	from := s.fromLocked(g)
	if g.attach(r, from) != nil && (from == 0 || g.attach(r, 0) != nil) {
		s.releaseLocked(g)
		return nil
	}
	g.unexpect()
	s.open[r] = struct{}{}
	return r
}

// fromLocked is the first frame wanted of a group.
func (s *Subscription) fromLocked(g *group) uint64 {
	if s.options.Start.Mode != StartLatest && g.sequence == s.options.Start.Group {
		return s.options.FrameStart
	}
	return 0
}

// skipLocked counts a group that became too old while it waited.
func (s *Subscription) skipLocked(g *group) {
	s.skipped.Groups++
	s.skipped.Bytes += g.written.Load()
	s.track.origin.stats.ReadersExpired.Add(1)
	s.releaseLocked(g)
}

// releaseLocked says that the group is waited for no more. One that nobody reads
// and that is not the latest is wanted by nobody.
func (s *Subscription) releaseLocked(g *group) {
	if g.unexpect() && !g.latest {
		g.endQuietly(ErrExpired)
	}
}

// Skipped returns what became too old before it was taken, so far.
func (s *Subscription) Skipped() Skipped {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	return s.skipped
}

// spokeLocked notes that a group has its first frame or its end. One that is gone
// is passed over when it would be taken.
func (s *Subscription) spokeLocked(sequence uint64) {
	if i, found := slices.BinarySearch(s.silent, sequence); found {
		s.silent = slices.Delete(s.silent, i, i+1)
		s.speaking = insert(s.speaking, sequence)
	}
}

// insert puts a number in its place, once.
func insert(sorted []uint64, sequence uint64) []uint64 {
	i, found := slices.BinarySearch(sorted, sequence)
	if found {
		return sorted
	}
	return slices.Insert(sorted, i, sequence)
}

// First returns the lowest group that will be given, once a group was there: the
// publisher's own first group where it named one, else the lowest that has come.
func (s *Subscription) First() (sequence uint64, ok bool) {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasBegin {
		return max(s.floor, min(s.lowest, t.begin)), s.started
	}
	return s.lowest, s.started
}

// End returns the exclusive end of the track, once known.
func (s *Subscription) End() (sequence uint64, ok bool) {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	return s.track.end, s.track.hasEnd
}

// Ended is closed when End is known or the track failed.
func (s *Subscription) Ended() <-chan struct{} { return s.track.ended }

// viewers is what the subscription counts as: demand without groups is no viewer.
func (s *Subscription) viewers() int64 {
	if s.passive {
		return 0
	}
	return 1
}

// Options returns the subscriber's wishes as they are now.
func (s *Subscription) Options() Options {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	return s.options
}

// Update replaces the wishes. A raised End gives held groups that it now covers;
// a raised start is a floor for groups still to come. What was sent is not taken back.
func (s *Subscription) Update(options Options) {
	t := s.track
	t.mu.Lock()
	if s.closed {
		t.mu.Unlock()
		return
	}
	t.wishLocked(&s.options, -1)
	t.wishLocked(&options, 1)
	s.options = options
	if options.Start.Mode != StartLatest {
		s.floor = max(s.floor, options.Start.Group)
	}
	s.offerBeyondLocked()
	cut := s.expiredLocked()
	t.mergeLocked()
	t.mu.Unlock()
	t.expire(cut)
	s.notify.broadcast()
}

// Close ends the subscription and its readers. The upstream request ends
// [Config.UnsubscribeDelay] after its last subscription.
func (s *Subscription) Close() {
	t := s.track
	t.mu.Lock()
	if s.closed {
		t.mu.Unlock()
		return
	}
	s.closed = true
	readers := slices.Collect(maps.Keys(s.open))
	for _, sequence := range slices.Concat(s.speaking, s.silent) {
		if g := t.groups[sequence]; g != nil {
			s.releaseLocked(g)
		}
	}
	s.speaking, s.silent, s.open = nil, nil, nil
	delete(t.subs, s)
	t.wishLocked(&s.options, -1)
	t.origin.stats.Subscriptions.Add(-s.viewers())
	empty := len(t.subs) == 0
	if empty && !t.stopped {
		t.linger = time.AfterFunc(t.origin.cfg.UnsubscribeDelay, t.unused)
	}
	t.mergeLocked()
	stopped := t.stopped
	t.mu.Unlock()
	t.demand()
	for _, r := range readers {
		r.Close()
	}
	if empty && stopped {
		t.settle()
	}
	s.notify.broadcast()
}

func (s *Subscription) isClosed() bool {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	return s.closed
}

// forget removes a closed reader.
func (s *Subscription) forget(r *Reader) {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	delete(s.open, r)
}

// beginLocked gives a new subscription the groups it starts with.
func (s *Subscription) beginLocked() {
	t := s.track
	if s.options.Passive {
		return
	}
	if s.options.Start.Mode != StartLatest {
		s.floor = s.options.Start.Group
	} else if t.latest != nil { // else: streams may overtake each other, so the first to come sets no floor
		s.floor = t.latest.sequence
	}
	for _, sequence := range sortedKeys(t.groups) {
		s.offerLocked(t.groups[sequence])
	}
}

// offerBeyondLocked gives the held groups that an End no longer excludes.
func (s *Subscription) offerBeyondLocked() {
	covered := len(s.beyond)
	if s.options.HasEnd && s.options.End < math.MaxUint64 {
		covered, _ = slices.BinarySearch(s.beyond, s.options.End+1)
	}
	for _, sequence := range s.beyond[:covered] {
		if g := s.track.groups[sequence]; g != nil {
			s.offerLocked(g)
		}
	}
	s.beyond = slices.Delete(s.beyond, 0, covered)
}

// passLocked notes a group above End, for the case that it is raised. What the
// cache has let go of is forgotten, and then the oldest, when too many are noted.
func (s *Subscription) passLocked(g *group) {
	s.beyond = insert(s.beyond, g.sequence)
	if len(s.beyond) <= mostWaiting {
		return
	}
	s.beyond = slices.DeleteFunc(s.beyond, func(sequence uint64) bool { return s.track.groups[sequence] == nil })
	s.beyond = slices.Delete(s.beyond, 0, max(0, len(s.beyond)-mostWaiting/2))
}

// offerLocked lets a group that the subscription wants wait for it.
func (s *Subscription) offerLocked(g *group) {
	if s.options.HasEnd && g.sequence > s.options.End {
		s.passLocked(g)
		return
	}
	if s.closed || !s.wantsLocked(g) || !g.holds(s.fromLocked(g)) {
		return
	}
	if !s.started || g.sequence < s.lowest {
		s.lowest, s.started = g.sequence, true
	}
	g.expect()
	if !g.speaks() {
		s.silent = insert(s.silent, g.sequence)
		return
	}
	s.speaking = insert(s.speaking, g.sequence)
	s.notify.broadcast()
}

func (s *Subscription) wantsLocked(g *group) bool {
	return s.inRangeLocked(g.sequence) && !s.track.staleLocked(g, &s.options)
}

// inRangeLocked reports whether a number is between the subscription's bounds.
func (s *Subscription) inRangeLocked(sequence uint64) bool {
	return !s.options.Passive && sequence >= s.floor && (!s.options.HasEnd || sequence <= s.options.End)
}

const (
	// mostWaiting is how many groups may wait to be taken. A subscriber that is
	// further behind goes on without the oldest.
	mostWaiting = 1024
	// youngEnough is after how many waiting groups that are not stale the younger
	// ones are taken not to be either. It is not one because groups overtake each other.
	youngEnough = 3
)

// expiredLocked skips the waiting groups that have become too old, and returns
// the readers of those that were handed out.
func (s *Subscription) expiredLocked() []*Reader {
	s.speaking = s.pruneLocked(s.speaking)
	s.silent = s.pruneLocked(s.silent)
	var cut []*Reader
	for r := range s.open {
		if s.track.staleLocked(r.group, &s.options) {
			cut = append(cut, r)
		}
	}
	return cut
}

// pruneLocked removes the groups that are gone or too old, without a look at each:
// a peer may have many subscriptions in which many groups wait.
func (s *Subscription) pruneLocked(waiting []uint64) []uint64 {
	young, removed := 0, 0
	for i, sequence := range waiting {
		g := s.track.groups[sequence]
		switch {
		case g == nil:
			removed++
		case i < len(waiting)-mostWaiting, s.track.staleLocked(g, &s.options):
			s.skipLocked(g)
			removed++
		default:
			waiting[young] = sequence
			young++
		}
		if young == youngEnough {
			break
		}
	}
	if removed == 0 {
		return waiting
	}
	return slices.Delete(waiting, young, young+removed)
}
