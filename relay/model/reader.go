package model

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// Frame is one frame of a group.
type Frame struct {
	// Timestamp is absolute, in units of the track's timescale.
	Timestamp int64
	// Size is the length of the payload in bytes.
	Size int64
}

// Reader gives one group to one subscriber: a cursor over the shared log. One
// goroutine reads; Close, Cut, AfterCut and Err may be called from others.
type Reader struct {
	group *group
	sub   *Subscription // nil for a reader without a subscription

	pos   atomic.Int64 // log offset of the first byte not taken; written by the reading goroutine
	chunk *chunk       // holds pos, or ends there; nil before the first byte
	block *block       // at or before frame, or where Next has got to; nil before it is needed
	frame uint64       // the next frame that NextFrame gives
	start uint64       // the first frame it gives
	whole uint64       // frames below it were taken, when Frames was last asked
	rest  int64        // payload bytes of the current frame that are not taken
	bound uint64       // frames from this index on are not wanted; 0 = no bound. Never changes once attached
	last  int64        // log offset where frame bound-1 ends, once known
	seek  bool         // pos has still to be moved to frame start

	there         bool    // attached; guarded by group.mu
	before, after *Reader // in the group's list; guarded by group.mu

	over  atomic.Bool   // cut or closed
	mu    sync.Mutex    // the rest; a leaf
	ended chan struct{} // closed by cut and Close; nil until asked for
	err   error         // set before over
	calls []*func()     // those of AfterCut
}

func newReader(g *group, sub *Subscription) *Reader {
	return &Reader{group: g, sub: sub}
}

// Sequence is the group's number.
func (r *Reader) Sequence() uint64 { return r.group.sequence }

// First is the index of the first frame that the reader gives.
func (r *Reader) First() uint64 { return r.start }

// Frames is how many frames the transport has taken whole so far. Only the
// goroutine that reads may ask.
func (r *Reader) Frames() int {
	if pos := r.pos.Load(); !r.seek && pos > 0 {
		r.advance(pos)
		if r.block.start <= pos { // else what it needs was dropped, and it lags
			r.whole = max(r.whole, r.block.below(pos, r.group.begun.Load()))
		}
	}
	return int(r.whole - r.start)
}

// Unread is how many bytes are there that the transport has not taken.
func (r *Reader) Unread() int64 {
	return max(0, r.group.written.Load()-r.pos.Load())
}

// advance moves the reader's place in the index on, so that it does not hold what
// is long behind it.
func (r *Reader) advance(pos int64) {
	if r.block == nil {
		r.block = r.group.firstBlock()
	}
	r.block = r.block.reach(pos)
}

// Next waits for bytes and returns all that is committed and contiguous, in the
// stored form: frames of a timestamp delta (zigzag varint), a length (varint)
// and the payload, as moq-lite-05 and -06 have them on the wire. A slice may end
// inside a frame. It is shared with other readers: do not write to it. It stays
// valid after the group is gone. Call [Reader.Taken] before the next call.
//
// The error is io.EOF at the clean end of the group, [ErrLagged], [ErrExpired]
// or [ErrEvicted] when the reader was cut, [ErrClosed] after Close, the context's
// cause, or what the group ended with: then all that was committed has been given.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	if r.seek {
		if err := r.seekStart(ctx); err != nil {
			return nil, err
		}
	}
	g, pos := r.group, r.pos.Load()
	if r.block != nil { // what is long behind is not held
		r.block = r.block.reach(pos)
	}
	if r.bound == 0 && !r.over.Load() { // the common case, without a wait
		clean := g.clean.Load() // before the look: nothing is committed after the end
		if written := g.written.Load(); written > pos {
			return r.slice(pos, written)
		} else if clean {
			return nil, io.EOF
		}
	}
	return r.bytes(ctx, noLimit)
}

// NextFrame waits for the next frame to begin, and skips its stored head. It may
// be called at a frame's boundary only: before anything else, or when
// [Reader.Payload] has returned io.EOF. Errors are those of [Reader.Next].
func (r *Reader) NextFrame(ctx context.Context) (Frame, error) {
	if err := r.seekStart(ctx); err != nil {
		return Frame{}, err
	}
	f, err := r.entry(ctx, r.frame)
	if err != nil {
		return Frame{}, err
	}
	r.frame++
	r.rest = f.end - f.payload
	r.move(f.payload)
	return Frame{Timestamp: f.timestamp, Size: r.rest}, nil
}

// Payload waits for more of the payload of the frame that NextFrame gave, and
// returns what is committed and contiguous; io.EOF when the whole payload was
// taken. Otherwise as [Reader.Next].
func (r *Reader) Payload(ctx context.Context) ([]byte, error) {
	if r.rest == 0 {
		return nil, io.EOF
	}
	return r.bytes(ctx, r.pos.Load()+r.rest)
}

// Taken says that the transport has taken n bytes of the slice that Next or
// Payload returned last. The fastest reader of a group sets the pace of its writer.
func (r *Reader) Taken(n int) {
	if r.rest > 0 {
		r.rest = max(0, r.rest-int64(n))
	}
	r.move(r.pos.Load() + int64(n))
}

// Cut returns a channel that is closed when the reader was cut or closed: its
// stream is then to be reset, even while a write is blocked. A group that the
// publisher aborted does not cut its readers; they get the error from Next.
func (r *Reader) Cut() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return closed
	}
	if r.ended == nil {
		r.ended = make(chan struct{})
	}
	return r.ended
}

// AfterCut arranges that f runs in a goroutine of its own when the reader is cut
// or closed, at once if it was already. stop calls that off, and reports false
// when f was started or stopped before: as [context.AfterFunc].
func (r *Reader) AfterCut(f func()) (stop func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		go f()
		return func() bool { return false }
	}
	call := &f
	r.calls = append(r.calls, call)
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		before := len(r.calls)
		r.calls = slices.DeleteFunc(r.calls, func(c *func()) bool { return c == call })
		return len(r.calls) < before
	}
}

// Err says why the reader was cut, and nil before.
func (r *Reader) Err() error {
	if !r.over.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close detaches the reader. The group's mark stays where it is.
func (r *Reader) Close() {
	r.cut(ErrClosed)
	if r.group.detach(r) {
		r.group.track.lastReaderLeft(r.group)
	}
	if r.sub != nil {
		r.sub.forget(r)
	}
}

// lose cuts a reader that nobody closed.
func (r *Reader) lose(err error) { r.cut(err) }

func (r *Reader) cut(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	r.err = err
	r.over.Store(true)
	if r.ended != nil {
		close(r.ended)
	}
	for _, call := range r.calls {
		go (*call)()
	}
	r.calls = nil
}

// move sets the cursor, and the group's mark with it.
func (r *Reader) move(offset int64) {
	r.pos.Store(offset)
	r.group.take(offset)
}

// seekStart moves a reader that begins with a later frame to that frame.
func (r *Reader) seekStart(ctx context.Context) error {
	if !r.seek {
		return nil
	}
	if _, err := r.entry(ctx, r.start); err != nil {
		return err
	}
	r.seek = false
	r.pos.Store(r.block.begins(r.start)) // the mark moves with the first byte taken, not by looking
	return nil
}

// entry waits for frame i to begin.
func (r *Reader) entry(ctx context.Context, i uint64) (*frame, error) {
	if r.bound != 0 && i >= r.bound {
		return nil, io.EOF
	}
	err := r.await(ctx, func() bool { return r.group.begun.Load() > i })
	if err != nil {
		return nil, err
	}
	return r.find(i)
}

// find returns the index entry of frame i, which has begun.
func (r *Reader) find(i uint64) (*frame, error) {
	if r.block == nil {
		r.block = r.group.firstBlock()
	}
	if i < r.block.base {
		return nil, ErrLagged
	}
	var f *frame
	r.block, f = r.block.find(i)
	return f, nil
}

// bytes waits until there are bytes below limit and returns them.
func (r *Reader) bytes(ctx context.Context, limit int64) ([]byte, error) {
	pos := r.pos.Load()
	if pos >= min(limit, r.boundary()) {
		return nil, io.EOF
	}
	if err := r.await(ctx, func() bool { return r.group.written.Load() > pos }); err != nil {
		return nil, err
	}
	return r.slice(pos, min(r.group.written.Load(), limit, r.boundary()))
}

// boundary is the log offset where the last wanted frame ends, once it has begun.
// While it has not, nothing behind it is committed either.
func (r *Reader) boundary() int64 {
	if r.bound == 0 || r.group.begun.Load() < r.bound {
		return noLimit
	}
	if r.last == 0 {
		f, err := r.find(r.bound - 1)
		if err != nil {
			return 0
		}
		r.last = f.end
	}
	return r.last
}

// slice returns the contiguous part of the log from pos, at most to end.
func (r *Reader) slice(pos, end int64) ([]byte, error) {
	c := r.chunk
	if c == nil {
		c = r.group.firstChunk()
	}
	if pos < c.start {
		return nil, ErrLagged
	}
	for c.end() <= pos {
		c = c.next.Load()
	}
	r.chunk = c
	to := min(end, c.end()) - c.start
	return c.data[pos-c.start : to : to], nil
}

// await waits until ready is true. The order of its looks matters: all that was
// committed is given before the group's end, and a cut reader gets nothing more.
func (r *Reader) await(ctx context.Context, ready func() bool) error {
	g := r.group
	var wakened <-chan struct{}
	for {
		if err := r.Err(); err != nil {
			return err
		}
		ended := g.ended.Load() // before the look: nothing is committed after the end
		if ready() {
			return nil
		}
		if ended {
			return r.ending()
		}
		if wakened == nil { // a look without a wait leaves nothing behind
			wakened = g.data.wait()
			continue
		}
		select {
		case <-wakened:
			wakened = nil
		case <-r.Cut():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ending is the error of a reader that has taken everything of an ended group.
func (r *Reader) ending() error {
	if r.group.clean.Load() {
		return io.EOF
	}
	return r.group.failure()
}

func (g *group) firstBlock() *block {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.index
}

func (g *group) firstChunk() *chunk {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.head
}
