package load

import (
	"encoding/hex"
	"errors"
	"testing"
	"time"
)

var noon = time.UnixMicro(1_764_504_000_123_456)

func TestAPayloadHasItsPlaceItsTimeAndAHash(t *testing.T) {
	got := AppendPayload(nil, Place{Group: 2, Frame: 3}, 48, noon)
	want := "4d514c31" + // "MQL1"
		"00000030" + // 48 bytes
		"0000000000000002" + // group
		"00000003" + // frame
		"000644ce9a21d240" + // microseconds since 1970
		"37e74772bd0bcfb6b318c8cb039e82f6" + // SHA-256 of the rest
		"422c5312"
	if hex.EncodeToString(got) != want {
		t.Errorf("payload\n%x, want\n%s", got, want)
	}
	made, err := CheckPayload(got, Place{2, 3})
	if err != nil || !made.Equal(noon) {
		t.Errorf("check: %v, %v; want %v", made, err, noon)
	}
}

func TestASmallPayloadIsAPatternOfItsPlace(t *testing.T) {
	got := AppendPayload(nil, Place{Group: 2, Frame: 3}, 4, noon)
	if want := [4]byte{84, 97, 110, 123}; [4]byte(got) != want { // 2*31 + 3*7 + 1, then 13 more each
		t.Errorf("payload %d, want %d", got, want)
	}
}

func TestEveryChangedByteIsFound(t *testing.T) {
	for _, size := range []int{1, HeadBytes - 1, HeadBytes, HeadBytes + 1, 300} {
		p := Place{Group: 1 << 40, Frame: 7}
		payload := AppendPayload(nil, p, size, noon)
		for i := range payload {
			payload[i] ^= 0x10
			if _, err := CheckPayload(payload, p); !errors.Is(err, ErrCorrupt) {
				t.Errorf("size %d, byte %d changed: %v", size, i, err)
			}
			payload[i] ^= 0x10
		}
	}
}

func TestAPayloadIsRefusedInAnotherPlaceOrLength(t *testing.T) {
	p := Place{Group: 5, Frame: 1}
	payload := AppendPayload(nil, p, 100, noon)
	for name, check := range map[string]struct {
		payload []byte
		at      Place
		want    string
	}{
		"another frame": {payload, Place{5, 2}, "group 5 frame 2: corrupt payload: it was made for group 5 frame 1"},
		"cut short":     {payload[:99], p, "group 5 frame 1: corrupt payload: it has 99 bytes and was made with 100"},
		"foreign":       {make([]byte, 50), p, `group 5 frame 1: corrupt payload: it begins with "\x00\x00\x00\x00", not "MQL1": was this track published by another program?`},
	} {
		if _, err := CheckPayload(check.payload, check.at); err == nil || err.Error() != check.want {
			t.Errorf("%s: %v, want %s", name, err, check.want)
		}
	}
}

func FuzzCheckPayload(f *testing.F) {
	f.Add(AppendPayload(nil, Place{1, 2}, 60, noon), uint64(1), uint32(2))
	f.Add(AppendPayload(nil, Place{1, 2}, 5, noon), uint64(1), uint32(2))
	f.Fuzz(func(t *testing.T, payload []byte, group uint64, frame uint32) {
		p := Place{group, frame}
		made, err := CheckPayload(payload, p)
		if err != nil {
			return
		}
		// What is accepted ends as what is made for the same place and time begins.
		again := AppendPayload(nil, p, len(payload), made)
		if len(payload) < HeadBytes && string(again) != string(payload) {
			t.Errorf("accepted %x, made %x", payload, again)
		}
	})
}
