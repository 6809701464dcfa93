package wire

import "errors"

// MaxControlMessage is the default limit for the body of one control message,
// in bytes (limits.maxControlMessage).
const MaxControlMessage = 64 << 10

// ErrMalformed says that bytes cannot be the message they should be. A test
// with [errors.Is] also finds [ErrTruncated] and [ErrLeftover].
var ErrMalformed = errors.New("malformed")

// ErrTruncated says that a message body ends inside one of its fields.
var ErrTruncated error = &kind{"truncated"}

// ErrLeftover says that a message body is longer than its fields.
var ErrLeftover error = &kind{"bytes left over"}

// ErrTooLong says that a declared length, or a value to be written, is over the
// limit that was given. Nothing was allocated for it. It is not ErrMalformed.
var ErrTooLong = errors.New("too long")

// A kind is one way to be malformed.
type kind struct{ text string }

func (k *kind) Error() string        { return k.text }
func (k *kind) Is(target error) bool { return target == ErrMalformed }
