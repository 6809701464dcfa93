package qmux

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/coder/websocket"

	"github.com/moqrelay/operator/relay/transport"
)

// IsUpgrade says whether a request asks for WebSocket.
func IsUpgrade(r *http.Request) bool {
	return hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

func hasToken(h http.Header, key, token string) bool {
	for _, line := range h.Values(key) {
		for entry := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(entry), token) {
				return true
			}
		}
	}
	return false
}

// Accept answers an upgrade request and returns the connection, which lives on
// when the handler returns. It has answered the request when it fails: 426 for a
// request that is no upgrade, 403 for an origin that is not allowed, 400 when
// nothing that we speak was offered. Whether the client may come at all is to be
// decided before. A listener that wraps its sockets should give them a method
// NetConn() net.Conn, as TLS does, so that the kernel's buffer can be bounded.
func Accept(w http.ResponseWriter, r *http.Request, cfg *Config) (transport.Conn, error) {
	s, refusal := cfg.admit(r)
	if refusal != nil {
		if refusal.Status == http.StatusUpgradeRequired {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
		}
		http.Error(w, refusal.Text, refusal.Status)
		return nil, fmt.Errorf("qmux: accept: %w", refusal)
	}
	ca := &wsCarrier{}
	tap := &hijackTap{ResponseWriter: w}
	ws, err := websocket.Accept(tap, r, &websocket.AcceptOptions{
		Subprotocols:       []string{s.Subprotocol},
		InsecureSkipVerify: true, // the origin was checked
		OnPingReceived:     ca.pingReceived,
		OnPongReceived:     ca.pongReceived,
	})
	if err != nil {
		return nil, fmt.Errorf("qmux: accept: %w", err)
	}
	ca.use(context.WithoutCancel(r.Context()), ws, tap.conn, rawConn(tap.conn))
	c := newConn(ca, s.Draft, cfg.params(s.Draft), transport.Info{
		Kind: transport.WebSocket, Protocol: s.Protocol, HasURI: true,
		Path: r.URL.RequestURI(), Origin: r.Header.Get("Origin"),
		Local: tap.conn.LocalAddr(), Remote: tap.conn.RemoteAddr(),
		Certificates: clientCertificates(r.TLS),
	})
	c.start()
	return c, nil
}

// clientCertificates are what TLS has verified; state is nil without TLS.
func clientCertificates(state *tls.ConnectionState) []*x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates
}

// A RefusedError is an upgrade request that was answered with an HTTP status.
type RefusedError struct {
	// Status is the HTTP status code.
	Status int
	// Text is the answer's body, cut to 1,024 bytes; from a peer, so quote it.
	Text string
}

// Error names the status and quotes the text.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused with status %d: %q", e.Status, strings.TrimSpace(e.Text))
}

// admit selects, or says why not.
func (c *Config) admit(r *http.Request) (Selection, *RefusedError) {
	if !IsUpgrade(r) {
		return Selection{}, &RefusedError{http.StatusUpgradeRequired, "this path speaks WebSocket only"}
	}
	if origin := r.Header.Get("Origin"); !c.allows(origin) {
		return Selection{}, &RefusedError{http.StatusForbidden, fmt.Sprintf("origin %.200q is not allowed", origin)}
	}
	s, ok := Select(r.Header.Values("Sec-WebSocket-Protocol"), c.Protocols, c.drafts())
	if !ok {
		return s, &RefusedError{http.StatusBadRequest, "no WebSocket subprotocol was offered that is spoken here: " + c.spoken()}
	}
	return s, nil
}

func (c *Config) allows(origin string) bool {
	return origin == "" ||
		slices.ContainsFunc(c.AllowedOrigins, func(allowed string) bool {
			return allowed == "*" || strings.EqualFold(allowed, origin)
		})
}

func (c *Config) spoken() string {
	var names []string
	for _, s := range candidates(c.Protocols, c.drafts()) {
		names = append(names, s.Subprotocol)
	}
	return strings.Join(names, ", ")
}

// Dial connects to a ws, wss, http or https URL, offering each protocol with
// each draft, the preferred first. ctx bounds the handshake only. A server's
// refusal is a [*RefusedError]. Errors do not contain the URL's query, which may
// carry a token.
func Dial(ctx context.Context, rawURL string, cfg *Config) (transport.Conn, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("qmux: dial: not a URL")
	}
	c, err := dial(ctx, u, cfg)
	if err != nil {
		return nil, fmt.Errorf("qmux: dial %s://%s%s: %w", u.Scheme, u.Host, u.EscapedPath(), err)
	}
	c.start()
	return c, nil
}

func dial(ctx context.Context, u *url.URL, cfg *Config) (*conn, error) {
	offer := cfg.Offer
	if len(offer) == 0 {
		for _, s := range pairs(cfg.Protocols, cfg.drafts()) {
			offer = append(offer, s.Subprotocol)
		}
	}
	ca := &wsCarrier{client: true}
	tr := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.TLS}
	defer tr.CloseIdleConnections()
	tap := &roundTripTap{base: tr}
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { tap.conn = i.Conn }}
	ws, resp, err := websocket.Dial(httptrace.WithClientTrace(ctx, trace), u.String(), &websocket.DialOptions{
		HTTPClient:     &http.Client{Transport: tap, CheckRedirect: noRedirect},
		HTTPHeader:     cfg.Header,
		Subprotocols:   offer,
		OnPingReceived: ca.pingReceived,
		OnPongReceived: ca.pongReceived,
	})
	if err != nil {
		return nil, dialError(err, resp)
	}
	ca.use(context.WithoutCancel(ctx), ws, tap.body, rawConn(tap.conn))
	s, err := parseSubprotocol(ws.Subprotocol())
	if err != nil {
		ca.close()
		return nil, err
	}
	return newConn(ca, s.Draft, cfg.params(s.Draft), transport.Info{
		Kind: transport.WebSocket, Protocol: s.Protocol, Client: true, HasURI: true,
		Path: u.RequestURI(), Local: tap.conn.LocalAddr(), Remote: tap.conn.RemoteAddr(),
	}), nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dialError takes the URL out of the error, and the server's answer into it.
func dialError(err error, resp *http.Response) error {
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols && resp.Body != nil {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return &RefusedError{resp.StatusCode, string(text)}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// hijackTap keeps the connection that the WebSocket library takes over.
type hijackTap struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack takes the connection from the server.
func (t *hijackTap) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	t.conn = conn
	return conn, rw, err
}

// roundTripTap keeps the two-way body that the WebSocket library takes over.
type roundTripTap struct {
	base http.RoundTripper
	body io.Writer
	conn net.Conn
}

func (t *roundTripTap) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err == nil {
		t.body, _ = resp.Body.(io.Writer)
	}
	return resp, err
}

// wsCarrier carries records as binary messages. The library does the handshake
// and reads; the writing is ours, for three reasons. A record goes out in one
// write without another copy. Pings and pongs go through the one writer, where
// the library would break a connection on which either waits for five seconds
// behind data. And nothing is written with a deadline that closes the socket.
type wsCarrier struct {
	ctx    context.Context // never done: the carrier ends by close
	ws     *websocket.Conn
	out    io.Writer       // the socket; each Write is one whole WebSocket frame
	socket syscall.RawConn // nil where it is not known
	client bool            // what a client sends is masked

	message io.Reader // the one that next returned, perhaps not read to its end
	scratch [512]byte

	heard func()
	asked func([]byte)
}

// use completes a carrier whose handlers the library already has.
func (w *wsCarrier) use(ctx context.Context, ws *websocket.Conn, out io.Writer, socket syscall.RawConn) {
	w.ctx, w.ws, w.out, w.socket = ctx, ws, out, socket
	limitUnsent(socket)
	// We bound messages ourselves, so that a long one can be answered.
	ws.SetReadLimit(-1)
}

func (w *wsCarrier) watch(heard func(), asked func([]byte)) { w.heard, w.asked = heard, asked }

func (w *wsCarrier) pingReceived(_ context.Context, payload []byte) bool {
	w.asked(payload)
	return false // the pong is ours to send
}

func (w *wsCarrier) pongReceived(context.Context, []byte) { w.heard() }

func (w *wsCarrier) next() (io.Reader, error) {
	for w.message != nil {
		if _, err := w.message.Read(w.scratch[:]); err != nil {
			w.message = nil // an error other than the end comes again below
		}
	}
	kind, r, err := w.ws.Reader(w.ctx)
	if err != nil {
		return nil, err
	}
	w.message = r
	if kind != websocket.MessageBinary {
		return nil, violation(codeProtocolViolation, "a WebSocket text message")
	}
	return r, nil
}

// Opcodes of RFC 6455, section 5.2, with the bit that says the frame is whole.
const (
	wsBinary = 0x82
	wsClose  = 0x88
	wsPing   = 0x89
	wsPong   = 0x8a
)

func (w *wsCarrier) stats() transport.Stats { return tcpStats(w.socket) }

func (w *wsCarrier) send(b []byte) error { return w.write(wsBinary, b) }
func (w *wsCarrier) ping() error         { return w.write(wsPing, make([]byte, room)) }

func (w *wsCarrier) pong(payload []byte) error {
	return w.write(wsPong, append(make([]byte, room), payload...))
}

// shut sends a bare Close (1000): codes travel in QMux's own frame.
func (w *wsCarrier) shut() {
	_ = w.write(wsClose, append(make([]byte, room), 1000>>8, 1000&0xff))
}

func (w *wsCarrier) close() { _ = w.ws.CloseNow() }

// write sends b[room:] as one WebSocket frame, its head in front of it. A frame
// has less than 2^16 bytes.
func (w *wsCarrier) write(opcode byte, b []byte) error {
	body := b[room:]
	var head [8]byte
	h := append(head[:0], opcode)
	if n := len(body); n < 126 {
		h = append(h, byte(n))
	} else {
		h = binary.BigEndian.AppendUint16(append(h, 126), uint16(n))
	}
	if w.client {
		h[1] |= 0x80
		var key [4]byte
		_, _ = rand.Read(key[:]) // never fails
		h = append(h, key[:]...)
		mask(body, key)
	}
	start := room - copy(b[room-len(h):], h) // room holds the longest head
	_, err := w.out.Write(b[start:])
	return err
}

// mask is RFC 6455, section 5.3, eight bytes at a time.
func mask(b []byte, key [4]byte) {
	k := uint64(binary.LittleEndian.Uint32(key[:]))
	k |= k << 32
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^k)
	}
	for i := range b {
		b[i] ^= key[i&3]
	}
}
