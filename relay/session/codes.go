package session

import (
	"context"
	"errors"

	"github.com/moqrelay/operator/relay/model"
)

// Codes that end a stream. Both protocols number them alike.
const (
	CodeInternal      uint64 = 0x0
	CodeCancelled     uint64 = 0x1
	CodeSessionClosed uint64 = 0x3
	CodeGoingAway     uint64 = 0x4
	CodeTooFarBehind  uint64 = 0x5
	CodeMalformed     uint64 = 0x12
	CodeNoCapacity    uint64 = 0x30
	CodeTimeout       uint64 = 0x31
	CodeNotFound      uint64 = 0x33
	CodeOld           uint64 = 0x34
	CodeEvicted       uint64 = 0x35
	CodeUnroutable    uint64 = 0x36
	CodeWrongSize     uint64 = 0x37
	CodeFrameTooLarge uint64 = 0x38
)

// Errors of a session's own, each with a code of its own.
var (
	// ErrGoingAway refuses a new request while the session drains.
	ErrGoingAway = errors.New("this relay is going away")
	// ErrLimit refuses a request that is over one of [Limits].
	ErrLimit = errors.New("over the session's limit")
	// ErrMalformed says that a group's bytes are not the frames they should be.
	ErrMalformed = errors.New("malformed group")
	// ErrWrongSize says that a group's stream ended inside a frame.
	ErrWrongSize = errors.New("stream ended inside a frame")
)

// codes maps errors to codes. The first that matches counts.
var codes = []struct {
	err  error
	code uint64
}{
	{model.ErrUnroutable, CodeUnroutable},
	{model.ErrNotFound, CodeNotFound},
	{model.ErrUpstreamTimeout, CodeTimeout},
	{model.ErrSourceGone, CodeSessionClosed},
	{model.ErrLagged, CodeTooFarBehind},
	{model.ErrExpired, CodeOld},
	{model.ErrEvicted, CodeEvicted},
	{model.ErrFrameTooLarge, CodeFrameTooLarge},
	{model.ErrNoCapacity, CodeNoCapacity},
	{model.ErrDuplicate, CodeCancelled},
	{model.ErrClosed, CodeCancelled},
	{model.ErrCancelled, CodeCancelled},
	{ErrGoingAway, CodeGoingAway},
	{ErrLimit, CodeNoCapacity},
	{ErrForbidden, CodeUnroutable},
	{ErrMalformed, CodeMalformed},
	{ErrWrongSize, CodeWrongSize},
	{context.Canceled, CodeCancelled},
}

// StreamCode returns the code that tells a peer why its stream ends: the
// publisher's own for a [*model.AbortError], [CodeInternal] for an error that
// is not known here.
func StreamCode(err error) uint64 {
	if abort, ok := errors.AsType[*model.AbortError](err); ok {
		return abort.Code
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return CodeInternal
}
