package lite

import (
	"errors"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// goawayRows are the bytes of GOAWAY.
var goawayRows = []row{
	{Lite04, &Goaway{URI: "https://b.example/live"}, `
		17                                       // length 23
		16 68747470733a2f2f622e6578616d706c652f6c697665 // uri "https://b.example/live"`},
	{Lite04, &Goaway{}, `
		01 // length 1
		00 // uri ""`},
	{Lite05, &Goaway{URI: "https://b.example/live"}, `
		17                                       // length 23
		16 68747470733a2f2f622e6578616d706c652f6c697665 // uri "https://b.example/live"`},
	{Lite05, &Goaway{}, `
		01 // length 1
		00 // uri ""`},
	{Lite06, &Goaway{URI: "https://b.example/live"}, `
		17                                       // length 23
		16 68747470733a2f2f622e6578616d706c652f6c697665 // uri "https://b.example/live"`},
	{Lite06, &Goaway{}, `
		01 // length 1
		00 // uri ""`},
}

func TestGoawayHasTheseBytes(t *testing.T) {
	checkRows(t, goawayRows, always(lengthFirst), untyped(DecodeGoaway))
}

func TestAURIOver8192BytesEndsTheSessionSince06AndIsNeverWritten(t *testing.T) {
	uri := strings.Repeat("u", MaxGoawayURI)
	for _, v := range []Version{Lite04, Lite05, Lite06wip, Lite06} {
		b, err := (&Goaway{URI: uri}).Append(nil, v)
		if err != nil || len(b) != 2+2+8192 {
			t.Errorf("%s: 8,192 bytes: %d, %v, want 8,196 bytes", v, len(b), err)
		}
		wantEncodeError(t, &Goaway{URI: uri + "u"}, v, wire.ErrTooLong)

		body := append(wire.AppendVarint(nil, MaxGoawayURI+1), uri+"u"...)
		m, err := DecodeGoaway(body, v)
		if got, want := errors.Is(err, ErrViolation), v == Lite06; got != want || m == nil {
			t.Errorf("%s: 8,193 bytes: %v, want a violation: %v", v, err, want)
		}
	}
}

func FuzzDecodeGoaway(f *testing.F) {
	fuzzRows(f, goawayRows, always(lengthFirst), func(_ uint64, body []byte, v Version) (message, error) {
		m, err := DecodeGoaway(body, v)
		if err == nil && len(m.URI) > MaxGoawayURI {
			m.URI = m.URI[:0] // read before 06, never written
		}
		return m, err
	})
}
