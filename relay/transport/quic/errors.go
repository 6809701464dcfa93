package quic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/quic-go/quic-go"

	"github.com/moqrelay/operator/relay/transport"
)

// A RefusedError says that a server answered a WebTransport request with an HTTP
// status. 503 is worth another try.
type RefusedError struct {
	// Status is the HTTP status, never 2xx.
	Status int
}

// Error names the status.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the server refused the session with HTTP status %d", e.Status)
}

// nativeEnd turns the end of a native QUIC connection into ours.
func nativeEnd(cause error) error {
	if e, ok := errors.AsType[*quic.ApplicationError](cause); ok {
		return &transport.CloseError{Code: uint64(e.ErrorCode), Reason: e.ErrorMessage, Remote: e.Remote}
	}
	return carrierEnd(cause)
}

// carrierEnd turns the end of a QUIC connection by the transport itself into
// ours. An application code in it is not our application's.
func carrierEnd(cause error) error {
	if e, ok := errors.AsType[*quic.TransportError](cause); ok {
		return &transport.CloseError{Code: uint64(e.ErrorCode), Reason: e.ErrorMessage, Remote: e.Remote, Transport: true}
	}
	return fmt.Errorf("connection lost: %w", cause)
}

// streamError is the end of the connection if err is that, else err itself.
func (e *ending) streamError(err error) error {
	if err != nil && err != io.EOF && endsConnection(err) {
		<-e.done
		return e.err
	}
	return err
}

// callError turns the error of an open or accept into ours.
func (e *ending) callError(ctx context.Context, err error) error {
	select {
	case <-e.done:
		return e.err
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if endsConnection(err) {
		<-e.done
		return e.err
	}
	return err
}

// endsConnection says that err comes from a connection that has ended, whose
// done channel is therefore closed or about to be: streams learn of it first.
func endsConnection(err error) bool {
	return errors.Is(err, net.ErrClosed) // quic-go's application, transport, idle and reset errors
}
