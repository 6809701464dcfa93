package lite

import (
	"fmt"
	"testing"
)

// Two registries: the same number means different things in them.
func TestCodesHaveTheNamesOfTheirRegistry(t *testing.T) {
	for code, want := range map[fmt.Stringer]string{
		SessionNoError:            "NO_ERROR",
		SessionCode(0x3):          "PROTOCOL_VIOLATION",
		StreamCode(0x3):           "SESSION_CLOSED",
		SessionCode(0x6):          "KEY_VALUE_FORMATTING_ERROR",
		SessionCode(0x10):         "GOAWAY_TIMEOUT",
		SessionCode(0x11):         "CONTROL_MESSAGE_TIMEOUT",
		SessionCode(0x15):         "VERSION_NEGOTIATION_FAILED",
		StreamCode(0x0):           "INTERNAL_ERROR",
		StreamCode(0x12):          "MALFORMED_TRACK",
		StreamCode(0x30):          "NO_CAPACITY",
		StreamCode(0x33):          "NOT_FOUND",
		StreamCode(0x34):          "OLD",
		StreamCode(0x35):          "EVICTED",
		StreamCode(0x36):          "UNROUTABLE",
		StreamCode(0x39):          "TIMESTAMP_MISMATCH",
		SessionCode(0x30):         "unknown session code 0x30",
		StreamCode(0x10):          "unknown stream code 0x10",
		StreamCode(AppCode + 404): "application code 404",
		SessionCode(AppCode):      "application code 0",
	} {
		if got := code.String(); got != want {
			t.Errorf("%T(%#x) is called %q, want %q", code, code, got, want)
		}
	}
	if len(sessionNames) != 8 || len(streamNames) != 19 {
		t.Errorf("%d session and %d stream codes, want 8 and 19", len(sessionNames), len(streamNames))
	}
}

func TestZeroAndOneAreTheRoutineEndsOfAStream(t *testing.T) {
	for code := range StreamCode(0x40) {
		if got, want := code.Routine(), code <= 1; got != want {
			t.Errorf("%s is routine: %v, want %v", code, got, want)
		}
	}
}

func TestEachVersionAnswersExactlyTheseStreams(t *testing.T) {
	for _, c := range []struct {
		name string
		in   func(Version) bool
		want string // 03, 04, 05, 06-wip, 06, 07-wip
	}{
		{"Announce", BidiType(1).In, "yyyyyy"},
		{"Subscribe", BidiType(2).In, "yyyyyy"},
		{"Fetch", BidiType(3).In, "--yyyy"},
		{"Probe", BidiType(4).In, "yyyyyy"},
		{"Goaway", BidiType(5).In, "-yyyyy"},
		{"Track", BidiType(6).In, "--yyyy"},
		{"legacy session", BidiType(0).In, "------"},
		{"Auth", BidiType(7).In, "-----y"},
		{"legacy setup", BidiType(0x20).In, "------"},
		{"Group", UniType(0).In, "yyyyyy"},
		{"Setup", UniType(1).In, "--yyyy"},
		{"unknown", UniType(2).In, "------"},
	} {
		got := ""
		for _, v := range everyVersion {
			if c.in(v) {
				got += "y"
			} else {
				got += "-"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestStreamTypesHaveNames(t *testing.T) {
	got := fmt.Sprint(BidiAnnounce, BidiSubscribe, BidiFetch, BidiProbe, BidiGoaway, BidiTrack, BidiAuth, UniGroup, UniSetup)
	if want := "Announce Subscribe Fetch Probe Goaway Track Auth Group Setup"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	got = fmt.Sprint(BidiType(0x20), ", ", UniType(0x54))
	if want := "bidirectional type 0x20, unidirectional type 0x54"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
