package session

import (
	"cmp"
	"slices"
	"sync"

	"github.com/moqrelay/operator/relay/transport"
)

// Control is the priority of streams that carry no groups: they go before all data.
var Control = transport.Priority{Urgency: 0, Incremental: true}

// Key says how the groups of one subscription, or one fetch, rank among the
// others of a session. Better ones first: Subscriber high, Publisher high, live
// before Fetch.
type Key struct {
	// Subscriber is what the peer asked for; Publisher is the track's own.
	Subscriber, Publisher uint8
	// Fetch is true for the answer to a FETCH.
	Fetch bool
	// Ordered puts the oldest open group of the subscription first, instead of the
	// newest. It decides within one subscription alone.
	Ordered bool
}

// compare orders keys, best first.
func (k Key) compare(o Key) int {
	if c := cmp.Compare(o.Subscriber, k.Subscriber); c != 0 {
		return c
	}
	if c := cmp.Compare(o.Publisher, k.Publisher); c != 0 {
		return c
	}
	switch {
	case k.Fetch == o.Fetch:
		return 0
	case k.Fetch:
		return 1
	}
	return -1
}

// Ranks orders the data streams of one session. A stream's rank is its [Key], and
// then its group's place among the open groups of the same subscription: the
// newest of each of several equal tracks share one rank, whatever their numbers
// are (draft-lcurley-moq-lite-06, prioritization). The six best ranks get the
// urgencies 1 to 6, the rest 7; equal ranks take turns.
//
// Opening, closing and updating touches only streams whose urgency changes. Without
// other subscriptions of worse keys those are seven at most, however many are open.
type Ranks struct {
	mu     sync.Mutex
	levels []*level // best first
}

// worst is the urgency of all ranks behind the best.
const worst = transport.MaxUrgency

// level is what has the same key.
type level struct {
	key    Key
	base   int                 // urgency of its best rank; at most worst; 0: not settled yet
	queues map[*Queue]struct{} // those with a stream
	deep   [worst + 1]int      // how many queues have so many streams; the last place: so many or more
}

// depth is how many ranks the level has, as far as that matters.
func (l *level) depth() int {
	for n := worst; n > 0; n-- {
		if l.deep[n] > 0 {
			return n
		}
	}
	return 0
}

// NewRanks returns an empty set.
func NewRanks() *Ranks { return &Ranks{} }

// Queue returns the place of one subscription or fetch. It needs no end: it
// counts only while it has a stream.
func (r *Ranks) Queue(key Key) *Queue { return &Queue{ranks: r, key: key} }

// Queue ranks the streams of one subscription against each other.
type Queue struct {
	ranks *Ranks

	// guarded by ranks.mu
	key     Key
	level   *level    // nil while there is no stream
	depth   int       // as level counts it
	streams []*Ranked // by group, best last
}

// Ranked is one data stream while it is open.
type Ranked struct {
	queue   *Queue
	group   uint64
	stream  transport.SendStream
	urgency int // as the stream has it
}

// Open ranks the stream of a group that is opened now. The caller closes it when
// the group is written.
func (q *Queue) Open(group uint64, s transport.SendStream) *Ranked {
	q.ranks.mu.Lock()
	defer q.ranks.mu.Unlock()
	x := &Ranked{queue: q, group: group, stream: s}
	i, _ := slices.BinarySearchFunc(q.streams, x, q.compareLocked)
	q.changeLocked(slices.Insert(q.streams, i, x))
	if x.urgency == 0 { // it is none of the best
		x.set(worst)
	}
	return x
}

// Close ends the rank of a stream. Later calls do nothing.
func (x *Ranked) Close() {
	q := x.queue
	q.ranks.mu.Lock()
	defer q.ranks.mu.Unlock()
	if i := slices.Index(q.streams, x); i >= 0 {
		q.changeLocked(slices.Delete(q.streams, i, i+1))
	}
}

// changeLocked replaces the streams of a queue and brings all urgencies up to date.
func (q *Queue) changeLocked(streams []*Ranked) {
	q.enterLocked(streams, q.key)
	q.ranks.settleLocked()
	q.assignLocked()
}

// Update changes the key. It acts on the streams that are open.
func (q *Queue) Update(key Key) {
	q.ranks.mu.Lock()
	defer q.ranks.mu.Unlock()
	streams := q.streams
	if key.Ordered != q.key.Ordered {
		slices.Reverse(streams)
	}
	q.enterLocked(streams, key)
	q.ranks.settleLocked()
	q.assignLocked()
	for _, x := range streams[:max(0, len(streams)-worst)] {
		x.set(worst)
	}
}

// compareLocked orders the streams of a queue, best last.
func (q *Queue) compareLocked(a, b *Ranked) int {
	if q.key.Ordered {
		return cmp.Compare(b.group, a.group)
	}
	return cmp.Compare(a.group, b.group)
}

// enterLocked takes a queue with these streams into the level of its key.
func (q *Queue) enterLocked(streams []*Ranked, key Key) {
	r := q.ranks
	if l := q.level; l != nil {
		l.deep[min(q.depth, worst)]--
		delete(l.queues, q)
	}
	q.streams, q.key, q.depth, q.level = streams, key, len(streams), nil
	if q.depth > 0 {
		q.level = r.levelLocked(key)
		q.level.deep[min(q.depth, worst)]++
		q.level.queues[q] = struct{}{}
	}
}

// mostEmpty is how many levels may stay without a stream: their next one, which
// is but one group away, then allocates nothing.
const mostEmpty = 16

// levelLocked finds or makes the level of a key.
func (r *Ranks) levelLocked(key Key) *level {
	find := func() (int, bool) {
		return slices.BinarySearchFunc(r.levels, key, func(l *level, k Key) int { return l.key.compare(k) })
	}
	i, found := find()
	if !found && len(r.levels) >= mostEmpty {
		r.levels = slices.DeleteFunc(r.levels, func(l *level) bool { return len(l.queues) == 0 })
		i, _ = find()
	}
	if !found {
		l := &level{key: key, queues: make(map[*Queue]struct{})}
		if i > 0 && r.levels[i-1].base == worst {
			l.base = worst // settleLocked does not come this far
		}
		r.levels = slices.Insert(r.levels, i, l)
	}
	return r.levels[i]
}

// settleLocked gives each level the urgency behind the one before, and tells the
// streams of those that move. Behind the first that has the last one and had it
// before, all have.
func (r *Ranks) settleLocked() {
	base := 1
	for _, l := range r.levels {
		if base == worst && l.base == worst {
			return
		}
		if l.base != base {
			l.base = base
			for q := range l.queues {
				q.assignLocked()
			}
		}
		base = min(worst, base+l.depth())
	}
}

// assignLocked gives the best streams of a queue their urgencies. One behind them
// has the last.
func (q *Queue) assignLocked() {
	n := len(q.streams)
	for place := range min(n, worst) {
		q.streams[n-1-place].set(min(worst, q.level.base+place))
	}
}

// set tells the stream when it changes. The lock is held over the call, which
// never waits: of two changes the later one must be the last to be told.
func (x *Ranked) set(urgency int) {
	if x.urgency != urgency {
		x.urgency = urgency
		x.stream.SetPriority(transport.Priority{Urgency: uint8(urgency), Incremental: true})
	}
}
