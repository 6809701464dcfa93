package quic

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"github.com/moqrelay/operator/relay/transport"
)

// owner is a stream's connection: native QUIC or a WebTransport session.
type owner interface {
	// wireCode is an application's code as it travels.
	wireCode(code uint64) quic.StreamErrorCode
	// streamError turns a stream's error into ours; io.EOF and nil stay.
	streamError(err error) error
	// forget is told once nothing more is sent or read on a half, perhaps again.
	forget(half)
}

// half is one direction of a stream that its session can end.
type half interface{ endBySession() }

// quicSend is the sending half of quic-go's two kinds of stream.
type quicSend interface {
	io.WriteCloser
	TryWriteAll([]byte) error
	CancelWrite(quic.StreamErrorCode)
	SetReliableBoundary()
	SetPriority(urgency int8, incremental bool)
	Context() context.Context
}

// quicReceive is the receiving half of quic-go's two kinds of stream.
type quicReceive interface {
	io.Reader
	CancelRead(quic.StreamErrorCode)
	SetReceiveFinalSizeCallback(func(int64))
}

var (
	_ quicSend    = (*quic.SendStream)(nil)
	_ quicSend    = (*quic.Stream)(nil)
	_ quicReceive = (*quic.ReceiveStream)(nil)
	_ quicReceive = (*quic.Stream)(nil)
)

type sendStream struct {
	str    quicSend
	conn   owner
	closed atomic.Bool

	begin  sync.Mutex // held while the head goes out, so that Reset is not before it
	head   []byte     // what goes in front of the first byte; nil: has gone. Guarded by begin
	headed atomic.Bool
}

// Write implements [transport.SendStream]. It hands p itself to the library,
// except for the first bytes of a stream that needs a head.
func (s *sendStream) Write(p []byte) (n int, err error) {
	if !s.headed.Load() && len(p) > 0 {
		if n, err = s.writeHead(p[:min(len(p), maxWithHead)]); n == len(p) || err != nil {
			return n, s.writeError(err)
		}
		p = p[n:]
	}
	m, err := s.str.Write(p)
	return n + m, s.writeError(err)
}

func (s *sendStream) writeError(err error) error {
	if err == nil {
		return nil
	}
	s.conn.forget(s)
	return s.conn.streamError(err)
}

// maxWithHead is how many bytes go in one packet with the head, which alone would
// cost a packet.
const maxWithHead = 1100

// writeHead sends the head, once, and says how many bytes of p went with it. It
// does not block. Where the peer knows of partial resets, what it sent arrives even
// if the stream is reset then: without a head the peer could not tell whose it is.
// That is so only for what there was credit for: the library would give the rest a
// final size beyond the peer's limit, which ends the connection.
func (s *sendStream) writeHead(p []byte) (n int, err error) {
	s.begin.Lock()
	defer s.begin.Unlock()
	if s.head == nil {
		return 0, nil
	}
	head := s.head
	s.head = nil
	s.headed.Store(true)
	for _, n := range []int{len(p), 0} {
		if err := s.str.TryWriteAll(append(head[:len(head):len(head)], p[:n]...)); err == nil {
			s.str.SetReliableBoundary()
			return n, nil
		}
	}
	_, err = s.str.Write(head)
	return 0, err
}

// Close implements [transport.SendStream].
func (s *sendStream) Close() error {
	_, _ = s.writeHead(nil) // an error comes again
	s.closed.Store(true)
	err := s.str.Close()
	s.conn.forget(s)
	return s.conn.streamError(err)
}

// Reset implements [transport.SendStream]. After Close the library would give up
// on bytes that are still under way, so nothing is done then.
func (s *sendStream) Reset(code uint64) {
	if s.closed.Load() {
		return
	}
	_, _ = s.writeHead(nil) // an error is an end that came before
	s.str.CancelWrite(s.conn.wireCode(code))
	s.conn.forget(s)
}

// SetPriority implements [transport.SendStream].
func (s *sendStream) SetPriority(p transport.Priority) {
	s.str.SetPriority(int8(min(p.Urgency, transport.MaxUrgency)), p.Incremental)
}

// Stopped implements [transport.SendStream].
func (s *sendStream) Stopped() <-chan struct{} { return s.str.Context().Done() }

func (s *sendStream) endBySession() { s.str.CancelWrite(sessionGone) }

type receiveStream struct {
	str  quicReceive
	conn owner

	reading sync.Mutex // held while the library's Read runs
	final   atomic.Bool

	mu      sync.Mutex
	reset   bool          // the peer's reset was seen; guarded by mu
	aborted chan struct{} // made when asked for; guarded by mu
}

// Read implements [transport.ReceiveStream].
func (s *receiveStream) Read(p []byte) (int, error) {
	s.reading.Lock()
	n, err := s.str.Read(p)
	s.reading.Unlock()
	if err != nil {
		s.noteReset(err)
		s.conn.forget(s)
		return n, s.conn.streamError(err)
	}
	if s.final.Load() {
		s.probe()
	}
	return n, nil
}

// Stop implements [transport.ReceiveStream].
func (s *receiveStream) Stop(code uint64) {
	s.str.CancelRead(s.conn.wireCode(code))
	s.conn.forget(s)
}

// Aborted implements [transport.ReceiveStream]. The library tells when the
// stream's size is known, which is at its FIN or its reset; which of them it was a
// Read of no bytes tells, that takes nothing and never waits.
func (s *receiveStream) Aborted() <-chan struct{} {
	s.mu.Lock()
	first := s.aborted == nil
	if first {
		s.aborted = make(chan struct{})
		if s.reset {
			close(s.aborted)
		}
	}
	aborted := s.aborted
	s.mu.Unlock()
	if first {
		s.str.SetReceiveFinalSizeCallback(func(int64) {
			s.final.Store(true)
			s.probe()
		})
	}
	return aborted
}

// probe finds out whether the stream was reset. It runs in the connection's own
// loop and so does not wait for a Read that runs, which finds out by itself.
func (s *receiveStream) probe() {
	if !s.reading.TryLock() {
		return
	}
	_, err := s.str.Read(nil)
	s.reading.Unlock()
	s.noteReset(err)
}

func (s *receiveStream) noteReset(err error) {
	if e, ok := errors.AsType[*quic.StreamError](err); !ok || !e.Remote {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reset && s.aborted != nil {
		close(s.aborted)
	}
	s.reset = true
}

func (s *receiveStream) endBySession() { s.str.CancelRead(sessionGone) }

type stream struct {
	sendStream
	receiveStream
}
