// Package qmux runs streams with QUIC's flow control over one ordered carrier:
// QMux drafts 00, 01 and 02 (draft-ietf-quic-qmux), here over WebSocket. It is
// what clients use where UDP is blocked.
//
// Read in this order:
//
//   - [Config], [Accept] and [Dial] are all that a user needs; both return a
//     [transport.Conn]. [Select] says which of a client's offers we take.
//   - draft.go is what differs between the drafts, frame.go and params.go are the
//     bytes, conn_flow.go the three kinds of credit.
//   - conn.go is the state of a connection, conn_recv.go what a record does to
//     it, conn_send.go what goes out next, conn_timer.go what time does, and
//     stream.go what a user of one stream sees.
//   - carrier.go is the small interface that the state machine needs of what lies
//     below, websocket.go the one carrier there is.
//
// # Goroutines and locks
//
// A connection has two goroutines. The reader takes records off the carrier and
// never waits for anybody: credit, resets and the close ride behind the data, so
// a slow reader of one stream is stopped by withholding its credit, never by not
// reading the carrier. The writer owns the carrier's sending side: control frames
// first, then stream data by priority, one frame of at most 16,352 bytes at a time:
// strictly by urgency, and equals take turns (schedule.go). What is urgent waits for
// the one frame that is being written and what the kernel holds, no more. It picks the next frame only when the one before was taken by the carrier, and
// the kernel is asked to hold no more than 64 KiB unsent, so a credit frame
// overtakes bulk data. Both end within two seconds of the connection's end.
//
// One mutex guards all state of a connection and of its streams. Nothing blocks
// under it, and nothing is called out under it but the Broadcast of a condition.
//
// # Memory
//
// A Write is never kept: its bytes are copied into the one record that is being
// written, from a pool that all connections share. Received bytes are held until
// they are read, at most the advertised windows, and take memory as they arrive,
// whatever a length field says. Every queue is bounded by stream limits that we
// granted or that the peer did.
//
// # Credit
//
// Credit follows consumption, never receipt: it is given when at most half of a
// window is left, and earlier to a peer that is running out, because streams that
// nobody reads may hold more than half of the connection's window for ever. Less
// than an eighth of a byte window is ever kept back. A stream of the peer counts
// against MaxIncomingStreams until it was accepted, its bytes were read or
// dropped, and both halves have ended.
//
// # What it does not do
//
// Datagrams are dropped, and none are sent: moq-lite forbids publishers datagrams on
// this transport, so by default they are not advertised either. TCP, TLS and Unix sockets are carriers to come. The framing
// before QMux (subprotocol "webtransport") and bare version tokens, which leave
// the application protocol to be found in-band, are never selected.
package qmux
