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
		"moq-lite-07-wip": Lite07wip,
	} {
		if got, err := ParseVersion(token); err != nil || got != want || got.String() != token {
			t.Errorf("ParseVersion(%q) = %v, %v, want %v", token, got, err, want)
		}
	}
	for _, token := range []string{"", "moql", "moq-lite-02", "moq-lite-07", "moq-lite-6", "MOQ-LITE-06", "moq-lite-06 "} {
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

// The table of the specification: a letter for each of 03, 04, 05, 06-wip, 06, 07-wip.
func TestEachVersionHasExactlyTheseFeatures(t *testing.T) {
	for _, c := range []struct {
		name string
		gate func(Version) bool
		want string
	}{
		{"SETUP", Version.HasSetup, "--yyyy"},
		{"exclude hop", Version.HasExcludeHop, "-yy---"},
		{"ANNOUNCE_OK", Version.HasAnnounceOK, "--yyyy"},
		{"announce ids", Version.HasAnnounceIDs, "---yyy"},
		{"announce update", Version.HasAnnounceUpdate, "--yyyy"},
		{"hop ids", Version.HasHopIDs, "-yyyyy"},
		{"sender in hops", Version.SenderInHops, "yy----"},
		{"cost", Version.HasCost, "---yyy"},
		{"cold cost", Version.HasColdCost, "----y-"},
		{"link cost", Version.HasLinkCost, "----yy"},
		{"hidden", Version.HasHidden, "-----y"},
		{"epochs", Version.HasEpochs, "-----y"},
		{"copies", Version.HasCopies, "-----y"},
		{"SUBSCRIBE_DROP", Version.HasDrop, "yyyyy-"},
		{"AUTH", Version.HasAuth, "-----y"},
		{"ordered", Version.HasOrdered, "yyyy--"},
		{"group floor", Version.HasGroupFloor, "----yy"},
		{"frame bounds", Version.HasFrameBounds, "----yy"},
		{"SUBSCRIBE_END", Version.HasSubscribeEnd, "--yyyy"},
		{"timestamps", Version.HasTimestamps, "--yyyy"},
		{"TRACK", Version.HasTrack, "--yyyy"},
		{"FETCH served", Version.ServesFetch, "--yyyy"},
		{"PROBE rtt", Version.HasProbeRTT, "-yyyyy"},
		{"GOAWAY", Version.HasGoaway, "-yyyyy"},
		{"datagrams", Version.HasDatagrams, "--yyyy"},
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
