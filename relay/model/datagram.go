package model

import (
	"context"
	"sync"
	"time"
)

const (
	// datagramPlaces is how many datagrams wait for one session.
	datagramPlaces = 64
	// datagramAge is how long one may wait: what is sent later helps nobody.
	datagramAge = 50 * time.Millisecond
)

// Datagram is one whole group of one frame that never was on a stream. It is
// passed on right away or not at all, and never stored.
type Datagram struct {
	// Subscription is whom it is for.
	Subscription *Subscription
	// Sequence is the group's number.
	Sequence uint64
	// Timestamp is absolute, in units of the track's timescale.
	Timestamp int64
	// Payload is shared with other subscribers: do not write to it.
	Payload []byte

	arrived time.Time
}

// DatagramQueue holds what waits to be sent to one session: at most 64 datagrams,
// each for at most 50 ms. When it is full the oldest goes.
type DatagramQueue struct {
	notify wake

	mu    sync.Mutex // the rest; order: after track.mu
	used  func()     // to be called with the first datagram; nil after
	ring  []Datagram // of datagramPlaces; nil before the first
	first int
	count int
}

// NewDatagramQueue returns an empty queue. A session has one, and names it in the
// [Options] of its subscriptions. Most never get a datagram: used, which may be nil,
// is called when the first has come, so that nobody has to wait for it before.
func NewDatagramQueue(used func()) *DatagramQueue { return &DatagramQueue{used: used} }

// Next waits for a datagram and returns the oldest one that is young enough and
// whose subscription is open. The error is the context's cause.
func (q *DatagramQueue) Next(ctx context.Context) (Datagram, error) {
	for {
		wakened := q.notify.wait()
		if d, ok := q.take(time.Now()); ok {
			return d, nil
		}
		select {
		case <-wakened:
		case <-ctx.Done():
			return Datagram{}, context.Cause(ctx)
		}
	}
}

// take removes datagrams up to the first that may still be sent.
func (q *DatagramQueue) take(now time.Time) (Datagram, bool) {
	for {
		d, ok := q.pop()
		switch {
		case !ok:
			return Datagram{}, false
		case d.Subscription.isClosed():
		case now.Sub(d.arrived) > datagramAge:
			d.Subscription.track.origin.stats.DatagramsAge.Add(1)
		default:
			return d, true
		}
	}
}

func (q *DatagramQueue) pop() (Datagram, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == 0 {
		return Datagram{}, false
	}
	d := q.ring[q.first]
	q.ring[q.first] = Datagram{}
	q.first = (q.first + 1) % datagramPlaces
	q.count--
	return d, true
}

// push adds a datagram, in the place of the oldest when the queue is full. It
// returns what is to be called without locks, or nil.
func (q *DatagramQueue) push(d Datagram) (used func()) {
	q.mu.Lock()
	if q.ring == nil {
		q.ring = make([]Datagram, datagramPlaces)
	}
	used, q.used = q.used, nil
	if q.count == datagramPlaces {
		q.first = (q.first + 1) % datagramPlaces
		q.count--
		d.Subscription.track.origin.stats.DatagramsQueue.Add(1)
	}
	q.ring[(q.first+q.count)%datagramPlaces] = d
	q.count++
	q.mu.Unlock()
	q.notify.broadcast()
	return used
}

// datagram gives a datagram to every subscriber that has a queue and wants the group.
func (t *track) datagram(p *Producer, d Datagram) {
	d.arrived = time.Now()
	if t.brings(p, d.Sequence) {
		t.origin.promote(t, p, d.Sequence)
	}
	for _, used := range t.pushDatagram(p, d) {
		used()
	}
}

// brings reports whether a source that was asked to take over has a datagram that
// the one before it has not brought.
func (t *track) brings(p *Producer, sequence uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next == p && p.accepted && sequence >= t.datagrams
}

func (t *track) pushDatagram(p *Producer, d Datagram) (used []func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.producer != p || !p.accepted || t.stopped || d.Sequence < p.floor {
		return nil
	}
	t.datagrams = max(t.datagrams, d.Sequence+1)
	for s := range t.subs {
		if s.options.Datagrams != nil && s.inRangeLocked(d.Sequence) {
			d.Subscription = s
			if f := s.options.Datagrams.push(d); f != nil {
				used = append(used, f)
			}
		}
	}
	return used
}
