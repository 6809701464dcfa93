package transport

import (
	"context"
	"fmt"
	"io"
	"net"
)

// Conn is one peer's connection: many streams in both directions, each with its
// own flow control. Every method may be called from any goroutine.
//
// Once the connection has ended, blocked and later calls return its end: a
// [*CloseError] when one side closed it with a code, another error when it was
// lost (idle, broken carrier).
type Conn interface {
	// OpenStream opens a bidirectional stream. It waits for the peer's stream
	// credit, until ctx is done.
	OpenStream(ctx context.Context) (Stream, error)
	// OpenSendStream opens a unidirectional stream to the peer. It waits for
	// the peer's stream credit, until ctx is done.
	OpenSendStream(ctx context.Context) (SendStream, error)
	// AcceptStream returns the next bidirectional stream that the peer opened.
	AcceptStream(ctx context.Context) (Stream, error)
	// AcceptReceiveStream returns the next unidirectional stream that the peer opened.
	AcceptReceiveStream(ctx context.Context) (ReceiveStream, error)
	// Info says how the connection came about. It never changes.
	Info() Info
	// Windows returns what this endpoint grants its peer. It never changes.
	Windows() Windows
	// Close ends the connection with an application error code and a reason
	// that the peer may show to a person (at most 1,024 bytes are sent). Only
	// the first call counts. It does not wait for the peer.
	Close(code uint64, reason string)
	// Done is closed when the connection has ended, whoever ended it.
	Done() <-chan struct{}
	// Err is nil until Done is closed, then the reason of the end.
	Err() error
}

// Info says how a connection came about.
type Info struct {
	// Kind names the transport.
	Kind Kind
	// Protocol is the negotiated application protocol's token, such as "moq-lite-06".
	Protocol string
	// Client is true on the side that dialled.
	Client bool
	// HasURI is true where the transport itself carries a request URI
	// (WebTransport, WebSocket). Raw QUIC does not: there the path comes in SETUP.
	HasURI bool
	// Path is the request's path with its query, such as "/room?jwt=x"; empty without a URI.
	Path string
	// Origin is the Origin header that a browser sent; empty for others.
	Origin string
	// Local and Remote are the addresses at the start of the connection.
	Local, Remote net.Addr
}

// Kind names a transport in logs, metrics and configuration.
type Kind string

// The transports.
const (
	QUIC         Kind = "quic"
	WebTransport Kind = "webtransport"
	WebSocket    Kind = "websocket"
	Memory       Kind = "memory"
)

// Windows is the receive credit that an endpoint grants, in bytes.
type Windows struct {
	// Stream is the most that one stream may run ahead of its reader; 0: unknown.
	Stream int64
	// Connection is the same for all streams of the connection together; 0: unknown.
	Connection int64
}

// SendStream is the sending half of a stream.
type SendStream interface {
	// Write sends p and returns when the transport has taken it: p is not kept,
	// and only what the peer's credit and the congestion window let through may
	// be unacknowledged. Until Write returns p must not change; the transport
	// never changes it, so many streams may write the same slice at once. One
	// Write at a time. It fails with a [*StreamError] when the stream was reset
	// or the peer asked to stop.
	io.Writer
	// Close ends the stream after what was written (FIN). Not together with Write.
	io.Closer
	// Reset ends the stream at once with a code; a blocked Write returns. It may
	// be called together with Write, and after Close it does nothing that the
	// peer could miss bytes by.
	Reset(code uint64)
	// Stopped is closed when the peer no longer wants the stream (STOP_SENDING),
	// the stream was reset, or the connection ended. After Close it says nothing
	// more: it is closed too, at the latest once the peer has everything.
	Stopped() <-chan struct{}
}

// ReceiveStream is the receiving half of a stream.
type ReceiveStream interface {
	// Read returns io.EOF after the peer's FIN and a [*StreamError] after its
	// reset or our Stop. Bytes that are not read stay within the stream's window.
	io.Reader
	// Stop asks the peer to stop sending (STOP_SENDING) and drops what has not
	// been read; a blocked Read returns. It may be called together with Read.
	// After the peer's FIN was read it does nothing.
	Stop(code uint64)
}

// Stream is a bidirectional stream.
type Stream interface {
	SendStream
	ReceiveStream
}

// StreamError is the end of one half of a stream by a code.
type StreamError struct {
	// Code is the application's error code, as sent.
	Code uint64
	// Remote is true when the peer ended it.
	Remote bool
}

// Error says which side ended the stream, and the code.
func (e *StreamError) Error() string {
	return fmt.Sprintf("stream ended by %s with code %#x", side(e.Remote), e.Code)
}

// CloseError is the end of a connection by a code.
type CloseError struct {
	// Code is the application's error code, or the transport's when Transport is true.
	Code uint64
	// Reason is the text that came with it, as sent; quote it before showing it.
	Reason string
	// Remote is true when the peer closed it.
	Remote bool
	// Transport is true when the transport found the fault: Code is then one of RFC 9000, section 20.1.
	Transport bool
}

// Error says which side closed the connection, the code and the reason.
func (e *CloseError) Error() string {
	kind := "application"
	if e.Transport {
		kind = "transport"
	}
	return fmt.Sprintf("connection closed by %s with %s code %#x: %q", side(e.Remote), kind, e.Code, e.Reason)
}

func side(remote bool) string {
	if remote {
		return "the peer"
	}
	return "us"
}
