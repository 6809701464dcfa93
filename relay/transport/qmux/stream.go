package qmux

import (
	"errors"
	"io"
	"sync"

	"github.com/moqrelay/operator/relay/transport"
)

// A stream is both halves of one; a unidirectional stream has one of them ended
// from the start.
type stream struct {
	conn  *conn
	id    uint64
	local bool // we opened it

	// All below is guarded by conn.mu.
	changed  sync.Cond // the one Read and the one Write wait
	accepted bool      // the application has it, if the peer opened it
	control  streamControl
	queued   bool // in conn.control.streams

	// The half that we send. pending is not empty only while Write waits.
	pending   []byte
	priority  transport.Priority
	isReady   bool   // in conn.ready, in the queue of priority
	announced bool   // a frame of it was sent, so the peer knows it
	credit    credit // used is the offset: how much was sent
	sendErr   error  // Close, Reset or the peer's STOP_SENDING
	sendDone  bool   // FIN or RESET_STREAM was sent
	resetCode uint64
	stopped   chan struct{} // made when asked for
	isStopped bool

	// The half that we receive.
	window    window // used is the offset: how much has arrived
	unread    unread
	recvErr   error         // the peer's reset or our Stop
	wasReset  bool          // by the peer, before our Stop
	aborted   chan struct{} // made when asked for
	stopCode  uint64
	discard   bool // Stop: drop what still arrives
	recvEnded bool // FIN or RESET_STREAM has arrived
}

// streamControl is a set of frames that a stream has to send.
type streamControl uint8

// In the order in which they are sent.
const (
	controlOpen    streamControl = 1 << iota // an empty STREAM, so that the peer knows it
	controlReset                             // RESET_STREAM
	controlFin                               // an empty STREAM with FIN
	controlStop                              // STOP_SENDING
	controlMaxData                           // MAX_STREAM_DATA
)

func (s *stream) Write(p []byte) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	start := s.credit.used
	if err := s.sendFailureLocked(); err != nil || len(p) == 0 {
		return 0, err
	}
	s.pending = p
	s.readyLocked()
	for len(s.pending) > 0 && s.sendFailureLocked() == nil {
		s.changed.Wait()
	}
	s.pending = nil
	n := int(s.credit.used - start)
	if n == len(p) {
		return n, nil
	}
	return n, s.sendFailureLocked()
}

func (s *stream) sendFailureLocked() error {
	if s.conn.err != nil {
		return s.conn.err
	}
	return s.sendErr
}

// Close queues the FIN; what was written is on its way already.
func (s *stream) Close() error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	err := s.sendFailureLocked()
	if errors.Is(err, errWriteAfterClose) {
		return nil
	}
	if err == nil {
		s.sendErr = errWriteAfterClose
		s.controlLocked(controlFin)
	}
	return err
}

func (s *stream) Reset(code uint64) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.abandonLocked(&transport.StreamError{Code: code})
}

// abandonLocked ends the sending half with a reset, unless it has ended: by our
// Reset, or as the answer to STOP_SENDING.
func (s *stream) abandonLocked(e *transport.StreamError) {
	if s.sendFailureLocked() != nil {
		return
	}
	s.sendErr, s.resetCode, s.pending = e, e.Code, nil
	s.controlLocked(controlReset)
	s.stopLocked()
}

func (s *stream) Stopped() <-chan struct{} {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.stopped == nil {
		s.stopped = make(chan struct{})
		if s.isStopped || s.conn.err != nil {
			close(s.stopped)
			s.isStopped = true
		}
	}
	return s.stopped
}

func (s *stream) Aborted() <-chan struct{} {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.aborted == nil {
		s.aborted = make(chan struct{})
		if s.wasReset {
			close(s.aborted)
		}
	}
	return s.aborted
}

// abortedLocked notes the peer's reset.
func (s *stream) abortedLocked(e *transport.StreamError) {
	s.recvErr, s.wasReset = e, true
	if s.aborted != nil {
		close(s.aborted)
	}
}

// SetPriority moves the stream to where it now belongs, if it waits for its turn.
func (s *stream) SetPriority(p transport.Priority) {
	p.Urgency = min(p.Urgency, transport.MaxUrgency)
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.isReady && p != s.priority {
		c.ready.remove(s)
		s.priority = p
		c.ready.push(s)
		return
	}
	s.priority = p
}

// stopLocked closes Stopped and wakes Read and Write.
func (s *stream) stopLocked() {
	if !s.isStopped && s.stopped != nil {
		close(s.stopped)
	}
	s.isStopped = true
	s.changed.Broadcast()
}

func (s *stream) Read(p []byte) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		switch {
		case c.err != nil:
			return 0, c.err
		case s.unread.len > 0:
			n := s.unread.take(p)
			s.consumeLocked(n)
			return n, nil
		case s.recvErr != nil:
			return 0, s.recvErr
		case s.recvEnded:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
	return 0, nil
}

func (s *stream) Stop(code uint64) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.conn.err != nil || s.discard || s.recvEnded && s.unread.len == 0 {
		return
	}
	s.recvErr, s.discard, s.stopCode = &transport.StreamError{Code: code}, true, code
	if !s.recvEnded {
		if s.local && !s.announced {
			s.controlLocked(controlOpen) // else the peer would not know what to stop
		}
		s.controlLocked(controlStop)
	}
	s.consumeLocked(s.unread.cut(0))
	s.changed.Broadcast()
}

// consumeLocked gives credit back for n bytes that were read or dropped. A
// stream that nothing more is wanted of gives only the connection's back.
func (s *stream) consumeLocked(n int) {
	s.window.consumed += uint64(n)
	s.conn.window.consumed += uint64(n)
	if !s.recvEnded && !s.discard && s.window.raise() {
		s.controlLocked(controlMaxData)
	}
	s.conn.raiseLocked()
	s.releaseLocked()
}

// endReceiveLocked notes that the peer sends nothing more, so that it needs
// neither credit nor a request to stop.
func (s *stream) endReceiveLocked() {
	s.recvEnded = true
	s.control &^= controlStop | controlMaxData
	s.changed.Broadcast()
	s.releaseLocked()
}

// controlLocked queues control frames of this stream, in its turn.
func (s *stream) controlLocked(which streamControl) {
	s.control |= which
	if !s.queued {
		s.queued = true
		s.conn.control.streams.push(s)
	}
	s.conn.work.Signal()
}

// readyLocked queues the stream's data if it has any and the credit for it.
func (s *stream) readyLocked() {
	if s.isReady || len(s.pending) == 0 || s.credit.left() == 0 {
		return
	}
	s.isReady = true
	s.conn.ready.push(s)
	s.conn.work.Signal()
}

// releaseLocked forgets a stream that is over at both ends, and lets the peer
// open another for it once the application has had it.
func (s *stream) releaseLocked() {
	over := s.sendDone && s.recvEnded && s.unread.len == 0 && s.control == 0
	if !over || !s.local && !s.accepted || s.conn.streams[s.id] == nil {
		return
	}
	delete(s.conn.streams, s.id)
	r := &s.conn.remotes[kindOf(s.id)]
	if s.local {
		return
	}
	r.window.consumed++
	if r.window.raise() {
		r.announce = true
		s.conn.work.Signal()
	}
}

// unread holds received bytes until they are read. Its memory follows the bytes
// that arrived: a chunk is as large as its first bytes, or twice the chunk before.
type unread struct {
	chunks fifo[[]byte]
	len    int
}

// maxChunk bounds the doubling, in bytes.
const maxChunk = 32 << 10

func (u *unread) put(p []byte) {
	u.len += len(p)
	size := 0
	if n := len(u.chunks.items); u.chunks.len() > 0 {
		last := &u.chunks.items[n-1]
		spare := min(cap(*last)-len(*last), len(p))
		*last, p = append(*last, p[:spare]...), p[spare:]
		size = min(2*cap(*last), maxChunk)
	}
	if len(p) > 0 {
		u.chunks.push(append(make([]byte, 0, max(size, len(p))), p...))
	}
}

func (u *unread) take(p []byte) (n int) {
	for n < len(p) && u.chunks.len() > 0 {
		first := &u.chunks.items[u.chunks.head]
		k := copy(p[n:], *first)
		n += k
		if *first = (*first)[k:]; len(*first) == 0 {
			u.chunks.pop()
		}
	}
	u.len -= n
	return n
}

// cut keeps the first bytes and returns how many it dropped.
func (u *unread) cut(keep int) (dropped int) {
	if keep >= u.len {
		return 0
	}
	kept := make([]byte, keep)
	dropped = u.len - keep
	u.take(kept)
	*u = unread{}
	if keep > 0 {
		u.put(kept)
	}
	return dropped
}
