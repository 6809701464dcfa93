// Package model is what a relay holds: origin, broadcast, track, group, frame,
// and the rules for what is kept, dropped or waited for. It knows no protocol
// and no transport.
//
// Read the types in this order. An [Origin] is the process-wide set of routes.
// A session that can serve a path announces a [Route]; a session that wants to
// hear of paths opens a [Watcher]. [Origin.Subscribe] finds the best route for
// a path, joins or opens the one upstream request of the track, and returns a
// [Subscription]. The route's [Source] gets a [Producer] for that request and
// writes groups through a [GroupWriter]. A subscription hands out one [Reader]
// for each group; until then a group that waits for it is a number. A [Fetch] gives
// one group that is held or in flight, or asks a [Fetcher] for it, through a
// [GroupRequest]. A [DatagramQueue] holds what is for one session and no stream.
//
// # When a publisher is away
//
// A route that is withdrawn is gone at once, and with it what was kept for fetches.
// One that is lost without a word, and was the last of its path, lingers: the path
// stays announced, requests for it wait. A running request whose source is gone goes
// on with another route of the same content, at a group's boundary, where the routes
// prove that (an equal epoch, or an equal first hop where the protocol allows it);
// otherwise its subscribers are told and come again. With an equal epoch even the
// groups that were open go on, behind the last byte that is there. A publisher that returns and
// counts from lower numbers is a new generation: nothing of the older is kept.
//
// # Several relays
//
// Routes of one path rank alike on every relay: by epoch, cost, length and a hash. A
// route that comes straight from a publisher without an epoch is given one, which is
// proof of its content everywhere but here. What is carried for somebody is told to
// cost nothing more, and draws other requests of its content to it; it moves to a
// better route make before break, and only towards the publisher. What a relay
// withdraws takes with it all that came through it, and a watcher waits a moment
// before it tells that a route has become worse: so news neither wanders nor storms.
//
// # Bytes
//
// A group is one append-only log of chunks. Each frame stands in the log as its
// head followed by its payload, so that all that is committed and contiguous is
// one slice and one write to a transport. The log is the only copy: the cache
// and every reader use slices of it. Chunks belong to the garbage collector; a
// slice that a reader was given stays valid and unchanged for ever.
//
// # Pacing
//
// A writer admits a frame when the group's fastest reader is less than one
// window behind, see [GroupWriter.BeginFrame]. With
//
//	held   = charge of all frames admitted so far
//	mark   = charge of all that the fastest reader has ever taken
//	window = min(stream credit, connection credit, pacing cap)
//
// the rule keeps held - mark <= window, except for one frame larger than the
// window, which is read while a reader has taken everything before it.
//
// # Goroutines and locks
//
// The package starts no goroutine but those of [Reader.AfterCut]; timers of the
// standard library call into it. Locks are taken in this order: the one of the cache
// that is held while groups are dropped, origin, shelf, track, group, one shard of
// the cache, reader. No lock is held
// while a caller's code runs, and none is process-wide on the path of a frame:
// readers and the writer of a group share atomics, and a mutex of the group
// only when one of them has to wait or the front of the log is dropped.
package model
