package relay

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/auth"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// guarded is a relay with one key, all versions, and a log of everything.
type guarded struct {
	*running
	key *auth.Key
	log *syncBuffer
}

func newGuarded(t *testing.T, change func(*config.Config)) *guarded {
	t.Helper()
	key, err := auth.Generate("ES256", "studio")
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(public)
	path := filepath.Join(t.TempDir(), "studio.jwk")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Development()
	cfg.Listen, cfg.Status.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Log.Level = config.LevelDebug
	cfg.Protocols = append(config.Released(), config.OnRequest()...)
	cfg.Auth = config.Auth{Mode: config.AuthJWT, Key: path, PublicSubscribe: []string{"lobby/**"}}
	if change != nil {
		change(&cfg)
	}
	loaded, err := config.Load(config.Source{Base: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	log := &syncBuffer{}
	return &guarded{runServer(t, Options{Loaded: loaded, Log: io.MultiWriter(log, t.Output())}), key, log}
}

func (g *guarded) token(t *testing.T, claims string) string {
	t.Helper()
	token, err := g.key.Sign([]byte(claims))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// call dials with a request path; versions without one in SETUP have "" on QUIC.
func (g *guarded) call(t *testing.T, kind transport.Kind, version wire.Version, path string, cert *tls.Certificate) (transport.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	pinned := quic.DialConfig{Protocols: []string{version.String()}, CertificateHashes: [][sha256.Size]byte{g.hash}}
	if cert != nil {
		pinned.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	}
	switch kind {
	case transport.QUIC:
		return quic.Dial(ctx, g.addresses.UDP, pinned)
	case transport.WebTransport:
		return quic.DialWebTransport(ctx, "https://"+g.addresses.UDP+path, pinned)
	default:
		return qmux.Dial(ctx, "ws://"+g.addresses.TCP+path, &qmux.Config{Protocols: []string{version.String()}})
	}
}

// enter runs a client session until it ends by itself or the returned function is called.
func enter(t *testing.T, conn transport.Conn, path string, role wire.Role) (*model.Origin, chan error) {
	t.Helper()
	version, err := wire.ParseVersion(conn.Info().Protocol)
	if err != nil {
		t.Fatal(err)
	}
	origin := model.NewOrigin(model.Config{})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		ended <- lite.Serve(ctx, conn, version, lite.Config{Origin: origin, Role: role, RequestPath: path})
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
	})
	return origin, ended
}

// wantClosed waits for the end of a session by the relay, for want of a grant.
func wantClosed(t *testing.T, what string, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		closed, ok := errors.AsType[*transport.CloseError](err)
		if !ok || closed.Code != uint64(wire.SessionUnauthorized) || !closed.Remote {
			t.Errorf("%s: the session ended with %v, want UNAUTHORIZED (0x2) by the relay", what, err)
		}
	case <-time.After(failsafe):
		t.Errorf("%s: the session goes on", what)
	}
}

var allKinds = []transport.Kind{transport.QUIC, transport.WebTransport, transport.WebSocket}

// spokenOn are the versions whose path a transport can carry.
func spokenOn(kind transport.Kind) (out []wire.Version) {
	for _, name := range append(config.Released(), config.OnRequest()...) {
		version, err := wire.ParseVersion(name)
		if err == nil && (kind != transport.QUIC || version.HasSetup()) {
			out = append(out, version)
		}
	}
	return out
}

func TestOnlyWhatTheTokenGrantsCanBeSeenOnEveryTransportAndVersion(t *testing.T) {
	g := newGuarded(t, nil)
	publisher := g.token(t, `{"root":"room","put":["a","b"]}`)
	for _, kind := range allKinds {
		for _, version := range spokenOn(kind) {
			name := fmt.Sprintf("%s %s", kind, version)
			conn, err := g.call(t, kind, version, "/room?jwt="+publisher, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			theirs, _ := enter(t, conn, "/room?jwt="+publisher, wire.RolePublisher)
			for _, path := range []model.Path{"a/" + model.Path(version.String()), "b/x", "c/x", "z"} {
				theirs.Announce(model.Route{Path: path, Source: &studio{}})
			}
			awaitRoute(t, g.origin, "room/a/"+model.Path(version.String()))
			awaitRoute(t, g.origin, "room/b/x")
			viewerToken := g.token(t, `{"root":"room","get":"a"}`)
			conn, err = g.call(t, kind, version, "/?jwt="+viewerToken, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			seen, _ := enter(t, conn, "/?jwt="+viewerToken, wire.RoleSubscriber)
			awaitRoute(t, seen, "room/a/"+model.Path(version.String()))
			for _, r := range seen.Routes() {
				if !r.Path.HasPrefix("room/a") {
					t.Errorf("%s: the viewer sees %q", name, r.Path)
				}
			}
			if sub, err := seen.Subscribe("room/b/x", "video", model.Peer{}, model.Options{}); err == nil {
				_, err = sub.Info(t.Context())
				t.Errorf("%s: a broadcast beyond the grant is routable: %v", name, err)
				sub.Close()
			}
		}
	}
	for _, r := range g.origin.Routes() {
		if !r.Path.HasPrefix("room/a") && !r.Path.HasPrefix("room/b") {
			t.Errorf("%q was announced without a grant", r.Path)
		}
	}
}

func TestWhoeverHasNoGrantIsRefusedBeforeASessionBegins(t *testing.T) {
	g := newGuarded(t, nil)
	good := g.token(t, `{"root":"room","get":""}`)
	for _, kind := range allKinds {
		for _, version := range spokenOn(kind) {
			for _, row := range []struct {
				path   string
				status int
			}{
				{"/room", 401},
				{"/room?jwt=a.b.c", 401},
				{"/lobby?jwt=a.b.c", 401}, // a bad token never falls back to what is public
				{"/room?jwt=" + good + "x", 401},
				{"/room?jwt=" + good + "&jwt=x", 401},
				{"/other?jwt=" + good, 403},
			} {
				name := fmt.Sprintf("%s %s %.16s", kind, version, row.path)
				conn, err := g.call(t, kind, version, row.path, nil)
				if kind != transport.QUIC {
					if err == nil || !strings.Contains(err.Error(), fmt.Sprint(row.status)) {
						t.Errorf("%s: %v, want status %d", name, err, row.status)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				_, ended := enter(t, conn, row.path, wire.RoleBoth)
				wantClosed(t, name, ended)
			}
		}
	}
	stats := g.Stats()
	if stats.Refused["unauthorized"] == 0 || stats.Refused["forbidden"] == 0 {
		t.Errorf("refusals are counted as %v", stats.Refused)
	}
}

// A version that has no path on raw QUIC begins at the root, without a credential.
func TestAVersionWithoutAPathOnQUICSeesWhatIsPublicAlone(t *testing.T) {
	g := newGuarded(t, nil)
	for _, path := range []model.Path{"lobby/tv", "room/a"} {
		g.origin.Announce(model.Route{Path: path, Source: &studio{}})
	}
	for _, version := range []wire.Version{wire.Lite03, wire.Lite04} {
		conn, err := g.call(t, transport.QUIC, version, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		seen, _ := enter(t, conn, "", wire.RoleBoth)
		seen.Announce(model.Route{Path: "lobby/mine", Source: &studio{}})
		awaitRoute(t, seen, "lobby/tv")
		if routes := seen.Routes(); len(routes) != 2 {
			t.Errorf("%s: the viewer sees %v, want lobby/tv and its own", version, routes)
		}
	}
	for _, r := range g.origin.Routes() {
		if r.Path == "lobby/mine" {
			t.Error("what is public to watch could be published")
		}
	}
}

func TestASessionEndsWhenItsTokenExpiresAndNotBefore(t *testing.T) {
	g := newGuarded(t, nil)
	for _, kind := range allKinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ended, expires := g.enterFor(t, kind, 3*time.Second)
			wantClosed(t, string(kind), ended)
			if early := time.Until(expires); early > 0 {
				t.Errorf("the session ended %v before its token expired", early)
			}
		})
	}
}

// enterFor begins a session with a token of that life. Where the machine is so slow
// that it expires meanwhile, another one has a longer life.
func (g *guarded) enterFor(t *testing.T, kind transport.Kind, life time.Duration) (ended chan error, expires time.Time) {
	t.Helper()
	for {
		expires = time.Unix(time.Now().Add(life).Unix(), 0)
		path := "/?jwt=" + g.token(t, fmt.Sprintf(`{"get":"","exp":%d}`, expires.Unix()))
		conn, err := g.call(t, kind, wire.Lite06, path, nil)
		if err == nil {
			_, ended = enter(t, conn, path, wire.RoleSubscriber)
			return ended, expires
		}
		if time.Until(expires) > 0 || life > failsafe {
			t.Fatalf("with a token that has not expired: %v", err)
		}
		life *= 2
	}
}

func TestNoTokenIsEverWrittenAnywhere(t *testing.T) {
	g := newGuarded(t, nil)
	good := g.token(t, `{"root":"room","put":"","get":""}`)
	secrets := []string{strings.Split(good, ".")[0], strings.Split(good, ".")[2], "s3cret-query", "jwt="}
	bad := good[:len(good)-4] + "AAAA"
	for _, kind := range allKinds {
		for _, token := range []string{good, bad, "s3cret-query"} {
			path := "/room?jwt=" + token + "&x=s3cret-query"
			conn, err := g.call(t, kind, wire.Lite06, path, nil)
			if err != nil {
				continue // refused, as it should be
			}
			origin, ended := enter(t, conn, path, wire.RoleBoth)
			origin.Announce(model.Route{Path: "x", Source: &studio{}})
			if token != good {
				wantClosed(t, string(kind), ended)
				continue
			}
			awaitRoute(t, g.origin, "room/x")
		}
	}
	for _, page := range []string{"/metrics", "/statusz", "/sessions", "/routes"} {
		resp, err := http.Get("http://" + g.addresses.Status + page)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		wantNone(t, page, string(body), secrets)
	}
	text := g.log.String()
	if !strings.Contains(text, "session refused") {
		t.Errorf("the log has no refusal:\n%s", text)
	}
	// The relay itself says "?jwt=" where it tells how to connect.
	wantNone(t, "the log", strings.ReplaceAll(text, "(?jwt=)", ""), secrets)
}

func wantNone(t *testing.T, where, text string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s has %q:\n%s", where, secret, text)
		}
	}
}

// newClientCertificate makes an authority's PEM file and a certificate that it signed.
func newClientCertificate(t *testing.T) (caFile string, cert tls.Certificate) {
	t.Helper()
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			parent, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	now := time.Now()
	ca, caKey := make(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	leaf, key := make(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "camera"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	if err := os.WriteFile(caFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return caFile, tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

func TestAClientCertificateGrantsWhatTheConfigurationSays(t *testing.T) {
	caFile, cert := newClientCertificate(t)
	_, stranger := newClientCertificate(t)
	g := newGuarded(t, func(c *config.Config) {
		c.Auth.ClientCA, c.Auth.MTLSPublish = caFile, []string{"cams/*"}
	})
	token := g.token(t, `{"get":""}`)
	for _, kind := range []transport.Kind{transport.QUIC, transport.WebTransport} {
		conn, err := g.call(t, kind, wire.Lite06, "/cams", &cert)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		theirs, _ := enter(t, conn, "/cams", wire.RolePublisher)
		theirs.Announce(model.Route{Path: model.Path(kind), Source: &studio{}})
		awaitRoute(t, g.origin, "cams/"+model.Path(kind))

		conn, err = g.call(t, kind, wire.Lite06, "/lobby", &stranger)
		if err == nil { // TLS 1.3: the client learns of it after its own handshake
			_, ended := enter(t, conn, "/lobby", wire.RoleSubscriber)
			select {
			case err = <-ended:
			case <-time.After(failsafe):
			}
		}
		if err == nil {
			t.Errorf("%s: a certificate of another authority falls back to what is public", kind)
		}

		conn, err = g.call(t, kind, wire.Lite06, "/?jwt="+token, &cert)
		if kind == transport.WebTransport {
			if err == nil || !strings.Contains(err.Error(), "401") {
				t.Errorf("%s: token and certificate at once: %v, want 401", kind, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		_, ended := enter(t, conn, "/?jwt="+token, wire.RoleSubscriber)
		wantClosed(t, "token and certificate at once", ended)
	}
}

func TestAClientCertificateCountsForPlainRequestsToo(t *testing.T) {
	caFile, cert := newClientCertificate(t)
	g := newGuarded(t, func(c *config.Config) {
		c.Auth.ClientCA, c.Auth.MTLSSubscribe = caFile, []string{"cams/*"}
	})
	for _, path := range []model.Path{"lobby/tv", "cams/1", "cams/1/below"} {
		g.origin.Announce(model.Route{Path: path, Source: &studio{}})
	}
	for want, certificates := range map[string][]tls.Certificate{"cams/1\n": {cert}, "lobby/tv\n": nil} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}
		client := &http.Client{Transport: transport}
		resp, err := client.Get("https://" + g.addresses.TCP + "/announced/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		transport.CloseIdleConnections()
		if string(body) != want {
			t.Errorf("with %d certificates: %d %q, want %q", len(certificates), resp.StatusCode, body, want)
		}
	}
}

func TestAVersionThatIsNotListedIsRefusedOnEveryTransport(t *testing.T) {
	g := newGuarded(t, func(c *config.Config) { c.Protocols = []string{"moq-lite-05"} })
	token := g.token(t, `{"get":""}`)
	for _, kind := range allKinds {
		for _, name := range append(config.Released(), config.OnRequest()...) {
			version, err := wire.ParseVersion(name)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := g.call(t, kind, version, "/?jwt="+token, nil)
			if (err == nil) != (name == "moq-lite-05") {
				t.Errorf("%s %s: %v", kind, name, err)
			}
			if err == nil {
				conn.Close(0, "")
			}
		}
	}
}

func TestPlainRequestsShowWhatTheTokenGrants(t *testing.T) {
	g := newGuarded(t, nil)
	for _, path := range []model.Path{"lobby/tv", "room/a", "room/b"} {
		g.origin.Announce(model.Route{Path: path, Source: &studio{}})
	}
	token := g.token(t, `{"root":"room","get":"a"}`)
	for _, row := range []struct {
		path   string
		status int
		body   string
	}{
		{"/announced/", 200, "lobby/tv\n"},
		{"/announced/?jwt=" + token, 200, "room/a\n"},
		{"/announced/room?jwt=" + token, 200, "a\n"},
		{"/announced/?jwt=x.y.z", 401, "token: its header is not base64url"},
		{"/fetch/room/b/video?group=0&jwt=" + token, 403, ""},
		{"/fetch/room/b/video?group=0", 403, ""}, // what is public lets it ask, and not for this
		{"/fetch/room/b/video?group=0&jwt=" + token + "x", 401, ""},
	} {
		resp, err := http.Get("http://" + g.addresses.TCP + row.path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != row.status || row.body != "" && string(body) != row.body {
			t.Errorf("%.40s: %d %q, want %d %q", row.path, resp.StatusCode, body, row.status, row.body)
		}
	}
}

func TestChangedPublicRulesHoldForSessionsThatComeAfterwards(t *testing.T) {
	dir := t.TempDir()
	live := filepath.Join(dir, "live.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(live+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(live+".new", live); err != nil {
			t.Fatal(err)
		}
	}
	write("auth: {publicPrefixes: [a]}\n")
	base := config.Development()
	base.Listen, base.Status.Listen, base.Auth.Mode = "127.0.0.1:0", "127.0.0.1:0", config.AuthJWT
	source := config.Source{Base: &base, LiveFile: live}
	loaded, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{running: runServer(t, Options{Loaded: loaded, Source: source, Log: t.Output()})}
	before, err := g.call(t, transport.WebSocket, wire.Lite06, "/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.call(t, transport.WebSocket, wire.Lite06, "/b", nil); err == nil {
		t.Fatal("b is public before it was said")
	}
	write("auth: {publicPrefixes: [b]}\n")
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "b to be public", func() bool {
		conn, err := g.call(t, transport.WebSocket, wire.Lite06, "/b", nil)
		if err == nil {
			conn.Close(0, "")
		}
		return err == nil
	})
	if _, err := g.call(t, transport.WebSocket, wire.Lite06, "/a", nil); err == nil {
		t.Error("a is public still")
	}
	if err := before.Err(); err != nil {
		t.Errorf("the session from before has ended: %v", err)
	}
	before.Close(0, "")
	write("auth: {}\n") // nobody would get in: what was in force stays
	await(ctx, t, "rules that let nobody in to be rejected", func() bool { return g.Status().Config.Rejected != "" })
	if text := g.Status().Config.Rejected; !strings.Contains(text, "auth.mode: JWT lets nobody in") {
		t.Errorf("the status says %q", text)
	}
}

// The configuration checks patterns by itself: it may not know the model.
func FuzzConfigurationAndModelReadTheSamePatterns(f *testing.F) {
	for _, seed := range []string{"a", "**", "a/*/b", "a/**/b/**", "a*", "/", "a//b/", "..", "a/./b", strings.Repeat("a/", 33)} {
		f.Add(seed)
	}
	base := config.Development()
	base.Auth = config.Auth{Mode: config.AuthJWT, Key: "k"}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" || strings.ContainsAny(text, ",\n") {
			return // the configuration cannot write it
		}
		c := base
		c.Auth.PublicSubscribe, c.Auth.PublicPrefixes = []string{text}, nil
		_, err := model.ParsePattern(text)
		if other := c.Validate(); (other == nil) != (err == nil) {
			t.Fatalf("%q as a pattern: the configuration says %v, the model %v", text, other, err)
		}
		c.Auth.PublicSubscribe, c.Auth.PublicPrefixes = nil, []string{text}
		_, err = model.ParsePath(text)
		if other := c.Validate(); (other == nil) != (err == nil) {
			t.Fatalf("%q as a path: the configuration says %v, the model %v", text, other, err)
		}
	})
}
