package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// MaxVarint is the largest number that a varint holds: 2^62-1.
const MaxVarint = 1<<62 - 1

// MaxVarintLen is the most bytes that one varint takes.
const MaxVarintLen = 8

// AppendVarint appends v in the shortest form of RFC 9000, section 16. v must
// be at most [MaxVarint]; a larger one is a bug in this program and panics.
// Values that come from outside go through [Writer.Varint].
func AppendVarint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<6:
		return append(b, byte(v))
	case v < 1<<14:
		return append(b, byte(v>>8)|0x40, byte(v))
	case v < 1<<30:
		return binary.BigEndian.AppendUint32(b, uint32(v)|2<<30)
	case v <= MaxVarint:
		return binary.BigEndian.AppendUint64(b, v|3<<62)
	}
	panic(fmt.Sprintf("wire: %d does not fit a varint", v))
}

// VarintLen returns how many bytes [AppendVarint] takes for v: 1, 2, 4 or 8.
func VarintLen(v uint64) int {
	switch {
	case v < 1<<6:
		return 1
	case v < 1<<14:
		return 2
	case v < 1<<30:
		return 4
	}
	return 8
}

// ParseVarint reads the varint at the start of b and returns it with the bytes
// it takes, 1, 2, 4 or 8. A longer form than needed is accepted. n is 0 when b
// ends too early; there is no other failure.
func ParseVarint(b []byte) (v uint64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	n = varintSize(b[0])
	if len(b) < n {
		return 0, 0
	}
	switch n {
	case 1:
		return uint64(b[0]), 1
	case 2:
		return uint64(binary.BigEndian.Uint16(b)) & (1<<14 - 1), 2
	case 4:
		return uint64(binary.BigEndian.Uint32(b)) & (1<<30 - 1), 4
	}
	return binary.BigEndian.Uint64(b) & MaxVarint, 8
}

// varintSize returns how many bytes the varint has that starts with first.
func varintSize(first byte) int { return 1 << (first >> 6) }

// ReadVarint reads one varint from r, byte by byte and no further. It returns
// [io.EOF] when r ends before the first byte and [io.ErrUnexpectedEOF] when it
// ends inside.
func ReadVarint(r io.ByteReader) (uint64, error) {
	first, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	v := uint64(first & 0x3f)
	for range varintSize(first) - 1 {
		c, err := r.ReadByte()
		if err != nil {
			return 0, insideMessage(err)
		}
		v = v<<8 | uint64(c)
	}
	return v, nil
}

// insideMessage turns a clean end of the stream into the unexpected one that it is here.
func insideMessage(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Zigzag folds a signed number into an unsigned one so that small magnitudes
// stay small: 0, -1, 1, -2 become 0, 1, 2, 3. For a varint d must lie in
// [-2^61, 2^61-1].
func Zigzag(d int64) uint64 { return uint64(d)<<1 ^ uint64(d>>63) }

// Unzigzag is the inverse of [Zigzag].
func Unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
