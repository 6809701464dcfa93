package load

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

func TestATargetsSchemeChoosesItsTransport(t *testing.T) {
	for _, row := range []struct {
		url, transport string
		kind           transport.Kind
		root           string
	}{
		{"moqt://h:4443", "", transport.QUIC, ""},
		{"moql://h:4443/room/1?jwt=x", "", transport.QUIC, "/room/1?jwt=x"},
		{"https://h", "", transport.WebTransport, ""},
		{"http://h:4443/a", "", transport.WebTransport, "/a"},
		{"wss://h/", "", transport.WebSocket, ""},
		{"ws://[::1]:80", "", transport.WebSocket, ""},
		{"http://h:4443", "quic", transport.QUIC, ""},
		{"https://h:4443", "websocket", transport.WebSocket, ""},
	} {
		target, err := TargetText{URL: row.url, Transport: row.transport}.Parse()
		if err != nil {
			t.Errorf("%s: %v", row.url, err)
			continue
		}
		l, err := target.parse()
		if err != nil || l.kind != row.kind || rootOf(l.url) != row.root {
			t.Errorf("%s over %q: %v with root %q, %v", row.url, row.transport, l.kind, rootOf(l.url), err)
		}
	}
}

func TestABadTargetIsRefusedWithWhatIsPossible(t *testing.T) {
	for _, row := range []struct {
		text TargetText
		want string
	}{
		{TargetText{URL: "ftp://h"}, `relay URL "ftp://h": the scheme is "ftp"; moqt, moql, https, http, wss and ws are spoken`},
		{TargetText{URL: "moqt://h"}, `relay URL "moqt://h": native QUIC has no default port: name one, as in moqt://HOST:4443`},
		{TargetText{URL: "https://:4443"}, `relay URL "https://:4443": no host is named`},
		{TargetText{URL: "ws://h", Transport: "tcp"}, `--transport "tcp": quic, webtransport and websocket are spoken`},
		{TargetText{URL: "ws://h", Version: "lite-05"}, `--version "lite-05": moq-lite-03 to moq-lite-06, moq-lite-06-wip and moq-lite-07-wip are spoken`},
		{TargetText{URL: "ws://h", Draft: "qmux-03"}, `--qmux-draft "qmux-03": qmux-00, qmux-01 and qmux-02 are spoken`},
		{TargetText{URL: "ws://h", CertificateHashes: []string{"ab"}}, `--certificate-sha256: certificate hash "ab": 64 hex digits of a SHA-256 are wanted`},
		{TargetText{URL: "moqt://h:1/room", Version: "moq-lite-04"}, `relay URL "moqt://h:1/room": moq-lite-03 and -04 cannot name a path over native QUIC`},
	} {
		if _, err := row.text.Parse(); err == nil || err.Error() != row.want {
			t.Errorf("%+v: %v\nwant %s", row.text, err, row.want)
		}
	}
}

func TestOverNativeQUICAPathIsAskedForOnlyInVersionsThatCanSayIt(t *testing.T) {
	l, err := Target{URL: "moqt://h:1/room"}.parse()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(l.tokens(), " "); got != "moq-lite-06 moq-lite-05" {
		t.Errorf("offers %s, want moq-lite-06 and -05", got)
	}
	if l, _ := (Target{URL: "moqt://h:1"}).parse(); len(l.Versions) != len(lite.Released()) {
		t.Errorf("without a path it offers %v, want all released", l.Versions)
	}
}

func TestTheCertificatesHashIsFetchedOverPlainHTTP(t *testing.T) {
	const hash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	answer := hash
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/certificate.sha256" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	l, err := Target{URL: server.URL + "/room?jwt=x"}.resolve(t.Context())
	if err != nil || len(l.CertificateHashes) != 1 || l.CertificateHashes[0][1] != 0x11 {
		t.Errorf("hashes %x, %v; want %s", l.CertificateHashes, err, hash)
	}
	answer = "not a hash"
	if _, err := (Target{URL: server.URL}).resolve(t.Context()); err == nil || !strings.Contains(err.Error(), `certificate hash "not a hash"`) {
		t.Errorf("a wrong answer: %v", err)
	}
	if l, err := (Target{URL: server.URL, Transport: transport.WebSocket}).resolve(t.Context()); err != nil || len(l.CertificateHashes) != 0 {
		t.Errorf("over plain WebSocket there is nothing to pin: %x, %v", l.CertificateHashes, err)
	}
}
