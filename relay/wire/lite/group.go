package lite

import (
	"fmt"

	"github.com/moqrelay/operator/relay/wire"
)

const (
	// maxGroupBody is the longest body of GROUP: three varints.
	maxGroupBody = 3 * wire.MaxLeadingOnesLen
	// MaxGroupLen is the most bytes of GROUP with its length. A buffer of
	// [wire.MaxVarintLen]+MaxGroupLen holds the start of any group stream.
	MaxGroupLen = wire.MaxLeadingOnesLen + maxGroupBody
)

// Group is GROUP: which group the frames that follow on a group stream are.
type Group struct {
	// SubscribeID is the subscription that the group is for.
	SubscribeID uint64
	// Sequence is the group's number.
	Sequence uint64
	// FrameStart is the index of the first frame on the stream. Since 06; else 0.
	FrameStart uint64
}

// Append appends the message to b, without the stream type in front.
func (m *Group) Append(b []byte, v Version) ([]byte, error) {
	e := encode("GROUP", b, v, true)
	e.Varint("subscribe id", m.SubscribeID)
	e.Varint("sequence", m.Sequence)
	if v.HasFrameBounds() {
		e.Varint("frame start", m.FrameStart)
	}
	return e.close()
}

// ParseGroup reads the GROUP at the start of b, behind the stream type, and
// returns the bytes it takes. n is 0 with a nil error when b ends too early;
// [MaxGroupLen] bytes are always enough.
func ParseGroup(b []byte, v Version) (m Group, n int, err error) {
	body, n, err := v.Form().Message(b, maxGroupBody)
	if err != nil {
		return Group{}, 0, fmt.Errorf("GROUP: %w", err)
	}
	if n == 0 {
		return Group{}, 0, nil
	}
	m, err = DecodeGroup(body, v)
	return m, n, err
}

// DecodeGroup reads the body of GROUP.
func DecodeGroup(body []byte, v Version) (Group, error) {
	d := decode("GROUP", body, v, true)
	m := Group{SubscribeID: d.Varint("subscribe id"), Sequence: d.Varint("sequence")}
	if v.HasFrameBounds() {
		m.FrameStart = d.Varint("frame start")
	}
	return m, d.close()
}
