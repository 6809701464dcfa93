package lite

import (
	"errors"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// groupRows are the bytes of GROUP.
var groupRows = []row{
	{Lite03, &Group{Sequence: 42}, `
		02 // length 2
		00 // subscribe id 0
		2a // sequence 42`},
	// 1- to 8-byte varints.
	{Lite03, &Group{SubscribeID: 70000, Sequence: 1073741824}, `
		0c               // length 12
		80011170         // subscribe id 70000
		c000000040000000 // sequence 1073741824`},
	{Lite04, &Group{Sequence: 42}, `
		02 // length 2
		00 // subscribe id 0
		2a // sequence 42`},
	// 1- to 8-byte varints.
	{Lite04, &Group{SubscribeID: 70000, Sequence: 1073741824}, `
		0c               // length 12
		80011170         // subscribe id 70000
		c000000040000000 // sequence 1073741824`},
	{Lite05, &Group{Sequence: 42}, `
		02 // length 2
		00 // subscribe id 0
		2a // sequence 42`},
	// 1- to 8-byte varints.
	{Lite05, &Group{SubscribeID: 70000, Sequence: 1073741824}, `
		0c               // length 12
		80011170         // subscribe id 70000
		c000000040000000 // sequence 1073741824`},
	{Lite06wip, &Group{Sequence: 42}, `
		02 // length 2
		00 // subscribe id 0
		2a // sequence 42`},
	{Lite06, &Group{Sequence: 42}, `
		03 // length 3
		00 // subscribe id 0
		2a // sequence 42
		00 // frame start 0`},
	{Lite06, &Group{SubscribeID: 70000, Sequence: 1073741824, FrameStart: 15}, `
		0d               // length 13
		80011170         // subscribe id 70000
		c000000040000000 // sequence 1073741824
		0f               // frame start 15`},
}

// decodeGroup is DecodeGroup in the form of the other decoders.
func decodeGroup(body []byte, v Version) (*Group, error) {
	m, err := DecodeGroup(body, v)
	return &m, err
}

func TestGroupHasTheseBytes(t *testing.T) {
	checkRows(t, groupRows, always(lengthFirst), untyped(decodeGroup))
}

func TestParseGroupAsksForMoreUntilTheMessageIsThere(t *testing.T) {
	for _, r := range groupRows {
		b := unhex(r.hex)
		for n := range b {
			if m, used, err := ParseGroup(b[:n], r.v); used != 0 || err != nil || m != (Group{}) {
				t.Errorf("%s: %d of %d bytes: %+v, %d, %v, want to be asked for more", r.v, n, len(b), m, used, err)
			}
		}
		m, used, err := ParseGroup(append(b, "behind"...), r.v)
		if err != nil || used != len(b) || m != *r.msg.(*Group) {
			t.Errorf("%s: %+v, %d, %v, want %+v, %d", r.v, m, used, err, r.msg, len(b))
		}
	}
}

func TestParseGroupRefusesALengthThatNoGroupHas(t *testing.T) {
	for _, length := range []uint64{maxGroupBody + 1, 16384, wire.MaxVarint} {
		b := wire.AppendVarint(nil, length)
		if _, n, err := ParseGroup(b, Lite06); !errors.Is(err, wire.ErrTooLong) || n != 0 {
			t.Errorf("length %d: %d, %v, want too long at once", length, n, err)
		}
	}
	for _, c := range []struct {
		hex  string
		v    Version
		want error
	}{
		{`02 00 2a`, Lite06, wire.ErrTruncated}, // frame start missing
		{`03 00 2a 00`, Lite05, wire.ErrLeftover},
		{`00`, Lite05, wire.ErrTruncated},
	} {
		if _, _, err := ParseGroup(unhex(c.hex), c.v); !errors.Is(err, c.want) {
			t.Errorf("%s: %s: %v, want %v", c.v, c.hex, err, c.want)
		}
	}
}

func TestTheLongestGroupFitsMaxGroupLen(t *testing.T) {
	const most = `ff3fffffffffffffff` // 2^62-1
	b := unhex(`ff000000000000001b` + most + most + most)
	m, n, err := ParseGroup(b, Lite07wip)
	if want := (Group{wire.MaxVarint, wire.MaxVarint, wire.MaxVarint}); err != nil || n != MaxGroupLen || m != want {
		t.Errorf("%+v, %d, %v, want %+v, %d", m, n, err, want, MaxGroupLen)
	}
}

func TestGroupNeedsNoAllocationOfItsOwn(t *testing.T) {
	buf := make([]byte, 0, MaxGroupLen)
	m := Group{SubscribeID: 70000, Sequence: 1 << 30, FrameStart: 15}
	if n := testing.AllocsPerRun(100, func() { buf, _ = m.Append(buf[:0], Lite06) }); n != 0 {
		t.Errorf("Append: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { m, _, _ = ParseGroup(buf, Lite06) }); n != 0 {
		t.Errorf("ParseGroup: %v allocations, want 0", n)
	}
}

func FuzzDecodeGroup(f *testing.F) {
	fuzzRows(f, groupRows, always(lengthFirst), ignoringType(decodeGroup))
}

func FuzzParseGroup(f *testing.F) {
	for _, r := range groupRows {
		f.Add(uint8(r.v), unhex(r.hex))
	}
	f.Fuzz(func(t *testing.T, version uint8, b []byte) {
		v := everyVersion[int(version)%len(everyVersion)]
		m, n, err := ParseGroup(b, v)
		if err == nil && n == 0 && len(b) >= MaxGroupLen {
			t.Fatalf("%x asks for more than MaxGroupLen", b)
		}
		if err != nil || n == 0 {
			return
		}
		if again, err := m.Append(nil, v); err != nil || len(again) > n {
			t.Fatalf("%x reads as %+v, which becomes %x, %v", b[:n], m, again, err)
		}
	})
}
