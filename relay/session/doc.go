// Package session is what the sessions of both protocols share.
//
//   - [Ingest] reads the frames of one group from a stream into the model, as
//     fast as the group's pacing allows.
//   - [SendGroup] writes one group from the model to a stream of its own.
//   - [StreamCode] is the error code that a stream ends with for each error of
//     the model.
//   - [NewWindow] is the pacing window of a connection, with the guard of its credit.
//   - [Limits] and [Counters] are a session's bounds and what went wrong in it.
//
// # Goroutines
//
// Nothing here starts a goroutine that outlives the call. While it runs, Ingest
// has one helper, which stops the stream when the group no longer wants bytes;
// SendGroup has one helper, which resets the stream when its reader is cut, so
// that a blocked write ends. So an open group costs two goroutines at either
// end of the relay, the caller's included.
//
// # Memory
//
// Ingest holds one pooled buffer of 4 KiB for frame heads; payload goes straight
// into the group. SendGroup writes slices of the group itself. It borrows a
// pooled buffer of 64 KiB for the time of one write where a frame's head is not
// the stored one, or where a stream's first bytes are smaller than a packet.
package session
