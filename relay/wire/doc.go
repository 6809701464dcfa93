// Package wire is what the messages of all our protocols are made of: variable
// length integers, strings, and length-prefixed messages.
//
// Read in this order:
//
//   - [AppendVarint], [ParseVarint], [VarintLen], [ReadVarint]: QUIC integers.
//     A [Form] is the choice between them and the integers of newer drafts.
//   - [Reader] takes one message body apart, field by field, and keeps the first
//     failure, so that a decoder is one line per field. [Writer] is its twin.
//   - [StreamReader] takes whole messages off a stream. It never reads past the
//     message it returns, because other bytes may follow that someone else
//     reads; its memory grows with the bytes that arrive, never with a length
//     that a peer merely declared.
//   - [Form.Message] does the same with bytes that are already in memory.
//
// # Two ways to ask for more
//
// Functions named Parse take a slice that may end too early. They return a
// count of bytes used; 0 with a nil error means: call again with more bytes. Functions named
// Read block until the stream gave enough, and tell a stream that ended before
// a message ([io.EOF]) from one that ended inside ([io.ErrUnexpectedEOF]).
//
// # Errors
//
// [ErrMalformed] and its kinds [ErrTruncated] and [ErrLeftover] say that bytes
// are not the message they should be; [ErrTooLong] says that a length is over a
// limit of ours. All are wrapped in the name of the field. What an error costs
// (a stream, a session) is the session's decision.
//
// The package knows no protocol and starts no goroutine. Nothing here may be
// used by two goroutines at once.
package wire
