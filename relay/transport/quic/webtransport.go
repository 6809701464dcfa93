package quic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"github.com/moqrelay/operator/relay/transport"
)

// lingerTime is how long the QUIC connection outlives a session that we closed,
// so that the code and reason arrive. A peer that has read them ends it earlier.
const lingerTime = time.Second

// webConn is a WebTransport session, alone on its QUIC connection.
type webConn struct {
	facts
	ending
	datagrams
	session *webtransport.Session
	quic    *quic.Conn
}

var _ transport.Conn = (*webConn)(nil)

func newWebConn(session *webtransport.Session, conn *quic.Conn, windows transport.Windows, info transport.Info) *webConn {
	c := &webConn{
		facts:   facts{windows: windows, info: info},
		ending:  newEnding(),
		session: session,
		quic:    conn,
	}
	c.datagrams = datagrams{
		conn: conn, enabled: hasDatagrams(conn), head: 1, // a quarter of stream 0's id
		send: session.SendDatagram, receive: session.ReceiveDatagram, ending: &c.ending,
	}
	context.AfterFunc(session.Context(), func() { c.end(c.sessionEnd()) })
	return c
}

// sessionEnd finds out how the session ended and ends its connection.
func (c *webConn) sessionEnd() error {
	_, err := c.session.OpenStream() // the library's only way to the session's error
	if e, ok := errors.AsType[*webtransport.SessionError](err); ok {
		linger := lingerTime
		if e.Remote {
			linger = 0
		}
		time.AfterFunc(linger, c.closeCarrier)
		return &transport.CloseError{Code: uint64(e.ErrorCode), Reason: e.Message, Remote: e.Remote}
	}
	c.closeCarrier() // and learn whether it had ended before
	cause := context.Cause(c.quic.Context())
	if e, ok := errors.AsType[*quic.ApplicationError](cause); !ok || e.Remote {
		return carrierEnd(cause)
	}
	if e, ok := errors.AsType[*http3.Error](err); ok && e.ErrorMessage == io.EOF.Error() {
		return &transport.CloseError{Remote: true} // an end without a close capsule is code 0
	}
	return fmt.Errorf("session lost: %w", err)
}

func (c *webConn) closeCarrier() {
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

// Stats implements [transport.Conn].
func (c *webConn) Stats() transport.Stats { return statsOf(c.quic) }

// OpenStream implements [transport.Conn].
func (c *webConn) OpenStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.session.OpenStreamSync(ctx)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	return newStream(s, &c.ending), nil
}

// OpenSendStream implements [transport.Conn].
func (c *webConn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	s, err := c.session.OpenUniStreamSync(ctx)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	return newSendStream(s, &c.ending), nil
}

// AcceptStream implements [transport.Conn].
func (c *webConn) AcceptStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.session.AcceptStream(ctx)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	return newStream(s, &c.ending), nil
}

// AcceptReceiveStream implements [transport.Conn].
func (c *webConn) AcceptReceiveStream(ctx context.Context) (transport.ReceiveStream, error) {
	s, err := c.session.AcceptUniStream(ctx)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	return newReceiveStream(s, &c.ending), nil
}

// Close implements [transport.Conn].
func (c *webConn) Close(code uint64, reason string) {
	code = min(code, math.MaxUint32)
	_ = c.session.CloseWithError(webtransport.SessionErrorCode(code), transport.ClipReason(reason))
}
