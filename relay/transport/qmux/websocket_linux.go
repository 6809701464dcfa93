package qmux

import (
	"net"
	"syscall"
)

// maxUnsent is how many bytes the kernel may hold that it has not sent: what
// lies there cannot be overtaken by a credit frame, and is private to one viewer.
const maxUnsent = 64 << 10

// tcpNotSentLowat is TCP_NOTSENT_LOWAT of linux/tcp.h.
const tcpNotSentLowat = 25

// limitUnsent bounds what waits in the kernel. Where that is not possible (no
// TCP below) the connection works with deeper buffers.
func limitUnsent(c net.Conn) {
	for {
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = inner.NetConn()
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, maxUnsent)
	})
}
