package qmux

import (
	"runtime"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// control is what the writer has to send before any data. Everything in it is
// a flag or a stream that is in the queue once, so it stays small whatever the
// peer sends and however slowly it reads.
type control struct {
	params  bool
	streams fifo[*stream]
	maxData bool
	ping    bool   // the carrier's own ping
	pong    []byte // answer to the carrier's own ping; nil: none
}

// outgoing is what one turn of the writer sends.
type outgoing int

const (
	sendNothing outgoing = iota
	sendRecord
	sendPing
	sendPong
)

// sendLoop writes until the connection has ended, then says goodbye. It is the
// only one that writes to the carrier.
func (c *conn) sendLoop() {
	for c.awaitWork() {
		if err := c.sendNext(); err != nil {
			c.lost(err)
		}
	}
	c.sayGoodbye()
	<-c.readDone
	c.carrier.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grace.Stop()
}

// awaitWork waits until there may be something to send. It is false when the
// connection has ended.
func (c *conn) awaitWork() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !c.hasWorkLocked() {
		c.work.Wait()
	}
	return c.err == nil
}

func (c *conn) hasWorkLocked() bool {
	return c.control.params || c.control.ping || c.control.pong != nil ||
		c.control.streams.len() > 0 || c.control.maxData ||
		c.remotes[bidi].announce || c.remotes[uni].announce || c.pings.waiting() ||
		c.ready.len() > 0 && c.credit.left() > 0
}

// sendNext sends one record. The buffer is taken for that time only.
func (c *conn) sendNext() error {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	b, what := c.next(buf[:room])
	switch what {
	case sendRecord:
		c.bytesSent.Add(uint64(len(b) - room))
		err := c.carrier.send(b)
		if c.drained {
			// Whoever writes to the stream may have more, and the kernel takes many
			// records at a time: without this, streams behind it fill them.
			runtime.Gosched()
		}
		return err
	case sendPing:
		return c.pinger.ping()
	case sendPong:
		return c.pinger.pong(b)
	case sendNothing:
	}
	return nil
}

// next builds what is to be sent now behind the room in b: control frames, then data.
func (c *conn) next(b []byte) ([]byte, outgoing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drained = false
	switch k := &c.control; {
	case c.err != nil:
		return nil, sendNothing
	case k.params:
		k.params = false
		b = appendParams(b, c.local)
	case k.pong != nil:
		pong := k.pong
		k.pong = nil
		return pong, sendPong
	case k.ping:
		k.ping = false
		return nil, sendPing
	default:
		head := len(b)
		if b = c.nextFrameLocked(b); len(b) == head {
			return nil, sendNothing
		}
	}
	c.sentLocked(time.Now())
	return b, sendRecord
}

// nextFrameLocked appends one frame, or nothing: one frame per record, so that
// all drafts are alike.
func (c *conn) nextFrameLocked(b []byte) []byte {
	switch k := &c.control; {
	case c.pings.waiting():
		return c.pings.append(b)
	case k.streams.len() > 0:
		return c.streamControlLocked(b)
	case k.maxData:
		k.maxData = false
		return appendFrame(b, frameMaxData, c.window.limit)
	case c.remotes[bidi].announce:
		c.remotes[bidi].announce = false
		return appendFrame(b, frameMaxStreamsBidi, c.remotes[bidi].window.limit)
	case c.remotes[uni].announce:
		c.remotes[uni].announce = false
		return appendFrame(b, frameMaxStreamsUni, c.remotes[uni].window.limit)
	}
	return c.dataLocked(b)
}

// streamControlLocked appends one control frame of the stream that is first in
// the queue, and takes it off the queue when that was its last.
func (c *conn) streamControlLocked(b []byte) []byte {
	s := c.control.streams.front()
	frame := s.control & -s.control // the lowest bit is the first in order; 0 when withdrawn
	s.control &^= frame
	if s.control == 0 {
		c.control.streams.pop()
		s.queued = false
	}
	switch frame {
	case controlOpen:
		b = appendStream(b, s.id, 0, nil, false)
		s.announced = true
	case controlReset:
		b = appendFrame(b, frameResetStream, s.id, s.resetCode, s.credit.used)
		s.sentAllLocked()
	case controlFin:
		b = appendStream(b, s.id, s.credit.used, nil, true)
		s.sentAllLocked()
	case controlStop:
		b = appendFrame(b, frameStopSending, s.id, s.stopCode)
	case controlMaxData:
		b = appendFrame(b, frameMaxStreamData, s.id, s.window.limit)
	}
	s.releaseLocked()
	return b
}

// sentAllLocked notes that nothing more is sent on the stream: what was handed
// to the carrier counts as acknowledged.
func (s *stream) sentAllLocked() {
	s.announced, s.sendDone = true, true
	s.control &^= controlOpen
	s.stopLocked()
}

// dataLocked appends one STREAM frame of the stream whose turn it is, as far as
// the credit goes. Only here are the bytes of a Write taken, by copying them.
func (c *conn) dataLocked(b []byte) []byte {
	for c.ready.len() > 0 && c.credit.left() > 0 {
		s := c.ready.pop()
		s.isReady = false
		n := min(uint64(len(s.pending)), s.credit.left(), c.credit.left(), uint64(c.payloadFor(s)))
		if n == 0 {
			continue // reset since it was queued
		}
		b = appendStream(b, s.id, s.credit.used, s.pending[:n], false)
		s.announced = true
		s.credit.used += n
		c.credit.used += n
		if s.pending = s.pending[n:]; len(s.pending) == 0 {
			c.drained = c.ready.len() > 0
			s.changed.Broadcast()
		}
		s.readyLocked()
		break
	}
	return b
}

// payloadFor is how much one frame of s carries.
func (c *conn) payloadFor(s *stream) int {
	budget := uint64(maxFrameSize)
	if c.draft != Draft00 {
		budget = min(c.peer.recordSize, maxRecord)
	}
	return min(streamPayload(int(budget), s.id, s.credit.used), maxStreamPayload)
}

// sayGoodbye sends the close frame, if there is one, and the carrier's own end.
func (c *conn) sayGoodbye() {
	c.mu.Lock()
	farewell, gone, params := c.farewell, c.gone, c.control.params
	c.mu.Unlock()
	if gone {
		c.carrier.close()
		return
	}
	if farewell != nil && c.sendFarewell(farewell, params) != nil {
		c.carrier.close()
		return
	}
	c.carrier.shut()
}

// sendFarewell sends the close frame; after the parameters if they have not gone
// out yet, since a peer takes nothing before them.
func (c *conn) sendFarewell(farewell *transport.CloseError, params bool) error {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	if params {
		if err := c.carrier.send(appendParams(buf[:room], c.local)); err != nil {
			return err
		}
	}
	return c.carrier.send(appendClose(buf[:room], farewell))
}
