package wire

import (
	"fmt"
	"unicode/utf8"
)

// A Reader takes a message body apart from front to back. The first failure
// stays: every later call returns a zero value, and [Reader.Close] reports the
// failure under the name of the field where it happened.
type Reader struct {
	// Form is how its numbers are written.
	Form Form

	b   []byte
	err error
}

// NewReader returns a Reader over b, which it only reads. [Reader.Bytes] and
// [Reader.Rest] return parts of b itself.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Varint reads a number in the reader's form. More than [MaxVarint], which the
// form [LeadingOnes] can hold, is [ErrTooLong].
func (r *Reader) Varint(field string) uint64 {
	v := r.Number(field)
	if v > MaxVarint {
		r.fail(field, fmt.Errorf("%w: %d is over 2^62-1", ErrTooLong, v))
		return 0
	}
	return v
}

// Number reads a number in the reader's form, whatever its size.
func (r *Reader) Number(field string) uint64 {
	v, n := r.Form.Parse(r.b)
	if n == 0 {
		r.fail(field, ErrTruncated)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Byte reads one raw byte.
func (r *Reader) Byte(field string) byte {
	if len(r.b) == 0 {
		r.fail(field, ErrTruncated)
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// Bytes reads a varint length and that many bytes. The slice is a part of the
// input. More than limit bytes are [ErrTooLong]; limit is in bytes.
func (r *Reader) Bytes(field string, limit int) []byte {
	n := r.Varint(field)
	switch {
	case r.err != nil:
		return nil
	case n > uint64(len(r.b)):
		r.fail(field, ErrTruncated)
		return nil
	case n > uint64(limit):
		r.fail(field, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLong, n, limit))
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

// String reads a varint length and that many bytes of UTF-8, as a copy. Other
// bytes than UTF-8 are [ErrMalformed], more than limit bytes [ErrTooLong].
func (r *Reader) String(field string, limit int) string {
	p := r.Bytes(field, limit)
	if !utf8.Valid(p) {
		r.fail(field, fmt.Errorf("%w: not UTF-8", ErrMalformed))
		return ""
	}
	return string(p)
}

// Rest takes all bytes that are left. The slice is a part of the input.
func (r *Reader) Rest() []byte {
	p := r.b
	r.b = nil
	return p
}

// Len returns how many bytes are left, 0 after a failure.
func (r *Reader) Len() int { return len(r.b) }

// Err returns the first failure so far, nil when there is none.
func (r *Reader) Err() error { return r.err }

// Fail records err under the name of a field unless something failed before:
// for rules that the caller knows. Wrap one of this package's errors.
func (r *Reader) Fail(field string, err error) { r.fail(field, err) }

// Close returns the first failure, or [ErrLeftover] when bytes are left.
func (r *Reader) Close() error {
	if r.err == nil && len(r.b) > 0 {
		return fmt.Errorf("%w: %d", ErrLeftover, len(r.b))
	}
	return r.err
}

// fail keeps the first failure and drops the rest of the input, so that every
// later field is short of bytes.
func (r *Reader) fail(field string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", field, err)
	}
	r.b = nil
}
