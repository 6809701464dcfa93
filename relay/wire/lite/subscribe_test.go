package lite

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// subscribeRows are the bytes of SUBSCRIBE.
var subscribeRows = []row{
	{Lite03, &Subscribe{Broadcast: "room/a", Track: "video", Preferences: Preferences{Priority: 128}}, `
		13              // length 19
		00              // subscribe id 0
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		80              // priority 128
		00              // ordered 0
		00              // max age 0 ms
		00              // group start absent
		00              // group end absent`},
	{Lite03, &Subscribe{ID: 70000, Broadcast: "room/a", Track: "audio", Preferences: Preferences{Priority: 255, Ordered: true, MaxAge: 5000, GroupStart: Some(0), GroupEnd: Some(99)}}, `
		18              // length 24
		80011170        // subscribe id 70000
		06 726f6f6d2f61 // broadcast "room/a"
		05 617564696f   // track "audio"
		ff              // priority 255
		01              // ordered 1
		5388            // max age 5000 ms
		01              // group start 0, plus 1
		4064            // group end 99, plus 1`},
	{Lite04, &Subscribe{Broadcast: "room/a", Track: "video", Preferences: Preferences{Priority: 128}}, `
		13              // length 19
		00              // subscribe id 0
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		80              // priority 128
		00              // ordered 0
		00              // max age 0 ms
		00              // group start absent
		00              // group end absent`},
	{Lite04, &Subscribe{ID: 70000, Broadcast: "room/a", Track: "audio", Preferences: Preferences{Priority: 255, Ordered: true, MaxAge: 5000, GroupStart: Some(0), GroupEnd: Some(99)}}, `
		18              // length 24
		80011170        // subscribe id 70000
		06 726f6f6d2f61 // broadcast "room/a"
		05 617564696f   // track "audio"
		ff              // priority 255
		01              // ordered 1
		5388            // max age 5000 ms
		01              // group start 0, plus 1
		4064            // group end 99, plus 1`},
	{Lite05, &Subscribe{Broadcast: "room/a", Track: "video", Preferences: Preferences{Priority: 128}}, `
		13              // length 19
		00              // subscribe id 0
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		80              // priority 128
		00              // ordered 0
		00              // max age 0 ms
		00              // group start absent
		00              // group end absent`},
	{Lite05, &Subscribe{ID: 70000, Broadcast: "room/a", Track: "audio", Preferences: Preferences{Priority: 255, Ordered: true, MaxAge: 5000, GroupStart: Some(0), GroupEnd: Some(99)}}, `
		18              // length 24
		80011170        // subscribe id 70000
		06 726f6f6d2f61 // broadcast "room/a"
		05 617564696f   // track "audio"
		ff              // priority 255
		01              // ordered 1
		5388            // max age 5000 ms
		01              // group start 0, plus 1
		4064            // group end 99, plus 1`},
	{Lite06wip, &Subscribe{Broadcast: "room/a", Track: "video", Preferences: Preferences{Priority: 128}}, `
		13              // length 19
		00              // subscribe id 0
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		80              // priority 128
		00              // ordered 0
		00              // max age 0 ms
		00              // group start absent
		00              // group end absent`},
	// Latest group only, unbounded.
	{Lite06, &Subscribe{Broadcast: "room/a", Track: "video", Preferences: Preferences{Priority: 128}}, `
		14              // length 20
		00              // subscribe id 0
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		80              // priority 128
		00              // max age 0 ms
		00              // group start: no floor
		00              // group end absent
		00              // frame start 0
		00              // frame end absent`},
	{Lite06, &Subscribe{ID: 1, Broadcast: "room/a", Track: "catalog", Preferences: Preferences{Priority: 255, MaxAge: 300, GroupStart: Some(5), GroupEnd: Some(1023), FrameStart: 2, FrameEnd: Some(2)}}, `
		18                // length 24
		01                // subscribe id 1
		06 726f6f6d2f61   // broadcast "room/a"
		07 636174616c6f67 // track "catalog"
		ff                // priority 255
		412c              // max age 300 ms
		05                // group start 5
		4400              // group end 1023, plus 1
		02                // frame start 2
		03                // frame end 2, plus 1`},
	// Resume group 0 from frame 15.
	{Lite06, &Subscribe{ID: 70000, Broadcast: "room/a", Track: "audio", Preferences: Preferences{MaxAge: 5000, GroupStart: Some(0), FrameStart: 15}}, `
		18              // length 24
		80011170        // subscribe id 70000
		06 726f6f6d2f61 // broadcast "room/a"
		05 617564696f   // track "audio"
		00              // priority 0
		5388            // max age 5000 ms
		00              // group start 0
		00              // group end absent
		0f              // frame start 15
		00              // frame end absent`},
}

// subscribeUpdateRows are the bytes of SUBSCRIBE_UPDATE.
var subscribeUpdateRows = []row{
	{Lite03, &SubscribeUpdate{Preferences: Preferences{Priority: 7, MaxAge: 250, GroupEnd: Some(63)}}, `
		07   // length 7
		07   // priority 7
		00   // ordered 0
		40fa // max age 250 ms
		00   // group start absent
		4040 // group end 63, plus 1`},
	{Lite04, &SubscribeUpdate{Preferences: Preferences{Priority: 7, MaxAge: 250, GroupEnd: Some(63)}}, `
		07   // length 7
		07   // priority 7
		00   // ordered 0
		40fa // max age 250 ms
		00   // group start absent
		4040 // group end 63, plus 1`},
	{Lite05, &SubscribeUpdate{Preferences: Preferences{Priority: 7, MaxAge: 250, GroupEnd: Some(63)}}, `
		07   // length 7
		07   // priority 7
		00   // ordered 0
		40fa // max age 250 ms
		00   // group start absent
		4040 // group end 63, plus 1`},
	{Lite06, &SubscribeUpdate{Preferences: Preferences{Priority: 7, MaxAge: 250, GroupEnd: Some(63)}}, `
		08   // length 8
		07   // priority 7
		40fa // max age 250 ms
		00   // group start: no floor
		4040 // group end 63, plus 1
		00   // frame start 0
		00   // frame end absent`},
	{Lite06, &SubscribeUpdate{Preferences: Preferences{Priority: 255, MaxAge: 64, GroupStart: Some(6), GroupEnd: Some(6), FrameStart: 1, FrameEnd: Some(3)}}, `
		07   // length 7
		ff   // priority 255
		4040 // max age 64 ms
		06   // group start 6
		07   // group end 6, plus 1
		01   // frame start 1
		04   // frame end 3, plus 1`},
}

// responseRows are the bytes of SUBSCRIBE_OK, SUBSCRIBE_END and SUBSCRIBE_DROP.
var responseRows = []row{
	{Lite03, &SubscribeOK{Preferences: Preferences{Priority: 128}}, `
		00 // type OK
		05 // length 5
		80 // priority 128
		00 // ordered 0
		00 // max age 0 ms
		00 // group start absent
		00 // group end absent`},
	{Lite03, &SubscribeOK{Preferences: Preferences{Priority: 1, Ordered: true, MaxAge: 1000, GroupStart: Some(41), GroupEnd: Some(100)}}, `
		00   // type OK
		07   // length 7
		01   // priority 1
		01   // ordered 1
		43e8 // max age 1000 ms
		2a   // group start 41, plus 1
		4065 // group end 100, plus 1`},
	{Lite03, &SubscribeDrop{Start: 5, End: 7, Code: StreamDeliveryTimeout}, `
		01 // type DROP
		03 // length 3
		05 // group start 5
		07 // group end 7
		02 // error 2`},
	{Lite04, &SubscribeOK{Preferences: Preferences{Priority: 128}}, `
		00 // type OK
		05 // length 5
		80 // priority 128
		00 // ordered 0
		00 // max age 0 ms
		00 // group start absent
		00 // group end absent`},
	{Lite04, &SubscribeOK{Preferences: Preferences{Priority: 1, Ordered: true, MaxAge: 1000, GroupStart: Some(41), GroupEnd: Some(100)}}, `
		00   // type OK
		07   // length 7
		01   // priority 1
		01   // ordered 1
		43e8 // max age 1000 ms
		2a   // group start 41, plus 1
		4065 // group end 100, plus 1`},
	{Lite04, &SubscribeDrop{Start: 5, End: 7, Code: StreamDeliveryTimeout}, `
		01 // type DROP
		03 // length 3
		05 // group start 5
		07 // group end 7
		02 // error 2`},
	{Lite05, &SubscribeOK{Group: 42}, `
		00 // type OK
		01 // length 1
		2a // group 42`},
	{Lite05, &SubscribeEnd{}, `
		01 // type END
		01 // length 1
		00 // group 0, exclusive`},
	{Lite05, &SubscribeEnd{Group: 16384}, `
		01       // type END
		04       // length 4
		80004000 // group 16384, exclusive`},
	{Lite05, &SubscribeDrop{Start: 5, End: 7, Code: StreamDeliveryTimeout}, `
		02 // type DROP
		03 // length 3
		05 // group start 5
		07 // group end 7
		02 // error 2`},
	{Lite06, &SubscribeOK{Group: 42}, `
		00 // type OK
		01 // length 1
		2a // group 42`},
	// The track ended without producing a group.
	{Lite06, &SubscribeEnd{}, `
		01 // type END
		01 // length 1
		00 // group 0, exclusive`},
	{Lite06, &SubscribeEnd{Group: 16384}, `
		01       // type END
		04       // length 4
		80004000 // group 16384, exclusive`},
	// EVICTED.
	{Lite06, &SubscribeDrop{Start: 5, End: 7, Code: StreamEvicted}, `
		02 // type DROP
		03 // length 3
		05 // group start 5
		07 // group end 7
		35 // error 53`},
}

func TestSubscribeHasTheseBytes(t *testing.T) {
	checkRows(t, subscribeRows, always(lengthFirst), untyped(DecodeSubscribe))
}

func TestSubscribeUpdateHasTheseBytes(t *testing.T) {
	checkRows(t, subscribeUpdateRows, always(lengthFirst), untyped(DecodeSubscribeUpdate))
}

func TestSubscribeResponsesHaveTheseBytes(t *testing.T) {
	checkRows(t, responseRows, always(typeFirst), func(s *wire.StreamReader, v Version) (message, error) {
		return ReadResponse(s, v)
	})
}

// DROP was 1 before END took that number.
func TestResponseNumbersMovedWith05(t *testing.T) {
	for v, want := range map[Version]string{
		Lite03: "OK, DROP, -, -", Lite04: "OK, DROP, -, -",
		Lite05: "OK, END, DROP, -", Lite06wip: "OK, END, DROP, -", Lite06: "OK, END, DROP, -",
		Lite07wip: "OK, END, -, -",
	} {
		var got []string
		for typ := range uint64(4) {
			m, _ := DecodeResponse(typ, nil, v) // the empty body fails, the type is known
			switch m.(type) {
			case *SubscribeOK:
				got = append(got, "OK")
			case *SubscribeEnd:
				got = append(got, "END")
			case *SubscribeDrop:
				got = append(got, "DROP")
			default:
				got = append(got, "-")
			}
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
	if _, err := DecodeResponse(3, nil, Lite06); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("type 3: %v, want malformed", err)
	}
}

// A priority of 64 and more looks like a longer varint: it is none.
func TestPriorityAndOrderedAreRawBytes(t *testing.T) {
	for priority := range 256 {
		want := []byte{5, byte(priority), 1, 0, 0, 0}
		m := &SubscribeUpdate{Preferences{Priority: byte(priority), Ordered: true}}
		if got, err := m.Append(nil, Lite05); err != nil || !bytes.Equal(got, want) {
			t.Errorf("priority %d: %x, %v, want %x", priority, got, err, want)
		}
		if got, err := DecodeSubscribeUpdate(want[1:], Lite05); err != nil || *got != *m {
			t.Errorf("priority %d reads as %+v, %v", priority, got, err)
		}
	}
	if m, err := DecodeSubscribeUpdate([]byte{0, 200, 0, 0, 0}, Lite05); err != nil || !m.Ordered {
		t.Errorf("ordered 200: %+v, %v, want true", m, err)
	}
}

// On 06 the start is a plain floor; 0 without a frame is no floor at all, and
// must not turn into "from group 0" on an older wire.
func TestAGroupStartOf0On06IsAbsentUnlessAFrameIsNamed(t *testing.T) {
	none, err := DecodeSubscribeUpdate(unhex(`00 00  00 00  00 00`), Lite06)
	if err != nil || none.GroupStart.Set {
		t.Errorf("start 0, frame 0: %+v, %v, want no start", none, err)
	}
	frame, err := DecodeSubscribeUpdate(unhex(`00 00  00 00  0f 00`), Lite06)
	if want := (Preferences{GroupStart: Some(0), FrameStart: 15}); err != nil || frame.Preferences != want {
		t.Errorf("start 0, frame 15: %+v, %v, want %+v", frame, err, want)
	}
	zero := &SubscribeUpdate{Preferences{GroupStart: Some(0)}}
	if got, err := zero.Append(nil, Lite06); err != nil || !bytes.Equal(got, unhex(`06  00 00  00 00  00 00`)) {
		t.Errorf("06 writes group start 0 as %x, %v", got, err)
	}
	if got, err := zero.Append(nil, Lite05); err != nil || !bytes.Equal(got, unhex(`05  00 00 00  01 00`)) {
		t.Errorf("05 writes group start 0 as %x, %v", got, err)
	}
}

func TestAFrameEndWithoutAGroupEndIsMalformed(t *testing.T) {
	_, err := DecodeSubscribe(unhex(`
		01       // subscribe id
		01 61    // broadcast "a"
		01 74    // track "t"
		00 00    // priority, max age
		05 00    // group start 5, no end
		00 03    // frame start 0, frame end 2`), Lite06)
	if !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("decoding: %v, want malformed", err)
	}
	m := &Subscribe{Broadcast: "a", Track: "t", Preferences: Preferences{FrameEnd: Some(2)}}
	wantEncodeError(t, m, Lite06, wire.ErrMalformed)
	if _, err := m.Append(nil, Lite05); err != nil {
		t.Errorf("05 has no frame bounds to write, but: %v", err)
	}
}

func TestFrameBoundsAreNotWrittenBefore06(t *testing.T) {
	m := &SubscribeUpdate{Preferences{GroupEnd: Some(9), FrameStart: 3, FrameEnd: Some(4)}}
	for v, want := range map[Version]string{
		Lite03: `05  00 00 00  00 0a`, Lite04: `05  00 00 00  00 0a`, Lite05: `05  00 00 00  00 0a`,
		Lite06wip: `05  00 00 00  00 0a`, Lite06: `06  00 00  00 0a  03 05`,
	} {
		if got, err := m.Append(nil, v); err != nil || !bytes.Equal(got, unhex(want)) {
			t.Errorf("%s: %x, %v, want %s", v, got, err, want)
		}
	}
}

func TestATrackNameIsAPlainStringOfAtMost1024Bytes(t *testing.T) {
	long := strings.Repeat("t", MaxTrackName)
	for _, name := range []string{"", "/", "../..", "a\x00b", long} {
		m := &Subscribe{Broadcast: "a", Track: name}
		b, err := m.Append(nil, Lite06)
		if err != nil {
			t.Fatalf("track %.20q: %v", name, err)
		}
		got, _, err := readRow(untyped(DecodeSubscribe), b, Lite06)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("track %.20q: decoded %+v, %v", name, got, err)
		}
	}
	wantEncodeError(t, &Subscribe{Track: long + "t"}, Lite06, wire.ErrTooLong)
	wantEncodeError(t, &Subscribe{Track: "\xff"}, Lite06, wire.ErrMalformed)

	body := append([]byte{0, 0}, wire.AppendVarint(nil, MaxTrackName+1)...)
	body = append(append(body, long+"t"...), make([]byte, 6)...)
	if m, err := DecodeSubscribe(body, Lite06); !errors.Is(err, ErrRefused) || m.Track != "" {
		t.Errorf("track of 1,025 bytes: %.20q, %v, want it refused", m.Track, err)
	}
	body = unhex(`00  01 61  02 c328  00 00 00 00 00 00`)
	if _, err := DecodeSubscribe(body, Lite06); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("track that is not UTF-8: %v, want malformed", err)
	}
}

func FuzzDecodeSubscribe(f *testing.F) {
	fuzzRows(f, subscribeRows, always(lengthFirst), ignoringType(DecodeSubscribe))
}

func FuzzDecodeSubscribeUpdate(f *testing.F) {
	fuzzRows(f, subscribeUpdateRows, always(lengthFirst), ignoringType(DecodeSubscribeUpdate))
}

func FuzzDecodeResponse(f *testing.F) {
	fuzzRows(f, responseRows, always(typeFirst), func(typ uint64, body []byte, v Version) (message, error) {
		return DecodeResponse(typ, body, v)
	})
}
