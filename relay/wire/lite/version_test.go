package lite

import (
	"slices"
	"testing"
)

func TestTokensNameExactlyOneWire(t *testing.T) {
	for token, want := range map[string]Version{
		"moq-lite-03":     Lite03,
		"moq-lite-04":     Lite04,
		"moq-lite-05":     Lite05,
		"moq-lite-06":     Lite06,
		"moq-lite-06-wip": Lite06wip,
	} {
		if got, err := ParseVersion(token); err != nil || got != want || got.String() != token {
			t.Errorf("ParseVersion(%q) = %v, %v, want %v", token, got, err, want)
		}
	}
	for _, token := range []string{"", "moql", "moq-lite-02", "moq-lite-07-wip", "moq-lite-6", "MOQ-LITE-06", "moq-lite-06 "} {
		if got, err := ParseVersion(token); err == nil {
			t.Errorf("ParseVersion(%q) = %v, want an error", token, got)
		}
	}
	if got := Version(0).String() + ", " + Version(99).String(); got != "moq-lite version 0, moq-lite version 99" {
		t.Errorf("unknown versions are called %q", got)
	}
}

func TestReleasedVersionsComeNewestFirstWithoutWorkInProgress(t *testing.T) {
	if got, want := Released(), []Version{Lite06, Lite05, Lite04, Lite03}; !slices.Equal(got, want) {
		t.Errorf("Released() = %v, want %v", got, want)
	}
	Released()[0] = Lite03
	if Released()[0] != Lite06 {
		t.Error("the slice is shared between callers")
	}
}

// The table of the specification: a letter for each of 03, 04, 05, 06-wip, 06.
func TestEachVersionHasExactlyTheseFeatures(t *testing.T) {
	for _, c := range []struct {
		name string
		gate func(Version) bool
		want string
	}{
		{"SETUP", Version.HasSetup, "--yyy"},
		{"exclude hop", Version.HasExcludeHop, "-yy--"},
		{"ANNOUNCE_OK", Version.HasAnnounceOK, "--yyy"},
		{"announce ids", Version.HasAnnounceIDs, "---yy"},
		{"announce update", Version.HasAnnounceUpdate, "--yyy"},
		{"hop ids", Version.HasHopIDs, "-yyyy"},
		{"sender in hops", Version.SenderInHops, "yy---"},
		{"cost", Version.HasCost, "---yy"},
		{"cold cost", Version.HasColdCost, "----y"},
		{"ordered", Version.HasOrdered, "yyyy-"},
		{"group floor", Version.HasGroupFloor, "----y"},
		{"frame bounds", Version.HasFrameBounds, "----y"},
		{"SUBSCRIBE_END", Version.HasSubscribeEnd, "--yyy"},
		{"timestamps", Version.HasTimestamps, "--yyy"},
		{"TRACK", Version.HasTrack, "--yyy"},
		{"FETCH served", Version.ServesFetch, "--yyy"},
		{"PROBE rtt", Version.HasProbeRTT, "-yyyy"},
		{"GOAWAY", Version.HasGoaway, "-yyyy"},
		{"datagrams", Version.HasDatagrams, "--yyy"},
	} {
		got := ""
		for _, v := range everyVersion {
			if c.gate(v) {
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
