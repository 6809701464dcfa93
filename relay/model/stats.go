package model

import (
	"sync/atomic"
	"time"
)

// Stats counts what happens in an [Origin]. Fields may be read at any time; those
// that are not gauges never fall.
type Stats struct {
	Broadcasts    atomic.Int64 // gauge: paths with a route
	Routes        atomic.Int64 // gauge
	Tracks        atomic.Int64 // gauge: upstream requests that run
	Subscriptions atomic.Int64 // gauge: those that want groups

	Moves atomic.Int64 // requests that moved to a better route while theirs was there

	Groups       atomic.Int64 // groups that began
	OpenGroups   atomic.Int64 // gauge: those whose end has not come
	CachedGroups atomic.Int64 // gauge
	BufferBytes  atomic.Int64 // gauge: chunks of groups that the cache or a reader holds

	Paused       atomic.Int64 // gauge: writers that wait for a reader or for room in the cache
	Pauses       atomic.Int64 // waits that were made
	PausesDenied atomic.Int64 // waits that the session's credit did not cover
	PauseTime    atomic.Int64 // nanoseconds of all waits that have ended

	EvictedAge      Evictions // groups past their age
	EvictedCapacity Evictions // groups, and fronts of groups, that made room
	EvictedTail     Evictions // fronts of groups longer than [Config.GroupTail]

	ReadersExpired atomic.Int64 // cut because a newer group superseded theirs
	ReadersLagged  atomic.Int64 // cut because what they needed was dropped from a front
	ReadersEvicted atomic.Int64 // cut because their group was dropped whole

	FetchHit      atomic.Int64 // fetches answered from what is held
	FetchMiss     atomic.Int64 // fetches that asked the upstream
	FetchJoined   atomic.Int64 // fetches that joined one under way
	FetchNotFound atomic.Int64 // fetches of what cannot be had

	DatagramsQueue atomic.Int64 // dropped because a session's queue was full
	DatagramsAge   atomic.Int64 // dropped because they waited too long

	// Forward is the time from a live group's first byte here to the first byte
	// that a viewer's transport took. Groups that nobody watched when they began
	// are not in it.
	Forward Histogram
}

// Evictions counts what left the cache for one reason.
type Evictions struct {
	// Groups is how many groups were dropped whole, or had their front dropped.
	Groups atomic.Int64
	// Bytes is the charge that was freed.
	Bytes atomic.Int64
}

func (e *Evictions) add(bytes int64) {
	e.Groups.Add(1)
	e.Bytes.Add(bytes)
}

// bounds are the upper ends of a Histogram's buckets.
var bounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second,
}

// Histogram counts durations in fixed buckets from 0.5 ms to 10 s. The zero value
// is ready; any goroutine may use it, and nothing waits.
type Histogram struct {
	counts [len(bounds) + 1]atomic.Uint64 // each its own bucket; the last is all that is longer
	sum    atomic.Int64                   // time.Duration
}

// Observe counts d. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// HistogramSnapshot is what a [Histogram] had counted at one time.
type HistogramSnapshot struct {
	// Buckets are, for each upper end, how many observations were not longer.
	Buckets []Bucket
	// Count is the number of all observations, those over the last bucket too.
	Count uint64
	// Sum is the sum of all observations.
	Sum time.Duration
}

// Bucket is one step of a [HistogramSnapshot].
type Bucket struct {
	// UpTo is the upper end, inclusive.
	UpTo time.Duration
	// Count is the number of observations up to UpTo.
	Count uint64
}

// Snapshot returns the counts. Those made meanwhile may be in it or not.
func (h *Histogram) Snapshot() HistogramSnapshot {
	s := HistogramSnapshot{Buckets: make([]Bucket, len(bounds)), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if i < len(bounds) {
			s.Buckets[i] = Bucket{UpTo: bounds[i], Count: s.Count}
		}
	}
	return s
}
