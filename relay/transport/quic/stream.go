package quic

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"

	"github.com/moqrelay/operator/relay/transport"
)

// errorCode is a stream's code as the two libraries have it: each maps it to
// its own wire form.
type errorCode interface {
	quic.StreamErrorCode | webtransport.StreamErrorCode
}

// sender is what both libraries' sending halves offer.
type sender[C errorCode] interface {
	io.WriteCloser
	CancelWrite(C)
	Context() context.Context
	SetWriteDeadline(time.Time) error
}

// receiver is what both libraries' receiving halves offer.
type receiver[C errorCode] interface {
	io.Reader
	CancelRead(C)
	SetReadDeadline(time.Time) error
}

// toCode is the code in the library's type; one that does not fit is its largest.
func toCode[C errorCode](code uint64) C {
	if uint64(C(code)) != code {
		return C(math.MaxUint32)
	}
	return C(code)
}

type sendStream[C errorCode] struct {
	str    sender[C]
	conn   *ending
	closed atomic.Bool
	wrote  atomic.Bool // Write was called
	reset  atomic.Pointer[transport.StreamError]
}

func newSendStream[C errorCode](s sender[C], conn *ending) *sendStream[C] {
	return &sendStream[C]{str: s, conn: conn}
}

// Write implements [transport.SendStream]. It hands p itself to the library.
func (s *sendStream[C]) Write(p []byte) (int, error) {
	s.wrote.Store(true)
	if reset := s.reset.Load(); reset != nil {
		return 0, reset
	}
	n, err := s.str.Write(p)
	if reset := s.reset.Load(); reset != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, reset
	}
	return n, s.conn.streamError(err)
}

// Close implements [transport.SendStream].
func (s *sendStream[C]) Close() error {
	s.closed.Store(true)
	return s.conn.streamError(s.str.Close())
}

// Reset implements [transport.SendStream]. After Close the library would give up
// on bytes that are still under way, so nothing is done then.
func (s *sendStream[C]) Reset(code uint64) {
	if s.closed.Load() {
		return
	}
	s.reset.CompareAndSwap(nil, &transport.StreamError{Code: code})
	s.str.CancelWrite(toCode[C](code))
	if s.wrote.Load() { // else the library has its header still to write
		_ = s.str.SetWriteDeadline(longAgo)
	}
}

// longAgo is a deadline that ends a call which the library forgot: it answers a
// stream's end that came with the session's only once the session is closed, and
// not at all for a stream that was reset or stopped meanwhile.
var longAgo = time.Unix(1, 0)

// SetPriority implements [transport.SendStream].
func (s *sendStream[C]) SetPriority(p transport.Priority) {
	if str, ok := s.str.(interface{ SetPriority(int8, bool) }); ok {
		str.SetPriority(int8(min(p.Urgency, transport.MaxUrgency)), p.Incremental)
	}
}

// Stopped implements [transport.SendStream].
func (s *sendStream[C]) Stopped() <-chan struct{} { return s.str.Context().Done() }

type receiveStream[C errorCode] struct {
	str     receiver[C]
	conn    *ending
	stopped atomic.Pointer[transport.StreamError]
}

func newReceiveStream[C errorCode](s receiver[C], conn *ending) *receiveStream[C] {
	return &receiveStream[C]{str: s, conn: conn}
}

// Read implements [transport.ReceiveStream].
func (s *receiveStream[C]) Read(p []byte) (int, error) {
	n, err := s.str.Read(p)
	if stop := s.stopped.Load(); stop != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, stop
	}
	return n, s.conn.streamError(err)
}

// Stop implements [transport.ReceiveStream].
func (s *receiveStream[C]) Stop(code uint64) {
	s.stopped.CompareAndSwap(nil, &transport.StreamError{Code: code})
	s.str.CancelRead(toCode[C](code))
	_ = s.str.SetReadDeadline(longAgo)
}

// Aborted implements [transport.ReceiveStream].
func (s *receiveStream[C]) Aborted() <-chan struct{} { return nil }

type stream[C errorCode] struct {
	sendStream[C]
	receiveStream[C]
}

func newStream[C errorCode](s interface {
	sender[C]
	receiver[C]
}, conn *ending,
) *stream[C] {
	return &stream[C]{
		sendStream:    sendStream[C]{str: s, conn: conn},
		receiveStream: receiveStream[C]{str: s, conn: conn},
	}
}
