package quic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/moqrelay/operator/relay/transport"
)

// Listener accepts native QUIC and WebTransport on one UDP socket.
type Listener struct {
	cfg    Config
	socket *socket
	quic   *quic.Transport
	listen *quic.Listener
	http3  *http3.Server

	misrouted misrouted

	ctx      context.Context // ends with Close
	cancel   context.CancelCauseFunc
	accepted chan transport.Conn
	tasks    sync.WaitGroup // the accept loop and what serves each connection

	mu    sync.Mutex
	conns map[*quic.Conn]struct{} // those that Close has to end; guarded by mu

	close func() error // once
}

// Listen opens the socket and begins to accept; ctx bounds the opening alone.
// The socket's buffers may be smaller than asked: see [Listener.Socket].
func Listen(ctx context.Context, cfg Config) (*Listener, error) {
	cfg = cfg.withDefaults()
	l := newListener(ctx, cfg)
	if err := l.open(ctx); err != nil {
		return nil, fmt.Errorf("listen on UDP %q: %w", cfg.Address, err)
	}
	l.tasks.Go(l.acceptLoop)
	return l, nil
}

func newListener(ctx context.Context, cfg Config) *Listener {
	l := &Listener{
		cfg:      cfg,
		accepted: make(chan transport.Conn),
		conns:    make(map[*quic.Conn]struct{}),
	}
	l.close = sync.OnceValue(l.closeAll)
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.http3 = &http3.Server{
		Handler:            http.HandlerFunc(l.upgrade),
		MaxHeaderBytes:     maxHeaderBytes,
		EnableDatagrams:    true,
		AdditionalSettings: serverSettings(),
	}
	return l
}

func (l *Listener) open(ctx context.Context) error {
	if err := l.cfg.validate(); err != nil {
		return err
	}
	silenceBufferWarning()
	packets, err := new(net.ListenConfig).ListenPacket(ctx, "udp", l.cfg.Address)
	if err != nil {
		return err
	}
	conn := packets.(*net.UDPConn)
	l.quic = &quic.Transport{Conn: conn, ConnContext: l.admit, Tracer: &l.misrouted}
	l.listen, err = l.quic.Listen(l.cfg.tlsConfig(), l.cfg.quicConfig())
	if err != nil {
		return errors.Join(err, l.quic.Close(), conn.Close())
	}
	// After quic-go set sizes of its own, or they would replace ours.
	l.socket, err = newSocket(conn, l.cfg.ReceiveBuffer, l.cfg.SendBuffer)
	if err != nil {
		return errors.Join(err, l.quic.Close(), conn.Close())
	}
	return nil
}

var errNotAdmitted = errors.New("not admitted")

// admit runs in quic-go's server loop, before any work for the connection.
func (l *Listener) admit(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	if l.cfg.Admit != nil && !l.cfg.Admit(info.RemoteAddr) {
		return nil, errNotAdmitted
	}
	return context.WithValue(ctx, webPeerKey{}, new(webPeer)), nil
}

// acceptLoop does nothing else: quic-go lets 32 connections wait and refuses more.
func (l *Listener) acceptLoop() {
	for {
		conn, err := l.listen.Accept(l.ctx)
		if err != nil {
			return // closed
		}
		if !l.track(conn) {
			_ = conn.CloseWithError(0, "")
			return
		}
		l.tasks.Go(func() { l.serve(conn) })
	}
}

// track keeps the connection for Close until it ends. It fails once closed.
func (l *Listener) track(conn *quic.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		return false
	}
	l.conns[conn] = struct{}{}
	context.AfterFunc(conn.Context(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, conn)
	})
	return true
}

// serve returns for a native connection when it was handed over, for HTTP/3
// when it has ended.
func (l *Listener) serve(conn *quic.Conn) {
	if conn.ConnectionState().TLS.NegotiatedProtocol != http3.NextProtoH3 {
		l.handOver(newNativeConn(conn, l.cfg.Windows, false))
		return
	}
	peer := peerOf(conn.Context())
	peer.mux = newWebMux(conn, l.cfg.reordering)
	peer.setup = time.AfterFunc(l.cfg.SetupTimeout(), func() {
		_ = conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "no session was begun in time")
	})
	defer peer.setup.Stop()
	server, err := l.http3.NewRawServerConn(conn)
	if err != nil {
		return // the connection has ended already
	}
	peer.mux.serve(server.HandleRequestStream, server.HandleUnidirectionalStream)
}

// handOver gives the connection to whoever calls Accept.
func (l *Listener) handOver(conn transport.Conn) {
	select {
	case l.accepted <- conn:
	case <-conn.Done():
	case <-l.ctx.Done():
	}
}

// Accept returns the next connection, native or WebTransport, its protocol
// negotiated. After Close it returns [net.ErrClosed].
func (l *Listener) Accept(ctx context.Context) (transport.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Addr is the socket's address, with the port that was picked for 0.
func (l *Listener) Addr() net.Addr { return l.listen.Addr() }

// Socket reads the socket's buffers and drop counter. It fails after Close.
func (l *Listener) Socket() (SocketStats, error) { return l.socket.stats() }

// Close ends every connection of the listener, with code 0 those that their
// owner has not closed, closes the socket and waits for its goroutines. Only the
// first call counts.
func (l *Listener) Close() error { return l.close() }

func (l *Listener) closeAll() error {
	l.cancel(net.ErrClosed)
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	var closing sync.WaitGroup
	for conn := range conns {
		closing.Go(func() { _ = conn.CloseWithError(0, "") })
	}
	closing.Wait()
	err := l.listen.Close()
	l.tasks.Wait()
	return errors.Join(err, l.quic.Close(), l.socket.close())
}
