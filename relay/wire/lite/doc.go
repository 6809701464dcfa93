// Package lite turns moq-lite messages into bytes and back, for every version
// we speak: [Lite03], [Lite04], [Lite05], [Lite06], [Lite06wip] and [Lite07wip].
//
// One struct serves all versions of a message. Append writes the form of the
// version it is given, with the length in front (and the type, where the
// message has one); a Decode function takes the body behind that length, which
// [wire.StreamReader] reads. The rules are the same everywhere:
//
//   - A field that a version does not have is not written, and reads as the
//     value its comment names. What to do about the loss is the session's
//     decision; the gates of [Version] tell it.
//   - A message that a version does not have is [ErrVersion].
//   - Broadcast paths, prefixes and suffixes are brought to normal form in both
//     directions ([NormalizePath]).
//   - On an error Append returns the caller's bytes unchanged.
//   - Decoded structs share no memory with the body, except [Datagram.Payload].
//
// # Streams
//
// Every stream starts with a varint, its [BidiType] or [UniType]. Control
// streams then carry messages. A group stream carries one [Group] and then
// frames, each a [FrameHead] and its payload; [ParseGroup] and [ParseFrameHead]
// work on a slice that may end anywhere, so that the reader of a group can put
// payload bytes where they belong without a buffer in between.
//
// # Errors
//
// Four kinds, told apart with [errors.Is], because they cost different things:
//
//   - [wire.ErrMalformed] and [wire.ErrTooLong]: the message cannot be read. The stream is done for.
//   - [ErrRefused]: the message was read to its end, but holds a path or hop
//     list that nobody may carry. It concerns that message alone.
//   - [ErrViolation]: the message was read, and the peer broke a rule that ends the session.
//   - [ErrVersion]: the message does not exist in this version.
//
// The package knows nothing of sessions, keeps no state and starts no goroutine.
package lite
