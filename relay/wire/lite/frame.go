package lite

import (
	"fmt"

	"github.com/moqrelay/operator/relay/wire"
)

const (
	// MaxFrameHead is the most bytes in front of a frame's payload.
	MaxFrameHead = 2 * wire.MaxLeadingOnesLen
	// MaxTimestamp is the largest timestamp of a frame; the smallest is
	// MinTimestamp. So the first delta of a stream, which is the timestamp
	// itself, always fits.
	MaxTimestamp = 1<<61 - 1
	// MinTimestamp is the smallest timestamp of a frame.
	MinTimestamp = -1 << 61
)

// FrameHead is what stands in front of a frame's payload on group streams and
// in answers to FETCH.
type FrameHead struct {
	// Timestamp is absolute, in units of the track's timescale. It may be lower
	// than the one before, and below 0. Since 05; else not written, and reads as 0.
	Timestamp int64
	// Size is the payload's length in bytes; it may be 0. It is what the peer
	// declares, up to 2^62-1: compare with a limit before believing it.
	Size uint64
}

// Append appends the head to b. previous is the timestamp of the frame before
// on the same stream, 0 for the first one. It allocates nothing if b has room
// for [MaxFrameHead] bytes. It fails when timestamp, their difference or size
// is out of range.
func (h FrameHead) Append(b []byte, v Version, previous int64) ([]byte, error) {
	if h.Size > wire.MaxVarint {
		return b, fmt.Errorf("frame size: %w: %d is over 2^62-1", wire.ErrTooLong, h.Size)
	}
	if !v.HasTimestamps() {
		return v.Form().Append(b, h.Size), nil
	}
	if !inRange(h.Timestamp) || !inRange(previous) || !inRange(h.Timestamp-previous) {
		return b, fmt.Errorf("frame timestamp: %w: %d after %d", wire.ErrTooLong, h.Timestamp, previous)
	}
	b = v.Form().Append(b, wire.Zigzag(h.Timestamp-previous))
	return v.Form().Append(b, h.Size), nil
}

// ParseFrameHead reads the frame head at the start of b and returns the bytes
// it takes. previous is the timestamp of the frame before on the same stream, 0
// for the first one. n is 0 with a nil error when b ends too early;
// [MaxFrameHead] bytes are always enough. It allocates nothing. It fails when
// the timestamp leaves its range.
func ParseFrameHead(b []byte, v Version, previous int64) (h FrameHead, n int, err error) {
	if v.HasTimestamps() {
		delta, used := v.Form().Parse(b)
		if used == 0 {
			return FrameHead{}, 0, nil
		}
		// previous is within 2^61, and so must be the delta: no overflow.
		h.Timestamp = previous + wire.Unzigzag(delta)
		if delta > wire.MaxVarint || !inRange(h.Timestamp) {
			return FrameHead{}, 0, fmt.Errorf("frame timestamp: %w: %d after %d", wire.ErrMalformed, h.Timestamp, previous)
		}
		n = used
	}
	size, used := v.Form().Parse(b[n:])
	switch {
	case used == 0:
		return FrameHead{}, 0, nil
	case size > wire.MaxVarint:
		return FrameHead{}, 0, fmt.Errorf("frame size: %w: %d is over 2^62-1", wire.ErrTooLong, size)
	}
	h.Size = size
	return h, n + used, nil
}

// inRange reports whether t fits a delta.
func inRange(t int64) bool { return MinTimestamp <= t && t <= MaxTimestamp }
