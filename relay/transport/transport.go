package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
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
	// Stats returns the connection's figures of now. It is cheap enough for ten
	// calls a second and session, and works after the end.
	Stats() Stats
	// MaxDatagram is how many bytes a datagram to the peer may have now; it may
	// grow while the path is explored. 0: this connection has no datagrams.
	MaxDatagram() int
	// SendDatagram sends p, which is not kept, unreliably and ahead of all
	// streams. It waits only while the transport's own short queue is full, which
	// the congestion control empties. It fails with a [*DatagramTooLargeError], or
	// with [ErrNoDatagrams].
	SendDatagram(p []byte) error
	// ReceiveDatagram returns the next datagram of the peer. Those that come while
	// nobody asks wait in a short queue, and are dropped when it is full. It fails
	// with [ErrNoDatagrams] at once where there will be none.
	ReceiveDatagram(ctx context.Context) ([]byte, error)
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
	// Certificates are the client's, the leaf first, at a server whose TLS has
	// verified them; empty where none were given, asked for or verified.
	Certificates []*x509.Certificate
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
	// SetPriority says when the bytes of this stream go, from now on. It may be
	// called from any goroutine at any time, also while Write blocks; a stream
	// begins with [DefaultPriority]. Bytes that the carrier has taken keep their
	// place.
	SetPriority(Priority)
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
	// Aborted is closed when the peer's reset has arrived, though nobody reads and
	// bytes are left to be read: the next Read returns it. nil where the transport
	// cannot tell. It says nothing of FIN, nor of the connection's end, and may stay
	// silent on a reset that follows the FIN or our Stop.
	Aborted() <-chan struct{}
}

// Stream is a bidirectional stream.
type Stream interface {
	SendStream
	ReceiveStream
}

// Priority says when the bytes of a stream go, relative to the other streams of
// its connection. It orders nothing where the carrier has room for all.
type Priority struct {
	// Urgency is 0 to 7, larger means 7. A stream with data that may be sent goes
	// before every stream of a larger number.
	Urgency uint8
	// Incremental streams of one urgency take turns; others go one after the
	// other, of one kind the one opened first first.
	Incremental bool
}

// DefaultPriority is what a stream has until SetPriority.
var DefaultPriority = Priority{Urgency: 3, Incremental: true}

// MaxUrgency is the last urgency of a [Priority].
const MaxUrgency = 7

// Stats are figures of one connection since its start. What a transport does
// not know is 0.
type Stats struct {
	// RTT is the smoothed round-trip time; 0: unknown.
	RTT time.Duration
	// Bitrate is what the connection could send now, in bits per second: the
	// congestion window per round trip; 0: unknown. A sender that was never in
	// need of more has a small window, so it may be far above this.
	Bitrate int64
	// BytesSent and BytesReceived count what the carrier moved, repetitions and
	// the transport's own bytes included, the layers below not.
	BytesSent, BytesReceived uint64
	// PacketsSent, PacketsReceived and PacketsLost count packets where the
	// transport has them. A packet thought lost may still arrive, so the last one
	// may also fall.
	PacketsSent, PacketsReceived, PacketsLost uint64
}

// ErrNoDatagrams says that a connection has no datagrams: its transport has
// none, or the peer wants none.
var ErrNoDatagrams = errors.New("this connection has no datagrams")

// DatagramTooLargeError says that a datagram does not fit; nothing was sent.
type DatagramTooLargeError struct {
	// Max is how many bytes would have fitted.
	Max int
}

// Error names the limit.
func (e *DatagramTooLargeError) Error() string {
	return fmt.Sprintf("datagram too large: at most %d bytes fit", e.Max)
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
