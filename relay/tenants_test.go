package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

func TestATenantsSessionsAreLimitedAndNobodyElses(t *testing.T) {
	server := newServer(t, func(c *config.Config) { c.Limits.SessionsPerTenant = 2 })
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	dial := func(path string) (transport.Conn, error) {
		return qmux.Dial(ctx, "ws://"+server.addresses.TCP+path, &qmux.Config{Protocols: []string{"moq-lite-06"}})
	}
	open := func(path string) transport.Conn {
		t.Helper()
		conn, err := dial(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		newClient(t, conn, wire.RoleSubscriber)
		return conn
	}
	first := open("/acme/one")
	open("/acme?jwt=ignored")
	for _, path := range []string{"/", "/", "/", "/acmes", "/other"} {
		open(path)
	}
	await(ctx, t, "seven sessions", func() bool { return server.Status().Sessions == 7 })
	await(ctx, t, "two of acme's", func() bool { return server.tenants.full("acme", 2) })
	if _, err := dial("/acme/two"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a third session of acme gets %v, want status 503", err)
	}
	if n := server.Stats().Refused["overload"]; n != 1 {
		t.Errorf("%d refusals are counted, want 1", n)
	}
	first.Close(0, "")
	await(ctx, t, "a place", func() bool { return !server.tenants.full("acme", 2) })
	open("/acme/two")
}

func TestATenantThatIsKnownLateIsRefusedByItsSession(t *testing.T) {
	server := newServer(t, func(c *config.Config) { c.Limits.SessionsPerTenant = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	if !server.tenants.enter("acme", 1) {
		t.Fatal("the first is refused")
	}
	conn := server.dial(t, transport.QUIC, wire.Lite06)
	session := lite.New(conn, wire.Lite06, lite.Config{Origin: model.NewOrigin(model.Config{}), Role: wire.RoleSubscriber, RequestPath: "/acme/two"})
	go func() { _ = session.Run(ctx) }() // the path comes in SETUP
	select {
	case <-conn.Done():
	case <-ctx.Done():
	}
	closed, ok := errors.AsType[*transport.CloseError](conn.Err())
	if !ok || closed.Code != uint64(wire.SessionInternalError) || !strings.Contains(closed.Reason, "overload") {
		t.Errorf("the session ends with %v, want INTERNAL_ERROR and the reason", conn.Err())
	}
	await(ctx, t, "that it is gone", func() bool { return server.Status().Sessions == 0 })
	stats := server.Stats()
	if stats.Refused["overload"] != 1 || stats.Refused["malformed"] != 0 {
		t.Errorf("refusals %v, want one for overload", stats.Refused)
	}
	for _, traffic := range stats.Traffic {
		if traffic.Opened != 0 {
			t.Errorf("%d sessions are counted as opened over %s", traffic.Opened, traffic.Transport)
		}
	}
	server.tenants.leave("acme")
	if n := len(server.tenants.byName); n != 0 {
		t.Errorf("%d tenants are remembered, want none", n)
	}
}

// offer announces a broadcast whose tracks have one group of five frames of 1,000 bytes.
func offer(t *testing.T, s *Server, path model.Path) {
	t.Helper()
	s.origin.Announce(model.Route{Path: path, Source: source(func(p *model.Producer) {
		p.Accept(model.Info{Timescale: 1000, MaxAge: time.Minute})
		kilobyte := strings.Repeat("x", 1000)
		_ = begin(t, p, 0, kilobyte, kilobyte, kilobyte, kilobyte, kilobyte).Finish()
	})})
}

// took is how long the fetches of some groups take, begun at once.
func (d *desk) took(targets ...string) (each []time.Duration) {
	d.t.Helper()
	each = make([]time.Duration, len(targets))
	began := time.Now()
	var tasks sync.WaitGroup
	for i, target := range targets {
		tasks.Go(func() {
			response, client := d.ask(target)
			defer client.Close()
			if body, err := io.ReadAll(response.Body); err != nil || len(body) != 5000 {
				d.t.Errorf("%s: %d bytes, %v", target, len(body), err)
			}
			each[i] = time.Since(began)
		})
	}
	tasks.Wait()
	return each
}

func TestATenantsEgressIsPacedAndNobodyElses(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		live := *d.server.live.Load()
		live.Limits.EgressBytesPerSecondPerTenant = 10_000
		d.server.apply(config.Update{Live: live})
		for _, path := range []model.Path{"acme/one", "acme/two", "other"} {
			offer(t, d.server, path)
		}
		// A tenth of a second's bytes and one write go at once; the rest at the rate.
		got := d.took("/fetch/acme/one/v", "/fetch/acme/two/v", "/fetch/other/v")
		if last := max(got[0], got[1]); last != 800*time.Millisecond || min(got[0], got[1]) <= 300*time.Millisecond {
			t.Errorf("10,000 bytes of one tenant took %v and %v, want 800 ms for all and more than 300 for either", got[0], got[1])
		}
		if got[2] != 300*time.Millisecond {
			t.Errorf("5,000 bytes of another took %v, want 300 ms", got[2])
		}
		if n := d.server.Stats().EgressPauses; n != 8+3 {
			t.Errorf("%d waits are counted, want 8 and 3", n)
		}
		if n := len(d.server.tenants.byName); n != 0 {
			t.Errorf("%d tenants are remembered afterwards, want none", n)
		}
		live.Limits.EgressBytesPerSecondPerTenant = 0
		d.server.apply(config.Update{Live: live})
		if got := d.took("/fetch/acme/one/v"); got[0] != 0 {
			t.Errorf("without the limit it takes %v", got[0])
		}
	})
}

func TestAChangedRateActsOnPacersInUse(t *testing.T) {
	var all tenants
	all.setRate(1)
	p, done := all.pacer("acme/one")
	defer done()
	if first, second := p.Try(1000), p.Try(1000); !first || second {
		t.Errorf("at 1 byte a second: %v for what comes after a rest and %v for more, want true and false", first, second)
	}
	all.setRate(0)
	if !p.Try(1 << 40) {
		t.Error("the rate is in force after it was lifted")
	}
	if none, _ := all.pacer("acme/one"); none != nil {
		t.Error("there is a pacer without a rate")
	}
	all.setRate(1)
	if none, _ := all.pacer(""); none != nil {
		t.Error("the root is paced: it belongs to no tenant")
	}
}

func TestFetchesOverHTTPAreBoundedInAllAndForEachAddress(t *testing.T) {
	var f fetches
	limits := config.Limits{HTTPFetches: 3, HTTPFetchesPerIP: 2}
	from := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	var ends []func()
	for _, row := range []struct {
		ip   string
		want int
	}{
		{"10.0.0.1", 0},
		{"10.0.0.1", 0},
		{"10.0.0.1", http.StatusTooManyRequests},
		{"10.0.0.2", 0},
		{"10.0.0.3", http.StatusServiceUnavailable},
		{"10.0.0.1", http.StatusTooManyRequests},
	} {
		status, end := f.begin(limits, from(row.ip))
		if status != row.want {
			t.Errorf("a fetch of %s gets %d, want %d", row.ip, status, row.want)
		}
		if end != nil {
			ends = append(ends, end)
		}
	}
	if status, end := f.begin(config.Limits{}, from("10.0.0.1")); status != 0 {
		t.Errorf("without limits %d", status)
	} else {
		end()
	}
	for _, end := range ends {
		end()
	}
	if f.all != 0 || len(f.perIP) != 0 {
		t.Errorf("%d fetches of %d addresses are left", f.all, len(f.perIP))
	}
}

func TestAFetchOverTheLimitIsToldAndCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		live := *d.server.live.Load()
		live.Limits.HTTPFetches = 1
		d.server.apply(config.Update{Live: live})
		d.server.origin.Announce(model.Route{Path: "room", Source: source(func(p *model.Producer) {
			p.Accept(model.Info{Timescale: 1000, MaxAge: time.Minute})
			begin(t, p, 0, "first") // goes on
		})})
		response, client := d.ask("/fetch/room/v")
		defer response.Body.Close()
		d.want("/fetch/room/v", 503, "too many fetches at a time")
		if got := d.server.traffic.of(overHTTP, "").Refused.Limit.Load(); got != 1 {
			t.Errorf("%d refusals are counted, want 1", got)
		}
		client.Close()
		<-time.After(fetchPatience) // it has noticed by now
		live.Limits.HTTPFetches, live.Limits.HTTPFetchesPerIP = 0, 1
		d.server.apply(config.Update{Live: live})
		response, client = d.ask("/fetch/room/v")
		defer response.Body.Close()
		defer client.Close()
		d.want("/fetch/room/v", 429, "too many fetches from this address at a time")
	})
}

func TestATokenInANameReachesNoLog(t *testing.T) {
	var out bytes.Buffer
	for _, format := range []config.Format{config.FormatJSON, config.FormatText} {
		out.Reset()
		log := newLogHandler(&out, config.Log{Level: config.LevelDebug, Format: format})
		l := slog.New(log).With("root", "room?jwt=SECRET")
		l.Info("GET /room%3Fjwt%3DSECRET&x=1", "path", "room%3Fjwt=SECRET/cam", "error", errors.New(`SUBSCRIBE "a?JWT=SECRET" failed`))
		for _, want := range []string{"jwt=…&x=1", `SUBSCRIBE`, "failed"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %s\nwant %s", format, &out, want)
			}
		}
		if strings.Contains(out.String(), "SECRET") {
			t.Errorf("%s: the token is in the log: %s", format, &out)
		}
	}
}
