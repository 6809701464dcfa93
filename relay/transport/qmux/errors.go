package qmux

import (
	"errors"
	"fmt"

	"github.com/moqrelay/operator/relay/transport"
)

// Error codes of RFC 9000, section 20.1, that a QMux connection may end with.
// They are the Code of a [transport.CloseError] whose Transport is true.
const (
	codeFlowControl        = 0x03
	codeStreamLimit        = 0x04
	codeStreamState        = 0x05
	codeFrameEncoding      = 0x07
	codeTransportParameter = 0x08
	codeProtocolViolation  = 0x0a
)

// The ends of a connection that no side closed with a code.
var (
	// ErrIdle says that neither side sent anything for the idle timeout.
	ErrIdle = errors.New("qmux: connection was idle for too long")
	// ErrSilent says that the peer answered no WebSocket ping for 30 seconds.
	ErrSilent = errors.New("qmux: peer sent nothing for 30 seconds")
	// ErrHandshake says that the peer's transport parameters did not come within 10 seconds.
	ErrHandshake = errors.New("qmux: peer sent no transport parameters for 10 seconds")
)

// errWriteAfterClose is what a Write gets after Close of the same stream.
var errWriteAfterClose = errors.New("qmux: write on a stream that was closed")

// violation is a fault of the peer that ends the session with a code.
func violation(code uint64, format string, args ...any) *transport.CloseError {
	return &transport.CloseError{Code: code, Reason: fmt.Sprintf(format, args...), Transport: true}
}
