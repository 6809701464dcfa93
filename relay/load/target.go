package load

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// A Target says where to connect to, and how. URL is all that is needed.
type Target struct {
	// URL of the relay. Its path, with its query, is the session's root.
	//
	//	moqt, moql    native QUIC
	//	https         WebTransport
	//	wss, ws       WebSocket
	//	http          fetch /certificate.sha256 from this address and pin it, then
	//	              WebTransport to the same host and port
	URL string
	// Transport is used instead of the one of the URL's scheme; empty: that one.
	Transport transport.Kind
	// Versions are offered, the preferred first; empty: every released one, newest first.
	Versions []lite.Version
	// Drafts of QMux are offered over WebSocket; empty: all, newest first.
	Drafts []qmux.Draft
	// CertificateHashes, if any, take the place of the system's roots: the SHA-256
	// of the server's certificate.
	CertificateHashes [][sha256.Size]byte
	// Insecure accepts every certificate.
	Insecure bool
	// Timeout bounds connecting; 0: 20 s.
	Timeout time.Duration
	// IdleTimeout is after how long without a word from the relay the session is
	// lost, at least a second; 0: 30 s. The relay's own is the longest.
	IdleTimeout time.Duration
}

// ParseCertificateHash reads a SHA-256 hash: 64 hex digits, colons between them allowed.
func ParseCertificateHash(text string) (hash [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(text), ":", ""))
	if err != nil || len(b) != len(hash) {
		return hash, fmt.Errorf("certificate hash %q: 64 hex digits of a SHA-256 are wanted", text)
	}
	return [sha256.Size]byte(b), nil
}

// schemes are the transports that URL schemes stand for.
var schemes = map[string]transport.Kind{
	"moqt": transport.QUIC, "moql": transport.QUIC, "https": transport.WebTransport, "http": transport.WebTransport,
	"wss": transport.WebSocket, "ws": transport.WebSocket,
}

// A link is a Target that was looked at: what to dial.
type link struct {
	Target
	url  *url.URL
	kind transport.Kind
}

// resolve checks the target and fetches the certificate's hash where its URL asks for that.
func (t Target) resolve(ctx context.Context) (*link, error) {
	l, err := t.parse()
	if err != nil || l.url.Scheme != "http" || l.kind == transport.WebSocket {
		return l, err
	}
	hash, err := fetchHash(ctx, l.url)
	if err != nil {
		return nil, err
	}
	l.CertificateHashes = append(slices.Clone(l.CertificateHashes), hash)
	return l, nil
}

// Validate reports what is wrong with the target, without connecting.
func (t Target) Validate() error {
	_, err := t.parse()
	return err
}

// kind is the transport that is used; empty where the URL makes no sense.
func (t Target) kind() transport.Kind {
	l, err := t.parse()
	if err != nil {
		return ""
	}
	return l.kind
}

func (t Target) parse() (*link, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, fmt.Errorf("relay URL: %w", err)
	}
	kind, ok := schemes[u.Scheme]
	if !ok {
		return nil, fmt.Errorf("relay URL %q: the scheme is %q; moqt, moql, https, http, wss and ws are spoken", u.Redacted(), u.Scheme)
	}
	if t.Transport != "" {
		kind = t.Transport
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("relay URL %q: no host is named", u.Redacted())
	}
	if kind == transport.QUIC && u.Port() == "" {
		return nil, fmt.Errorf("relay URL %q: native QUIC has no default port: name one, as in moqt://HOST:4443", u.Redacted())
	}
	if len(t.Versions) == 0 {
		t.Versions = lite.Released()
	}
	if kind == transport.QUIC && !t.Versions[len(t.Versions)-1].HasSetup() && rootOf(u) != "" {
		t.Versions = slices.DeleteFunc(slices.Clone(t.Versions), func(v lite.Version) bool { return !v.HasSetup() })
		if len(t.Versions) == 0 {
			return nil, fmt.Errorf("relay URL %q: moq-lite-03 and -04 cannot name a path over native QUIC", u.Redacted())
		}
	}
	if t.Timeout <= 0 {
		t.Timeout = 20 * time.Second
	}
	return &link{Target: t, url: u, kind: kind}, nil
}

// rootOf is a URL's path and query, "" for the root.
func rootOf(u *url.URL) string {
	path := u.EscapedPath()
	if u.RawQuery != "" {
		return path + "?" + u.RawQuery
	}
	if path == "/" {
		return ""
	}
	return path
}

// fetchHash gets the certificate's hash over plain HTTP, as browser clients of a
// development relay do.
func fetchHash(ctx context.Context, relay *url.URL) (hash [sha256.Size]byte, err error) {
	from := url.URL{Scheme: "http", Host: relay.Host, Path: "/certificate.sha256"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return hash, fmt.Errorf("fetch the certificate's hash: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		return hash, fmt.Errorf("fetch the certificate's hash: %w (a relay with a real certificate is reached by https:// or moqt://)", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1024))
	if err != nil {
		return hash, fmt.Errorf("fetch %v: %w", &from, err)
	}
	if answer.StatusCode != http.StatusOK {
		return hash, fmt.Errorf("fetch %v: status %d: %.200q", &from, answer.StatusCode, text)
	}
	if hash, err = ParseCertificateHash(string(text)); err != nil {
		return hash, fmt.Errorf("fetch %v: %w", &from, err)
	}
	return hash, nil
}

// dial connects and says which version was negotiated.
func (l *link) dial(ctx context.Context) (transport.Conn, lite.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	conn, err := l.dialTransport(ctx)
	if err != nil {
		if cause := ctx.Err(); errors.Is(cause, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v: %w", l.Timeout, err)
		}
		return nil, 0, fmt.Errorf("connect over %s: %w", l.kind, err)
	}
	version, err := lite.ParseVersion(conn.Info().Protocol)
	if err != nil {
		conn.Close(uint64(lite.SessionVersionNegotiationFail), "")
		return nil, 0, fmt.Errorf("connect over %s: the relay chose protocol %q: %w", l.kind, conn.Info().Protocol, err)
	}
	return conn, version, nil
}

func (l *link) dialTransport(ctx context.Context) (transport.Conn, error) {
	cfg := quic.DialConfig{Settings: quic.Settings{IdleTimeout: l.IdleTimeout, KeepAlive: l.IdleTimeout / 3}, Protocols: l.tokens(), TLS: l.tls(), CertificateHashes: l.CertificateHashes}
	switch l.kind {
	case transport.QUIC:
		return quic.Dial(ctx, l.url.Host, cfg)
	case transport.WebTransport:
		u := *l.url
		u.Scheme = "https"
		return quic.DialWebTransport(ctx, u.String(), cfg)
	case transport.WebSocket:
		u := *l.url
		u.Scheme = "wss"
		if l.url.Scheme == "ws" || l.url.Scheme == "http" {
			u.Scheme = "ws"
		}
		return qmux.Dial(ctx, u.String(), &qmux.Config{Protocols: l.tokens(), Drafts: l.Drafts, TLS: l.pinned(), IdleTimeout: l.IdleTimeout})
	default:
		return nil, fmt.Errorf("transport %q: quic, webtransport and websocket are spoken", l.kind)
	}
}

func (l *link) tokens() []string {
	tokens := make([]string, 0, len(l.Versions))
	for _, v := range l.Versions {
		tokens = append(tokens, v.String())
	}
	return tokens
}

func (l *link) tls() *tls.Config {
	host := l.url.Hostname()
	return &tls.Config{ServerName: host, InsecureSkipVerify: l.Insecure, MinVersion: tls.VersionTLS12} //nolint:gosec // asked for by the user, for development
}

// pinned is tls with the check of CertificateHashes, which package quic has of its own.
func (l *link) pinned() *tls.Config {
	cfg := l.tls()
	if len(l.CertificateHashes) == 0 {
		return cfg
	}
	cfg.InsecureSkipVerify = true // the hash is the check
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		leaf := state.PeerCertificates[0]
		if hash := sha256.Sum256(leaf.Raw); !slices.Contains(l.CertificateHashes, hash) {
			return fmt.Errorf("the server's certificate has the SHA-256 hash %x, which is none of those given", hash)
		}
		if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
			return fmt.Errorf("the server's certificate is valid from %v to %v", leaf.NotBefore, leaf.NotAfter)
		}
		return nil
	}
	return cfg
}

// requestPath is what SETUP says on a transport without a request URI.
func (l *link) requestPath(conn transport.Conn) string {
	if conn.Info().HasURI {
		return ""
	}
	return rootOf(l.url)
}
