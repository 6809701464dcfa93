package lite

import (
	"fmt"

	"github.com/moqrelay/operator/relay/wire"
)

// Fetch is FETCH: one group, or a part of it. The answer on the same stream is
// frames and FIN. See [Version.ServesFetch].
type Fetch struct {
	// Broadcast is the full path.
	Broadcast string
	// Epoch is the publisher's instance that is meant, zero for any. Since 07-wip.
	Epoch Epoch
	// Track is the track's name, at most [MaxTrackName] bytes.
	Track string
	// Priority ranks the answer like the groups of a subscription.
	Priority uint8
	// Group is the one group wanted.
	Group uint64
	// FrameStart is the first frame wanted. Since 06.
	FrameStart uint64
	// FrameEnd is the last frame wanted, inclusive, not below FrameStart; absent
	// means to the end. Since 06.
	FrameEnd Optional
}

// Append appends the message to b.
func (m *Fetch) Append(b []byte, v Version) ([]byte, error) {
	e := encode("FETCH", b, v, true)
	e.path("broadcast", m.Broadcast)
	e.epoch(m.Epoch)
	e.String("track", m.Track, MaxTrackName)
	e.Byte(m.Priority)
	e.Varint("group", m.Group)
	if v.HasFrameBounds() {
		e.Varint("frame start", m.FrameStart)
		e.optional("frame end", m.FrameEnd)
		if err := m.check(); err != nil {
			e.Fail("frame end", err)
		}
	}
	return e.close()
}

// DecodeFetch reads the body of FETCH.
func DecodeFetch(body []byte, v Version) (*Fetch, error) {
	d := decode("FETCH", body, v, true)
	m := &Fetch{
		Broadcast: d.path("broadcast"),
		Epoch:     d.epoch(),
		Track:     d.track("track"),
		Priority:  d.Byte("priority"),
		Group:     d.Varint("group"),
	}
	if v.HasFrameBounds() {
		m.FrameStart = d.Varint("frame start")
		m.FrameEnd = d.optional("frame end")
		if err := m.check(); err != nil {
			d.Fail("frame end", err)
		}
	}
	return m, d.close()
}

// check holds the one rule about frame bounds.
func (m *Fetch) check() error {
	if m.FrameEnd.Set && m.FrameEnd.Value < m.FrameStart {
		return fmt.Errorf("%w: %d is below frame start %d", wire.ErrMalformed, m.FrameEnd.Value, m.FrameStart)
	}
	return nil
}
