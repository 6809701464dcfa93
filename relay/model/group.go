package model

import (
	"math"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// What a group and a frame cost beside their bytes, for the cache and for pacing.
// They are what the heap was measured to hold: docs/memory.md.
const (
	groupCharge = 320
	frameCharge = 128
)

const (
	maxChunk   = 64 << 10 // a parked transport write pins one chunk, not the group
	firstChunk = 16 << 10 // a frame of a few KiB is one slice and one write
	smallLog   = 512      // chunks for small frames are at least that, once the log is half of it
	indexBlock = 64       // frames in the largest block of an index
)

// epoch is what a group's times are counted from: an int64 is a third of a time.Time.
var epoch = time.Now()

func clock() int64 { return int64(time.Since(epoch)) }

// clockAt is what clock is at a time.
func clockAt(t time.Time) int64 { return clock() + int64(time.Until(t)) }

// chunk is one piece of a group's log. Its bytes below the group's written
// offset never change.
type chunk struct {
	start int64 // log offset of data[0]
	data  []byte
	next  atomic.Pointer[chunk]
}

func (c *chunk) end() int64 { return c.start + int64(len(c.data)) }

// frame is one entry of a group's index, in log offsets. It begins where the one
// before ends.
type frame struct {
	payload, end int64
	timestamp    int64
}

// block is a piece of a group's index.
type block struct {
	base   uint64 // index of frames[0]
	start  int64  // log offset where frames[0] begins
	frames []frame
	next   atomic.Pointer[block]
}

// group is a track's group: an append-only log with one writer and any number
// of readers.
//
// The writer stores a frame's index entry and its head's bytes first, then begun,
// then written with the first bytes of its payload. So a reader that sees begun > i
// may read entry i, and bytes below written are there to be taken.
//
// A relay holds very many groups of one small frame, so what only some groups
// need is made when they need it.
type group struct {
	track    *track
	sequence uint64

	written atomic.Int64  // log bytes that readers may take
	begun   atomic.Uint64 // frames whose head is in the log
	whole   atomic.Int64  // log offset after the last complete frame; whole <= written
	mark    atomic.Int64  // highest log offset any reader has taken; only grows
	newest  atomic.Int64  // timestamp of the newest frame
	born    atomic.Int64  // clock at the first frame, where a reader was there to see it; else 0
	charged atomic.Int64  // what the cache counts for the group; far below 0 when it counts it no more
	readers atomic.Int32  // attached now, or waited for
	touched atomic.Bool   // written or read since the last sweep
	ended   atomic.Bool   // no more bytes will come: see err
	clean   atomic.Bool   // set before ended when err is nil

	data wake // written, begun or ended moved; readers wait here
	room wake // mark or readers moved, or the group is done; the writer waits here

	mu       sync.Mutex    // the next part; order: after track.mu, before a shard's
	done     chan struct{} // closed when no more bytes are wanted or none will come; nil until asked for
	head     *chunk        // first chunk that is held
	index    *block        // first block that is held
	front    int64         // log offset of the first frame that is held
	first    uint64        // index of the first frame that is held
	attached *Reader       // list of the readers
	buffered int64         // bytes of the chunks from head, as counted in Stats
	err      error         // why the group ended early; nil after a clean end
	hadOne   bool          // a reader was attached at some time
	let      bool          // the cache has let go of it

	from    *Producer    // brings it; nil where it was fetched
	orphan  *GroupWriter // whose source was lost, as it left the group; guarded by track.mu
	missed  bool         // another source came too early to go on; guarded by track.mu
	latest  bool         // the track's highest number; guarded by track.mu
	arrived time.Time    // first frame's arrival, zero before; guarded by track.mu
	opening int64        // first frame's timestamp; guarded by track.mu

	place cachePosition
}

func newGroup(t *track, sequence uint64) *group {
	t.origin.stats.OpenGroups.Add(1)
	return &group{track: t, sequence: sequence}
}

// closed is what has been done for long.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// wants returns a channel that is closed when the group takes no more bytes.
func (g *group) wants() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended.Load() {
		return closed
	}
	if g.done == nil {
		g.done = make(chan struct{})
	}
	return g.done
}

// end closes the group: cleanly with a nil error. Only the first call counts. The
// caller does not hold track.mu.
func (g *group) end(err error) {
	if g.endQuietly(err) && g.begun.Load() == 0 {
		g.track.spoke(g)
	}
}

// endQuietly is end for a group that nobody reads or waits for: nobody is told. It
// reports whether it was open.
func (g *group) endQuietly(err error) bool {
	g.mu.Lock()
	if g.ended.Load() {
		g.mu.Unlock()
		return false
	}
	g.err = err
	g.clean.Store(err == nil)
	g.ended.Store(true)
	if g.done != nil {
		close(g.done)
		g.done = nil
	}
	g.mu.Unlock()
	g.track.origin.stats.OpenGroups.Add(-1)
	g.data.broadcast()
	g.room.broadcast()
	return true
}

// speaks reports whether the group has a frame, or will have no more.
func (g *group) speaks() bool { return g.begun.Load() > 0 || g.ended.Load() }

// expect counts a subscription for which the group waits to be handed out: for the
// writer that is as good as a reader.
func (g *group) expect() {
	g.mu.Lock()
	g.hadOne = true
	g.readers.Add(1)
	g.mu.Unlock()
	g.room.broadcast()
}

// unexpect takes that back and reports whether nobody is left.
func (g *group) unexpect() (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.readers.Add(-1) == 0
}

// holds reports whether a reader may begin with frame from, or else with the first.
func (g *group) holds(from uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first == 0 || from >= g.first
}

// failure is why the group ended early, and nil while it is open or when it
// ended cleanly.
func (g *group) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// complete reports whether the group ended cleanly and all of it is held, from
// its first frame on.
func (g *group) complete() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended.Load() && g.err == nil && g.first == 0
}

// attach adds a reader that begins with frame from. It fails when that frame is
// no longer held.
func (g *group) attach(r *Reader, from uint64) error {
	g.mu.Lock()
	if from < g.first {
		g.mu.Unlock()
		return ErrLagged
	}
	r.chunk, r.block, r.frame, r.start = g.head, g.index, from, from
	switch {
	case from == g.first:
		r.pos.Store(g.front)
	case from < g.begun.Load():
		b, _ := g.index.find(from)
		r.pos.Store(b.begins(from))
	default: // the reader finds its place when the frame begins; until then it cannot lag
		r.seek = true
		r.pos.Store(noLimit)
	}
	g.hadOne, r.there = true, true
	if r.after = g.attached; r.after != nil {
		r.after.before = r
	}
	g.attached = r
	g.readers.Add(1)
	g.mu.Unlock()
	g.room.broadcast()
	return nil
}

// detach removes a reader and reports whether it was the last one.
func (g *group) detach(r *Reader) (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !r.there {
		return false
	}
	r.there = false
	if r.after != nil {
		r.after.before = r.before
	}
	if r.before != nil {
		r.before.after = r.after
	} else {
		g.attached = r.after
	}
	r.before, r.after = nil, nil
	if g.attached == nil && g.let {
		g.freeLocked()
	}
	return g.readers.Add(-1) == 0
}

// abandoned reports whether all that ever read the group, or waited for it, are gone.
func (g *group) abandoned() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hadOne && g.readers.Load() == 0
}

// letGo says that the cache holds the group no more.
func (g *group) letGo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.let = true
	if g.attached == nil {
		g.freeLocked()
	}
}

// freeLocked counts the chunks of a group that nobody holds any more as free.
func (g *group) freeLocked() {
	g.track.origin.stats.BufferBytes.Add(-g.buffered)
	g.buffered = 0
}

// grow appends a chunk of so many bytes behind tail, which is nil for the first.
// What the allocator may give beyond them is not used: the next frame would be cut
// there, and every viewer would need a second write for it.
func (g *group) grow(tail *chunk, start, size int64) *chunk {
	c := &chunk{start: start, data: make([]byte, size)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if tail == nil {
		g.head = c
	} else {
		tail.next.Store(c)
	}
	if !g.let || g.attached != nil {
		g.buffered += int64(len(c.data))
		g.track.origin.stats.BufferBytes.Add(int64(len(c.data)))
	}
	return c
}

// touch notes that the group is in use.
func (g *group) touch() {
	if !g.touched.Load() {
		g.touched.Store(true)
	}
}

// take notes that a reader has taken all below offset.
func (g *group) take(offset int64) {
	g.touch()
	for {
		mark := g.mark.Load()
		if offset <= mark {
			return
		}
		if !g.mark.CompareAndSwap(mark, offset) {
			continue
		}
		g.room.broadcast()
		if mark == 0 {
			if born := g.born.Load(); born != 0 {
				g.track.origin.stats.Forward.Observe(time.Duration(clock() - born))
			}
		}
		return
	}
}

// cutReaders ends every reader that has not everything it may ask for.
func (g *group) cutReaders(err error) {
	g.mu.Lock()
	cut := g.cutLocked(true)
	g.mu.Unlock()
	g.lose(cut, err)
}

// cutLocked returns the readers, of those not cut yet, that still need something:
// anything, or with all not set what is no longer held.
func (g *group) cutLocked(all bool) []*Reader {
	var cut []*Reader
	for r := g.attached; r != nil; r = r.after {
		if !r.over.Load() && (all || g.placeLocked(r) < g.front) && !g.satisfiedLocked(r) {
			cut = append(cut, r)
		}
	}
	return cut
}

// placeLocked is the log offset of the first byte that a reader has not taken; noLimit
// when that is of a frame which has not begun.
func (g *group) placeLocked(r *Reader) int64 {
	pos := r.pos.Load()
	switch {
	case pos != noLimit || r.start >= g.begun.Load():
		return pos
	case r.start < g.first: // it has not looked since its frame began
		return -1
	}
	b, _ := g.index.find(r.start)
	return b.begins(r.start)
}

// satisfiedLocked reports whether a reader has taken all that it will ever be
// given: to the clean end of the group, or to its own bound.
func (g *group) satisfiedLocked(r *Reader) bool {
	pos := r.pos.Load()
	if g.ended.Load() && g.err == nil && pos >= g.written.Load() {
		return true
	}
	if r.bound == 0 || g.begun.Load() < r.bound {
		return false
	}
	if r.bound <= g.first {
		return pos != noLimit
	}
	b, _ := g.index.find(r.bound - 1)
	return pos != noLimit && pos >= b.frames[r.bound-1-b.base].end
}

// lose cuts readers and counts them by the reason. Without locks.
func (g *group) lose(cut []*Reader, err error) {
	stats := g.track.origin.stats
	for _, r := range cut {
		switch err {
		case ErrLagged:
			stats.ReadersLagged.Add(1)
		case ErrExpired:
			stats.ReadersExpired.Add(1)
		case ErrEvicted:
			stats.ReadersEvicted.Add(1)
		}
		r.lose(err)
	}
}

// sentLocked is the log offset below which nobody needs anything: the slowest
// reader's; the front while a subscription has still to be given the group; and
// without either what was ever taken.
func (g *group) sentLocked() int64 {
	sent, readers := int64(noLimit), int32(0)
	for r := g.attached; r != nil; r = r.after {
		sent = min(sent, g.placeLocked(r))
		readers++
	}
	switch {
	case g.readers.Load() > readers:
		return g.front
	case readers == 0:
		return g.mark.Load()
	}
	return sent
}

// dropFront drops complete frames from the front of the log until at least want
// bytes are dropped, but never the newest frame, and with sentOnly none that a
// reader still needs. Otherwise readers that need a dropped frame lag. It
// returns the charge that was freed.
func (g *group) dropFront(want int64, sentOnly bool) int64 {
	g.mu.Lock()
	limit := int64(noLimit)
	if sentOnly {
		limit = g.sentLocked()
	}
	var freed int64
	for freed < want && g.first+1 < g.begun.Load() {
		f := g.index.frames[g.first-g.index.base]
		if f.end > limit {
			break
		}
		freed += f.end - g.front + frameCharge
		g.front, g.first = f.end, g.first+1
		if g.first == g.index.base+uint64(len(g.index.frames)) {
			g.index = g.index.next.Load()
		}
	}
	g.dropChunksLocked()
	var cut []*Reader
	if freed > 0 {
		cut = g.cutLocked(false)
	}
	g.mu.Unlock()
	g.lose(cut, ErrLagged)
	return freed
}

// dropChunksLocked lets go of the chunks before the front.
func (g *group) dropChunksLocked() {
	for g.head != nil && g.head.end() <= g.front && g.head.next.Load() != nil {
		size := min(int64(len(g.head.data)), g.buffered)
		g.buffered -= size
		g.track.origin.stats.BufferBytes.Add(-size)
		g.head = g.head.next.Load()
	}
}

// chunkSize is how large the next chunk of a log is: what the open frame still
// needs, but never more than double of what has arrived already, so that a
// declared length allocates nothing. Small frames share a chunk that is twice as
// large as a small log, or an eighth of a larger one, and holds a whole number of
// frames like this one: each is then one slice and one write.
func chunkSize(logged, need int64) int64 {
	shared := min(maxChunk, max(logged/8, min(2*logged, smallLog)))
	if need <= shared {
		return shared / need * need
	}
	return min(maxChunk, need, max(2*logged, firstChunk))
}

// find returns the index entry of frame i, walking from b.
func (b *block) find(i uint64) (*block, *frame) {
	for i >= b.base+uint64(len(b.frames)) {
		b = b.next.Load()
	}
	return b, &b.frames[i-b.base]
}

// begins is the log offset where frame i of this block begins.
func (b *block) begins(i uint64) int64 {
	if i == b.base {
		return b.start
	}
	return b.frames[i-b.base-1].end
}

// reach walks from b to the last block that begins at or below offset.
func (b *block) reach(offset int64) *block {
	for next := b.next.Load(); next != nil && next.start <= offset; next = b.next.Load() {
		b = next
	}
	return b
}

// below counts the frames that end at or below offset, of those that have begun;
// all before b do.
func (b *block) below(offset int64, begun uint64) uint64 {
	if begun <= b.base {
		return b.base
	}
	n := min(int(begun-b.base), len(b.frames))
	return b.base + uint64(sort.Search(n, func(i int) bool { return b.frames[i].end > offset }))
}

// noLimit is the offset limit of a reader that has none.
const noLimit = math.MaxInt64
