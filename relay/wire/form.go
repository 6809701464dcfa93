package wire

import (
	"encoding/binary"
	"math/bits"
)

// A Form is a way to write a number in as few bytes as it needs.
type Form uint8

// The forms.
const (
	// QUIC is the form of RFC 9000, section 16: two bits of the first byte give a
	// length of 1, 2, 4 or 8 bytes. It holds up to [MaxVarint].
	QUIC Form = iota
	// LeadingOnes is the form of moq-transport since draft -17 and of
	// moq-lite-07: the one bits in front of the first zero bit count the bytes
	// that follow. It holds 64 bits in at most [MaxLeadingOnesLen] bytes; 7 bytes
	// are never written.
	LeadingOnes
)

// MaxLeadingOnesLen is the most bytes that a number takes in the form LeadingOnes.
const MaxLeadingOnesLen = 9

// Append appends v to b. In the form QUIC v must be at most [MaxVarint], as with
// [AppendVarint].
func (f Form) Append(b []byte, v uint64) []byte {
	if f == QUIC {
		return AppendVarint(b, v)
	}
	n := f.Len(v)
	if n == MaxLeadingOnesLen {
		return binary.BigEndian.AppendUint64(append(b, 0xff), v)
	}
	v |= leadingOnes(n)
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i)))
	}
	return b
}

// leadingOnes returns the mark of a number of n bytes, at most 8, in its place.
func leadingOnes(n int) uint64 {
	mark := uint64(0xff00>>(n-1)) & 0xff
	return mark << (8 * (n - 1))
}

// Len returns how many bytes [Form.Append] takes for v.
func (f Form) Len(v uint64) int {
	if f == QUIC {
		return VarintLen(v)
	}
	switch n := max(1, (bits.Len64(v)+6)/7); {
	case n < 7:
		return n
	case n <= 8:
		return 8
	}
	return MaxLeadingOnesLen
}

// Parse reads the number at the start of b and returns it with the bytes it
// takes. A longer form than needed is accepted. n is 0 when b ends too early;
// there is no other failure.
func (f Form) Parse(b []byte) (v uint64, n int) {
	if f == QUIC {
		return ParseVarint(b)
	}
	if len(b) == 0 {
		return 0, 0
	}
	n = f.size(b[0])
	if len(b) < n {
		return 0, 0
	}
	if n == MaxLeadingOnesLen {
		return binary.BigEndian.Uint64(b[1:]), n
	}
	for _, c := range b[:n] {
		v = v<<8 | uint64(c)
	}
	return v &^ leadingOnes(n), n
}

// size returns how many bytes the number has that starts with first.
func (f Form) size(first byte) int {
	if f == QUIC {
		return varintSize(first)
	}
	return 1 + bits.LeadingZeros8(^first)
}
