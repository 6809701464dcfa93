package qmux

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// closeGrace is how long an ended connection waits for its last record to be
// written and for the peer to close the carrier.
const closeGrace = 2 * time.Second

// A conn is a QMux connection over some carrier; it is our [transport.Conn].
type conn struct {
	carrier  carrier
	pinger   pinger // nil where the carrier has no pings of its own
	draft    Draft
	local    params // as advertised
	info     transport.Info
	windows  transport.Windows
	readDone chan struct{} // closed when the reader has ended
	done     chan struct{} // closed when the connection has ended

	bytesSent, bytesReceived atomic.Uint64 // of whole records

	mu   sync.Mutex
	work sync.Cond // the writer waits for something to send

	// All below is guarded by mu.
	err      error                 // why the connection ended; nil while it lives
	farewell *transport.CloseError // the close frame to be sent; nil: none
	gone     bool                  // the carrier is broken: nothing can be sent any more
	grace    *time.Timer           // closes the carrier when the end takes too long

	peer    *params // nil until they have come
	streams map[uint64]*stream
	remotes [2]remote // by kind
	locals  [2]local  // by kind
	window  window    // bytes that we grant on all streams together
	credit  credit    // bytes that the peer grants

	control  control
	ready    schedule // have data and stream credit, each once
	drained  bool     // the last record took all that its stream had while others wait; of the send loop
	pings    pings
	liveness liveness
}

// newConn returns a connection that does nothing until [conn.start].
func newConn(ca carrier, d Draft, local params, info transport.Info) *conn {
	c := &conn{
		carrier: ca, draft: d, local: local, info: info,
		windows:  windowsOf(local),
		readDone: make(chan struct{}), done: make(chan struct{}),
		streams: make(map[uint64]*stream),
		window:  newByteWindow(local.maxData),
	}
	c.pinger, _ = ca.(pinger)
	c.work.L = &c.mu
	c.remotes[bidi].window = newStreamWindow(local.streamsBidi)
	c.remotes[uni].window = newStreamWindow(local.streamsUni)
	c.control.params = true
	return c
}

// start sends our parameters and begins to read. Both goroutines end within
// closeGrace after the connection has ended.
func (c *conn) start() {
	if c.pinger != nil {
		c.pinger.watch(c.heard, c.asked)
	}
	c.startTimer(time.Now())
	go c.receiveLoop()
	go c.sendLoop()
}

// windowsOf returns the credit that every stream has at least.
func windowsOf(p params) transport.Windows {
	return transport.Windows{
		Stream:     int64(min(p.streamDataBidiLocal, p.streamDataBidiRemote, p.streamDataUni)),
		Connection: int64(p.maxData),
	}
}

func (c *conn) OpenStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.open(ctx, bidi)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *conn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	s, err := c.open(ctx, uni)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *conn) AcceptStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.accept(ctx, bidi)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *conn) AcceptReceiveStream(ctx context.Context) (transport.ReceiveStream, error) {
	s, err := c.accept(ctx, uni)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *conn) Info() transport.Info       { return c.info }
func (c *conn) Windows() transport.Windows { return c.windows }
func (c *conn) Done() <-chan struct{}      { return c.done }

func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// MaxDatagram is 0: moq-lite forbids publishers datagrams on this transport,
// which would deliver them late instead of dropping them.
func (c *conn) MaxDatagram() int                                { return 0 }
func (c *conn) SendDatagram([]byte) error                       { return transport.ErrNoDatagrams }
func (c *conn) ReceiveDatagram(context.Context) ([]byte, error) { return nil, transport.ErrNoDatagrams }

// Stats counts records in bytes; the rest is the kernel's, where the carrier knows it.
func (c *conn) Stats() (s transport.Stats) {
	if m, ok := c.carrier.(interface{ stats() transport.Stats }); ok {
		s = m.stats()
	}
	s.BytesSent, s.BytesReceived = c.bytesSent.Load(), c.bytesReceived.Load()
	return s
}

func (c *conn) Close(code uint64, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &transport.CloseError{Code: code, Reason: transport.ClipReason(reason)}
	c.endLocked(e, e)
}

// open waits for the peer's stream credit.
func (c *conn) open(ctx context.Context, k kind) (*stream, error) {
	for {
		c.mu.Lock()
		s, err := c.openLocked(k)
		if s != nil || err != nil {
			c.mu.Unlock()
			return s, err
		}
		free := c.locals[k].free.wait()
		c.mu.Unlock()
		if err := waitFor(ctx, free); err != nil {
			return nil, err
		}
	}
}

// openLocked returns neither a stream nor an error when there is no credit.
func (c *conn) openLocked(k kind) (*stream, error) {
	l := &c.locals[k]
	if c.err != nil || l.credit.left() == 0 {
		return nil, c.err
	}
	id := l.credit.used<<2 | uint64(k)<<1
	if !c.info.Client {
		id |= 1
	}
	l.credit.used++
	return c.newStreamLocked(id, true), nil
}

// accept waits for a stream that the peer opened.
func (c *conn) accept(ctx context.Context, k kind) (*stream, error) {
	for {
		c.mu.Lock()
		s, err := c.acceptLocked(k)
		if s != nil || err != nil {
			c.mu.Unlock()
			return s, err
		}
		waiting := c.remotes[k].waiting.wait()
		c.mu.Unlock()
		if err := waitFor(ctx, waiting); err != nil {
			return nil, err
		}
	}
}

func (c *conn) acceptLocked(k kind) (*stream, error) {
	r := &c.remotes[k]
	if c.err != nil || r.arrived.len() == 0 {
		return nil, c.err
	}
	s := r.arrived.pop()
	s.accepted = true
	s.releaseLocked()
	return s, nil
}

func waitFor(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endLocked ends the connection for err, once, and has farewell sent if it is
// not nil. All that waits is woken.
func (c *conn) endLocked(err error, farewell *transport.CloseError) {
	if c.err != nil {
		return
	}
	c.err, c.farewell = err, farewell
	c.grace = time.AfterFunc(closeGrace, c.carrier.close)
	c.liveness.timer.Stop()
	close(c.done)
	for k := range c.locals {
		c.locals[k].free.wake()
		c.remotes[k].waiting.wake()
	}
	for _, s := range c.streams {
		s.stopLocked()
	}
	c.work.Signal()
}

// lost ends the connection because its carrier did.
func (c *conn) lost(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.endLocked(err, nil)
}

// newStreamLocked adds a stream, with the credit of both sides' parameters.
func (c *conn) newStreamLocked(id uint64, ours bool) *stream {
	s := &stream{conn: c, id: id, local: ours, priority: transport.DefaultPriority}
	s.changed.L = &c.mu
	switch {
	case kindOf(id) == uni && ours:
		s.credit.limit, s.recvEnded = c.peer.streamDataUni, true
	case kindOf(id) == uni:
		s.window, s.sendDone = newByteWindow(c.local.streamDataUni), true
	case ours:
		s.credit.limit = c.peer.streamDataBidiRemote
		s.window = newByteWindow(c.local.streamDataBidiLocal)
	default:
		s.credit.limit = c.peer.streamDataBidiLocal
		s.window = newByteWindow(c.local.streamDataBidiRemote)
	}
	c.streams[id] = s
	return s
}
