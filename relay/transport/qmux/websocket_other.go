//go:build !linux

package qmux

import (
	"net"
	"syscall"

	"github.com/moqrelay/operator/relay/transport"
)

// rawConn finds nothing here: what is asked of the kernel is Linux's.
func rawConn(net.Conn) syscall.RawConn { return nil }

func limitUnsent(syscall.RawConn) {}

func tcpStats(syscall.RawConn) (s transport.Stats) { return s }
