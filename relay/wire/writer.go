package wire

import (
	"fmt"
	"unicode/utf8"
)

// A Writer appends a message to a buffer of the caller. The first failure
// stays, and [Writer.Close] reports it under the name of the field.
type Writer struct {
	// Form is how its numbers are written.
	Form Form

	b     []byte
	start int // length of the caller's bytes
	err   error
}

// NewWriter returns a Writer that appends to b, which may be nil.
func NewWriter(b []byte) *Writer { return &Writer{b: b, start: len(b)} }

// Varint appends v in as few bytes as the writer's form has for it; more than [MaxVarint] is [ErrTooLong].
func (w *Writer) Varint(field string, v uint64) {
	if v > MaxVarint {
		w.Fail(field, fmt.Errorf("%w: %d is over 2^62-1", ErrTooLong, v))
		return
	}
	w.b = w.Form.Append(w.b, v)
}

// Byte appends one raw byte.
func (w *Writer) Byte(c byte) { w.b = append(w.b, c) }

// Raw appends p as it is, without a length.
func (w *Writer) Raw(p []byte) { w.b = append(w.b, p...) }

// Bytes appends the length of p and p; more than limit bytes are [ErrTooLong].
func (w *Writer) Bytes(field string, p []byte, limit int) {
	if len(p) > limit {
		w.Fail(field, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLong, len(p), limit))
		return
	}
	w.b = append(w.Form.Append(w.b, uint64(len(p))), p...)
}

// String appends the length of s and s. Other bytes than UTF-8 are
// [ErrMalformed], more than limit bytes [ErrTooLong].
func (w *Writer) String(field, s string, limit int) {
	switch {
	case len(s) > limit:
		w.Fail(field, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLong, len(s), limit))
	case !utf8.ValidString(s):
		w.Fail(field, fmt.Errorf("%w: not UTF-8", ErrMalformed))
	default:
		w.b = append(w.Form.Append(w.b, uint64(len(s))), s...)
	}
}

// Mark returns the present end of the buffer, for [Writer.Prefix].
func (w *Writer) Mark() int { return len(w.b) }

// Prefix puts the number of bytes since mark in front of them, as a varint.
func (w *Writer) Prefix(mark int) {
	n := len(w.b) - mark
	var head [MaxLeadingOnesLen]byte
	length := w.Form.Append(head[:0], uint64(n))
	w.b = append(w.b, length...)
	copy(w.b[mark+len(length):], w.b[mark:mark+n])
	copy(w.b[mark:], length)
}

// Fail records err under the name of a field unless something failed before.
func (w *Writer) Fail(field string, err error) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %w", field, err)
	}
}

// Close returns the buffer with all that was written, or the caller's bytes as
// they were and the first failure.
func (w *Writer) Close() ([]byte, error) {
	if w.err != nil {
		return w.b[:w.start], w.err
	}
	return w.b, nil
}
