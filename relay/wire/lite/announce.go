package lite

import (
	"errors"
	"fmt"
	"slices"

	"github.com/moqrelay/operator/relay/wire"
)

// AnnounceRequest is ANNOUNCE_REQUEST: tell me what you have below a prefix.
type AnnounceRequest struct {
	// Prefix is a path; "" asks for everything.
	Prefix string
	// ExcludeHop is the asker's own hop id: announcements that came through it
	// are not wanted. 0 excludes none. Only on 04 and 05.
	ExcludeHop uint64
	// Hidden asks for routes with a segment below the prefix that starts with a
	// dot, too. Since 07-wip; before, they are not told apart.
	Hidden bool
}

// Append appends the message to b.
func (m *AnnounceRequest) Append(b []byte, v Version) ([]byte, error) {
	e := encode("ANNOUNCE_REQUEST", b, v, true)
	e.path("prefix", m.Prefix)
	if v.HasExcludeHop() {
		e.Varint("exclude hop", m.ExcludeHop)
	}
	if v.HasHidden() {
		e.flag(m.Hidden)
	}
	return e.close()
}

// DecodeAnnounceRequest reads the body of ANNOUNCE_REQUEST.
func DecodeAnnounceRequest(body []byte, v Version) (*AnnounceRequest, error) {
	d := decode("ANNOUNCE_REQUEST", body, v, true)
	m := &AnnounceRequest{Prefix: d.path("prefix")}
	if v.HasExcludeHop() {
		m.ExcludeHop = d.Varint("exclude hop")
	}
	if v.HasHidden() {
		m.Hidden = d.Byte("hidden") != 0
	}
	return m, d.close()
}

// AnnounceOK is ANNOUNCE_OK (05 and later): the first answer, exactly once.
type AnnounceOK struct {
	// Hop is the responder's own hop id, 0 when withheld: the implied last entry
	// of every hop list on the stream.
	Hop uint64
	// Active is how many announcements follow at once as the initial set.
	Active uint64
}

// Append appends the message to b.
func (m *AnnounceOK) Append(b []byte, v Version) ([]byte, error) {
	e := encode("ANNOUNCE_OK", b, v, v.HasAnnounceOK())
	e.Varint("hop id", m.Hop)
	e.Varint("active count", m.Active)
	return e.close()
}

// DecodeAnnounceOK reads the body of ANNOUNCE_OK.
func DecodeAnnounceOK(body []byte, v Version) (*AnnounceOK, error) {
	d := decode("ANNOUNCE_OK", body, v, v.HasAnnounceOK())
	m := &AnnounceOK{Hop: d.Varint("hop id"), Active: d.Varint("active count")}
	return m, d.close()
}

// An AnnounceKind says what an announcement does.
type AnnounceKind uint8

// The kinds, which are also their types on the wire since 06-wip.
const (
	// AnnounceStart begins an announcement: active, ANNOUNCE_START. On 05 one
	// for a suffix that is live replaces it in place.
	AnnounceStart AnnounceKind = 0
	// AnnounceEnd takes it back: ended, ANNOUNCE_END.
	AnnounceEnd AnnounceKind = 1
	// AnnounceUpdate changes hops and cost: ANNOUNCE_UPDATE. On 05 it is read
	// from status 2 and written as status 1, as peers do; 03 and 04 lack it.
	AnnounceUpdate AnnounceKind = 2
	// AnnounceRestart is an UPDATE by which another instance of the publisher took
	// the path: ANNOUNCE_RESTART. Since 07-wip.
	AnnounceRestart AnnounceKind = 3
)

// lastKind returns the highest type of an announcement.
func (v Version) lastKind() AnnounceKind {
	if v.HasEpochs() {
		return AnnounceRestart
	}
	return AnnounceUpdate
}

// A Copy says what an announcement takes over from an earlier one on its stream.
type Copy struct {
	// Base is how many STARTs back that one is, 1 for the latest; 0 for none.
	Base uint64
	// Keep is how many entries are taken; 0 without a Base.
	Keep uint64
}

// Announce is one announcement, in one form for all versions.
type Announce struct {
	// Kind says which of the other fields count.
	Kind AnnounceKind
	// ID names the announcement that an END or UPDATE is about: the number of its
	// START on this stream, from 0. Only where [Version.HasAnnounceIDs]; else 0.
	ID uint64
	// Suffix is the path below the requested prefix, "" for the prefix itself.
	// Without announce ids every kind has it, with them only START.
	Suffix string
	// SuffixCopy are the leading segments that stand in front of Suffix, HopCopy the
	// trailing entries that stand behind Hops. Since 07-wip; see [Copies].
	SuffixCopy, HopCopy Copy
	// Epoch is the publisher's instance, of a START or RESTART. Since 07-wip.
	Epoch Epoch
	// Hops are the ids that the announcement came through, original publisher
	// first; see [Version.SenderInHops] for the last. At most [MaxHops]. On 03
	// only their number travels, and reads as that many zeros. END has none.
	Hops []uint64
	// Warm is the cost of one more subscription; 0 before 06-wip.
	Warm uint64
	// Cold is the cost with nobody carrying the content. Where the version does
	// not carry it, START and UPDATE read as [wire.MaxVarint].
	Cold uint64
}

// Statuses of ANNOUNCE_BROADCAST, 03 to 05.
const (
	statusEnded  = 0
	statusActive = 1
	statusUpdate = 2
)

// Append appends the announcement to b: ANNOUNCE_BROADCAST up to 05, later the
// typed message of its kind. What is copied must be in the caller's hands: nothing
// here knows what an earlier announcement was.
func (m *Announce) Append(b []byte, v Version) ([]byte, error) {
	if v.HasAnnounceIDs() {
		return m.appendTyped(b, v)
	}
	e := encode("ANNOUNCE_BROADCAST", b, v, m.Kind != AnnounceUpdate || v.HasAnnounceUpdate())
	hops := m.Hops
	if m.Kind == AnnounceEnd {
		e.Byte(statusEnded)
		hops = nil // an ended still carries a count
	} else {
		e.Byte(statusActive)
	}
	e.path("suffix", m.Suffix)
	e.hops(hops)
	return e.close()
}

// appendTyped writes ANNOUNCE_START, END or UPDATE.
func (m *Announce) appendTyped(b []byte, v Version) ([]byte, error) {
	e := encode("ANNOUNCE", b, v, m.Kind <= v.lastKind())
	e.typ(uint64(m.Kind))
	if m.Kind == AnnounceStart {
		e.copy("path", m.SuffixCopy)
		e.path("suffix", m.Suffix)
	} else {
		e.Varint("announce id", m.ID)
	}
	if m.Kind == AnnounceStart || m.Kind == AnnounceRestart {
		e.epoch(m.Epoch)
	}
	if m.Kind != AnnounceEnd {
		e.hopsAndCost(m)
	}
	return e.close()
}

// copy writes what is taken over for the path.
func (e *encoder) copy(field string, c Copy) {
	if e.v.HasCopies() {
		e.Varint(field+" base", c.Base)
		e.Varint(field+" keep", c.Keep)
	}
}

// hopsAndCost writes the chain and the costs.
func (e *encoder) hopsAndCost(m *Announce) {
	if e.v.HasCopies() {
		e.Varint("hop base", m.HopCopy.Base)
	}
	e.hops(m.Hops)
	if e.v.HasCopies() {
		e.Varint("hop keep", m.HopCopy.Keep)
	}
	e.Varint("warm cost", m.Warm)
	if e.v.HasColdCost() {
		e.Varint("cold cost", m.Cold)
	}
}

// hops writes a hop list, or its length alone on 03.
func (e *encoder) hops(hops []uint64) {
	if len(hops) > MaxHops {
		e.Fail("hop count", fmt.Errorf("%w: %d hops, limit %d", ErrRefused, len(hops), MaxHops))
		return
	}
	e.Varint("hop count", uint64(len(hops)))
	if !e.v.HasHopIDs() {
		return
	}
	for _, hop := range hops {
		e.Varint("hop id", hop)
	}
}

// ReadAnnounce reads the next announcement of a stream, behind ANNOUNCE_OK.
// Messages of an unknown type are skipped, as they must be. Ends and errors are
// those of [wire.StreamReader.Message] and [DecodeAnnounce].
func ReadAnnounce(s *wire.StreamReader, v Version) (*Announce, error) {
	if !v.HasAnnounceIDs() {
		body, err := s.Message()
		if err != nil {
			return nil, err
		}
		return DecodeAnnounce(0, body, v)
	}
	for {
		typ, body, err := s.Typed()
		if err != nil {
			return nil, err
		}
		m, err := DecodeAnnounce(typ, body, v)
		if !errors.Is(err, errUnknownType) {
			return m, err
		}
	}
}

// errUnknownType says that an announcement has a type to be skipped.
var errUnknownType = errors.New("unknown type")

// DecodeAnnounce reads the body of an announcement. typ is the type in front of
// it, ignored on versions without one. With [ErrRefused] the announcement is
// returned too, without what was refused: it still counts for the ids.
func DecodeAnnounce(typ uint64, body []byte, v Version) (*Announce, error) {
	if v.HasAnnounceIDs() {
		return decodeTyped(typ, body, v)
	}
	d := decode("ANNOUNCE_BROADCAST", body, v, true)
	m := &Announce{Kind: d.status(), Suffix: d.path("suffix"), Hops: d.hops()}
	if m.Kind == AnnounceEnd {
		m.Hops = nil
	} else {
		m.Cold = wire.MaxVarint
	}
	return m, d.close()
}

// status reads the status byte of ANNOUNCE_BROADCAST.
func (d *decoder) status() AnnounceKind {
	status := d.Byte("status")
	switch {
	case status == statusEnded:
		return AnnounceEnd
	case status == statusUpdate && d.v.HasAnnounceUpdate():
		return AnnounceUpdate
	case status != statusActive:
		d.Fail("status", fmt.Errorf("%w: %d", wire.ErrMalformed, status))
	}
	return AnnounceStart
}

// decodeTyped reads ANNOUNCE_START, END, UPDATE or RESTART.
func decodeTyped(typ uint64, body []byte, v Version) (*Announce, error) {
	if typ > uint64(v.lastKind()) {
		return nil, fmt.Errorf("ANNOUNCE: %w %#x", errUnknownType, typ)
	}
	m := &Announce{Kind: AnnounceKind(typ)}
	d := decode("ANNOUNCE", body, v, true)
	if m.Kind == AnnounceStart {
		m.SuffixCopy = d.copy("path")
		m.Suffix = d.path("suffix")
	} else {
		m.ID = d.Varint("announce id")
	}
	if m.Kind == AnnounceStart || m.Kind == AnnounceRestart {
		m.Epoch = d.epoch()
	}
	if m.Kind != AnnounceEnd {
		d.hopsAndCost(m)
	}
	return m, d.close()
}

// copy reads what is taken over for the path.
func (d *decoder) copy(field string) (c Copy) {
	if d.v.HasCopies() {
		c.Base = d.Varint(field + " base")
		c.Keep = d.Varint(field + " keep")
	}
	return c
}

// hopsAndCost reads the chain and the costs. A cost beyond what other versions
// carry is the highest that they do.
func (d *decoder) hopsAndCost(m *Announce) {
	if d.v.HasCopies() {
		m.HopCopy.Base = d.Varint("hop base")
	}
	m.Hops = d.hops()
	if d.v.HasCopies() {
		m.HopCopy.Keep = d.Varint("hop keep")
	}
	m.Warm = min(d.Number("warm cost"), wire.MaxVarint)
	m.Cold = wire.MaxVarint
	if d.v.HasColdCost() {
		m.Cold = d.Varint("cold cost")
	}
}

// hops reads a hop list, nil when it is empty or over [MaxHops]; on 03 it returns
// as many zeros as the list has entries.
func (d *decoder) hops() []uint64 {
	count := d.Varint("hop count")
	if d.v.HasHopIDs() && count > uint64(d.Len()) {
		d.Fail("hop count", wire.ErrTruncated)
		return nil
	}
	if count > MaxHops {
		d.refuse("hop count", fmt.Errorf("%w: %d hops, limit %d", ErrRefused, count, MaxHops))
		d.skipHops(count)
		return nil
	}
	if count == 0 {
		return nil
	}
	hops := make([]uint64, count)
	if !d.v.HasHopIDs() {
		return hops
	}
	for i := range hops {
		hops[i] = d.Varint("hop id")
		if hops[i] != 0 && slices.Contains(hops[:i], hops[i]) {
			d.refuse("hop id", d.repeatedHop(hops[i]))
		}
	}
	return hops
}

// skipHops reads past a list that is too long, so that the rest of the message
// is still looked at.
func (d *decoder) skipHops(count uint64) {
	if !d.v.HasHopIDs() {
		return
	}
	for range count {
		d.Varint("hop id")
	}
}

// repeatedHop is the error for a non-zero hop id that is twice in one list,
// which ends the session since announcements are typed.
func (d *decoder) repeatedHop(id uint64) error {
	if d.v.HasAnnounceIDs() {
		return fmt.Errorf("%w: hop %d twice", ErrViolation, id)
	}
	return fmt.Errorf("%w: hop %d twice", ErrRefused, id)
}
