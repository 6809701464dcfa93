package qmux

import (
	"math/bits"
	"slices"

	"github.com/moqrelay/operator/relay/transport"
)

// A schedule orders the streams that have data and stream credit: strictly by
// urgency, and in one urgency incremental streams take turns of one record, the
// others go in the order of opening. Where one urgency has both kinds they
// alternate. It costs a few instructions per record while all streams are
// incremental, a search among the others of one urgency.
type schedule struct {
	lanes [transport.MaxUrgency + 1]lane
	used  uint8 // bit n: lanes[n] is not empty
	count int
}

// lane is one urgency.
type lane struct {
	turns  fifo[*stream] // incremental: the front is next
	order  []*stream     // the others, by when they were opened: the last is next
	others bool          // the last one came from turns, so order is next
}

func (q *schedule) len() int { return q.count }

// push adds a stream that is not in it, behind its equals.
func (q *schedule) push(s *stream) {
	l := &q.lanes[s.priority.Urgency]
	if s.priority.Incremental {
		l.turns.push(s)
	} else {
		at, _ := slices.BinarySearchFunc(l.order, s, lastOpenedFirst)
		l.order = slices.Insert(l.order, at, s)
	}
	q.used |= 1 << s.priority.Urgency
	q.count++
}

// lastOpenedFirst orders by index; of two that have the same, which were opened
// by different sides or are of different kinds, the smaller id is the older one.
func lastOpenedFirst(a, b *stream) int {
	switch {
	case a.id == b.id:
		return 0
	case a.id > b.id:
		return -1
	}
	return 1
}

// pop takes the stream whose turn it is; there must be one.
func (q *schedule) pop() (s *stream) {
	urgency := bits.TrailingZeros8(q.used)
	l := &q.lanes[urgency]
	if len(l.order) > 0 && (l.others || l.turns.len() == 0) {
		last := len(l.order) - 1
		s, l.order[last] = l.order[last], nil
		l.order, l.others = l.order[:last], false
	} else {
		s, l.others = l.turns.pop(), true
	}
	q.took(urgency)
	return s
}

// remove takes a stream out that is in it, before its priority changes.
func (q *schedule) remove(s *stream) {
	l := &q.lanes[s.priority.Urgency]
	is := func(o *stream) bool { return o == s }
	if s.priority.Incremental {
		l.turns.remove(is)
	} else {
		l.order = slices.DeleteFunc(l.order, is)
	}
	q.took(int(s.priority.Urgency))
}

// took notes that one stream left a lane.
func (q *schedule) took(urgency int) {
	q.count--
	if l := &q.lanes[urgency]; l.turns.len() == 0 && len(l.order) == 0 {
		q.used &^= 1 << urgency
	}
}
