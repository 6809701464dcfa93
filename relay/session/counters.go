package session

import (
	"errors"
	"sync/atomic"

	"github.com/moqrelay/operator/relay/model"
)

// Counters count what happens in sessions. One may serve many sessions: a relay
// has one for each tier and transport. All fields may be read at any time; those
// that are not gauges never fall, ended sessions included.
type Counters struct {
	// In is what peers publish to us, Out what they watch.
	In, Out Traffic

	// Subscriptions are the peers' requests for groups, Pulls ours to peers.
	Subscriptions, Pulls Opened
	// Fetches counts the peers' requests for one group each.
	Fetches atomic.Int64
	// UpstreamFetches counts ours to peers.
	UpstreamFetches atomic.Int64
	// Refused are the peers' requests for tracks and groups that were refused.
	Refused Refusals

	// FirstFrame is the time from the moment a peer's SUBSCRIBE was taken to the
	// first byte of its first group on a stream.
	FirstFrame model.Histogram

	// Resets are the streams of groups to peers that did not end with their group.
	Resets Resets
	// ExpiredBytes counts bytes that a viewer did not get because their group
	// expired, sent in part or never begun.
	ExpiredBytes atomic.Int64
	// DatagramsTooLarge counts datagrams that did not fit the viewer's connection.
	DatagramsTooLarge atomic.Int64
	// GoawaySent and GoawayReceived count those messages.
	GoawaySent, GoawayReceived atomic.Int64
	// Stalled counts sessions that were closed because the peer took nothing for
	// [Limits.StalledTimeout].
	Stalled atomic.Int64

	// Malformed counts streams that were ended because their bytes could not be read.
	Malformed atomic.Int64
	// Unknown counts streams of a type that is not known.
	Unknown atomic.Int64
	// AnnouncementsIn counts messages of announcements that peers have sent, begun,
	// changed and ended, AnnouncementsOut ours to them.
	AnnouncementsIn, AnnouncementsOut atomic.Int64
	// Discarded counts announcements that were ignored: over the limit, or with a
	// path or a hop list that nobody may carry.
	Discarded atomic.Int64
	// Stray counts group streams that belonged to no subscription.
	Stray atomic.Int64
}

// Opened counts what is opened and closed again.
type Opened struct {
	// Total counts those that were opened.
	Total atomic.Int64
	// Open is a gauge.
	Open atomic.Int64
}

// Begin counts one that is opened now. The caller calls End once.
func (o *Opened) Begin() {
	o.Total.Add(1)
	o.Open.Add(1)
}

// End counts that one is closed.
func (o *Opened) End() { o.Open.Add(-1) }

// Traffic is what went one way. Bytes are those of frames, their heads included: as
// the model keeps them for what comes in, as they are on the stream for what goes
// out; what stands in front of a group's first frame is not counted. Each is
// counted when a read or a write of it is over.
type Traffic struct {
	Bytes, Frames, Groups, Datagrams Count
}

// Meter returns the counters of one session in t.
func (t *Traffic) Meter() Meter {
	return Meter{Bytes: t.Bytes.Cell(), Frames: t.Frames.Cell(), Groups: t.Groups.Cell(), Datagrams: t.Datagrams.Cell()}
}

// Meter is where one session counts its traffic of one way.
type Meter struct {
	Bytes, Frames, Groups, Datagrams *atomic.Int64
}

// cells is how many places a [Count] has. Sessions are dealt out over them.
const cells = 16

// Count is a counter for what happens on every core all the time: its parts lie
// in cache lines of their own. The zero value is ready.
type Count struct {
	next atomic.Uint32
	part [cells]struct {
		atomic.Int64
		_ [56]byte
	}
}

// Cell returns the part of the counter that one more session adds to.
func (c *Count) Cell() *atomic.Int64 { return &c.part[c.next.Add(1)%cells].Int64 }

// Load returns the sum.
func (c *Count) Load() (sum int64) {
	for i := range c.part {
		sum += c.part[i].Load()
	}
	return sum
}

// Resets count streams by the reason that ended them.
type Resets struct {
	// Expired: a newer group was there, and the viewer's latency over.
	Expired atomic.Int64
	// Lagged: the viewer needs what a long group holds no more.
	Lagged atomic.Int64
	// Cancelled: the viewer left, or stopped the stream.
	Cancelled atomic.Int64
	// Upstream: the publisher cut the group short, or is gone.
	Upstream atomic.Int64
	// TooLarge: a frame is larger than the relay takes.
	TooLarge atomic.Int64
	// Evicted: the relay had no room for the group.
	Evicted atomic.Int64
}

// Add counts a stream that was reset because of err.
func (r *Resets) Add(err error) {
	switch {
	case errors.Is(err, model.ErrExpired):
		r.Expired.Add(1)
	case errors.Is(err, model.ErrLagged):
		r.Lagged.Add(1)
	case errors.Is(err, model.ErrFrameTooLarge):
		r.TooLarge.Add(1)
	case errors.Is(err, model.ErrEvicted), errors.Is(err, model.ErrNoCapacity):
		r.Evicted.Add(1)
	case isUpstream(err):
		r.Upstream.Add(1)
	default:
		r.Cancelled.Add(1)
	}
}

// isUpstream reports whether a group ended by its publisher's doing.
func isUpstream(err error) bool {
	_, aborted := errors.AsType[*model.AbortError](err)
	return aborted || errors.Is(err, model.ErrSourceGone) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrWrongSize)
}

// Refusals count requests by the reason of their refusal.
type Refusals struct {
	NotFound, Unroutable, Timeout, Limit, Forbidden, GoingAway, Other atomic.Int64
}

// Add counts a request that was refused with err.
func (r *Refusals) Add(err error) {
	switch {
	case errors.Is(err, model.ErrNotFound):
		r.NotFound.Add(1)
	case errors.Is(err, model.ErrUnroutable):
		r.Unroutable.Add(1)
	case errors.Is(err, model.ErrUpstreamTimeout):
		r.Timeout.Add(1)
	case errors.Is(err, ErrLimit):
		r.Limit.Add(1)
	case errors.Is(err, ErrForbidden):
		r.Forbidden.Add(1)
	case errors.Is(err, ErrGoingAway):
		r.GoingAway.Add(1)
	default:
		r.Other.Add(1)
	}
}

// Load returns the sum of all.
func (r *Refusals) Load() int64 {
	return r.NotFound.Load() + r.Unroutable.Load() + r.Timeout.Load() + r.Limit.Load() +
		r.Forbidden.Load() + r.GoingAway.Load() + r.Other.Load()
}
