package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

func TestHandshakesBeyondTheRateAreRefusedOnBothPorts(t *testing.T) {
	server := newServer(t, func(c *config.Config) { c.Limits.HandshakeRate = 1 })
	server.handshakes.mu.Lock()
	server.handshakes.left, server.handshakes.last = -1e9, time.Now() // none for years
	server.handshakes.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	_, err := quic.Dial(ctx, server.addresses.UDP, quic.DialConfig{Protocols: []string{"moq-lite-06"}, CertificateHashes: [][sha256.Size]byte{server.hash}})
	if err == nil || !strings.Contains(err.Error(), "CONNECTION_REFUSED") {
		t.Errorf("QUIC gets %v, want CONNECTION_REFUSED", err)
	}
	conn, err := net.Dial("tcp", server.addresses.TCP)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(failsafe))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a TCP connection got %d bytes, %v, want that it is closed", n, err)
	}
	if n := server.Stats().Refused["overload"]; n < 2 {
		t.Errorf("%d refusals are counted, want 2", n)
	}
}

func TestEveryRefusalIsCountedByItsReason(t *testing.T) {
	directory := t.TempDir()
	putPair(t, directory)
	server := newServer(t, func(c *config.Config) {
		c.TLS = config.TLS{Mode: config.Files, Directories: []string{directory}}
		c.Transports.AllowedOrigins = []string{"https://good.example"}
	})
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	wrong := []string{"moq-lite-99"}
	trusted := &tls.Config{InsecureSkipVerify: true}
	pinned := quic.DialConfig{Protocols: wrong, CertificateHashes: [][sha256.Size]byte{server.hash}}
	say := func(text string) func() {
		return func() {
			conn, err := net.Dial("tcp", server.addresses.TCP)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, text)
			_, _ = io.Copy(io.Discard, conn) // until it is closed
		}
	}
	websocket := func(protocol, origin string) func() {
		return func() {
			header := http.Header{}
			if origin != "" {
				header.Set("Origin", origin)
			}
			if conn, err := qmux.Dial(ctx, "wss://"+server.addresses.TCP+"/", &qmux.Config{Protocols: []string{protocol}, TLS: trusted, Header: header}); err == nil {
				conn.Close(0, "")
				t.Errorf("%s from %q was let in", protocol, origin)
			}
		}
	}
	for _, row := range []struct {
		name, reason string
		do           func()
	}{
		{"QUIC without a common version", "version", func() { _, _ = quic.Dial(ctx, server.addresses.UDP, pinned) }},
		{"WebTransport without one", "version", func() { _, _ = quic.DialWebTransport(ctx, "https://"+server.addresses.UDP+"/", pinned) }},
		{"WebSocket without one", "version", websocket("moq-lite-99", "")},
		{"a page of another origin", "forbidden", websocket("moq-lite-06", "https://bad.example")},
		{"plain HTTP where TLS is", "malformed", say("GET / HTTP/1.1\r\n\r\n")},
		{"TLS that makes no sense", "tls", say("\x16\x03\x01\x00\x04\x63\x00\x00\x00")},
	} {
		before := server.Stats().Refused
		row.do()
		await(ctx, t, row.name+" to be counted as "+row.reason, func() bool { return server.Stats().Refused[row.reason] > before[row.reason] })
		for reason, n := range server.Stats().Refused {
			if reason != row.reason && n != before[reason] {
				t.Errorf("%s is counted as %s too", row.name, reason)
			}
		}
	}
}

func TestALimitOfZeroIsNoneInASession(t *testing.T) {
	got := sessionLimits(config.Limits{StalledTimeoutSeconds: 60, MaxControlMessage: 1 << 16}).WithDefaults()
	want := session.Limits{
		Subscriptions: math.MaxInt32, Announcements: math.MaxInt32, Groups: 1024, Fetches: math.MaxInt32,
		ControlMessage: 1 << 16, StalledTimeout: time.Minute,
	}
	if got != want {
		t.Errorf("the limits are %+v, want %+v", got, want)
	}
}

func TestChangedLimitsActOnWhatComesNext(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		d.server.origin.Announce(model.Route{Path: "silent", Source: source(func(p *model.Producer) {})})
		live := *d.server.live.Load()
		live.Limits.UpstreamTimeoutSeconds = 2
		d.server.apply(config.Update{Live: live, NeedsRestart: []string{"listen"}})
		began := time.Now()
		d.want("/fetch/silent/video", 504, "did not answer in time")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the publisher was given %v, want the changed 2 s", took)
		}
		live.Limits.UpstreamTimeoutSeconds = 3
		d.server.apply(config.Update{Live: live})
		if got := d.server.Stats().ConfigReloads; got["needs_restart"] != 1 || got["ok"] != 1 || got["rejected"] != 0 {
			t.Errorf("the reloads are counted as %v, want one that needs a restart and one that is well", got)
		}
	})
}

func TestReloadAsksForEveryFileAndNeverWaits(t *testing.T) {
	cfg := config.Development()
	loaded, err := config.Load(config.Source{Base: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Loaded: loaded})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.Reload()
	}
	if len(s.reloads.now) != 1 || len(s.certificates.now) != 1 {
		t.Errorf("%d and %d looks are asked for, want one each", len(s.reloads.now), len(s.certificates.now))
	}
}

func TestDrainingOverHTTPClosesThoseWhoStayAndSaysHowMany(t *testing.T) {
	var log bytes.Buffer
	cfg := config.Development()
	cfg.Listen, cfg.Status.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Drain.TimeoutSeconds = 0
	loaded, err := config.Load(config.Source{Base: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	server := runServer(t, Options{Loaded: loaded, Log: &log})
	for _, kind := range []transport.Kind{transport.QUIC, transport.WebSocket} {
		newClient(t, server.dial(t, kind, wire.Lite06), wire.RoleSubscriber)
	}
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "two sessions", func() bool { return server.Status().Sessions == 2 })
	response, err := http.Post(dialStatus(t, server)+"/drain", "", nil) //nolint:noctx // a test's own relay
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		t.Errorf("POST /drain is answered with %d", response.StatusCode)
	}
	if err := server.wait(); err != nil {
		t.Errorf("the drain ended with %v", err)
	}
	if !strings.Contains(log.String(), "closed the open sessions") || !strings.Contains(log.String(), "sessions=2") {
		t.Errorf("the log does not tell that 2 were closed:\n%s", log.String())
	}
}
