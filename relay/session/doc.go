// Package session is what the sessions of both protocols share.
//
//   - [Ingest] reads the frames of one group from a stream into the model, as
//     fast as the group's pacing allows.
//   - [Sender] writes groups from the model, each to a stream of its own.
//   - [Ranks] says which of a session's streams goes first.
//   - [Stall] ends a session whose peer takes nothing of what waits for it.
//   - [StreamCode] is the error code that a stream ends with for each error of
//     the model.
//   - [NewWindow] is the pacing window of a connection, with the guard of its credit.
//   - [Limits] and [Counters] are a session's bounds and what happens in it.
//
// # Goroutines
//
// Nothing here starts a goroutine that outlives the call. While it runs, Ingest
// has one helper, which stops the stream when the group no longer wants bytes and
// ends a pause when the publisher resets it. A Sender has none: callbacks reset the
// stream when its reader is cut or the context ends, so that a blocked write ends.
// So a group that arrives costs two goroutines, the caller's included, and each
// viewer that it is sent to one.
//
// # Memory
//
// Ingest holds one pooled buffer of 4 KiB for frame heads; payload goes straight
// into the group. A Sender writes slices of the group itself. It borrows a pooled
// buffer for the time of one write: of 1,200 bytes for a stream's first packet, of
// up to 64 KiB where a frame's head is not the stored one.
package session
