package model

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// mostSkew is how far a peer's clock may be ahead of ours and still be outdone: an
// epoch that is given here is higher than those the path has, unless one of them
// is more than that from the future.
const mostSkew = time.Minute

// instant is the time-ordered part of a UUIDv7 (RFC 9562): 48 bits of milliseconds
// and, as its method 3, 12 bits of fraction.
type instant uint64

func instantOf(t time.Time) instant {
	return instant(t.UnixMilli())<<12 | instant(t.UnixNano()%int64(time.Millisecond))<<12/instant(time.Millisecond)
}

// epochAt returns a UUIDv7 with this time.
func epochAt(at instant) (e [16]byte) {
	binary.BigEndian.PutUint64(e[:], uint64(at)>>12<<16|7<<12|uint64(at)&0xfff)
	binary.BigEndian.PutUint64(e[8:], 0b10<<62|rand.Uint64()>>2)
	return e
}

// instantIn returns the time of an epoch, and false where that is no UUIDv7.
func instantIn(e [16]byte) (instant, bool) {
	b := binary.BigEndian.Uint64(e[:])
	return instant(b>>16<<12 | b&0xfff), b>>12&0xf == 7
}

// assignLocked gives a route that comes straight from its publisher, without an
// epoch, the one of the same content at its path, or a new one. Such an epoch
// ranks and travels like the publisher's own. What the content proves here is not
// changed by it: see [Announcement.identify].
func (o *Origin) assignLocked(a *Announcement) {
	if !a.assigned {
		return
	}
	for _, b := range a.at.routes {
		if b != a && b.assigned && b.content == a.content {
			a.route.Epoch = b.route.Epoch
			return
		}
	}
	a.route.Epoch = o.newEpochLocked(a.at)
}

// newEpochLocked returns an epoch that is higher than every one before it in this
// process, and higher than those of the path: the clock of another relay may be ahead.
func (o *Origin) newEpochLocked(at *place) [16]byte {
	now := time.Now()
	e := max(instantOf(now), o.lastEpoch+1)
	for _, b := range at.routes {
		if other, ok := instantIn(b.route.Epoch); ok && other >= e && other <= instantOf(now.Add(mostSkew)) {
			e = other + 1
		}
	}
	o.lastEpoch = e
	return epochAt(e)
}

// renumberLocked gives a content that has begun anew another epoch, at the path of a.
func (o *Origin) renumberLocked(a *Announcement) {
	if !a.assigned || a.over {
		return
	}
	e := o.newEpochLocked(a.at)
	for _, b := range a.at.routes {
		if b.assigned && b.content == a.content {
			changed := *b.route
			changed.Epoch = e
			b.route = &changed
		}
	}
	o.changedLocked(a.at)
}

// Epoch returns the epoch of the route that a request for path goes to on behalf
// of peer: the publisher's own, or the one that it was given here. Zero when it has
// none, or there is no route.
func (o *Origin) Epoch(path Path, peer Peer) [16]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if route := o.coveringLocked(path, peer); route != nil {
		return route.route.Epoch
	}
	return [16]byte{}
}

// Largest returns the place of the track's newest frame: of the group with the
// highest number, the last frame whose head is there. It is false while the track
// has no frame.
func (s *Subscription) Largest() (group, frame uint64, ok bool) {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.order) - 1; i >= 0; i-- {
		if frames := t.order[i].begun.Load(); frames > 0 {
			return t.order[i].sequence, frames - 1, true
		}
	}
	return 0, 0, false
}
