package lite

import (
	"errors"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// trackRows are the bytes of TRACK.
var trackRows = []row{
	{Lite05, &Track{Broadcast: "room/a", Track: "video"}, `
		0d              // length 13
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"`},
	{Lite06wip, &Track{Broadcast: "room/a", Track: "video"}, `
		0d              // length 13
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"`},
	{Lite06, &Track{Broadcast: "room/a", Track: "video"}, `
		0d              // length 13
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"`},
}

// trackInfoRows are the bytes of TRACK_INFO.
var trackInfoRows = []row{
	{Lite05, &TrackInfo{Priority: 2, MaxAge: 5000, Timescale: 1000}, `
		06   // length 6
		02   // priority 2
		00   // ordered 0
		5388 // max age 5000 ms
		43e8 // timescale 1000`},
	{Lite05, &TrackInfo{Ordered: true, MaxAge: 30000, Timescale: 90000}, `
		0a       // length 10
		00       // priority 0
		01       // ordered 1
		80007530 // max age 30000 ms
		80015f90 // timescale 90000`},
	{Lite05, &TrackInfo{Priority: 2, MaxAge: 5000, Timescale: 90000}, `
		08       // length 8
		02       // priority 2
		00       // ordered 0
		5388     // max age 5000 ms
		80015f90 // timescale 90000`},
	{Lite06wip, &TrackInfo{Priority: 2, MaxAge: 5000, Timescale: 1000}, `
		06   // length 6
		02   // priority 2
		00   // ordered 0
		5388 // max age 5000 ms
		43e8 // timescale 1000`},
	{Lite06, &TrackInfo{Priority: 2, MaxAge: 5000, Timescale: 1000}, `
		05   // length 5
		02   // priority 2
		5388 // max age 5000 ms
		43e8 // timescale 1000`},
	{Lite06, &TrackInfo{MaxAge: 30000, Timescale: 90000}, `
		09       // length 9
		00       // priority 0
		80007530 // max age 30000 ms
		80015f90 // timescale 90000`},
}

func TestTrackHasTheseBytes(t *testing.T) {
	checkRows(t, trackRows, always(lengthFirst), untyped(DecodeTrack))
}

func TestTrackInfoHasTheseBytes(t *testing.T) {
	checkRows(t, trackInfoRows, always(lengthFirst), untyped(DecodeTrackInfo))
}

func TestATimescaleOf0IsMalformed(t *testing.T) {
	for v, body := range map[Version]string{Lite05: `02 00 5388 00`, Lite06wip: `02 00 5388 00`, Lite06: `02 5388 00`} {
		if _, err := DecodeTrackInfo(unhex(body), v); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v, want malformed", v, err)
		}
		wantEncodeError(t, &TrackInfo{MaxAge: 5000}, v, wire.ErrMalformed)
	}
}

func FuzzDecodeTrack(f *testing.F) {
	fuzzRows(f, trackRows, always(lengthFirst), ignoringType(DecodeTrack))
}

func FuzzDecodeTrackInfo(f *testing.F) {
	fuzzRows(f, trackInfoRows, always(lengthFirst), ignoringType(DecodeTrackInfo))
}
