package model

import (
	"cmp"
	"context"
	"io"
	"maps"
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
	// FrameStart is the first frame wanted of the group Start.Group.
	FrameStart uint64
	// FrameEnd is the last frame wanted of the group End, inclusive, if HasFrameEnd.
	FrameEnd    uint64
	HasFrameEnd bool
	// Passive is demand without groups: the track is requested upstream, its Info
	// can be had, no group is given.
	Passive bool
}

// Subscription is one subscriber's share of a track.
type Subscription struct {
	track   *track
	passive bool // Options.Passive at the start, which never changes

	notify wake // something to look at

	// guarded by track.mu
	options Options
	floor   uint64 // no group below it is given
	lowest  uint64 // lowest group given so far; valid if started
	started bool
	beyond  map[uint64]struct{}  // groups above the End of their time; those that are held
	waiting []*Reader            // attached, not handed out; by number
	open    map[*Reader]struct{} // handed out, not closed
	closed  bool
}

// Info waits for the upstream's answer. It fails with the track's error:
// [ErrNotFound], [ErrUpstreamTimeout], [ErrSourceGone], an [AbortError] with the
// publisher's code.
func (s *Subscription) Info(ctx context.Context) (Info, error) {
	t := s.track
	select {
	case <-t.answered:
	case <-ctx.Done():
		return Info{}, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.accepted {
		return Info{}, t.err
	}
	return t.info, nil
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
		wakened := s.notify.wait()
		if r, err := s.take(); r != nil || err != nil {
			return r, err
		}
		select {
		case <-wakened:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take hands out a waiting reader, or says why none will come.
func (s *Subscription) take() (*Reader, error) {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	for {
		r := s.popLocked()
		if r == nil {
			break
		}
		if r.Err() == nil { // what expired while it waited is skipped
			s.open[r] = struct{}{}
			return r, nil
		}
		if r.group.detach(r) && !r.group.latest {
			r.group.end(ErrExpired)
		}
	}
	switch {
	case len(s.waiting) > 0: // their writers will end them
	case t.err != nil:
		return nil, t.err
	case t.complete:
		return nil, io.EOF
	}
	return nil, nil
}

// popLocked removes the reader that is due, of those with something to say: by
// number, newest or oldest first; nil when there is none.
func (s *Subscription) popLocked() *Reader {
	for i := range s.waiting {
		if !s.options.Ordered {
			i = len(s.waiting) - 1 - i
		}
		if r := s.waiting[i]; r.group.speaks() {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			return r
		}
	}
	return nil
}

// placeLocked finds where a group's reader waits, or would.
func (s *Subscription) placeLocked(sequence uint64) (int, bool) {
	return slices.BinarySearchFunc(s.waiting, sequence, func(r *Reader, sequence uint64) int {
		return cmp.Compare(r.group.sequence, sequence)
	})
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
	readers := s.waiting
	for r := range s.open {
		readers = append(readers, r)
	}
	s.waiting, s.open = nil, nil
	delete(t.subs, s)
	t.origin.stats.Subscriptions.Add(-s.viewers())
	empty := len(t.subs) == 0
	if empty && !t.stopped {
		t.linger = time.AfterFunc(t.origin.cfg.UnsubscribeDelay, t.unused)
	}
	t.mergeLocked()
	stopped := t.stopped
	t.mu.Unlock()
	for _, r := range readers {
		r.Close()
	}
	if empty && stopped {
		t.dropAll()
	}
	s.notify.broadcast()
}

// discard removes a reader that waits to be handed out. It reports false when
// this one does not.
func (s *Subscription) discard(r *Reader) bool {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	i, found := s.placeLocked(r.group.sequence)
	if !found || s.waiting[i] != r {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
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
	for _, sequence := range sortedKeys(s.beyond) {
		if s.options.HasEnd && sequence > s.options.End {
			break
		}
		delete(s.beyond, sequence)
		if g := s.track.groups[sequence]; g != nil {
			s.offerLocked(g)
		}
	}
}

// passLocked notes a group above End, for the case that it is raised. What the
// cache has let go of is forgotten when it is half of what is noted.
func (s *Subscription) passLocked(g *group) {
	if s.beyond == nil {
		s.beyond = make(map[uint64]struct{})
	}
	s.beyond[g.sequence] = struct{}{}
	if len(s.beyond) > rememberedGroups && len(s.beyond) > 2*len(s.track.groups) {
		maps.DeleteFunc(s.beyond, func(sequence uint64, _ struct{}) bool { return s.track.groups[sequence] == nil })
	}
}

// offerLocked attaches a reader to a group that the subscription wants.
func (s *Subscription) offerLocked(g *group) {
	if s.options.HasEnd && g.sequence > s.options.End {
		s.passLocked(g)
		return
	}
	if s.closed || !s.wantsLocked(g) {
		return
	}
	r := newReader(g, s)
	from := uint64(0)
	if s.options.Start.Mode != StartLatest && g.sequence == s.options.Start.Group {
		from = s.options.FrameStart
	}
	if s.options.HasEnd && s.options.HasFrameEnd && g.sequence == s.options.End {
		r.bound = s.options.FrameEnd + 1
	}
	if g.attach(r, from) != nil && (from == 0 || g.attach(r, 0) != nil) {
		return // its front is gone: a late joiner begins with the next group
	}
	if !s.started || g.sequence < s.lowest {
		s.lowest, s.started = g.sequence, true
	}
	i, _ := s.placeLocked(g.sequence)
	s.waiting = slices.Insert(s.waiting, i, r)
	if g.speaks() {
		s.notify.broadcast()
	}
}

func (s *Subscription) wantsLocked(g *group) bool {
	if s.options.Passive || g.sequence < s.floor {
		return false
	}
	return !s.track.staleLocked(g, s.options.MaxLatency)
}

const (
	// mostWaiting is how many groups may wait to be handed out: each costs a reader.
	// A subscriber that is further behind goes on without the oldest.
	mostWaiting = 1024
	// youngEnough is after how many waiting groups that are not stale the younger
	// ones are taken not to be either. It is not one because groups overtake each other.
	youngEnough = 3
)

// expiredLocked finds the readers whose group has become too old, without a look
// at each: a peer may have many subscriptions in which many groups wait.
func (s *Subscription) expiredLocked() []*Reader {
	var cut []*Reader
	young := 0
	for i, r := range s.waiting {
		if s.track.staleLocked(r.group, s.options.MaxLatency) || i < len(s.waiting)-mostWaiting {
			cut = append(cut, r)
		} else if young++; young == youngEnough {
			break
		}
	}
	for r := range s.open {
		if s.track.staleLocked(r.group, s.options.MaxLatency) {
			cut = append(cut, r)
		}
	}
	return cut
}
