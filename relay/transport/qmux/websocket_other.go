//go:build !linux

package qmux

import "net"

// limitUnsent does nothing here: the bound on what waits in the kernel is Linux's.
func limitUnsent(net.Conn) {}
