package quic

import (
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bufferOptions are the socket options of one direction's buffer.
type bufferOptions struct{ force, plain int }

var (
	receiveBuffer = bufferOptions{force: unix.SO_RCVBUFFORCE, plain: unix.SO_RCVBUF}
	sendBuffer    = bufferOptions{force: unix.SO_SNDBUFFORCE, plain: unix.SO_SNDBUF}
)

// setBuffer asks by force first, which needs CAP_NET_ADMIN and knows no limit.
// The plain option is cut at the sysctl and would lower a forced grant, so it
// comes only when force is not allowed.
func setBuffer(conn *net.UDPConn, opts bufferOptions, size int) error {
	if size == 0 {
		return nil
	}
	return control(conn, func(fd int) error {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, opts.force, size) == nil {
			return nil
		}
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, opts.plain, size)
	})
}

func readSocket(conn *net.UDPConn) (stats SocketStats, err error) {
	err = control(conn, func(fd int) error {
		receive, err1 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		send, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
		drops, err3 := readDrops(fd)
		stats = SocketStats{GrantedReceive: receive / 2, GrantedSend: send / 2, Drops: drops}
		return errors.Join(err1, err2, err3)
	})
	return stats, err
}

// readDrops reads the ninth word of SO_MEMINFO (SK_MEMINFO_DROPS). It needs no privilege.
func readDrops(fd int) (uint64, error) {
	var words [9]uint32
	size := uint32(unsafe.Sizeof(words))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&words[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return uint64(words[8]), nil
}

func control(conn *net.UDPConn, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
