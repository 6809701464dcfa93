// Package transport is what a session needs of a connection: streams in both
// directions with flow control, an end with a code, and nothing of how the
// bytes travel. The protocols above it know no QUIC and no WebSocket.
//
// Read [Conn] first, then [SendStream] and [ReceiveStream], then the two errors
// [StreamError] and [CloseError]. [Pipe] is a whole connection in memory, for
// tests and for two halves of one process. Package transporttest holds the
// suite that every implementation passes; it is the contract in figures.
//
// Three things hold for every implementation, and sessions rely on them:
//
//   - Not reading a stream stops its peer when [Windows].Stream bytes are
//     waiting, and the connection when [Windows].Connection bytes are. Nothing is
//     dropped and nothing is held beyond that.
//   - Write neither keeps nor changes the slice, so one chunk of memory may be
//     written to any number of streams at once.
//   - A stream that was opened is seen by the peer at the latest with its first
//     byte, its end or its reset; before that it may be unknown there.
//
// The package starts no goroutine and imports nothing of ours.
package transport
