package qmux

import (
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

func TestValidateListsAllThatIsWrong(t *testing.T) {
	bad := Config{
		Drafts:               []Draft{Draft01, Draft01, 7},
		Windows:              transport.Windows{Stream: -1, Connection: 1 << 50},
		MaxIncomingStreams:   -1,
		MaxDatagramFrameSize: 16383,
		IdleTimeout:          -time.Second,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("a bad configuration is accepted")
	}
	for _, name := range []string{
		"Protocols:", "Drafts: qmux-01", "Drafts: qmux-07", "Windows.Stream: -1", "Windows.Connection:",
		"MaxIncomingStreams: -1", "MaxDatagramFrameSize: 16383",
	} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %q: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "IdleTimeout") {
		t.Errorf("a negative idle timeout is no fault: %v", err)
	}
	good := Config{Protocols: []string{"moq-lite-06"}}
	if err := good.Validate(); err != nil {
		t.Errorf("the smallest configuration: %v", err)
	}
}

func TestDraftsHaveTokens(t *testing.T) {
	for _, row := range []struct {
		d     Draft
		token string
	}{{Draft00, "qmux-00"}, {Draft01, "qmux-01"}, {Draft02, "qmux-02"}} {
		if got, err := ParseDraft(row.token); err != nil || got != row.d || row.d.String() != row.token {
			t.Errorf("%q is parsed as %v, %v and written as %q", row.token, got, err, row.d)
		}
	}
	for _, s := range []string{"", "qmux", "qmux-03", "qmux-2", "QMUX-02", "webtransport"} {
		if d, err := ParseDraft(s); err == nil {
			t.Errorf("%q is parsed as %v", s, d)
		}
	}
}
