package qmux

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/moqrelay/operator/relay/transport"
)

// maxUnsent is how many bytes the kernel may hold that it has not sent: what
// lies there cannot be overtaken by a credit frame, and is private to one viewer.
const maxUnsent = 64 << 10

// limitUnsent bounds what waits in the kernel. Where that is not possible (no
// TCP below) the connection works with deeper buffers.
func limitUnsent(raw syscall.RawConn) {
	if raw == nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
	})
}

// tcpStats is what the kernel knows of a TCP connection: one system call. Zero where
// there is none, or no more.
func tcpStats(raw syscall.RawConn) (s transport.Stats) {
	if raw == nil {
		return s
	}
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		s.RTT = time.Duration(info.Rtt) * time.Microsecond
		s.PacketsSent, s.PacketsReceived = uint64(info.Segs_out), uint64(info.Segs_in)
		s.PacketsLost = uint64(info.Total_retrans)
		if info.Rtt > 0 {
			s.Bitrate = int64(info.Snd_cwnd) * int64(info.Snd_mss) * 8 * 1e6 / int64(info.Rtt)
		}
	})
	return s
}

// rawConn finds the socket below; nil where there is none.
func rawConn(c net.Conn) syscall.RawConn {
	for {
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = inner.NetConn()
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
