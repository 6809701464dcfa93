package quic

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"github.com/moqrelay/operator/relay/transport"
)

// echo sends a byte there and back: the connection and its server are well.
func echo(t *testing.T, client, server transport.Conn) {
	t.Helper()
	ours, err := client.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Write([]byte{42}); err != nil {
		t.Fatal(err)
	}
	theirs, err := server.AcceptStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := theirs.Read(b); err != nil || b[0] != 42 {
		t.Fatalf("read %d, %v, want 42", b[0], err)
	}
	if _, err := theirs.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Read(b); err != nil || b[0] != 42 {
		t.Fatalf("read back %d, %v, want 42", b[0], err)
	}
}

func TestTheServersOrderOfProtocolsWins(t *testing.T) {
	s := newServer(t, nil) // prefers 06
	s.dial.Protocols = []string{"moq-lite-05", "other", "moq-lite-06"}
	client, server := s.connect(t)
	webClient, webServer := s.connectWeb(t, "/")
	for _, c := range []transport.Conn{client, server, webClient, webServer} {
		if got := c.Info().Protocol; got != "moq-lite-06" {
			t.Errorf("%s, client %v: protocol %q, want moq-lite-06", c.Info().Kind, c.Info().Client, got)
		}
		defer c.Close(0, "")
	}
}

func TestAnUpgradeCarriesPathQueryAndOrigin(t *testing.T) {
	s := newServer(t, nil)
	s.dial.Origin = "https://watch.example"
	_, server := s.connectWeb(t, "/room/a%20b?jwt=x.y&z=%2F")
	info := server.Info()
	if !info.HasURI || info.Path != "/room/a%20b?jwt=x.y&z=%2F" || info.Origin != "https://watch.example" {
		t.Errorf("info is %+v, want the path with its query and the origin", info)
	}
	_, native := s.connect(t)
	if info := native.Info(); info.HasURI || info.Path != "" || info.Origin != "" {
		t.Errorf("native QUIC has %+v, want no URI", info)
	}
}

func TestAnUnknownALPNIsRefusedAndHarmsNobody(t *testing.T) {
	s := newServer(t, nil)
	client, server := s.connect(t)
	s.dial.Protocols = []string{"moq-lite-99"}
	_, err := Dial(t.Context(), s.Addr().String(), s.dial)
	if e, ok := errors.AsType[*quic.TransportError](err); !ok || e.ErrorCode != 0x178 {
		t.Errorf("dial with an unknown ALPN: %v, want CRYPTO_ERROR 0x178 (no_application_protocol)", err)
	}
	echo(t, client, server)
}

func TestEachWayInCanBeSwitchedOff(t *testing.T) {
	s := newServer(t, func(c *Config) { c.NoQUIC = true })
	if _, err := Dial(t.Context(), s.Addr().String(), s.dial); err == nil {
		t.Error("native QUIC got in while it was off")
	}
	webClient, webServer := s.connectWeb(t, "/")
	echo(t, webClient, webServer)

	s = newServer(t, func(c *Config) { c.NoWebTransport = true })
	if _, err := DialWebTransport(t.Context(), s.url("/"), s.dial); err == nil {
		t.Error("WebTransport got in while it was off")
	}
	client, server := s.connect(t)
	echo(t, client, server)
}

func TestAdmitRefusesBothKindsBeforeTheHandshake(t *testing.T) {
	var open atomic.Bool
	s := newServer(t, func(c *Config) { c.Admit = func(net.Addr) bool { return open.Load() } })
	_, native := Dial(t.Context(), s.Addr().String(), s.dial)
	_, web := DialWebTransport(t.Context(), s.url("/"), s.dial)
	for _, err := range []error{native, web} {
		if e, ok := errors.AsType[*quic.TransportError](err); !ok || e.ErrorCode != quic.ConnectionRefused {
			t.Errorf("dial while nobody is admitted: %v, want CONNECTION_REFUSED", err)
		}
	}
	open.Store(true)
	client, server := s.connect(t)
	echo(t, client, server)
}

func TestUpgradeMayRefuseWithAStatus(t *testing.T) {
	var status atomic.Int64
	seen := make(chan transport.Info, 2)
	s := newServer(t, func(c *Config) {
		c.Upgrade = func(info transport.Info) int {
			seen <- info
			return int(status.Load())
		}
	})
	status.Store(http.StatusServiceUnavailable)
	_, err := DialWebTransport(t.Context(), s.url("/room"), s.dial)
	if e, ok := errors.AsType[*RefusedError](err); !ok || e.Status != 503 {
		t.Errorf("dial while draining: %v, want HTTP status 503", err)
	}
	if info := <-seen; info.Path != "/room" || info.Protocol != "moq-lite-06" || info.Remote == nil || info.Local == nil {
		t.Errorf("Upgrade was asked about %+v, want the path, the protocol and the addresses", info)
	}
	status.Store(0)
	webClient, webServer := s.connectWeb(t, "/")
	echo(t, webClient, webServer)
}

// newWebClient opens an HTTP/3 connection on which a test may do as it likes.
func newWebClient(t *testing.T, s *server) *quic.Conn {
	t.Helper()
	cfg := s.dial
	cfg.Settings = cfg.Settings.withDefaults()
	conn, err := dial(t.Context(), s.Addr().String(), cfg, []string{http3.NextProtoH3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	return conn
}

// request sends one CONNECT and returns the status.
func request(t *testing.T, s *server, header http.Header, offered ...string) int {
	t.Helper()
	tr := &webtransport.Transport{ApplicationProtocols: offered}
	client, err := tr.NewClientConn(newWebClient(t, s))
	if err != nil {
		t.Fatal(err)
	}
	response, _, _ := client.Dial(t.Context(), s.url("/"), header)
	if response == nil {
		t.Fatal("no response")
	}
	return response.StatusCode
}

func TestARequestThatIsNoGoodGetsAStatusAndNoSession(t *testing.T) {
	s := newServer(t, func(c *Config) { c.AllowedOrigins = []string{"https://good.example"} })
	origin := func(o string) http.Header { return http.Header{"Origin": {o}} }
	for _, row := range []struct {
		name    string
		header  http.Header
		offered []string
		want    int
	}{
		{"no protocol", nil, nil, 400},
		{"unknown protocols", nil, []string{"moql", "moq-lite-99"}, 400},
		{"a protocol list that is none", http.Header{headerOffered: {`moq-lite-06"`}}, nil, 400},
		{"tokens instead of strings", http.Header{headerOffered: {`moq-lite-06`}}, nil, 400},
		{"an origin that is not allowed", origin("https://bad.example"), []string{"moq-lite-06"}, 403},
		{"an allowed origin", origin("https://GOOD.example"), []string{"moq-lite-06"}, 200},
		{"no origin", nil, []string{"moq-lite-06"}, 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			accepted := make(chan transport.Conn, 1)
			if row.want == 200 {
				go func() {
					conn, _ := s.Accept(t.Context())
					accepted <- conn
				}()
			}
			if got := request(t, s, row.header, row.offered...); got != row.want {
				t.Errorf("status %d, want %d", got, row.want)
			}
			if row.want == 200 && <-accepted == nil {
				t.Error("no session")
			}
		})
	}
	client, server := s.connect(t) // nothing else was accepted, or it would come first
	echo(t, client, server)
}

func TestAPlainRequestIsNotFound(t *testing.T) {
	s := newServer(t, nil)
	conn := newWebClient(t, s)
	client := (&http3.Transport{}).NewClientConn(conn)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusNotFound {
		t.Fatalf("GET: %v, %v, want status 404", response, err)
	}
	_ = response.Body.Close()
}

func TestASecondSessionOnAConnectionIsRefusedAndTheFirstGoesOn(t *testing.T) {
	s := newServer(t, nil)
	tr := &webtransport.Transport{ApplicationProtocols: s.dial.Protocols}
	client, err := tr.NewClientConn(newWebClient(t, s))
	if err != nil {
		t.Fatal(err)
	}
	_, session, err := client.Dial(t.Context(), s.url("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := s.accept(t)
	response, _, err := client.Dial(t.Context(), s.url("/"), nil)
	if err == nil || response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("second session: %v, %v, want status 429", response, err)
	}
	str, err := session.OpenUniStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := str.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.AcceptReceiveStream(t.Context()); err != nil {
		t.Errorf("the first session after the second was refused: %v", err)
	}
}

func TestAnHTTP3ConnectionWithoutSessionIsEndedAndOneWithASessionIsNot(t *testing.T) {
	s := newServer(t, func(c *Config) { c.SetupTimeout = func() time.Duration { return 2 * time.Second } })
	client, server := s.connectWeb(t, "/")
	idle := newWebClient(t, s)
	<-idle.Context().Done() // a session's own time was over before that
	echo(t, client, server)
}

func TestGarbageDatagramsHarmNobody(t *testing.T) {
	s := newServer(t, nil)
	client, server := s.connect(t)
	junk, err := net.Dial("udp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = junk.Close() }()
	for i := range 600 {
		b := make([]byte, i*2+1)
		for j := range b {
			b[j] = byte(i*31 + j*j)
		}
		switch i % 4 {
		case 0:
			b[0] |= 0xc0 // as a long header
		case 1:
			b[0] = b[0]&0x3f | 0x40 // as a short header
		case 2: // as an Initial of version 1 with broken lengths
			copy(b, []byte{0xc3, 0, 0, 0, 1, 0xff})
		}
		_, _ = junk.Write(b)
	}
	echo(t, client, server)
	webClient, webServer := s.connectWeb(t, "/")
	echo(t, webClient, webServer)
}

func TestStreamsWithForeignSessionIDsHarmOnlyTheirConnection(t *testing.T) {
	s := newServer(t, func(c *Config) { c.reordering = 100 * time.Millisecond })
	client, server := s.connectWeb(t, "/")
	for name, header := range map[string][]byte{
		"an id that is no request": {0x40, 0x54, 0x01},
		"a session id of 2^62-1":   {0x40, 0x54, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			conn := newWebClient(t, s)
			str, err := conn.OpenUniStreamSync(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := str.Write(header); err != nil {
				t.Fatal(err)
			}
			<-conn.Context().Done()
			if e, ok := errors.AsType[*quic.ApplicationError](context.Cause(conn.Context())); !ok || e.ErrorCode != quic.ApplicationErrorCode(http3.ErrCodeIDError) {
				t.Errorf("the connection ended with %v, want H3_ID_ERROR", context.Cause(conn.Context()))
			}
		})
	}
	t.Run("an unknown session", func(t *testing.T) {
		conn := newWebClient(t, s)
		str, err := conn.OpenStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := str.Write([]byte{0x40, 0x41, 0x40, 0x64, 'x'}); err != nil {
			t.Fatal(err)
		}
		_, err = str.Read(make([]byte, 1)) // held a while, in case the session comes yet
		if e, ok := errors.AsType[*quic.StreamError](err); !ok || e.ErrorCode != webtransport.WTBufferedStreamRejectedErrorCode {
			t.Errorf("the stream ended with %v, want WT_BUFFERED_STREAM_REJECTED", err)
		}
	})
	echo(t, client, server)
}

func TestACertificateIsCheckedUnlessItsHashIsGiven(t *testing.T) {
	s := newServer(t, nil)
	unpinned, wrong := s.dial, s.dial
	unpinned.CertificateHashes = nil
	wrong.CertificateHashes = [][sha256.Size]byte{{1}}
	for name, cfg := range map[string]DialConfig{"no hash": unpinned, "another hash": wrong} {
		if _, err := Dial(t.Context(), s.Addr().String(), cfg); err == nil {
			t.Errorf("%s: a self-signed certificate was accepted", name)
		}
		if _, err := DialWebTransport(t.Context(), s.url("/"), cfg); err == nil {
			t.Errorf("%s: a self-signed certificate was accepted", name)
		}
	}
	s.dial.CertificateHashes = append([][sha256.Size]byte{{1}}, s.dial.CertificateHashes...)
	client, server := s.connect(t)
	echo(t, client, server)
}

func TestAnExpiredCertificateIsRefusedInSpiteOfItsHash(t *testing.T) {
	cert, hash := newCertificateFrom(t, time.Now().Add(-14*24*time.Hour))
	s := newServer(t, func(c *Config) { c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}} })
	s.dial.CertificateHashes = [][sha256.Size]byte{hash}
	if _, err := Dial(t.Context(), s.Addr().String(), s.dial); err == nil {
		t.Error("a certificate that ended a day ago was accepted")
	}
}

func TestFortyConnectionsWaitForALateAccept(t *testing.T) {
	s := newServer(t, nil)
	for range 40 { // quic-go itself lets 32 wait
		client, err := Dial(t.Context(), s.Addr().String(), s.dial)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(0, "")
	}
	for range 40 {
		s.accept(t)
	}
}

func TestTheWildcardAddressTakesIPv4AndWhereThereIsAnyIPv6(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Address = ":0" })
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1"}
	if probe, err := net.ListenPacket("udp6", "[::1]:0"); err == nil {
		_ = probe.Close()
		hosts = append(hosts, "::1")
	}
	for _, host := range hosts {
		client, err := Dial(t.Context(), net.JoinHostPort(host, port), s.dial)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		echo(t, client, s.accept(t))
	}
}

func TestCloseEndsEveryConnectionAndAccept(t *testing.T) {
	s := newServer(t, nil)
	native, _ := s.connect(t)
	web, _ := s.connectWeb(t, "/")
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	<-native.Done()
	<-web.Done()
	if e, ok := errors.AsType[*transport.CloseError](native.Err()); !ok || e.Code != 0 || !e.Remote {
		t.Errorf("the native client sees %v, want a close with code 0", native.Err())
	}
	if _, err := s.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v, want net.ErrClosed", err)
	}
	if _, err := s.Socket(); err == nil {
		t.Error("Socket after Close gives figures")
	}
	if err := s.Listener.Close(); err != nil {
		t.Errorf("a second Close: %v, want nothing", err)
	}
}

func TestListenRefusesWhatCannotWorkAndNamesIt(t *testing.T) {
	cert, _ := newCertificate(t)
	good := Config{
		Address: "127.0.0.1:0", Protocols: []string{"moq-lite-06"},
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}},
	}
	for want, change := range map[string]func(*Config){
		"protocols: want at least one": func(c *Config) { c.Protocols = nil },
		`protocols: "moql"`:            func(c *Config) { c.Protocols = []string{"moql"} },
		`protocols: "h3"`:              func(c *Config) { c.Protocols = []string{"h3"} },
		"no certificates":              func(c *Config) { c.TLS = nil },
		"both off":                     func(c *Config) { c.NoQUIC, c.NoWebTransport = true, true },
		"stream 2, connection 1":       func(c *Config) { c.Windows = transport.Windows{Stream: 2, Connection: 1} },
		"max streams: -1":              func(c *Config) { c.MaxStreams = -1 },
		"initial packet size: 1199":    func(c *Config) { c.InitialPacketSize = 1199 },
		`listen on UDP "nowhere:-1"`:   func(c *Config) { c.Address = "nowhere:-1" },
	} {
		cfg := good
		change(&cfg)
		l, err := Listen(t.Context(), cfg)
		if err == nil {
			_ = l.Close()
			t.Errorf("Listen accepted what should fail with %q", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestAPortInUseIsAnErrorThatNamesTheAddress(t *testing.T) {
	s := newServer(t, nil)
	cfg := s.cfg
	cfg.Address = s.Addr().String()
	if l, err := Listen(t.Context(), cfg); err == nil {
		_ = l.Close()
		t.Error("two listeners on one port")
	} else if !strings.Contains(err.Error(), cfg.Address) {
		t.Errorf("error %q does not name %s", err, cfg.Address)
	}
}

func TestDialRefusesAnythingButHTTPS(t *testing.T) {
	if _, err := DialWebTransport(t.Context(), "http://127.0.0.1:1/", DialConfig{Protocols: []string{"x"}}); err == nil ||
		!strings.Contains(err.Error(), "not https") {
		t.Errorf("dial of http: %v, want an error that says so", err)
	}
}
