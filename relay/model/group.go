package model

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// What a group and a frame cost beside their bytes, for the cache and for pacing.
const (
	groupCharge = 256
	frameCharge = 128
)

const (
	maxChunk   = 64 << 10 // a parked transport write pins one chunk, not the group
	firstChunk = 16 << 10 // a frame of a few KiB is one slice and one write
	minChunk   = 64
	firstBlock = 4  // most of a short group's cost would be its index
	indexBlock = 64 // frames in every later block
)

// chunk is one piece of a group's log. Its bytes below the group's written
// offset never change.
type chunk struct {
	start int64 // log offset of data[0]
	data  []byte
	next  atomic.Pointer[chunk]
}

func (c *chunk) end() int64 { return c.start + int64(len(c.data)) }

// frame is one entry of a group's index; all offsets are log offsets:
// start < payload <= end.
type frame struct {
	start, payload, end int64
	timestamp           int64
}

// block is a piece of a group's index.
type block struct {
	base   uint64 // index of frames[0]
	frames []frame
	next   atomic.Pointer[block]
}

// group is a track's group: an append-only log with one writer and any number
// of readers.
//
// The writer stores a frame's index entry and its head's bytes first, then
// written, then begun. So a reader that sees begun > i may read entry i, and
// bytes below written are there to be taken.
type group struct {
	track    *track
	sequence uint64

	written atomic.Int64  // log bytes that readers may take
	begun   atomic.Uint64 // frames whose head is in the log
	whole   atomic.Int64  // log offset after the last complete frame; whole <= written
	mark    atomic.Int64  // highest log offset any reader has taken; only grows
	readers atomic.Int32  // attached now
	touched atomic.Bool   // written or read since the last sweep
	newest  atomic.Int64  // timestamp of the newest frame
	ended   atomic.Bool   // no more bytes will come: see err

	data wake // written, begun or ended moved; readers wait here
	room wake // mark or readers moved, or the group is done; the writer waits here

	done chan struct{} // closed when no more bytes are wanted or none will come

	mu       sync.Mutex // the rest but the last part; order: after track.mu, before cache.mu
	head     *chunk     // first chunk that is held
	index    *block     // first block that is held
	front    int64      // log offset of the first frame that is held
	first    uint64     // index of the first frame that is held
	attached map[*Reader]struct{}
	hadOne   bool  // a reader was attached at some time
	err      error // why the group ended early; nil after a clean end

	latest  bool          // the track's highest number; guarded by track.mu
	arrived time.Time     // first frame's arrival, zero before; guarded by track.mu
	opening int64         // first frame's timestamp; guarded by track.mu
	charged atomic.Int64  // what the cache counts for the group
	gone    atomic.Bool   // the cache counts it no more
	used    time.Time     // last sweep that found it touched; guarded by cache.mu
	place   cachePosition // guarded by cache.mu
}

func newGroup(t *track, sequence uint64) *group {
	return &group{track: t, sequence: sequence, done: make(chan struct{})}
}

// end closes the group: cleanly with a nil error. Only the first call counts.
func (g *group) end(err error) {
	g.mu.Lock()
	if g.ended.Load() {
		g.mu.Unlock()
		return
	}
	g.err = err
	g.ended.Store(true)
	close(g.done)
	g.mu.Unlock()
	g.data.broadcast()
	g.room.broadcast()
	if g.begun.Load() == 0 {
		g.announce()
	}
}

// speaks reports whether the group has a frame, or will have no more.
func (g *group) speaks() bool { return g.begun.Load() > 0 || g.ended.Load() }

// announce wakes the subscriptions that wait for the group to speak.
func (g *group) announce() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for r := range g.attached {
		if r.sub != nil {
			r.sub.notify.broadcast()
		}
	}
}

// failure is why the group ended early, and nil while it is open or when it
// ended cleanly.
func (g *group) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// attach adds a reader that begins with frame from. It fails when that frame is
// no longer held.
func (g *group) attach(r *Reader, from uint64) error {
	g.mu.Lock()
	if from < g.first {
		g.mu.Unlock()
		return ErrLagged
	}
	if g.attached == nil {
		g.attached = make(map[*Reader]struct{})
	}
	g.attached[r] = struct{}{}
	g.hadOne = true
	g.readers.Add(1)
	r.chunk, r.block, r.frame, r.start, r.whole = g.head, g.index, from, from, from
	switch {
	case from == g.first:
		r.pos.Store(g.front)
	case from < g.begun.Load():
		_, f := g.index.find(from)
		r.pos.Store(f.start)
	default: // the reader finds its place when the frame begins; until then it cannot lag
		r.seek = true
		r.pos.Store(noLimit)
	}
	g.mu.Unlock()
	g.room.broadcast()
	return nil
}

// detach removes a reader and reports whether it was the last one.
func (g *group) detach(r *Reader) (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.attached[r]; !ok {
		return false
	}
	delete(g.attached, r)
	return g.readers.Add(-1) == 0
}

// abandoned reports whether all readers that the group ever had are gone.
func (g *group) abandoned() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hadOne && len(g.attached) == 0
}

// take notes that a reader has taken all below offset.
func (g *group) take(offset int64) {
	if !g.touched.Load() {
		g.touched.Store(true)
	}
	for {
		mark := g.mark.Load()
		if offset <= mark {
			return
		}
		if g.mark.CompareAndSwap(mark, offset) {
			g.room.broadcast()
			return
		}
	}
}

// cutReaders ends every reader for which lost is true. Without locks.
func (g *group) cutReaders(err error, lost func(*Reader) bool) {
	g.mu.Lock()
	cut := make([]*Reader, 0, len(g.attached))
	for r := range g.attached {
		if lost(r) {
			cut = append(cut, r)
		}
	}
	g.mu.Unlock()
	for _, r := range cut {
		r.lose(err)
	}
}

// dropFront drops complete frames from the front of the log until at least want
// bytes are dropped, but never the newest frame. Readers that need a dropped
// frame lag. It returns the charge that was freed.
func (g *group) dropFront(want int64) int64 {
	g.mu.Lock()
	var freed int64
	for freed < want && g.first+1 < g.begun.Load() {
		f := g.index.frames[g.first-g.index.base]
		freed += f.end - f.start + frameCharge
		g.front, g.first = f.end, g.first+1
		if g.first == g.index.base+uint64(len(g.index.frames)) {
			g.index = g.index.next.Load()
		}
	}
	for g.head != nil && g.head.end() <= g.front && g.head.next.Load() != nil {
		g.head = g.head.next.Load()
	}
	front := g.front
	g.mu.Unlock()
	if freed == 0 {
		return 0
	}
	g.cutReaders(ErrLagged, func(r *Reader) bool { return r.pos.Load() < front })
	return freed
}

// chunkSize is how large the next chunk of a log is: what the open frame still
// needs, but never more than double of what has arrived already, so that a
// declared length allocates nothing; and at least an eighth of the log, so that
// small frames share chunks.
func chunkSize(logged, need int64) int64 {
	return min(maxChunk, max(min(need, max(2*logged, firstChunk)), logged/8, minChunk))
}

// find returns the index entry of frame i, walking from b.
func (b *block) find(i uint64) (*block, *frame) {
	for i >= b.base+uint64(len(b.frames)) {
		b = b.next.Load()
	}
	return b, &b.frames[i-b.base]
}

// noLimit is the offset limit of a reader that has none.
const noLimit = math.MaxInt64
