package qmux

import "slices"

// A window is credit that we grant: bytes of a stream, bytes of the connection,
// or streams of one kind. consumed <= used <= limit always holds.
type window struct {
	size     uint64 // how far the limit runs ahead of what was consumed
	limit    uint64 // as advertised
	used     uint64 // the highest that the peer has reached
	consumed uint64 // read by the application or discarded

	low, step uint64 // see raise
}

// newByteWindow keeps less than an eighth of itself back.
func newByteWindow(size uint64) window {
	return window{size: size, limit: size, low: size / 4, step: max(1, size/8)}
}

// newStreamWindow keeps nothing back from a peer that has no stream left.
func newStreamWindow(size uint64) window {
	return window{size: size, limit: size, step: 1}
}

// use moves the highest offset to end. It is false when the peer was not allowed to.
func (w *window) use(end uint64) bool {
	if end > w.limit {
		return false
	}
	w.used = max(w.used, end)
	return true
}

// raise moves the limit if it is time to, and says whether it has to be
// advertised. It is once at most half of the window is left before what was
// consumed, as released peers do. That alone would lock a session up: streams
// that nobody reads may hold more than half of the connection's window for ever,
// so a peer that is running out gets its share earlier, but no crumbs. A window
// of 0 never grows.
func (w *window) raise() bool {
	gain := w.consumed + w.size - w.limit
	half := w.limit-w.consumed <= w.size/2
	running := w.limit-w.used <= w.low && gain >= w.step
	if w.size == 0 || gain == 0 || !half && !running {
		return false
	}
	w.limit += gain
	return true
}

// A credit is what the peer grants us. It only grows.
type credit struct {
	limit uint64
	used  uint64
}

func (c *credit) left() uint64 { return c.limit - c.used }

// raise takes over a new limit; a lower one than before means nothing.
func (c *credit) raise(limit uint64) { c.limit = max(c.limit, limit) }

// kind is bidirectional or unidirectional; it is bit 1 of a stream id.
type kind int

const (
	bidi kind = 0
	uni  kind = 1
)

func kindOf(id uint64) kind { return kind(id >> 1 & 1) }

// A remote is one kind of stream that the peer opens.
type remote struct {
	window   window              // in streams; used is the highest index opened, plus one
	skipped  map[uint64]struct{} // ids below it that no frame was seen of; at most window.size
	arrived  fifo[*stream]       // not yet accepted; at most window.size
	waiting  notice              // Accept waits for one
	announce bool                // the limit rose and MAX_STREAMS has to be sent
}

// arrive notes a frame for id. created is false for a stream that exists or is
// finished; ok is false when the peer may not open it.
func (r *remote) arrive(id uint64) (created, ok bool) {
	index := id >> 2
	if index < r.window.used {
		_, created = r.skipped[id]
		delete(r.skipped, id)
		return created, true
	}
	first := r.window.used
	if !r.window.use(index + 1) {
		return false, false
	}
	r.announce = r.window.raise() || r.announce
	for i := first; i < index; i++ {
		if r.skipped == nil {
			r.skipped = make(map[uint64]struct{})
		}
		r.skipped[i<<2|id&3] = struct{}{}
	}
	return true, true
}

// A local is one kind of stream that we open.
type local struct {
	credit credit // in streams; used is the next index
	free   notice // Open waits for credit
}

// A notice wakes all that wait for it, and costs nothing while nobody does.
type notice struct{ ch chan struct{} }

// wait returns a channel that the next wake closes.
func (n *notice) wait() <-chan struct{} {
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *notice) wake() {
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// A fifo is a queue that forgets what was taken from it.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// remove forgets all that match; it looks at each.
func (q *fifo[T]) remove(match func(T) bool) {
	kept := slices.DeleteFunc(q.items[q.head:], match)
	if q.items = q.items[:q.head+len(kept)]; len(kept) == 0 {
		q.items, q.head = q.items[:0], 0
	}
}

// front is the next that pop returns; there must be one.
func (q *fifo[T]) front() T { return q.items[q.head] }

func (q *fifo[T]) pop() T {
	v := q.items[q.head]
	var zero T
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v
}
