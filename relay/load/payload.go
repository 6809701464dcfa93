package load

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A payload of at least HeadBytes begins with a head, all numbers big-endian:
//
//	0   4  "MQL1"
//	4   4  size of the payload, the head included
//	8   8  group number
//	16  4  frame number in the group
//	20  8  time of day when it was made, microseconds since 1970
//	28  16 first bytes of the SHA-256 of everything else
//
// and goes on with pseudo-random bytes. A smaller one is a pattern of its place.
const (
	// HeadBytes is the least size of a payload that has a head, and so a time and a hash.
	HeadBytes = 44
	// MaxFrame is the largest payload that is made or accepted, in bytes.
	MaxFrame = 32 << 20

	magic     = "MQL1"
	hashAt    = 28
	hashBytes = HeadBytes - hashAt
)

// ErrCorrupt is in every error that says that a payload is not what was sent.
var ErrCorrupt = errors.New("corrupt payload")

// A Place is where a frame stands in its track.
type Place struct {
	// Group is the group's number, Frame the frame's in it, both from 0.
	Group uint64
	Frame uint32
}

// String names the place.
func (p Place) String() string { return fmt.Sprintf("group %d frame %d", p.Group, p.Frame) }

// AppendPayload appends the payload of size bytes for a place to b. made is the
// time in its head, in microseconds; a payload without a head does not have it.
func AppendPayload(b []byte, p Place, size int, made time.Time) []byte {
	from := len(b)
	if size < HeadBytes {
		for i := range size {
			b = append(b, byte(p.Group)*31+byte(p.Frame)*7+byte(i)*13+1)
		}
		return b
	}
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	b = binary.BigEndian.AppendUint64(b, p.Group)
	b = binary.BigEndian.AppendUint32(b, p.Frame)
	b = binary.BigEndian.AppendUint64(b, uint64(made.UnixMicro()))
	b = append(b, make([]byte, hashBytes)...)
	x := uint32(p.Group)*31 + p.Frame
	for range size - HeadBytes {
		x = x*1664525 + 1013904223
		b = append(b, byte(x>>24))
	}
	sum := payloadHash(b[from:])
	copy(b[from+hashAt:], sum[:])
	return b
}

// payloadHash is the hash over a payload, without the place where it stands.
func payloadHash(payload []byte) (sum [hashBytes]byte) {
	h := sha256.New()
	h.Write(payload[:hashAt])
	h.Write(payload[HeadBytes:])
	copy(sum[:], h.Sum(nil))
	return sum
}

// CheckPayload checks that a payload is the one that was made for this place, to
// the last byte. It returns the time in its head, zero for a payload that is too
// small for one. The error is in [ErrCorrupt] and says what is wrong.
func CheckPayload(payload []byte, p Place) (made time.Time, err error) {
	if len(payload) < HeadBytes {
		if want := AppendPayload(nil, p, len(payload), time.Time{}); !bytes.Equal(payload, want) {
			return time.Time{}, corrupt(p, "%d bytes %x, want %x", len(payload), payload, want)
		}
		return time.Time{}, nil
	}
	size := binary.BigEndian.Uint32(payload[4:])
	place := Place{binary.BigEndian.Uint64(payload[8:]), binary.BigEndian.Uint32(payload[16:])}
	switch {
	case string(payload[:4]) != magic:
		return time.Time{}, corrupt(p, "it begins with %q, not %q: was this track published by another program?", payload[:4], magic)
	case size != uint32(len(payload)):
		return time.Time{}, corrupt(p, "it has %d bytes and was made with %d", len(payload), size)
	case place != p:
		return time.Time{}, corrupt(p, "it was made for %v", place)
	case payloadHash(payload) != [hashBytes]byte(payload[hashAt:HeadBytes]):
		return time.Time{}, corrupt(p, "the hash of its %d bytes is wrong", len(payload))
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(payload[20:]))), nil
}

func corrupt(p Place, format string, args ...any) error {
	return fmt.Errorf("%v: %w: %s", p, ErrCorrupt, fmt.Sprintf(format, args...))
}
