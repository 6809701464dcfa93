package preflight

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// kernel returns the kernel's release.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// ask opens a UDP socket, asks for the buffers without privilege, as the relay
// must, and reads back. GSO says whether the kernel segments datagrams itself.
func ask(want limits) (got limits, gso bool, err error) {
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return limits{}, false, err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return limits{}, false, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		_, noGSO := unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
		gso = noGSO == nil
		var errReceive, errSend error
		got.receive, errReceive = setBuffer(int(fd), unix.SO_RCVBUF, want.receive)
		got.send, errSend = setBuffer(int(fd), unix.SO_SNDBUF, want.send)
		failed = errors.Join(errReceive, errSend)
	})
	return got, gso, errors.Join(err, failed)
}

// setBuffer sets one of the two buffers and returns what was granted. The kernel
// counts its own bookkeeping and so reports twice what it grants.
func setBuffer(fd, option int, want int64) (int64, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, int(want)); err != nil {
		return 0, err
	}
	reported, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	return int64(reported) / 2, err
}
