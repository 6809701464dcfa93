package qmux

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// receiveLoop reads until the carrier ends, also after the connection has: then
// only to see the peer's end, since closing a socket that has unread bytes may
// take our last record from the peer.
func (c *conn) receiveLoop() {
	defer close(c.readDone)
	for {
		r, err := c.carrier.next()
		if err == nil {
			err = c.receive(r)
		}
		if e, ok := errors.AsType[*transport.CloseError](err); ok {
			c.violated(e)
			continue
		}
		if err != nil {
			// Not wrapped: io.EOF of the carrier is no end of a stream.
			c.lost(fmt.Errorf("qmux: carrier lost: %v", err))
			return
		}
	}
}

// violated ends the connection for a fault of the peer, and tells it.
func (c *conn) violated(e *transport.CloseError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(e, e)
}

// receive reads one record and does what it says.
func (c *conn) receive(r io.Reader) error {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	limit := c.draft.receiveLimit()
	n, err := io.ReadFull(r, buf[:limit+1])
	switch {
	case err == nil:
		return violation(codeFrameEncoding, "a record is above %d bytes", limit)
	case err == io.EOF, err == io.ErrUnexpectedEOF: // themselves: what wraps them is a lost carrier
	default:
		return err
	}
	c.bytesReceived.Add(uint64(n))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil
	}
	c.heardRecordLocked(time.Now())
	return c.recordLocked(buf[:n])
}

// recordLocked does what the frames of a record say, one after the other.
func (c *conn) recordLocked(b []byte) error {
	if len(b) == 0 && c.draft.oneFramePerRecord() {
		return violation(codeFrameEncoding, "an empty message")
	}
	for len(b) > 0 && c.err == nil {
		f, n, err := parseFrame(b, c.draft)
		if err == nil {
			err = c.frameLocked(f, n)
		}
		if err != nil {
			return err
		}
		if c.draft.oneFramePerRecord() {
			return nil
		}
		b = b[n:]
	}
	return nil
}

// frameLocked does what one frame of size bytes says.
func (c *conn) frameLocked(f frame, size int) error {
	if c.peer == nil && f.typ != frameParameters {
		return c.earlyLocked(f)
	}
	switch f.typ {
	case frameParameters:
		return c.parametersLocked(f)
	case frameStream:
		return c.streamLocked(f)
	case frameResetStream, frameResetStreamAt:
		return c.resetLocked(f)
	case frameStopSending, frameMaxStreamData:
		return c.peerReadsLocked(f)
	case frameMaxData:
		c.credit.raise(f.value)
		c.work.Signal()
	case frameMaxStreamsBidi:
		c.raiseStreamsLocked(bidi, f.value)
	case frameMaxStreamsUni:
		c.raiseStreamsLocked(uni, f.value)
	case frameTransportClose, frameApplicationClose:
		c.closedLocked(f)
	case framePingRequest, framePingResponse:
		return c.pings.receive(c, f)
	case frameDatagram:
		return c.datagram(size)
	}
	return nil // PADDING; BLOCKED frames inform only
}

// earlyLocked is what may come before the parameters: padding, and a close.
func (c *conn) earlyLocked(f frame) error {
	switch f.typ {
	case 0:
		return nil
	case frameTransportClose, frameApplicationClose:
		c.closedLocked(f)
		return nil
	}
	return violation(c.draft.parametersOrderCode(), "frame type %#x came before the transport parameters", f.typ)
}

func (c *conn) parametersLocked(f frame) error {
	if c.peer != nil {
		return violation(c.draft.parametersOrderCode(), "transport parameters came twice")
	}
	p, err := parseParams(f.data, c.draft)
	if err != nil {
		return err
	}
	c.peer = &p
	c.credit.raise(p.maxData)
	c.raiseStreamsLocked(bidi, p.streamsBidi)
	c.raiseStreamsLocked(uni, p.streamsUni)
	c.liveness.agree(c, p, time.Now())
	return nil
}

func (c *conn) raiseStreamsLocked(k kind, limit uint64) {
	c.locals[k].credit.raise(limit)
	c.locals[k].free.wake()
}

// closedLocked ends the connection by the peer's close frame.
func (c *conn) closedLocked(f frame) {
	c.endLocked(&transport.CloseError{
		Code: f.code, Reason: transport.ClipReason(string(f.data)),
		Remote: true, Transport: f.typ == frameTransportClose,
	}, nil)
}

// datagram drops one: there is nobody to take it.
func (c *conn) datagram(size int) error {
	if uint64(size) > c.local.datagramSize || c.draft == Draft00 {
		return violation(codeProtocolViolation, "a datagram of %d bytes where %d are allowed", size, c.local.datagramSize)
	}
	return nil
}

func (c *conn) streamLocked(f frame) error {
	s, err := c.peerWritesLocked(f.id)
	if s == nil || err != nil || s.recvEnded {
		return err
	}
	// Without the offset bit old peers meant: what follows.
	if f.hasOffset && f.offset != s.window.used {
		return violation(codeProtocolViolation, "stream %d continues at %d instead of %d", f.id, f.offset, s.window.used)
	}
	if err := s.arriveLocked(uint64(len(f.data))); err != nil {
		return err
	}
	switch {
	case s.discard:
		s.consumeLocked(len(f.data))
	case len(f.data) > 0:
		s.unread.put(f.data)
		s.changed.Broadcast()
	}
	if f.fin {
		s.endReceiveLocked()
	}
	return nil
}

// arriveLocked counts n more bytes of the peer against both limits.
func (s *stream) arriveLocked(n uint64) error {
	if !s.window.use(s.window.used + n) {
		return violation(codeFlowControl, "stream %d is beyond its limit of %d bytes", s.id, s.window.limit)
	}
	if !s.conn.window.use(s.conn.window.used + n) {
		return violation(codeFlowControl, "the connection is beyond its limit of %d bytes", s.conn.window.limit)
	}
	s.conn.raiseLocked()
	return nil
}

// resetLocked ends a stream: what lies between the reliable size and the final
// size was never sent or is dropped, and its credit goes back at once.
func (c *conn) resetLocked(f frame) error {
	s, err := c.peerWritesLocked(f.id)
	if s == nil || err != nil || s.recvEnded {
		return err
	}
	unsent := max(f.value, s.window.used) - s.window.used // older peers send a final size of 0
	if err := s.arriveLocked(unsent); err != nil {
		return err
	}
	keep := uint64(0)
	if read := s.window.used - unsent - uint64(s.unread.len); f.reliable > read {
		keep = f.reliable - read
	}
	if !s.discard {
		s.abortedLocked(&transport.StreamError{Code: f.code, Remote: true})
	}
	dropped := s.unread.cut(int(min(keep, uint64(s.unread.len))))
	s.endReceiveLocked()
	s.consumeLocked(dropped + int(unsent))
	return nil
}

// peerWritesLocked returns the stream of a frame that only its sender sends,
// and opens it if it is the peer's next. nil: it has finished, drop the frame.
func (c *conn) peerWritesLocked(id uint64) (*stream, error) {
	if s := c.streams[id]; s != nil && (!s.local || kindOf(id) == bidi) {
		return s, nil
	}
	if c.isLocal(id) {
		if kindOf(id) == uni || id>>2 >= c.locals[bidi].credit.used {
			return nil, violation(codeStreamState, "stream %d is not the peer's to send on", id)
		}
		return nil, nil
	}
	r := &c.remotes[kindOf(id)]
	created, ok := r.arrive(id)
	if !ok {
		return nil, violation(codeStreamLimit, "stream %d is beyond the limit of %d streams", id, r.window.limit)
	}
	if !created {
		return nil, nil
	}
	if r.announce {
		c.work.Signal()
	}
	s := c.newStreamLocked(id, false)
	r.arrived.push(s)
	r.waiting.wake()
	return s, nil
}

// peerReadsLocked does what STOP_SENDING and MAX_STREAM_DATA say, which only a
// stream's receiver sends. Streams that do not exist are nothing to complain about.
func (c *conn) peerReadsLocked(f frame) error {
	if !c.isLocal(f.id) && kindOf(f.id) == uni {
		return violation(codeStreamState, "frame type %#x for stream %d, which only the peer sends on", f.typ, f.id)
	}
	s := c.streams[f.id]
	switch {
	case s == nil:
	case f.typ == frameMaxStreamData:
		s.credit.raise(f.value)
		s.readyLocked()
	default:
		s.abandonLocked(&transport.StreamError{Code: f.code, Remote: true})
		s.stopLocked()
	}
	return nil
}

// isLocal says whether a stream is one that we open.
func (c *conn) isLocal(id uint64) bool { return (id&1 == 0) == c.info.Client }

// raiseLocked has the connection's limit raised if it is time to.
func (c *conn) raiseLocked() {
	if c.window.raise() {
		c.control.maxData = true
		c.work.Signal()
	}
}
