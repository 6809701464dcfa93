package quic

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/quic-go/quic-go"

	"github.com/moqrelay/operator/relay/transport"
)

// ending is how a connection ended.
type ending struct {
	done chan struct{}
	err  error // written once, before done is closed
}

func newEnding() ending { return ending{done: make(chan struct{})} }

// end is called once, by the one callback that waits for the connection's end.
func (e *ending) end(err error) {
	e.err = err
	close(e.done)
}

// Done implements [transport.Conn].
func (e *ending) Done() <-chan struct{} { return e.done }

// Err implements [transport.Conn].
func (e *ending) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// waitForEnd is the end of a connection for which err says that it has ended.
func (e *ending) waitForEnd(error) error {
	<-e.done
	return e.err
}

// facts are what never changes about a connection.
type facts struct {
	info    transport.Info
	windows transport.Windows
}

// Info implements [transport.Conn].
func (f *facts) Info() transport.Info { return f.info }

// Windows implements [transport.Conn].
func (f *facts) Windows() transport.Windows { return f.windows }

// clientCertificates are what TLS has verified, at the server.
func clientCertificates(state tls.ConnectionState) []*x509.Certificate {
	if len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates
}

// nativeConn is a native QUIC connection.
type nativeConn struct {
	facts
	ending
	datagrams
	quic *quic.Conn
}

var _ transport.Conn = (*nativeConn)(nil)

func newNativeConn(conn *quic.Conn, windows transport.Windows, client bool) *nativeConn {
	state := conn.ConnectionState()
	c := &nativeConn{
		facts: facts{windows: windows, info: transport.Info{
			Kind:     transport.QUIC,
			Protocol: state.TLS.NegotiatedProtocol,
			Client:   client,
			Local:    conn.LocalAddr(),
			Remote:   conn.RemoteAddr(),
		}},
		ending: newEnding(),
		quic:   conn,
	}
	if !client {
		c.info.Certificates = clientCertificates(state.TLS)
	}
	c.datagrams = datagrams{
		conn: conn, enabled: hasDatagrams(conn),
		send: conn.SendDatagram, receive: conn.ReceiveDatagram, ended: c.waitForEnd,
	}
	context.AfterFunc(conn.Context(), func() { c.end(nativeEnd(context.Cause(conn.Context()))) })
	return c
}

// Stats implements [transport.Conn].
func (c *nativeConn) Stats() transport.Stats { return statsOf(c.quic) }

// OpenStream implements [transport.Conn].
func (c *nativeConn) OpenStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.quic.OpenStreamSync(ctx)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	return c.newStream(s), nil
}

// OpenSendStream implements [transport.Conn].
func (c *nativeConn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	s, err := c.quic.OpenUniStreamSync(ctx)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	send := &sendStream{str: s, conn: c}
	send.headed.Store(true)
	return send, nil
}

// AcceptStream implements [transport.Conn].
func (c *nativeConn) AcceptStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.quic.AcceptStream(ctx)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	return c.newStream(s), nil
}

// AcceptReceiveStream implements [transport.Conn].
func (c *nativeConn) AcceptReceiveStream(ctx context.Context) (transport.ReceiveStream, error) {
	s, err := c.quic.AcceptUniStream(ctx)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	return &receiveStream{str: s, conn: c}, nil
}

func (c *nativeConn) newStream(str *quic.Stream) *stream {
	s := &stream{
		sendStream:    sendStream{str: str, conn: c},
		receiveStream: receiveStream{str: str, conn: c},
	}
	s.headed.Store(true)
	return s
}

func (c *nativeConn) wireCode(code uint64) quic.StreamErrorCode { return quic.StreamErrorCode(code) }

func (c *nativeConn) streamError(err error) error {
	if s, ok := errors.AsType[*quic.StreamError](err); ok {
		return &transport.StreamError{Code: uint64(s.ErrorCode), Remote: s.Remote}
	}
	return c.ending.streamError(err)
}

func (c *nativeConn) forget(half) {} // the library ends its streams with the connection

// Close implements [transport.Conn].
func (c *nativeConn) Close(code uint64, reason string) {
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(code), transport.ClipReason(reason))
}
