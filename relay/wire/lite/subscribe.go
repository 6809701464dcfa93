package lite

import (
	"fmt"

	"github.com/moqrelay/operator/relay/wire"
)

// Preferences are what a subscriber wants of a track: the common part of
// SUBSCRIBE and SUBSCRIBE_UPDATE.
type Preferences struct {
	// Priority ranks the subscription within the session; higher is sent first.
	Priority uint8
	// Ordered asks for the oldest group first. Retired: false from 06 on, and
	// best ignored before.
	Ordered bool
	// MaxAge is in milliseconds how stale a group that is not the latest may be
	// before it is skipped; 0 means the latest only.
	MaxAge uint64
	// GroupStart is the first group wanted. Absent means the latest group before
	// 06, and no floor since ([Version.HasGroupFloor]). On 06 a plain 0 travels
	// for both absent and 0, and reads as absent unless FrameStart is not 0.
	GroupStart Optional
	// GroupEnd is the last group wanted, inclusive; absent means no end.
	GroupEnd Optional
	// FrameStart is the first frame wanted in group GroupStart. Since 06.
	FrameStart uint64
	// FrameEnd is the last frame wanted in group GroupEnd, inclusive; absent
	// means all of it. Needs GroupEnd. Since 06.
	FrameEnd Optional
}

// preferences writes the fields from Priority on.
func (e *encoder) preferences(p *Preferences) {
	e.Byte(p.Priority)
	if e.v.HasOrdered() {
		e.flag(p.Ordered)
	}
	e.Varint("max age", p.MaxAge)
	if e.v.HasGroupFloor() {
		e.Varint("group start", p.GroupStart.Value)
	} else {
		e.optional("group start", p.GroupStart)
	}
	e.optional("group end", p.GroupEnd)
	if !e.v.HasFrameBounds() {
		return
	}
	e.Varint("frame start", p.FrameStart)
	e.optional("frame end", p.FrameEnd)
	if err := p.check(); err != nil {
		e.Fail("frame end", err)
	}
}

// preferences reads the fields from Priority on.
func (d *decoder) preferences() Preferences {
	p := Preferences{Priority: d.Byte("priority")}
	if d.v.HasOrdered() {
		p.Ordered = d.Byte("ordered") != 0
	}
	p.MaxAge = d.Varint("max age")
	if !d.v.HasGroupFloor() {
		p.GroupStart = d.optional("group start")
		p.GroupEnd = d.optional("group end")
		return p
	}
	start := d.Varint("group start")
	p.GroupEnd = d.optional("group end")
	p.FrameStart = d.Varint("frame start")
	p.FrameEnd = d.optional("frame end")
	if start != 0 || p.FrameStart != 0 {
		p.GroupStart = Some(start)
	}
	if err := p.check(); err != nil {
		d.Fail("frame end", err)
	}
	return p
}

// check holds the one rule about bounds that makes the message unreadable.
func (p *Preferences) check() error {
	if p.FrameEnd.Set && !p.GroupEnd.Set {
		return fmt.Errorf("%w: without a group end", wire.ErrMalformed)
	}
	return nil
}

// Subscribe is SUBSCRIBE: the first message on a Subscribe stream.
type Subscribe struct {
	// ID is chosen by the subscriber and never used again in the session. Groups
	// and datagrams refer to it.
	ID uint64
	// Broadcast is the full path.
	Broadcast string
	// Epoch is the publisher's instance that is meant, zero for any. Since 07-wip.
	Epoch Epoch
	// Track is the track's name, at most [MaxTrackName] bytes.
	Track string
	Preferences
}

// Append appends the message to b.
func (m *Subscribe) Append(b []byte, v Version) ([]byte, error) {
	e := encode("SUBSCRIBE", b, v, true)
	e.Varint("subscribe id", m.ID)
	e.path("broadcast", m.Broadcast)
	e.epoch(m.Epoch)
	e.String("track", m.Track, MaxTrackName)
	e.preferences(&m.Preferences)
	return e.close()
}

// DecodeSubscribe reads the body of SUBSCRIBE.
func DecodeSubscribe(body []byte, v Version) (*Subscribe, error) {
	d := decode("SUBSCRIBE", body, v, true)
	m := &Subscribe{
		ID:          d.Varint("subscribe id"),
		Broadcast:   d.path("broadcast"),
		Epoch:       d.epoch(),
		Track:       d.track("track"),
		Preferences: d.preferences(),
	}
	return m, d.close()
}

// SubscribeUpdate is SUBSCRIBE_UPDATE: it replaces all preferences.
type SubscribeUpdate struct {
	Preferences
}

// Append appends the message to b.
func (m *SubscribeUpdate) Append(b []byte, v Version) ([]byte, error) {
	e := encode("SUBSCRIBE_UPDATE", b, v, true)
	e.preferences(&m.Preferences)
	return e.close()
}

// DecodeSubscribeUpdate reads the body of SUBSCRIBE_UPDATE.
func DecodeSubscribeUpdate(body []byte, v Version) (*SubscribeUpdate, error) {
	d := decode("SUBSCRIBE_UPDATE", body, v, true)
	m := &SubscribeUpdate{Preferences: d.preferences()}
	return m, d.close()
}

// A Response is what the publisher writes on a Subscribe stream:
// [*SubscribeOK], [*SubscribeEnd] or [*SubscribeDrop]. The types' numbers
// depend on the version.
type Response interface {
	// Append appends the message, type first.
	Append(b []byte, v Version) ([]byte, error)
	response()
}

// SubscribeOK is SUBSCRIBE_OK. On 03 and 04 it accepts the subscription, must
// come first and carries Preferences without frame bounds. From 05 on it carries
// Group alone and comes when the first group is known.
type SubscribeOK struct {
	// Group is the first group that will come. Since 05.
	Group uint64
	// Largest is the publisher's largest group, and LargestFrame its largest frame
	// there; absent when it has none. Since 07-wip.
	Largest      Optional
	LargestFrame uint64
	// Preferences are those of the publisher. Only 03 and 04.
	Preferences
}

// SubscribeEnd is SUBSCRIBE_END (05 and later).
type SubscribeEnd struct {
	// Group is the first group that will never come; 0 when there was none at all.
	Group uint64
	// Streams is how many group streams were opened for the subscription. Since 07-wip.
	Streams uint64
}

// SubscribeDrop is SUBSCRIBE_DROP (03 to 06): groups below the end that will not come.
type SubscribeDrop struct {
	// Start and End are the first and the last group, both inclusive.
	Start, End uint64
	// Code says why.
	Code StreamCode
}

func (*SubscribeOK) response()   {}
func (*SubscribeEnd) response()  {}
func (*SubscribeDrop) response() {}

// Types of the responses. DROP moved from 1 to 2 when END came.
const (
	typeOK      = 0
	typeEnd     = 1 // since 05
	typeDrop    = 2 // since 05
	typeDropOld = 1 // 03 and 04
)

// dropType returns the type of SUBSCRIBE_DROP.
func dropType(v Version) uint64 {
	if v.HasSubscribeEnd() {
		return typeDrop
	}
	return typeDropOld
}

// Append appends the message to b, type first.
func (m *SubscribeOK) Append(b []byte, v Version) ([]byte, error) {
	e := encode("SUBSCRIBE_OK", b, v, true)
	e.typ(typeOK)
	if !v.HasSubscribeEnd() {
		e.preferences(&m.Preferences)
		return e.close()
	}
	e.Varint("group", m.Group)
	if v.HasEpochs() {
		e.optional("largest group", m.Largest)
		if m.Largest.Set {
			e.Varint("largest frame", m.LargestFrame)
		}
	}
	return e.close()
}

// Append appends the message to b, type first.
func (m *SubscribeEnd) Append(b []byte, v Version) ([]byte, error) {
	e := encode("SUBSCRIBE_END", b, v, v.HasSubscribeEnd())
	e.typ(typeEnd)
	e.Varint("group", m.Group)
	if !v.HasDrop() {
		e.Varint("streams", m.Streams)
	}
	return e.close()
}

// Append appends the message to b, type first.
func (m *SubscribeDrop) Append(b []byte, v Version) ([]byte, error) {
	e := encode("SUBSCRIBE_DROP", b, v, v.HasDrop())
	e.typ(dropType(v))
	e.Varint("group start", m.Start)
	e.Varint("group end", m.End)
	e.Varint("error", uint64(m.Code))
	return e.close()
}

// DecodeResponse reads the body of a response whose type is typ.
func DecodeResponse(typ uint64, body []byte, v Version) (Response, error) {
	switch {
	case typ == typeOK:
		return decodeOK(body, v)
	case typ == dropType(v) && v.HasDrop():
		return decodeDrop(body, v)
	case typ == typeEnd:
		d := decode("SUBSCRIBE_END", body, v, true)
		m := &SubscribeEnd{Group: d.Varint("group")}
		if !v.HasDrop() {
			m.Streams = d.Varint("streams")
		}
		return m, d.close()
	}
	return nil, fmt.Errorf("SUBSCRIBE response: type: %w: %#x", wire.ErrMalformed, typ)
}

func decodeOK(body []byte, v Version) (*SubscribeOK, error) {
	d := decode("SUBSCRIBE_OK", body, v, true)
	m := &SubscribeOK{}
	if !v.HasSubscribeEnd() {
		m.Preferences = d.preferences()
		return m, d.close()
	}
	m.Group = d.Varint("group")
	if v.HasEpochs() {
		m.Largest = d.optional("largest group")
		if m.Largest.Set {
			m.LargestFrame = d.Varint("largest frame")
		}
	}
	return m, d.close()
}

func decodeDrop(body []byte, v Version) (*SubscribeDrop, error) {
	d := decode("SUBSCRIBE_DROP", body, v, true)
	m := &SubscribeDrop{
		Start: d.Varint("group start"),
		End:   d.Varint("group end"),
		Code:  StreamCode(d.Varint("error")),
	}
	return m, d.close()
}

// ReadResponse reads the next response of a Subscribe stream. Ends and errors
// are those of [wire.StreamReader.Message] and [DecodeResponse].
func ReadResponse(s *wire.StreamReader, v Version) (Response, error) {
	typ, body, err := s.Typed()
	if err != nil {
		return nil, err
	}
	return DecodeResponse(typ, body, v)
}
