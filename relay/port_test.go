package relay

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/status"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

var insecure = &http.Client{Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
}}

func get(t *testing.T, url string) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := insecure.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body), response.Header
}

func TestTheClientPortAnswersPlainAndOverTLSWhileSelfSigned(t *testing.T) {
	server := newServer(t, nil)
	for _, scheme := range []string{"http", "https"} {
		base := scheme + "://" + server.addresses.TCP
		if code, body, header := get(t, base+"/health"); code != 200 || body != "ok" || header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s /health: %d %q", scheme, code, body)
		}
		if code, body, _ := get(t, base+"/certificate.sha256"); code != 200 || body != hex.EncodeToString(server.hash[:]) || len(body) != 64 {
			t.Errorf("%s /certificate.sha256: %d %q, want 64 hex digits and no newline", scheme, code, body)
		}
		if code, body, _ := get(t, base+"/room"); code != 404 || !strings.Contains(body, "WebSocket") {
			t.Errorf("%s /room: %d %q", scheme, code, body)
		}
	}
}

func TestTheClientPortClosesPlainConnectionsWithARealCertificate(t *testing.T) {
	directory := t.TempDir()
	pair := putPair(t, directory)
	server := newServer(t, func(c *config.Config) { c.TLS = config.TLS{Mode: config.Files, Directories: []string{directory}} })
	if server.hash != sha256.Sum256(pair.Certificate[0]) {
		t.Error("the hash is not that of the certificate in the directory")
	}
	if code, _, _ := get(t, "https://"+server.addresses.TCP+"/health"); code != 200 {
		t.Errorf("over TLS: %d", code)
	}
	conn, err := net.Dial("tcp", server.addresses.TCP)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
		t.Errorf("a plain request got %q, want the connection closed", line)
	}
}

func TestASilentOrBrokenClientOfTheTCPPortHarmsNobody(t *testing.T) {
	server := newServer(t, nil)
	for _, text := range []string{"", "\x16", "\x16\x03\x01\xff\xff", "\x00\x01\x02", "GET", strings.Repeat("A", 100_000)} {
		conn, err := net.Dial("tcp", server.addresses.TCP)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text)
	}
	if code, _, _ := get(t, "http://"+server.addresses.TCP+"/health"); code != 200 {
		t.Errorf("/health answers %d", code)
	}
}

func TestADisabledTransportIsPrintedAsNoneAndRefused(t *testing.T) {
	server := newServer(t, func(c *config.Config) {
		c.Transports.QUIC.State, c.Transports.WebTransport.State = config.Disabled, config.Disabled
		c.Status.Listen = ""
	})
	if server.addresses.UDP != "none" || server.addresses.Status != "none" {
		t.Errorf("the addresses are %v, want udp and status none", server.addresses)
	}
	server.dial(t, transport.WebSocket, wire.Lite05).Close(0, "")

	server = newServer(t, func(c *config.Config) { c.Transports.WebSocket.State = config.Disabled })
	_, err := qmux.Dial(t.Context(), "ws://"+server.addresses.TCP+"/", &qmux.Config{Protocols: []string{"moq-lite-05"}})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a WebSocket client got %v, want 404", err)
	}
}

func TestPort0IsOneNumberOnUDPAndTCP(t *testing.T) {
	server := newServer(t, nil)
	if server.addresses.UDP != server.addresses.TCP || strings.HasSuffix(server.addresses.UDP, ":0") {
		t.Errorf("the addresses are %v", server.addresses)
	}
	want := "listening udp=" + server.addresses.UDP + " tcp=" + server.addresses.TCP + " status=" + server.addresses.Status
	if server.addresses.String() != want {
		t.Errorf("the line is %q", server.addresses)
	}
}

func TestAPortInUseIsNamed(t *testing.T) {
	server := newServer(t, nil)
	cfg := server.cfg
	cfg.Listen = server.addresses.TCP
	loaded, err := config.Load(config.Source{Base: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	second, err := New(Options{Loaded: loaded})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = second.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "listen: ") || !strings.Contains(err.Error(), cfg.Listen) {
		t.Errorf("the error is %v, want the key and the address", err)
	}
}

// wantEnd waits for a client session's end.
func wantEnd(t *testing.T, c *client) error {
	t.Helper()
	select {
	case err := <-c.ended:
		c.ended <- err
		return err
	case <-time.After(failsafe):
		t.Fatal("the session did not end")
		return nil
	}
}

func TestOverTheLimitNewSessionsAreRefusedOnEveryTransport(t *testing.T) {
	server := newServer(t, func(c *config.Config) { c.Limits.Sessions = 1 })
	first := newClient(t, server.dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "the first session", func() bool { return server.Status().Sessions == 1 })
	pinned := quic.DialConfig{Protocols: []string{"moq-lite-06"}, CertificateHashes: [][sha256.Size]byte{server.hash}}
	if _, err := quic.Dial(ctx, server.addresses.UDP, pinned); err == nil {
		t.Error("a second QUIC session was accepted")
	}
	if _, err := quic.DialWebTransport(ctx, "https://"+server.addresses.UDP+"/", pinned); err == nil {
		t.Error("a second WebTransport session was accepted")
	}
	if _, err := qmux.Dial(ctx, "ws://"+server.addresses.TCP+"/", &qmux.Config{Protocols: []string{"moq-lite-05"}}); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a second WebSocket session got %v, want 503", err)
	}
	if n := server.Stats().Refused["overload"]; n < 3 {
		t.Errorf("%d refusals are counted, want 3", n)
	}
	first.conn.Close(0, "")
	await(ctx, t, "the first session to end", func() bool { return server.Status().Sessions == 0 })
	newClient(t, server.dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
}

func TestADrainKeepsMediaFlowingUntilTheLastSessionHasLeft(t *testing.T) {
	server := newServer(t, func(c *config.Config) {
		spread := 0
		c.Drain = config.Drain{TimeoutSeconds: 600, GoawaySpreadSeconds: &spread}
	})
	publisher := newClient(t, server.dial(t, transport.QUIC, wire.Lite06), wire.RolePublisher)
	more := make(chan struct{})
	newStudio(t, publisher.origin, "room", func(ctx context.Context, p *model.Producer) error {
		w, err := p.Group(0, model.Window{})
		for i := 0; i < 2 && err == nil; i++ {
			err = writeFrame(ctx, w, []byte{byte(i)})
			if i == 0 {
				<-more
			}
		}
		return errors.Join(err, w.Finish())
	})
	viewer := newClient(t, server.dial(t, transport.WebTransport, wire.Lite05), wire.RoleSubscriber)
	awaitRoute(t, viewer.origin, "room")
	sub, err := viewer.origin.Subscribe("room", "video", model.Peer{}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	reader, err := sub.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.NextFrame(ctx); err != nil {
		t.Fatal(err)
	}
	server.Drain()
	server.Drain()
	await(ctx, t, "GOAWAY at both clients", func() bool {
		return publisher.session.Stats().GoneAway && viewer.session.Stats().GoneAway
	})
	if code, body, _ := get(t, dialStatus(t, server)+"/readyz"); code != 200 || !strings.Contains(body, "draining") {
		t.Errorf("/readyz answers %d %q while draining, want 200 and the word", code, body)
	}
	if _, err := qmux.Dial(ctx, "ws://"+server.addresses.TCP+"/", &qmux.Config{Protocols: []string{"moq-lite-05"}}); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a new session got %v while draining, want 503", err)
	}
	close(more)
	_, _ = reader.Payload(ctx)
	reader.Taken(1)
	if _, err := reader.NextFrame(ctx); err != nil {
		t.Errorf("a frame published while draining did not come: %v", err)
	}
	viewer.conn.Close(0, "")
	publisher.conn.Close(0, "")
	if err := server.wait(); err != nil {
		t.Errorf("the drain ended with %v", err)
	}
	if n := sumTraffic(server, func(t admin.Traffic) int64 { return t.GoawaySent }); n != 2 {
		t.Errorf("%d GOAWAYs are counted, want 2", n)
	}
	for _, kind := range []string{"quic", "webtransport"} {
		if n := closedOf(server, kind); n["drained"] != 1 || len(n) != 1 {
			t.Errorf("the ended sessions over %s are counted as %v, want one drained", kind, n)
		}
	}
}

func TestADrainEndsAtItsTimeoutForThoseWhoStay(t *testing.T) {
	server := newServer(t, func(c *config.Config) { c.Drain = config.Drain{TimeoutSeconds: 0} })
	viewer := newClient(t, server.dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "the session", func() bool { return server.Status().Sessions == 1 })
	server.Drain()
	if err := server.wait(); err != nil {
		t.Errorf("the drain ended with %v", err)
	}
	_ = wantEnd(t, viewer)
	if n := closedOf(server, "quic"); n["forced"] != 1 || len(n) != 1 {
		t.Errorf("the closed session is counted as %v, want one forced", n)
	}
}

func TestAChangedLiveFileIsInForceAndABadOneIsReported(t *testing.T) {
	directory := t.TempDir()
	base := config.Development()
	base.Listen, base.Status.Listen = "127.0.0.1:0", "127.0.0.1:0"
	live := filepath.Join(directory, "live.yaml")
	putFile(t, directory, "live.yaml", []byte("limits: {sessions: 7}\n"))
	source := config.Source{Base: &base, LiveFile: live}
	loaded, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	server := runServer(t, Options{Loaded: loaded, Source: source, Log: t.Output()})
	before := server.Status().Config
	if len(before.LiveHash) != 64 || before.Rejected != "" {
		t.Fatalf("the start reports %+v", before)
	}
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	rewrite := func(text string) {
		putFile(t, directory, "new", []byte(text))
		if err := os.Rename(filepath.Join(directory, "new"), live); err != nil {
			t.Fatal(err)
		}
	}
	rewrite("limits: {sessions: 9}\ncache: {maxBytes: 64Mi}\n")
	await(ctx, t, "another hash", func() bool { return server.Status().Config.LiveHash != before.LiveHash })
	if n := server.live.Load().Limits.Sessions; n != 9 {
		t.Errorf("the limit of sessions is %d, want 9", n)
	}
	if _, ceiling := server.origin.CacheBytes(); ceiling != 64<<20 {
		t.Errorf("the cache's ceiling is %d, want 64 MiB", ceiling)
	}
	good := server.Status().Config.LiveHash
	rewrite("limits: {sessions: -1}\n")
	await(ctx, t, "the rejection", func() bool { return server.Status().Config.Rejected != "" })
	now := server.Status().Config
	if !strings.Contains(now.Rejected, "limits.sessions") || now.LiveHash != good || server.live.Load().Limits.Sessions != 9 {
		t.Errorf("after a bad file it reports %+v, want the key, the hash before and the limits before", now)
	}
}

func TestTheStatusPortShowsSessionsAndRoutes(t *testing.T) {
	server := newServer(t, nil)
	publisher := newClient(t, server.dial(t, transport.WebSocket, wire.Lite05), wire.RolePublisher)
	publisher.origin.Announce(model.Route{Path: "room/a", Source: &studio{}})
	awaitRoute(t, server.origin, "room/a")
	base := dialStatus(t, server)
	var sessions []status.Session
	var routes []status.Route
	decode(t, base+"/sessions", &sessions)
	decode(t, base+"/routes", &routes)
	if len(sessions) != 1 || sessions[0].Transport != "websocket" || sessions[0].Protocol != "moq-lite-05" || sessions[0].Announcements != 1 {
		t.Errorf("the sessions are %+v", sessions)
	}
	if len(routes) != 1 || routes[0].Path != "room/a" || routes[0].Session != sessions[0].ID {
		t.Errorf("the routes are %+v", routes)
	}
	var document status.Document
	decode(t, base+"/statusz", &document)
	b := document.SocketBuffers
	if document.Schema != 1 || !document.Ready || document.Sessions != 1 || b == nil || b.Receive.Requested != 4<<20 || b.Receive.Granted == 0 {
		t.Errorf("the document is %+v with buffers %+v", document, b)
	}
}

func TestTheStatusPortShowsWhatIsCached(t *testing.T) {
	server := newServer(t, nil)
	server.origin.Announce(model.Route{Path: "room", Source: source(func(p *model.Producer) {
		p.Accept(model.Info{})
		if err := begin(t, p, 3, "abc").Finish(); err != nil {
			t.Error(err)
		}
	})})
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	sub, err := server.origin.Subscribe("room", "video", model.Peer{}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close() // until then the track is held
	if _, err := sub.Next(ctx); err != nil {
		t.Fatal(err)
	}
	var tracks []status.CachedTrack
	decode(t, dialStatus(t, server)+"/cache", &tracks)
	held, _ := server.origin.CacheBytes()
	if want := (status.CachedTrack{Path: "room", Track: "video", Groups: 1, Newest: 3, Bytes: held}); len(tracks) != 1 || tracks[0] != want {
		t.Errorf("cached are %+v, want %+v", tracks, want)
	}
}

func decode(t *testing.T, url string, into any) {
	t.Helper()
	code, body, _ := get(t, url)
	if code != 200 {
		t.Fatalf("%s: %d %s", url, code, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%s: %v in %s", url, err, body)
	}
}
