package quic

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
)

// SocketStats are a UDP socket's buffers and losses.
type SocketStats struct {
	// RequestedReceive and RequestedSend are what was asked for, in bytes; 0: nothing was.
	RequestedReceive, RequestedSend int
	// GrantedReceive and GrantedSend are what the kernel gave, in bytes, in the
	// unit of the request: Linux reports twice that. Less than requested means
	// that net.core.rmem_max or net.core.wmem_max is lower.
	GrantedReceive, GrantedSend int
	// Drops is how many datagrams the kernel has dropped because the receive
	// buffer was full, since the socket was opened. It wraps at 2^32.
	Drops uint64
}

// socket is the UDP socket itself. It is never wrapped: quic-go reads and
// writes in batches only on a bare one.
type socket struct {
	conn          *net.UDPConn
	receive, send int // bytes asked for; 0: none
}

// newSocket sets the sizes that are not 0. That the kernel grants less is no
// error; that they cannot be set at all is.
func newSocket(conn *net.UDPConn, receive, send int) (*socket, error) {
	s := &socket{conn: conn, receive: receive, send: send}
	if err := errors.Join(setBuffer(conn, receiveBuffer, receive), setBuffer(conn, sendBuffer, send)); err != nil {
		return nil, fmt.Errorf("set the socket's buffers to %d and %d bytes: %w", receive, send, err)
	}
	return s, nil
}

func (s *socket) stats() (SocketStats, error) {
	stats, err := readSocket(s.conn)
	if err != nil {
		return SocketStats{}, fmt.Errorf("read the socket's buffers: %w", err)
	}
	stats.RequestedReceive, stats.RequestedSend = s.receive, s.send
	return stats, nil
}

func (s *socket) close() error { return s.conn.Close() }

// silenceBufferWarning keeps quic-go from logging about buffer sizes that it
// chose itself: ours are set and read back afterwards. It has no other switch.
var silenceBufferWarning = sync.OnceFunc(func() {
	const name = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if _, set := os.LookupEnv(name); !set {
		_ = os.Setenv(name, "true")
	}
})
