package model

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Window says how far a group's writer may run ahead of its fastest reader.
type Window struct {
	// Bytes is the smallest of the peer's stream credit, its connection credit
	// and [Config.PacingCap]. 0 means that the transport cannot say: such a
	// writer is never paused, and bounded by the group's tail and the cache alone.
	Bytes int64
	// Credit is the session's budget for pauses; nil for a writer whose pause
	// leaves nothing in a transport (a local publisher).
	Credit *Credit
	// Reserve is what one pause takes from Credit: what the paused stream may
	// leave unread in the connection's window. 0 means Bytes.
	Reserve int64
}

// Credit bounds how much of a connection's receive window paused streams may
// hold, so that the other streams of the session always have some.
type Credit struct {
	mu   sync.Mutex
	free int64 // bytes; guarded by mu
}

// NewCredit returns a budget of so many bytes: the connection's window less one
// stream's. With 4 MiB and 1 MiB three streams may pause at a time.
func NewCredit(bytes int64) *Credit { return &Credit{free: bytes} }

func (c *Credit) reserve(n int64) bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > c.free {
		return false
	}
	c.free -= n
	return true
}

func (c *Credit) release(n int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free += n
}

// GroupWriter writes one group. One goroutine writes; Abort, Done and Err may be
// used by others, also while the writing one waits.
type GroupWriter struct {
	group  *group
	window Window

	tail  *chunk // the last chunk
	block *block // the last block of the index
	at    int64  // log offset behind all that is stored; written follows with the next Commit

	size     int64  // payload bytes of the open frame
	left     int64  // of them not committed; the frame is open while left > 0
	ahead    int64  // of them charged to the cache and not committed
	held     int64  // charge of all frames admitted
	progress int64  // charge up to the mark, as far as it was last looked up
	walked   *block // at or before the mark

	over *overlap // what comes again; nil unless another source had begun the group
}

// BeginFrame admits the next frame and stores its head, which stands in front of
// its payload in what readers get: head is copied. timestamp is absolute, in the
// track's timescale; size is the payload's length in bytes.
//
// It waits while the frame does not fit into one window past the group's fastest
// reader, unless a reader has taken every complete frame. A wait ends when the
// mark moves, a reader attaches or the group ends. A pause that the session's
// [Credit] does not cover is not made: the frame is admitted at once, and the
// oldest frames of the group go if it gets longer than its tail.
//
// Then it makes room in the cache. Where nothing may be dropped it waits for room
// under the same credit, two seconds at most; a writer without a window does not.
//
// Errors: [ErrFrameTooLarge], [ErrNoCapacity] (both end the group), the group's
// end (see [GroupWriter.Err]), the context's cause.
func (w *GroupWriter) BeginFrame(ctx context.Context, head []byte, timestamp, size int64) error {
	g := w.group
	if w.over != nil {
		if again, err := w.over.begin(w, size); again {
			return err
		}
		w.over = nil
	}
	if w.left > 0 {
		return errFrameOpen
	}
	limits := g.track.origin.limits.Load()
	if size < 0 || size > limits.MaxFrame || size+int64(len(head)) > limits.GroupTail {
		err := fmt.Errorf("frame of %d bytes: %w", size, ErrFrameTooLarge)
		w.Abort(err)
		return err
	}
	charge := size + int64(len(head)) + frameCharge
	if err := w.admit(ctx, min(charge, w.firstPart(charge))); err != nil {
		return err
	}
	ahead := min(size, firstChunk)
	if err := w.makeRoom(ctx, frameCharge+int64(len(head))+ahead, charge); err != nil {
		return err
	}
	w.ahead = ahead
	w.open(head, timestamp, size)
	w.keepTail(0) // the frame before is no longer the newest
	return nil
}

// firstPart is what is admitted of a frame at its start: all of it, or for one
// larger than the window only its head; Buffer then admits chunk by chunk.
func (w *GroupWriter) firstPart(charge int64) int64 {
	if w.window.Bytes > 0 && charge > w.window.Bytes {
		return w.window.Bytes + 1 // fits only by the second rule: a reader has everything before it
	}
	return charge
}

// large reports whether the open frame is larger than the window.
func (w *GroupWriter) large() bool {
	return w.window.Bytes > 0 && w.size+frameCharge > w.window.Bytes
}

// Buffer returns room in the log for more of the open frame's payload: at least
// one byte, at most what is left of the frame. For a frame larger than the
// window it waits as BeginFrame does. Nothing is visible to readers before Commit.
func (w *GroupWriter) Buffer(ctx context.Context) ([]byte, error) {
	if w.over != nil {
		if b := w.over.buffer(); b != nil {
			return b, nil
		}
	}
	if w.left == 0 {
		return nil, errFrameOpen
	}
	if w.large() {
		if err := w.admit(ctx, min(w.left, maxChunk)); err != nil {
			return nil, err
		}
	} else if w.group.ended.Load() {
		return nil, w.endError()
	}
	if more := min(w.left, w.roomNext()) - w.ahead; more > 0 {
		if err := w.makeRoom(ctx, more, more); err != nil {
			return nil, err
		}
		w.ahead += more
	}
	room := w.space(w.left)
	return room[:min(int64(len(room)), w.ahead)], nil
}

// roomNext is how much of the log the next call of space has, of what the open
// frame needs.
func (w *GroupWriter) roomNext() int64 {
	if w.tail != nil && w.tail.end() > w.at {
		return w.tail.end() - w.at
	}
	return chunkSize(w.at, w.left)
}

// Commit makes the first n bytes of what Buffer returned visible to readers, and
// the frame's head with them: a head alone would be a packet of its own. They must
// not be changed again.
func (w *GroupWriter) Commit(n int) {
	if n == 0 {
		return
	}
	if w.over != nil && w.over.left > 0 {
		w.over.left -= int64(n)
		return
	}
	if w.large() {
		w.held += int64(n)
	}
	w.left -= int64(n)
	w.ahead -= int64(n)
	w.at += int64(n)
	w.publish()
}

// publish shows readers all that is stored.
func (w *GroupWriter) publish() {
	g := w.group
	if w.left == 0 {
		g.whole.Store(w.at)
	}
	g.written.Store(w.at)
	g.touch()
	g.data.broadcast()
}

// WriteFrame writes a whole frame; payload is copied. For publishers that have
// the frame in memory.
func (w *GroupWriter) WriteFrame(ctx context.Context, head []byte, timestamp int64, payload []byte) error {
	if err := w.BeginFrame(ctx, head, timestamp, int64(len(payload))); err != nil {
		return err
	}
	for len(payload) > 0 {
		b, err := w.Buffer(ctx)
		if err != nil {
			return err
		}
		n := copy(b, payload)
		w.Commit(n)
		payload = payload[n:]
	}
	return nil
}

// Finish ends the group cleanly. It fails, and aborts the group, when a frame is open.
func (w *GroupWriter) Finish() error {
	if w.left > 0 || w.over != nil && w.over.missing() {
		w.Abort(&AbortError{})
		return errFrameOpen
	}
	w.group.end(nil)
	return nil
}

// Abort ends the group early: readers get what was committed, then err. A
// waiting BeginFrame or Buffer returns. After the end it does nothing.
//
// With [ErrSourceGone] the writer is lost with its session, and nothing waits in it. A
// group of known epoch then waits for another source of its track to go on with it, at
// most [Config.Linger].
func (w *GroupWriter) Abort(err error) {
	if errors.Is(err, ErrSourceGone) && w.group.track.orphan(w) {
		return
	}
	w.group.end(err)
}

// Done is closed when the group wants no more bytes: finished, aborted, expired,
// evicted, or its track is gone. The stream it is read from is then to be stopped.
func (w *GroupWriter) Done() <-chan struct{} { return w.group.wants() }

// Err says why the group ended early: nil while it is open and after Finish.
func (w *GroupWriter) Err() error { return w.group.failure() }

// Sequence is the group's number.
func (w *GroupWriter) Sequence() uint64 { return w.group.sequence }

// fits is the pacing rule for so many more bytes of charge.
func (w *GroupWriter) fits(charge int64) bool {
	g := w.group
	if w.window.Bytes <= 0 || w.held+charge-w.progress <= w.window.Bytes {
		return true
	}
	mark := g.mark.Load()
	w.progress = w.chargeAt(mark)
	if w.held+charge-w.progress <= w.window.Bytes {
		return true
	}
	return g.readers.Load() > 0 && mark >= g.whole.Load()
}

// chargeAt turns a log offset into charge: bytes, and frameCharge for each frame
// that ends at or below it.
func (w *GroupWriter) chargeAt(mark int64) int64 {
	if w.walked == nil {
		return 0
	}
	w.walked = w.walked.reach(mark)
	return mark + int64(w.walked.below(mark, w.group.begun.Load()))*frameCharge
}

// admit waits until so much charge fits.
func (w *GroupWriter) admit(ctx context.Context, charge int64) error {
	g := w.group
	if g.ended.Load() {
		return w.endError()
	}
	if w.fits(charge) {
		return nil
	}
	return w.underCredit(func() error { return w.pause(ctx, charge) })
}

// underCredit makes a pause if the session's credit covers it, and returns what
// it ended with. A pause that is not covered is not made.
func (w *GroupWriter) underCredit(pause func() error) error {
	stats := w.group.track.origin.stats
	reserve := w.window.Reserve
	if reserve == 0 {
		reserve = w.window.Bytes
	}
	if !w.window.Credit.reserve(reserve) {
		stats.PausesDenied.Add(1)
		return nil
	}
	defer w.window.Credit.release(reserve)
	stats.Pauses.Add(1)
	stats.Paused.Add(1)
	since := clock()
	defer func() {
		stats.Paused.Add(-1)
		stats.PauseTime.Add(clock() - since)
	}()
	return pause()
}

func (w *GroupWriter) pause(ctx context.Context, charge int64) error {
	g := w.group
	for {
		moved := g.room.wait()
		if g.ended.Load() {
			return w.endError()
		}
		if w.fits(charge) {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *GroupWriter) endError() error {
	if err := w.Err(); err != nil {
		return err
	}
	return ErrClosed
}

// open stores the index entry and the head of an admitted frame.
func (w *GroupWriter) open(head []byte, timestamp, size int64) {
	g := w.group
	first := w.block == nil
	if first && g.readers.Load() > 0 {
		g.born.Store(clock())
	}
	w.size, w.left = size, size
	w.held += int64(len(head)) + frameCharge
	if !w.large() {
		w.held += size
	}
	payload := w.at + int64(len(head))
	w.index(frame{payload: payload, end: payload + size, timestamp: timestamp})
	for len(head) > 0 {
		n := copy(w.space(payload+size-w.at), head)
		head = head[n:]
		w.at += int64(n)
	}
	g.newest.Store(timestamp)
	g.begun.Add(1)
	if size == 0 {
		w.publish()
	}
	if first {
		g.track.groupBegan(g, timestamp)
	}
}

// index appends the entry of a frame that begins at start; begun makes it visible.
// The blocks of an index double: most of the cost of a short group would be there.
func (w *GroupWriter) index(f frame) {
	begun := w.group.begun.Load()
	if w.block == nil || begun == w.block.base+uint64(len(w.block.frames)) {
		b := &block{base: begun, start: w.at, frames: make([]frame, min(max(begun, 1), indexBlock))}
		if w.block == nil {
			if w.window.Bytes > 0 {
				w.walked = b
			}
			w.group.mu.Lock()
			w.group.index = b
			w.group.mu.Unlock()
		} else {
			w.block.next.Store(b)
		}
		w.block = b
	}
	w.block.frames[begun-w.block.base] = f
}

// space returns what is free in the last chunk, at most need bytes, and adds a
// chunk when nothing is.
func (w *GroupWriter) space(need int64) []byte {
	if w.tail == nil || w.tail.end() == w.at {
		w.tail = w.group.grow(w.tail, w.at, chunkSize(w.at, need))
	}
	from := w.at - w.tail.start
	return w.tail.data[from:min(int64(len(w.tail.data)), from+need)]
}

// capacityPause is how long a writer waits for room in a full cache: the sweep that
// drops what is past its age comes twice in it.
const capacityPause = 2 * sweepInterval

// makeRoom charges the cache with n more bytes, before they are stored, and drops
// the group's front where it would be longer than its tail. whole is what the
// frame that needs them takes in all: one that never fits is refused at once.
func (w *GroupWriter) makeRoom(ctx context.Context, n, whole int64) error {
	g, cache := w.group, w.group.track.origin.cache
	w.keepTail(n)
	if cache.charge(g, n, whole) {
		return nil
	}
	if w.window.Bytes > 0 && cache.fits(whole) {
		full := true
		err := w.underCredit(func() error {
			err := w.awaitRoom(ctx, n)
			full = err == ErrNoCapacity
			return err
		})
		if !full {
			return err
		}
	}
	w.Abort(ErrNoCapacity)
	return ErrNoCapacity
}

// keepTail drops the group's front where it would be longer than its tail with n
// bytes more.
func (w *GroupWriter) keepTail(n int64) {
	origin := w.group.track.origin
	tail := origin.limits.Load().GroupTail
	if over := w.group.charged.Load() + n - tail; over > 0 {
		origin.cache.trim(w.group, over, tail)
	}
}

// awaitRoom waits until the cache takes n bytes more.
func (w *GroupWriter) awaitRoom(ctx context.Context, n int64) error {
	g, cache := w.group, w.group.track.origin.cache
	timeout := time.NewTimer(capacityPause)
	defer timeout.Stop()
	for {
		freed := cache.freed.wait()
		if cache.charge(g, n, n) {
			return nil
		}
		select {
		case <-freed:
		case <-timeout.C:
			return ErrNoCapacity
		case <-g.wants():
			return w.endError()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
