package lite

import (
	"errors"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// fetchRows are the bytes of FETCH.
var fetchRows = []row{
	// Encodable, but no known peer serves FETCH before lite-05.
	{Lite03, &Fetch{Broadcast: "room/a", Track: "video", Priority: 3, Group: 7}, `
		0f              // length 15
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		03              // priority 3
		07              // group 7`},
	// Encodable, but no known peer serves FETCH before lite-05.
	{Lite04, &Fetch{Broadcast: "room/a", Track: "video", Priority: 3, Group: 7}, `
		0f              // length 15
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		03              // priority 3
		07              // group 7`},
	{Lite05, &Fetch{Broadcast: "room/a", Track: "video", Priority: 3, Group: 7}, `
		0f              // length 15
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		03              // priority 3
		07              // group 7`},
	{Lite06, &Fetch{Broadcast: "room/a", Track: "video", Priority: 3, Group: 7}, `
		11              // length 17
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		03              // priority 3
		07              // group 7
		00              // frame start 0
		00              // frame end absent`},
	{Lite06, &Fetch{Broadcast: "room/a", Track: "video", Priority: 3, Group: 7, FrameStart: 4, FrameEnd: Some(9)}, `
		11              // length 17
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		03              // priority 3
		07              // group 7
		04              // frame start 4
		0a              // frame end 9, plus 1`},
}

func TestFetchHasTheseBytes(t *testing.T) {
	checkRows(t, fetchRows, always(lengthFirst), untyped(DecodeFetch))
}

func TestAFetchThatEndsBeforeItsStartIsMalformed(t *testing.T) {
	_, err := DecodeFetch(unhex(`
		01 61 01 74 // broadcast "a", track "t"
		00 07       // priority 0, group 7
		04 04       // frame start 4, frame end 3`), Lite06)
	if !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("decoding: %v, want malformed", err)
	}
	m := &Fetch{Broadcast: "a", Track: "t", FrameStart: 4, FrameEnd: Some(3)}
	wantEncodeError(t, m, Lite06, wire.ErrMalformed)
	m.FrameEnd = Some(4)
	if _, err := m.Append(nil, Lite06); err != nil {
		t.Errorf("one frame, 4 to 4: %v", err)
	}
}

func FuzzDecodeFetch(f *testing.F) {
	fuzzRows(f, fetchRows, always(lengthFirst), ignoringType(DecodeFetch))
}
