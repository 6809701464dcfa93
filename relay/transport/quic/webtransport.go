package quic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/moqrelay/operator/relay/transport"
)

// The numbers of WebTransport over HTTP/3 (draft-ietf-webtrans-http3) that are the
// same in all its drafts.
const (
	streamTypeUni  = 0x54
	streamTypeBidi = 0x41

	capsuleClose http3.CapsuleType = 0x2843

	sessionGone    quic.StreamErrorCode = 0x170d7b68
	streamRejected quic.StreamErrorCode = 0x3994bd84

	firstCode quic.StreamErrorCode = 0x52e4a40fa8db
	lastCode  quic.StreamErrorCode = 0x52e5ac983162
)

const (
	// lingerTime is how long the QUIC connection outlives a session that we closed,
	// so that the code and reason arrive. A peer that has read them ends it earlier.
	lingerTime = time.Second
	// goneTime is how long a session may live on after the peer ended one of its
	// streams because it is over.
	goneTime = time.Second
)

// connectStream is the stream of the CONNECT request, on which a session lives.
type connectStream interface {
	io.ReadCloser
	StreamID() quic.StreamID
	TryWriteAll([]byte) error
	CancelRead(quic.StreamErrorCode)
	CancelWrite(quic.StreamErrorCode)
	SendDatagram([]byte) error
	ReceiveDatagram(context.Context) ([]byte, error)
}

// webConn is a WebTransport session, alone on its QUIC connection.
type webConn struct {
	facts
	ending
	datagrams
	quic    *quic.Conn
	connect connectStream
	gone    sync.Once
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc

	bidi chan *quic.Stream        // to whom accepts
	uni  chan *quic.ReceiveStream // to whom accepts

	mu     sync.Mutex
	over   bool              // guarded by mu
	halves map[half]struct{} // of all streams that are open; guarded by mu
}

var _ transport.Conn = (*webConn)(nil)

// newWebConn begins a session. It owns one goroutine, which ends with it.
func newWebConn(connect connectStream, conn *quic.Conn, windows transport.Windows, info transport.Info) *webConn {
	c := &webConn{
		facts:   facts{windows: windows, info: info},
		ending:  newEnding(),
		quic:    conn,
		connect: connect,
		bidi:    make(chan *quic.Stream),
		uni:     make(chan *quic.ReceiveStream),
		halves:  make(map[half]struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(conn.Context())
	c.datagrams = datagrams{
		conn: conn, enabled: hasDatagrams(conn), head: quicvarint.Len(uint64(connect.StreamID()) / 4),
		send: connect.SendDatagram, receive: connect.ReceiveDatagram, ended: c.datagramEnd,
	}
	go c.watch()
	return c
}

// watch waits for the peer's end of the session, or for the connection's.
func (c *webConn) watch() {
	err := c.readCapsules()
	if c.finish(err, nil) {
		// The close capsule may have come without the stream's end, and the library ends
		// the wait for a datagram with what ends reading, not with the connection.
		c.connect.CancelRead(sessionGone)
		_ = c.connect.Close()
		c.closeCarrier()
	}
}

// readCapsules returns how the session ended.
func (c *webConn) readCapsules() error {
	capsules := http3.NewCapsuleParser(c.connect)
	for {
		typ, body, err := capsules.Next()
		switch {
		case err == io.EOF:
			return &transport.CloseError{Remote: true} // without a capsule it is code 0
		case err != nil:
			return c.lost(err)
		case typ == capsuleClose:
			return c.readClose(body)
		}
		if err := body.Discard(); err != nil {
			return c.lost(err)
		}
	}
}

// readClose reads a close capsule: 32 bits of code, and the reason.
func (c *webConn) readClose(r io.Reader) error {
	var code [4]byte
	if _, err := io.ReadFull(r, code[:]); err != nil {
		return c.lost(err)
	}
	reason, err := io.ReadAll(io.LimitReader(r, transport.MaxReason))
	if err != nil {
		return c.lost(err)
	}
	return &transport.CloseError{
		Code: uint64(binary.BigEndian.Uint32(code[:])), Reason: string(reason), Remote: true,
	}
}

// lost is the end of a session whose stream broke: mostly because the connection did.
func (c *webConn) lost(err error) error {
	if endsConnection(err) {
		<-c.quic.Context().Done()
		return carrierEnd(context.Cause(c.quic.Context()))
	}
	// Not wrapped: io.ErrUnexpectedEOF of this stream is nothing of another.
	return fmt.Errorf("session lost: %v", err)
}

// finish ends the session for err, unless it has ended: farewell is done first, then all
// that waits returns.
func (c *webConn) finish(err error, farewell func()) bool {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return false
	}
	c.over = true
	halves := c.halves
	c.halves = nil
	c.mu.Unlock()
	if farewell != nil {
		farewell()
	}
	c.end(err)
	c.cancel()
	for h := range halves {
		h.endBySession()
	}
	return true
}

// Close implements [transport.Conn].
func (c *webConn) Close(code uint64, reason string) {
	code, reason = min(code, math.MaxUint32), transport.ClipReason(reason)
	if !c.finish(&transport.CloseError{Code: code, Reason: reason}, func() { c.sayClose(uint32(code), reason) }) {
		return
	}
	time.AfterFunc(lingerTime, c.closeCarrier)
}

// sayClose sends the capsule and ends the stream. It does not wait: a peer that
// gives no credit for it learns nothing.
func (c *webConn) sayClose(code uint32, reason string) {
	b := quicvarint.Append(nil, uint64(capsuleClose))
	b = quicvarint.Append(b, uint64(4+len(reason)))
	b = append(binary.BigEndian.AppendUint32(b, code), reason...)
	if c.connect.TryWriteAll(b) != nil {
		c.connect.CancelWrite(sessionGone)
	}
	c.connect.CancelRead(sessionGone)
	_ = c.connect.Close()
}

func (c *webConn) closeCarrier() {
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

// Stats implements [transport.Conn].
func (c *webConn) Stats() transport.Stats { return statsOf(c.quic) }

// OpenStream implements [transport.Conn].
func (c *webConn) OpenStream(ctx context.Context) (transport.Stream, error) {
	s, err := open(ctx, c, c.quic.OpenStream, c.quic.OpenStreamSync)
	if err != nil {
		return nil, err
	}
	return c.newStream(s, streamTypeBidi), nil
}

// OpenSendStream implements [transport.Conn].
func (c *webConn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	s, err := open(ctx, c, c.quic.OpenUniStream, c.quic.OpenUniStreamSync)
	if err != nil {
		return nil, err
	}
	send := &sendStream{str: s, conn: c, head: c.streamHead(streamTypeUni)}
	c.remember(send)
	return send, nil
}

// open opens at once, or waits for the peer's stream credit, at most as long as
// the session lives: the connection below lives a little longer.
func open[S any](ctx context.Context, c *webConn, now func() (S, error), later func(context.Context) (S, error)) (s S, err error) {
	if err := c.Err(); err != nil {
		return s, err
	}
	if s, err = now(); err == nil {
		return s, nil
	}
	until, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()
	if s, err = later(until); err != nil {
		return s, c.callError(ctx, err)
	}
	return s, nil
}

// AcceptStream implements [transport.Conn].
func (c *webConn) AcceptStream(ctx context.Context) (transport.Stream, error) {
	s, err := accept(ctx, c, c.bidi)
	if err != nil {
		return nil, err
	}
	return c.newStream(s, 0), nil
}

// AcceptReceiveStream implements [transport.Conn].
func (c *webConn) AcceptReceiveStream(ctx context.Context) (transport.ReceiveStream, error) {
	s, err := accept(ctx, c, c.uni)
	if err != nil {
		return nil, err
	}
	receive := &receiveStream{str: s, conn: c}
	c.remember(receive)
	return receive, nil
}

func accept[S any](ctx context.Context, c *webConn, arrived <-chan S) (s S, err error) {
	select {
	case s := <-arrived:
		return s, nil
	case <-c.done:
		return s, c.err
	case <-ctx.Done():
		return s, context.Cause(ctx)
	}
}

// newStream makes a stream of ours, or one of the peer when typ is 0.
func (c *webConn) newStream(str *quic.Stream, typ uint64) *stream {
	s := &stream{
		sendStream:    sendStream{str: str, conn: c},
		receiveStream: receiveStream{str: str, conn: c},
	}
	if typ == 0 {
		s.headed.Store(true)
	} else {
		s.head = c.streamHead(typ)
	}
	c.remember(&s.sendStream)
	c.remember(&s.receiveStream)
	return s
}

// streamHead is what a stream of ours begins with.
func (c *webConn) streamHead(typ uint64) []byte {
	return quicvarint.Append(quicvarint.Append(nil, typ), uint64(c.connect.StreamID()))
}

// remember keeps a half that the session's end has to end.
func (c *webConn) remember(h half) {
	c.mu.Lock()
	over := c.over
	if !over {
		c.halves[h] = struct{}{}
	}
	c.mu.Unlock()
	if over {
		h.endBySession()
	}
}

func (c *webConn) forget(h half) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.halves, h)
}

// wireCode maps 32 bits of code into the range of HTTP/3 that is WebTransport's. Larger
// ones are sent as the largest.
func (c *webConn) wireCode(code uint64) quic.StreamErrorCode {
	n := quic.StreamErrorCode(min(code, math.MaxUint32))
	return firstCode + n + n/0x1e
}

// fromWireCode is the inverse of wireCode; 0 for what is none of WebTransport's.
func fromWireCode(h quic.StreamErrorCode) uint64 {
	if h < firstCode || h > lastCode || (h-0x21)%0x1f == 0 {
		return 0
	}
	n := h - firstCode
	return uint64(n - n/0x1f)
}

func (c *webConn) streamError(err error) error {
	s, ok := errors.AsType[*quic.StreamError](err)
	if !ok {
		return c.ending.streamError(err)
	}
	if s.Remote && s.ErrorCode == sessionGone {
		c.expectEnd()
		<-c.done
	}
	select {
	case <-c.done:
		return c.err
	default:
		return &transport.StreamError{Code: fromWireCode(s.ErrorCode), Remote: s.Remote}
	}
}

// datagramEnd is the session's end: there are no more datagrams once one half of
// its stream has ended.
func (c *webConn) datagramEnd(error) error {
	c.expectEnd()
	<-c.done
	return c.err
}

// expectEnd ends the session soon, if its own end does not come: the peer has done
// what it may only do when the session is over.
func (c *webConn) expectEnd() {
	c.gone.Do(func() {
		time.AfterFunc(goneTime, func() {
			if c.finish(errors.New("session lost: the peer ended streams of it as if it were over"), nil) {
				c.closeCarrier()
			}
		})
	})
}
