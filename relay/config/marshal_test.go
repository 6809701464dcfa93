package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestWhatIsPrintedReadsBackTheSame(t *testing.T) {
	seven := 7
	c := valid()
	c.Protocols = []string{"moq-lite-06-wip"}
	c.TLS.Directories = []string{"/tls/a: #b", "true", "./é\u0085\"x"}
	c.Transports.AllowedOrigins = nil
	c.Transports.WebTransport.State = Disabled
	c.Drain.GoawaySpreadSeconds = &seven
	c.Status.Listen = ""
	got, err := Parse("x", c.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	c.Transports.AllowedOrigins = []string{}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("printed and read back:\n%+v\nwant:\n%+v", got, c)
	}
}

func TestTwoFilesTogetherSayWhatOneSays(t *testing.T) {
	c := valid()
	restart, live := c.MarshalFiles()
	loaded, err := Source{File: "a", LiveFile: "b"}.load(restart, live)
	if err != nil {
		t.Fatal(err)
	}
	if want := c.filled(); !reflect.DeepEqual(loaded.Config, want) {
		t.Errorf("read back:\n%+v\nwant:\n%+v", loaded.Config, want)
	}
	want := "windows:\n  pacingCap: 16Mi\ncache:\n  maxBytes: 50%\n  maxAgeSeconds: 30\nlimits:\n  sessions: 0\n  sessionsPerIP: 0\n" +
		"  sessionsPerTenant: 0\n  egressBytesPerSecondPerTenant: 0\n  handshakeRate: 0\n  setupTimeoutSeconds: 10\n  subscriptionsPerSession: 1024\n  announcementsPerSession: 1024\n" +
		"  fetchesPerSession: 64\n  httpFetches: 1024\n  httpFetchesPerIP: 128\n  stalledTimeoutSeconds: 60\n  upstreamTimeoutSeconds: 5\n  maxFrame: 32Mi\n  groupTail: 32Mi\n  maxControlMessage: 64Ki\nlog:\n  level: info\n  format: json\n"
	if string(live) != want {
		t.Errorf("the live file is\n%swant\n%s", live, want)
	}
}

func TestUnsetKeysAreNotPrinted(t *testing.T) {
	c := valid()
	c.Cache.MaxBytes = Size{}
	text := string(c.Marshal())
	for _, word := range []string{"maxBytes", "protocols", "goawaySpreadSeconds", "webTransport"} {
		if strings.Contains(text, word) {
			t.Errorf("%s is printed although it is not set:\n%s", word, text)
		}
	}
}
