package relay

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// splitListener tells TLS from plain HTTP by a connection's first byte, 0x16 for
// TLS, so that both may use one port.
type splitListener struct {
	net.Listener
	tls *tls.Config
	// plain lets plain HTTP in; else it is closed.
	plain bool
	// admit says whether one more connection may begin, before any work for it.
	admit func() bool
	// patience bounds the time until the first byte is here and TLS is agreed.
	patience func() time.Duration
	// refused is told why a connection was not taken: admin.RefuseReasons.
	refused func(reason string)

	accepted chan net.Conn
	peeking  sync.WaitGroup
}

// run accepts until ctx is done or the listener breaks. It waits for those whose
// first byte has not come.
func (l *splitListener) run(ctx context.Context) error {
	defer l.peeking.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Listener.Accept()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case !l.admit():
			_ = conn.Close()
		default:
			l.peeking.Go(func() { l.sort(ctx, conn) })
		}
	}
}

// sort looks at the first byte and hands the connection on, TLS agreed.
func (l *splitListener) sort(ctx context.Context, conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(l.patience()))
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	sorted := l.open(ctx, conn)
	if !stop() || sorted == nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	select {
	case l.accepted <- sorted:
	case <-ctx.Done():
		_ = conn.Close()
	}
}

// open returns what the HTTP server is to read from; nil when the connection is no good.
func (l *splitListener) open(ctx context.Context, conn net.Conn) net.Conn {
	first := make([]byte, 1)
	if _, err := conn.Read(first); err != nil {
		return nil
	}
	peeked := &peekedConn{Conn: conn, first: first}
	if first[0] != 0x16 { // TLS record type "handshake", RFC 8446, section 5.1
		if l.plain {
			return peeked
		}
		l.refused(refusedMalformed)
		return nil
	}
	secure := tls.Server(peeked, l.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		l.refused(refusedTLS)
		return nil
	}
	return secure
}

// sortedListener is what the HTTP server accepts from.
type sortedListener struct {
	*splitListener
	ctx context.Context
}

func (l sortedListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// peekedConn gives back the byte that was looked at.
type peekedConn struct {
	net.Conn
	first []byte
}

func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// NetConn is the connection below, for socket options.
func (c *peekedConn) NetConn() net.Conn { return c.Conn }
