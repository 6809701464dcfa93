//go:build !linux

package quic

import "net"

// bufferOptions are which of the two buffers is meant.
type bufferOptions struct{ set func(*net.UDPConn, int) error }

var (
	receiveBuffer = bufferOptions{set: (*net.UDPConn).SetReadBuffer}
	sendBuffer    = bufferOptions{set: (*net.UDPConn).SetWriteBuffer}
)

func setBuffer(conn *net.UDPConn, opts bufferOptions, size int) error {
	if size == 0 {
		return nil
	}
	return opts.set(conn, size)
}

// readSocket knows nothing outside Linux: all figures are 0.
func readSocket(*net.UDPConn) (SocketStats, error) { return SocketStats{}, nil }
