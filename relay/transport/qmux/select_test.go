package qmux

import (
	"slices"
	"testing"
)

// clientOffer is what @moq/net 0.3.4 offers over WebSocket.
const clientOffer = "qmux-02.moq-lite-05, qmux-01.moq-lite-05, qmux-00.moq-lite-05, qmux-02.moq-lite-04, qmux-01.moq-lite-04, qmux-00.moq-lite-04, " +
	"qmux-02.moq-lite-03, qmux-01.moq-lite-03, qmux-00.moq-lite-03, qmux-02.moql, qmux-01.moql, qmux-00.moql, qmux-01.moqt-20, qmux-01.moqt-18, " +
	"qmux-02.moqt-17, qmux-01.moqt-17, qmux-00.moqt-17, qmux-02.moqt-16, qmux-01.moqt-16, qmux-00.moqt-16, qmux-02.moqt-15, qmux-01.moqt-15, qmux-00.moqt-15, " +
	"qmux-02, qmux-01, qmux-00, webtransport"

func TestSelectTakesOurFirstThatTheClientOffers(t *testing.T) {
	lite := []string{"moq-lite-06", "moq-lite-05", "moq-lite-04"}
	for _, row := range []struct {
		name      string
		offered   []string
		protocols []string
		drafts    []Draft
		want      string // empty: nothing
	}{
		{"a released client's offer", []string{clientOffer}, lite, Drafts(), "qmux-02.moq-lite-05"},
		{"with drafts cut down", []string{clientOffer}, lite, []Draft{Draft00}, "qmux-00.moq-lite-05"},
		{"with protocols cut down", []string{clientOffer}, []string{"moq-lite-03"}, Drafts(), "qmux-02.moq-lite-03"},
		{"the client's order does not count", []string{"qmux-02.moq-lite-04, qmux-00.moq-lite-05,qmux-01.moq-lite-05"}, lite, Drafts(), "qmux-01.moq-lite-05"},
		{"the token comes before the draft", []string{"qmux-02.moq-lite-04", "qmux-00.moq-lite-05"}, lite, Drafts(), "qmux-00.moq-lite-05"},
		{"our order of drafts counts", []string{"qmux-02.moq-lite-05,qmux-01.moq-lite-05"}, lite, []Draft{Draft01, Draft02}, "qmux-01.moq-lite-05"},
		{"several lines, spaces, empty entries", []string{"chat", " , qmux-00.x,", "  qmux-01.moq-lite-05  ,"}, lite, Drafts(), "qmux-01.moq-lite-05"},
		{"a plain token", []string{"moq-lite-06"}, lite, Drafts(), "moq-lite-06"},
		{"a plain token after all pairs", []string{"moq-lite-06, qmux-00.moq-lite-04"}, lite, Drafts(), "qmux-00.moq-lite-04"},
		{"a plain token needs draft 02", []string{"moq-lite-06"}, lite, []Draft{Draft01, Draft00}, ""},
		{"a plain token of another protocol", []string{"moqt-17"}, []string{"moqt-17"}, Drafts(), ""},
		{"bare versions", []string{"qmux-02, qmux-01, qmux-00, webtransport"}, lite, Drafts(), ""},
		{"an unknown version", []string{"qmux-03.moq-lite-05, webtransport.moq-lite-05"}, lite, Drafts(), ""},
		{"another case", []string{"QMUX-02.moq-lite-05"}, lite, Drafts(), ""},
		{"something else", []string{"chat"}, lite, Drafts(), ""},
		{"nothing", nil, lite, Drafts(), ""},
		{"an empty line", []string{""}, lite, Drafts(), ""},
		{"moq-transport 18 not on draft 00", []string{"qmux-00.moqt-18"}, []string{"moqt-18"}, Drafts(), ""},
		{"moq-transport 17 on draft 00", []string{"qmux-00.moqt-17"}, []string{"moqt-17"}, Drafts(), "qmux-00.moqt-17"},
	} {
		s, ok := Select(row.offered, row.protocols, row.drafts)
		if s.Subprotocol != row.want || ok != (row.want != "") {
			t.Errorf("%s: selected %+v, %v, want %q", row.name, s, ok, row.want)
		}
		if !ok {
			continue
		}
		if again, err := parseSubprotocol(s.Subprotocol); err != nil || again != s {
			t.Errorf("%s: the client reads %q as %+v, %v, want %+v", row.name, s.Subprotocol, again, err, s)
		}
	}
}

func TestAClientOffersPairsTheNewestFirst(t *testing.T) {
	var got []string
	for _, s := range pairs([]string{"moq-lite-06", "moqt-18"}, Drafts()) {
		got = append(got, s.Subprotocol)
	}
	want := []string{"qmux-02.moq-lite-06", "qmux-01.moq-lite-06", "qmux-00.moq-lite-06", "qmux-02.moqt-18", "qmux-01.moqt-18"}
	if !slices.Equal(got, want) {
		t.Errorf("offers %v, want %v", got, want)
	}
}

func TestAServersChoiceMustNameVersionAndProtocol(t *testing.T) {
	for _, s := range []string{"", "qmux-02", "qmux-02.", "qmux-03.moq-lite-05", "webtransport", "webtransport.x", "chat"} {
		if got, err := parseSubprotocol(s); err == nil {
			t.Errorf("%q is read as %+v, want an error", s, got)
		}
	}
}

func FuzzSelect(f *testing.F) {
	f.Add(clientOffer)
	f.Add(" ,,qmux-00.moq-lite-05\t")
	protocols := []string{"moq-lite-06", "moq-lite-05", "moqt-18"}
	f.Fuzz(func(t *testing.T, line string) {
		s, ok := Select([]string{line}, protocols, Drafts())
		if again, err := parseSubprotocol(s.Subprotocol); ok && (err != nil || again != s || !slices.Contains(protocols, s.Protocol)) {
			t.Fatalf("selected %+v, which the client reads as %+v, %v", s, again, err)
		}
	})
}
