package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// firstByteTimeout bounds how long a TCP client may stay silent.
const firstByteTimeout = 10 * time.Second

// splitListener tells TLS from plain HTTP by a connection's first byte, 0x16 for
// TLS, so that both may use one port. With plain false everything else is closed.
type splitListener struct {
	net.Listener
	tls   *tls.Config
	plain bool

	accepted chan net.Conn
	peeking  sync.WaitGroup
}

func newSplitListener(inner net.Listener, cfg *tls.Config, plain bool) *splitListener {
	return &splitListener{Listener: inner, tls: cfg, plain: plain, accepted: make(chan net.Conn)}
}

// run accepts until ctx is done or the listener breaks. It waits for those whose
// first byte has not come.
func (l *splitListener) run(ctx context.Context) error {
	defer l.peeking.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	backoff := 50 * time.Millisecond
	for {
		conn, err := l.Listener.Accept()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			backoff = 50 * time.Millisecond
			l.peeking.Go(func() { l.sort(ctx, conn) })
			continue
		}
		// Out of descriptors, or one connection that failed: neither is the end.
		if !isTemporary(err) {
			return err
		}
		select {
		case <-time.After(backoff):
			backoff = min(2*backoff, time.Second)
		case <-ctx.Done():
		}
	}
}

// sort looks at the first byte and hands the connection on.
func (l *splitListener) sort(ctx context.Context, conn net.Conn) {
	first := make([]byte, 1)
	_ = conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, err := conn.Read(first)
	if !stop() || err != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	var sorted net.Conn = &peekedConn{Conn: conn, first: first}
	switch {
	case first[0] == 0x16: // TLS record type "handshake", RFC 8446, section 5.1
		sorted = tls.Server(sorted, l.tls)
	case !l.plain:
		_ = conn.Close()
		return
	}
	select {
	case l.accepted <- sorted:
	case <-ctx.Done():
		_ = conn.Close()
	}
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

// isTemporary reports whether accepting may succeed later: no descriptors, no
// memory, or a connection that was gone before it was accepted.
func isTemporary(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
