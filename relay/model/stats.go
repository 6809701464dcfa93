package model

import "sync/atomic"

// Stats counts what happens in an [Origin]. Fields may be read at any time; those
// that are not gauges never fall.
type Stats struct {
	Broadcasts    atomic.Int64 // gauge: paths with a route
	Routes        atomic.Int64 // gauge
	Tracks        atomic.Int64 // gauge: upstream requests that run
	Subscriptions atomic.Int64 // gauge: those that want groups

	Groups       atomic.Int64 // groups that began
	CachedGroups atomic.Int64 // gauge

	Paused       atomic.Int64 // gauge: writers that wait for a reader
	Pauses       atomic.Int64 // waits that were made
	PausesDenied atomic.Int64 // waits that the session's credit did not cover

	EvictedGroups    atomic.Int64 // dropped whole, by age or for want of room
	EvictedBytes     atomic.Int64 // their charge
	EvictedTailBytes atomic.Int64 // dropped from the front of groups

	ReadersExpired atomic.Int64 // cut because a newer group superseded theirs
}
