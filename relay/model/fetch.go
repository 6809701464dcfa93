package model

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Fetcher is a [Source] that can be asked for one group that no live request
// brings.
type Fetcher interface {
	Source
	// Fetch starts to fetch one group and returns at once; the source then answers
	// r with Begin or Fail. It is called without locks.
	Fetch(r *GroupRequest)
}

// FetchOptions say what of which group is wanted.
type FetchOptions struct {
	// Group is the group's number, unless Latest asks for the track's newest one.
	Group  uint64
	Latest bool
	// FrameStart is the first frame wanted; FrameEnd the last one, inclusive, if HasFrameEnd.
	FrameStart, FrameEnd uint64
	HasFrameEnd          bool
	// Priority orders the answer among what the upstream sends; higher goes first.
	Priority uint8
}

// Fetch is one request for one group. One goroutine uses it.
type Fetch struct {
	origin  *Origin
	path    Path
	name    string
	peer    Peer
	options FetchOptions

	hold   *Subscription // keeps a live request while one of its groups is read; nil without
	shelf  *shelf
	epoch  [16]byte // the publisher's own, of the route that was last looked up
	closed bool

	// guarded by shelf.mu
	request *GroupRequest // that it waits for; nil while it does not
	answer  chan struct{} // closed when request was answered, with:
	reader  *Reader
	err     error
}

// Fetch asks for one group on behalf of a peer. It does not wait; the error is
// [ErrUnroutable].
func (o *Origin) Fetch(path Path, name string, peer Peer, options FetchOptions) (*Fetch, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.coveringLocked(path, peer) == nil {
		return nil, ErrUnroutable
	}
	return &Fetch{origin: o, path: path, name: name, peer: peer, options: options}, nil
}

// Info returns what the publisher says of the track, where a request for the
// track is running or has left groups here.
func (f *Fetch) Info() (Info, bool) {
	f.origin.mu.Lock()
	defer f.origin.mu.Unlock()
	route := f.origin.coveringLocked(f.path, f.peer)
	if route == nil {
		return Info{}, false
	}
	key := f.origin.keyLocked(route, f.path, f.name, f.peer)
	if t := f.origin.tracks[key]; t != nil {
		if info, ok := t.known(); ok {
			return info, true
		}
	}
	if s := f.origin.shelves[key]; s != nil {
		return s.known()
	}
	return Info{}, false
}

// Reader returns a reader of the group, from FrameStart to FrameEnd. What is held
// whole is given at once, a group in flight is followed as it grows, and for
// anything else the source is asked, once for all that wait. The caller closes
// the reader.
//
// Errors: [ErrNotFound] where the source cannot be asked, does not have the group,
// or the group ends before FrameStart; [ErrUpstreamTimeout] when it does not begin
// within [Limits.UpstreamTimeout]; [ErrUnroutable]; what the source gave; the
// context's cause. A group that turns out to be cut short ends its reader with an
// error: an answer is never shorter than asked, unless the group is.
func (f *Fetch) Reader(ctx context.Context) (*Reader, error) {
	r, err := f.find(ctx)
	if err == nil {
		err = f.awaitStart(ctx, r)
	}
	if errors.Is(err, ErrNotFound) {
		f.origin.stats.FetchNotFound.Add(1)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close ends the fetch. A request that nobody else waits for is cancelled.
func (f *Fetch) Close() {
	if f.closed {
		return
	}
	f.closed = true
	f.leave()
	if f.hold != nil {
		f.hold.Close()
	}
	if f.shelf != nil {
		f.origin.leaveShelf(f.shelf)
	}
}

// awaitStart waits until the first frame that is wanted has begun.
func (f *Fetch) awaitStart(ctx context.Context, r *Reader) error {
	if f.options.FrameStart == 0 {
		return nil
	}
	err := r.await(ctx, func() bool { return r.group.begun.Load() > f.options.FrameStart })
	if err == nil {
		return nil
	}
	r.Close()
	if err == io.EOF {
		return ErrNotFound
	}
	return err
}

// find returns a reader as soon as there is something to read.
func (f *Fetch) find(ctx context.Context) (*Reader, error) {
	if f.options.Latest {
		return f.latest(ctx)
	}
	for {
		r, wait, err := f.look()
		if r != nil || err != nil {
			return r, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			f.leave()
			return nil, context.Cause(ctx)
		}
		if r, err := f.result(); r != nil || err != nil {
			return r, err
		}
	}
}

// latest subscribes for long enough to get the track's latest group.
func (f *Fetch) latest(ctx context.Context) (*Reader, error) {
	sub, err := f.origin.Subscribe(f.path, f.name, f.peer, Options{Priority: f.options.Priority})
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	if _, err := sub.Info(ctx); err != nil {
		return nil, err
	}
	f.hold = sub.track.join(Options{Passive: true}, f.peer)
	wait, cancel := context.WithTimeoutCause(ctx, f.origin.limits.Load().UpstreamTimeout, ErrUpstreamTimeout)
	defer cancel()
	for {
		live, err := sub.Next(wait)
		if err == io.EOF {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		// A reader of its own: what the subscription has may expire.
		r := f.open(live.group)
		live.Close()
		if r != nil {
			f.origin.stats.FetchHit.Add(1)
			return r, nil
		}
	}
}

// open attaches a reader to a group; nil where the first frame wanted is gone.
func (f *Fetch) open(g *group) *Reader {
	r := newReader(g, nil)
	if f.options.HasFrameEnd {
		r.bound = f.options.FrameEnd + 1
	}
	if g.attach(r, f.options.FrameStart) != nil {
		return nil
	}
	return r
}

// look returns a reader of what is here, or what to wait for: the answer to the
// request for the group, which it makes where there is none.
func (f *Fetch) look() (*Reader, <-chan struct{}, error) {
	live, source, gone, err := f.resolve()
	if err != nil {
		return nil, nil, err
	}
	if live != nil && f.hold == nil {
		f.hold = live.join(Options{Passive: true}, f.peer)
	}
	if r, err := f.held(live); r != nil || err != nil {
		return r, nil, err
	}
	if gone != nil {
		return nil, gone, nil // the publisher may return
	}
	fetcher, ok := source.(Fetcher)
	if !ok {
		return nil, nil, ErrNotFound
	}
	r, wait, fresh := f.join()
	if fresh != nil {
		fetcher.Fetch(fresh)
	}
	return r, wait, nil
}

// resolve finds the live request for the track, if there is one, and who is to be
// asked. gone is closed when a publisher that is away has returned or is given up.
func (f *Fetch) resolve() (live *track, source Source, gone <-chan struct{}, err error) {
	o := f.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	route := o.coveringLocked(f.path, f.peer)
	if route == nil {
		return nil, nil, nil, ErrUnroutable
	}
	key := o.keyLocked(route, f.path, f.name, f.peer)
	if s := o.shelfLocked(key); s != f.shelf {
		if f.shelf != nil {
			o.leaveShelfLocked(f.shelf)
		}
		s.fetches++
		f.shelf = s
	}
	if live = o.tracks[key]; live != nil {
		live.mu.Lock()
		live.shelf = f.shelf
		live.mu.Unlock()
	}
	if f.epoch = route.route.Epoch; route.assigned {
		f.epoch = [16]byte{}
	}
	return live, route.route.Source, route.gone, nil
}

// held returns a reader of the group if it is here.
func (f *Fetch) held(live *track) (*Reader, error) {
	for _, t := range f.shelf.tracks(live) {
		r, err := f.heldBy(t, t == live)
		if r != nil {
			f.origin.stats.FetchHit.Add(1)
		}
		if r != nil || err != nil {
			return r, err
		}
	}
	return nil, nil
}

// heldBy looks for the group in one track. The error is [ErrNotFound] where it is
// known that there is no such group or frame.
func (f *Fetch) heldBy(t *track, live bool) (*Reader, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[f.options.Group]
	switch {
	case g == nil && live && t.hasEnd && f.options.Group >= t.end:
		return nil, ErrNotFound
	case g == nil || !f.servable(g):
		return nil, nil
	case g.ended.Load() && f.options.FrameStart > 0 && g.begun.Load() <= f.options.FrameStart:
		return nil, ErrNotFound
	}
	return f.open(g), nil
}

// servable reports whether all that is wanted of a group is here, or on its way.
func (f *Fetch) servable(g *group) bool {
	if !g.ended.Load() || g.failure() == nil {
		return true
	}
	end := f.options.FrameEnd
	if !f.options.HasFrameEnd || end >= g.begun.Load() {
		return false
	}
	b := g.firstBlock()
	if b == nil || end < b.base {
		return false
	}
	_, last := b.find(end)
	return last.end <= g.whole.Load()
}

// join joins the request for the group, or makes one: then fresh is to be given
// to the source. An answer may have begun since the last look: it is begun then, and
// another request would take its place under its readers.
func (f *Fetch) join() (begun *Reader, wait <-chan struct{}, fresh *GroupRequest) {
	s := f.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests[f.options.Group]
	if r == nil {
		if begun, _ := f.heldBy(s.fetched, false); begun != nil {
			f.origin.stats.FetchHit.Add(1)
			return begun, nil, nil
		}
		r = &GroupRequest{
			shelf: s, sequence: f.options.Group, priority: f.options.Priority, epoch: f.epoch,
			waiters: make(map[*Fetch]struct{}), done: make(chan struct{}),
		}
		s.requests[r.sequence] = r
		r.silence = time.AfterFunc(f.origin.limits.Load().UpstreamTimeout, func() { r.Fail(ErrUpstreamTimeout) })
		fresh = r
		f.origin.stats.FetchMiss.Add(1)
	} else {
		f.origin.stats.FetchJoined.Add(1)
	}
	r.waiters[f] = struct{}{}
	f.request, f.answer, f.reader, f.err = r, make(chan struct{}), nil, nil
	return nil, f.answer, fresh
}

// result takes what the request was answered with; nothing where it is to be
// looked again.
func (f *Fetch) result() (*Reader, error) {
	f.shelf.mu.Lock()
	defer f.shelf.mu.Unlock()
	r := f.reader
	f.reader = nil
	return r, f.err
}

// leave stops waiting.
func (f *Fetch) leave() {
	s := f.shelf
	if s == nil {
		return
	}
	s.mu.Lock()
	r, unread := f.request, f.reader
	f.request, f.reader = nil, nil
	if r != nil {
		delete(r.waiters, f)
		if len(r.waiters) == 0 {
			r.endLocked()
		}
	}
	s.mu.Unlock()
	if unread != nil {
		unread.Close()
	}
}

// GroupRequest is one upstream request for one group: what a [Fetcher] fills.
type GroupRequest struct {
	shelf    *shelf
	sequence uint64
	priority uint8
	epoch    [16]byte
	silence  *time.Timer
	done     chan struct{}

	// guarded by shelf.mu
	waiters map[*Fetch]struct{}
	over    bool
}

// Path is the broadcast's, absolute.
func (r *GroupRequest) Path() Path { return r.shelf.key.path }

// Track is the track's name.
func (r *GroupRequest) Track() string { return r.shelf.key.name }

// Sequence is the group's number.
func (r *GroupRequest) Sequence() uint64 { return r.sequence }

// Priority is that of whoever asked first.
func (r *GroupRequest) Priority() uint8 { return r.priority }

// Epoch is the publisher's own epoch of what is asked for, see [Producer.Epoch].
func (r *GroupRequest) Epoch() [16]byte { return r.epoch }

// Done is closed when the request is over before Begin: nobody waits any more, or
// the time is up. After Begin [GroupWriter.Done] says so.
func (r *GroupRequest) Done() <-chan struct{} { return r.done }

// Begin says that the answer has begun: all frames of the group from 0 on, until
// Finish or Abort. The group is kept, but it is not the track's latest. Errors:
// [ErrClosed] when the request is over, [ErrNoCapacity].
func (r *GroupRequest) Begin(window Window) (*GroupWriter, error) {
	s := r.shelf
	s.mu.Lock()
	if r.over {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	g, replaced := s.fetched.shelve(r.sequence)
	for f := range r.waiters {
		f.answerLocked(f.open(g), nil)
	}
	r.endLocked()
	s.mu.Unlock()
	if replaced != nil {
		s.fetched.origin.cache.remove(replaced)
	}
	if err := s.fetched.origin.cache.open(g); err != nil {
		return nil, err
	}
	return &GroupWriter{group: g, window: window}, nil
}

// Fail says that the group cannot be had. After Begin it does nothing.
func (r *GroupRequest) Fail(err error) {
	r.shelf.mu.Lock()
	defer r.shelf.mu.Unlock()
	r.answerLocked(err)
}

// answerLocked tells all that wait why there is no answer; with nil they look again.
func (r *GroupRequest) answerLocked(err error) {
	for f := range r.waiters {
		f.answerLocked(nil, err)
	}
	r.endLocked()
}

func (f *Fetch) answerLocked(r *Reader, err error) {
	f.request, f.reader, f.err = nil, r, err
	close(f.answer)
}

// endLocked takes the request out of the books.
func (r *GroupRequest) endLocked() {
	if r.over {
		return
	}
	r.over = true
	r.waiters = nil
	r.silence.Stop()
	delete(r.shelf.requests, r.sequence)
	close(r.done)
}
