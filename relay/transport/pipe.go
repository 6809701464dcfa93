package transport

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
)

// PipeConfig describes a connection in memory.
type PipeConfig struct {
	// Protocol is the negotiated token in both ends' [Info].
	Protocol string
	// HasURI, Path and Origin are copied to both ends' [Info].
	HasURI       bool
	Path, Origin string
	// Client and Server say what each end grants the other.
	Client, Server PipeGrant
	// MaxDatagram is the largest datagram in bytes; 0: the pipe has none.
	MaxDatagram int
}

// PipeGrant is what one end of a pipe lets the other do.
type PipeGrant struct {
	// Windows are the bytes that may wait unread at this end. Zero: unlimited,
	// and reported as unknown.
	Windows Windows
	// MaxStreams is how many streams of each kind the peer may have open at
	// once; 0: unlimited. A stream counts until both its halves are done here:
	// read to its end, reset or stopped, and closed or reset.
	MaxStreams int64
}

// Pipe returns the two ends of a connection in memory. It behaves as QUIC does
// where a session can tell: windows to the byte, stream limits, streams that the
// peer first sees with their first byte, and unread bytes that are lost with the
// connection. It has no goroutine and no clock, and it waits on nothing but
// sync.Cond and channels, so it may be used in a testing/synctest bubble.
//
// Write copies into the reader's window; the slice given to it is never changed.
// Priorities decide who gets the connection's window where it is bounded; equals
// that are incremental take turns of 16 KiB. Datagrams arrive in order and are
// lost only when 128 wait unread.
func Pipe(cfg PipeConfig) (client, server *PipeConn) {
	mu := new(sync.Mutex)
	client = newPipeConn(mu, cfg, cfg.Client, true)
	server = newPipeConn(mu, cfg, cfg.Server, false)
	client.peer, server.peer = server, client
	return client, server
}

// PipeConn is one end of a [Pipe].
type PipeConn struct {
	mu   *sync.Mutex // the pipe's: both ends and all streams share it
	peer *PipeConn

	info   Info
	grant  PipeGrant
	bidi   pipeStreams // opened by this end
	uni    pipeStreams // opened by this end
	unread int64       // bytes of the peer that wait in our connection window; guarded by mu
	credit *sync.Cond  // writers at this end wait for the peer's windows
	halves map[*pipeHalf]struct{}
	opened uint64 // halves, ever; guarded by mu
	turns  uint64 // of writers that took credit; guarded by mu
	sent   uint64 // bytes of streams and datagrams; guarded by mu
	stats  Stats  // as set by SetStats; guarded by mu

	maxDatagram int
	datagrams   [][]byte   // of the peer, not yet received; guarded by mu
	datagram    *sync.Cond // receivers wait for one

	done    chan struct{}
	doneErr error // set before done is closed; guarded by mu
}

// pipeStreams are the streams of one kind that one end opened.
type pipeStreams struct {
	open    int64         // those that count against the peer's limit
	slots   *sync.Cond    // openers wait for a free one
	arrived []*pipeStream // seen by the peer, not yet accepted
	arrival *sync.Cond    // the peer's Accept waits for one
}

func newPipeConn(mu *sync.Mutex, cfg PipeConfig, grant PipeGrant, client bool) *PipeConn {
	c := &PipeConn{
		mu:    mu,
		grant: grant,
		info: Info{
			Kind: Memory, Protocol: cfg.Protocol, Client: client,
			HasURI: cfg.HasURI, Path: cfg.Path, Origin: cfg.Origin,
			Local: pipeAddr("server"), Remote: pipeAddr("client"),
		},
		credit: sync.NewCond(mu),
		halves: make(map[*pipeHalf]struct{}),
		done:   make(chan struct{}),

		maxDatagram: cfg.MaxDatagram,
		datagram:    sync.NewCond(mu),
	}
	if client {
		c.info.Local, c.info.Remote = c.info.Remote, c.info.Local
	}
	for _, s := range []*pipeStreams{&c.bidi, &c.uni} {
		s.slots, s.arrival = sync.NewCond(mu), sync.NewCond(mu)
	}
	return c
}

// OpenStream implements [Conn].
func (c *PipeConn) OpenStream(ctx context.Context) (Stream, error) {
	s, err := c.open(ctx, &c.bidi)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenSendStream implements [Conn].
func (c *PipeConn) OpenSendStream(ctx context.Context) (SendStream, error) {
	s, err := c.open(ctx, &c.uni)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// AcceptStream implements [Conn].
func (c *PipeConn) AcceptStream(ctx context.Context) (Stream, error) {
	s, err := c.accept(ctx, &c.peer.bidi)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// AcceptReceiveStream implements [Conn].
func (c *PipeConn) AcceptReceiveStream(ctx context.Context) (ReceiveStream, error) {
	s, err := c.accept(ctx, &c.peer.uni)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *PipeConn) open(ctx context.Context, streams *pipeStreams) (*pipeStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := func() bool { return c.peer.grant.MaxStreams > 0 && streams.open >= c.peer.grant.MaxStreams }
	if err := c.waitLocked(ctx, streams.slots, full); err != nil {
		return nil, err
	}
	streams.open++
	return c.newStreamLocked(streams), nil
}

// newStreamLocked makes both views of a stream and returns the opener's.
func (c *PipeConn) newStreamLocked(streams *pipeStreams) *pipeStream {
	link := &pipeLink{opener: c, streams: streams}
	ours, theirs := &pipeStream{}, &pipeStream{}
	link.theirs = theirs
	ours.send = newPipeHalf(c, c.peer, link)
	theirs.receive = ours.send
	link.unfinished = 1
	if streams == &c.bidi {
		theirs.send = newPipeHalf(c.peer, c, link)
		ours.receive = theirs.send
		link.unfinished = 2
	}
	return ours
}

func (c *PipeConn) accept(ctx context.Context, streams *pipeStreams) (*pipeStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	none := func() bool { return len(streams.arrived) == 0 }
	if err := c.waitLocked(ctx, streams.arrival, none); err != nil {
		return nil, err
	}
	s := streams.arrived[0]
	streams.arrived = slices.Delete(streams.arrived, 0, 1)
	return s, nil
}

// waitLocked waits while blocked says so. It fails when the connection ends or
// ctx is done.
func (c *PipeConn) waitLocked(ctx context.Context, cond *sync.Cond, blocked func() bool) error {
	var stop func() bool
	for {
		if c.doneErr != nil {
			return c.doneErr
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !blocked() {
			return nil
		}
		if stop == nil {
			stop = context.AfterFunc(ctx, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				cond.Broadcast()
			})
			defer stop()
		}
		cond.Wait()
	}
}

// Info implements [Conn].
func (c *PipeConn) Info() Info { return c.info }

// Windows implements [Conn].
func (c *PipeConn) Windows() Windows { return c.grant.Windows }

// Stats implements [Conn]: bytes as they went through, the rest as SetStats said.
func (c *PipeConn) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.BytesSent += c.sent
	s.BytesReceived += c.peer.sent
	return s
}

// SetStats sets what Stats returns; bytes that go through are added to it.
func (c *PipeConn) SetStats(s Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats = s
}

// maxPipeDatagrams is how many datagrams wait to be received.
const maxPipeDatagrams = 128

// MaxDatagram implements [Conn].
func (c *PipeConn) MaxDatagram() int { return c.maxDatagram }

// SendDatagram implements [Conn].
func (c *PipeConn) SendDatagram(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.doneErr != nil:
		return c.doneErr
	case c.maxDatagram == 0:
		return ErrNoDatagrams
	case len(p) > c.maxDatagram:
		return &DatagramTooLargeError{Max: c.maxDatagram}
	}
	c.sent += uint64(len(p))
	if len(c.peer.datagrams) < maxPipeDatagrams {
		c.peer.datagrams = append(c.peer.datagrams, bytes.Clone(p))
		c.peer.datagram.Signal()
	}
	return nil
}

// ReceiveDatagram implements [Conn].
func (c *PipeConn) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	if c.maxDatagram == 0 {
		return nil, ErrNoDatagrams
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	none := func() bool { return len(c.datagrams) == 0 }
	if err := c.waitLocked(ctx, c.datagram, none); err != nil {
		return nil, err
	}
	p := c.datagrams[0]
	c.datagrams = slices.Delete(c.datagrams, 0, 1)
	return p, nil
}

// Close implements [Conn].
func (c *PipeConn) Close(code uint64, reason string) {
	reason = ClipReason(reason)
	c.end(&CloseError{Code: code, Reason: reason}, &CloseError{Code: code, Reason: reason, Remote: true})
}

// Lose ends both ends of the pipe with err, as a carrier does that breaks. It
// must not be a [*CloseError]; nil stands for an error of its own.
func (c *PipeConn) Lose(err error) {
	if err == nil {
		err = errors.New("pipe broken")
	}
	c.end(err, err)
}

func (c *PipeConn) end(ours, theirs error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doneErr != nil {
		return
	}
	c.endLocked(ours)
	c.peer.endLocked(theirs)
}

func (c *PipeConn) endLocked(err error) {
	c.doneErr = err
	close(c.done)
	for h := range c.halves {
		h.readable.Broadcast()
		h.stopLocked()
	}
	c.credit.Broadcast()
	c.datagram.Broadcast()
	for _, s := range []*pipeStreams{&c.bidi, &c.uni} {
		s.slots.Broadcast()
		s.arrival.Broadcast()
	}
}

// Done implements [Conn].
func (c *PipeConn) Done() <-chan struct{} { return c.done }

// Err implements [Conn].
func (c *PipeConn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doneErr
}

type pipeAddr string

var _ net.Addr = pipeAddr("")

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }
