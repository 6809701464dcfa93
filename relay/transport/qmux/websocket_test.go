package qmux

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/transporttest"
)

func TestWebSocketKeepsTheTransportContractOnEveryDraft(t *testing.T) {
	for _, d := range Drafts() {
		t.Run(d.String(), func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T, o transporttest.Options) transporttest.Pair {
				return newPair(t, &Config{
					Protocols: []string{"moq-lite-05"}, Drafts: []Draft{d},
					Windows: o.Windows, MaxIncomingStreams: o.MaxStreams,
				})
			})
		})
	}
}

// newPair connects a client to a server over loopback TCP. Both ends use cfg.
func newPair(t *testing.T, cfg *Config) transporttest.Pair {
	t.Helper()
	accepted := make(chan transport.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := Accept(w, r, cfg); err == nil {
			accepted <- c
		}
	}))
	t.Cleanup(srv.Close)
	client, err := Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http")+"/room?jwt=x", cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := <-accepted
	t.Cleanup(func() {
		for _, c := range []transport.Conn{client, server} {
			c.Close(0, "end of test")
			<-c.(*conn).readDone
		}
	})
	lose := func() { _ = client.(*conn).carrier.(*wsCarrier).out.(io.Closer).Close() }
	return transporttest.Pair{Client: client, Server: server, Lose: lose}
}

// request is an upgrade request with further header lines.
func request(t *testing.T, url string, lines ...string) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append([]string{
		"Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
	}, lines...) {
		name, value, _ := strings.Cut(l, ": ")
		if value == "-" {
			r.Header.Del(name)
			continue
		}
		r.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, "", resp.Header
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// serve accepts with cfg and sends what was accepted to the channel.
func serve(t *testing.T, cfg *Config) (url string, accepted chan transport.Conn) {
	t.Helper()
	accepted = make(chan transport.Conn, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := Accept(w, r, cfg); err == nil {
			accepted <- c
		}
	}))
	t.Cleanup(func() {
		srv.Close()
		for len(accepted) > 0 {
			(<-accepted).Close(0, "end of test")
		}
	})
	return srv.URL, accepted
}

func TestAcceptRefusesBeforeTheUpgrade(t *testing.T) {
	const pair = "Sec-WebSocket-Protocol: qmux-02.moq-lite-05"
	cfg := &Config{Protocols: []string{"moq-lite-05"}, AllowedOrigins: []string{"https://player.example"}}
	url, _ := serve(t, cfg)
	for _, row := range []struct {
		name   string
		lines  []string
		status int
		want   string // in the body, or the selected subprotocol
	}{
		{"a pair", []string{pair}, 101, "qmux-02.moq-lite-05"},
		{"two header lines", []string{"Sec-WebSocket-Protocol: chat,", "Sec-WebSocket-Protocol:  qmux-01.moq-lite-05"}, 101, "qmux-01.moq-lite-05"},
		{"a plain token", []string{"Sec-WebSocket-Protocol: moq-lite-05"}, 101, "moq-lite-05"},
		{"an allowed origin", []string{pair, "Origin: https://Player.example"}, 101, "qmux-02.moq-lite-05"},
		{"another origin", []string{pair, "Origin: https://evil.example"}, 403, `origin "https://evil.example" is not allowed`},
		{"an opaque origin", []string{pair, "Origin: null"}, 403, `origin "null" is not allowed`},
		{"no subprotocol", nil, 400, "qmux-02.moq-lite-05, qmux-01.moq-lite-05, qmux-00.moq-lite-05, moq-lite-05"},
		{"bare versions", []string{"Sec-WebSocket-Protocol: qmux-02, webtransport"}, 400, "qmux-02.moq-lite-05"},
		{"no upgrade", []string{pair, "Upgrade: -"}, 426, "WebSocket"},
		{"an old WebSocket", []string{pair, "Sec-WebSocket-Version: -", "Sec-WebSocket-Version: 8"}, 400, "version"},
	} {
		status, body, header := request(t, url, row.lines...)
		got := body
		if status == http.StatusSwitchingProtocols {
			got = header.Get("Sec-WebSocket-Protocol")
		}
		if status != row.status || !strings.Contains(got, row.want) {
			t.Errorf("%s: status %d, %q; want %d, %q", row.name, status, got, row.status, row.want)
		}
	}
}

func TestAnEmptyListOfOriginsLetsNoPageInAndEveryProgram(t *testing.T) {
	const pair = "Sec-WebSocket-Protocol: qmux-02.moq-lite-05"
	url, _ := serve(t, &Config{Protocols: []string{"moq-lite-05"}})
	if status, _, _ := request(t, url, pair, "Origin: https://player.example"); status != 403 {
		t.Errorf("a page is answered %d, want 403", status)
	}
	if status, _, _ := request(t, url, pair); status != 101 {
		t.Errorf("a program is answered %d, want 101", status)
	}
}

func TestDialSaysWhyItWasRefusedAndKeepsTheTokenToItself(t *testing.T) {
	url, _ := serve(t, &Config{Protocols: []string{"moq-lite-05"}})
	_, err := Dial(t.Context(), url+"/room?jwt=secret", &Config{Protocols: []string{"moq-lite-04"}})
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Status != 400 || !strings.Contains(refused.Text, "qmux-02.moq-lite-05") {
		t.Errorf("the refusal is %v, want status 400 and what is spoken", err)
	}
	for _, to := range []string{url + "/room?jwt=secret", "ws://127.0.0.1:1/room?jwt=secret", "ftp://x/?jwt=secret", ":?jwt=secret"} {
		_, err := Dial(t.Context(), to, &Config{Protocols: []string{"moq-lite-04"}})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("dial %s: %v", to, err)
		}
	}
}

func TestInfoSaysHowTheConnectionCameAbout(t *testing.T) {
	url, accepted := serve(t, &Config{Protocols: []string{"moq-lite-06", "moq-lite-05"}, AllowedOrigins: []string{"*"}})
	client, err := Dial(t.Context(), url+"/a%20room?jwt=x", &Config{
		Protocols: []string{"unused"}, Offer: []string{"qmux-01.moq-lite-05", "qmux-00.moq-lite-05"},
		Header: http.Header{"Origin": {"https://player.example"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(0, "")
	server := <-accepted
	defer server.Close(0, "")
	c, s := client.Info(), server.Info()
	want := transport.Info{
		Kind: transport.WebSocket, Protocol: "moq-lite-05", HasURI: true, Path: "/a%20room?jwt=x",
		Origin: "https://player.example", Local: c.Remote, Remote: c.Local,
	}
	if s.Local.String() != want.Local.String() || s.Remote.String() != want.Remote.String() {
		t.Errorf("addresses are %v and %v at the server, %v and %v at the client", s.Local, s.Remote, c.Local, c.Remote)
	}
	s.Local, s.Remote = want.Local, want.Remote
	if !reflect.DeepEqual(s, want) {
		t.Errorf("the server's is %+v, want %+v", s, want)
	}
	if server.(*conn).draft != Draft01 || client.(*conn).draft != Draft01 {
		t.Errorf("drafts are %v and %v, want 01", server.(*conn).draft, client.(*conn).draft)
	}
}

// rawClient speaks WebSocket to one of our servers, and QMux by hand.
func rawClient(t *testing.T, d Draft) (*websocket.Conn, transport.Conn) {
	t.Helper()
	url, accepted := serve(t, &Config{Protocols: []string{"moq-lite-05"}})
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{Subprotocols: []string{d.String() + ".moq-lite-05"}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	server := <-accepted
	t.Cleanup(func() {
		server.Close(0, "end of test")
		<-server.(*conn).readDone
	})
	if err := ws.Write(t.Context(), websocket.MessageBinary, appendParams(nil, released(d))); err != nil {
		t.Fatal(err)
	}
	return ws, server
}

// wantClosed reads until the server's close frame and its WebSocket Close after that.
func wantClosed(t *testing.T, ws *websocket.Conn, code uint64) {
	t.Helper()
	for {
		_, b, err := ws.Read(t.Context())
		if err != nil {
			t.Fatalf("no close frame came: %v", err)
		}
		f, _, err := parseFrame(b, Draft02)
		if err != nil {
			t.Fatal(err)
		}
		if f.typ != frameTransportClose {
			continue
		}
		if f.code != code {
			t.Errorf("the close frame has code %d, want %d", f.code, code)
		}
		break
	}
	if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after the close frame: %v, want a WebSocket Close 1000", err)
	}
}

func TestATextMessageEndsTheSession(t *testing.T) {
	for _, d := range Drafts() {
		ws, server := rawClient(t, d)
		if err := ws.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		wantClosed(t, ws, codeProtocolViolation)
		<-server.Done()
		wantViolation(t, "text message", server.Err(), codeProtocolViolation)
	}
}

func TestAMessageTooLargeEndsTheSessionAndIsNotHeld(t *testing.T) {
	for _, d := range Drafts() {
		ws, server := rawClient(t, d)
		before := allocated()
		w, err := ws.Writer(t.Context(), websocket.MessageBinary)
		if err != nil {
			t.Fatal(err)
		}
		for range 64 { // a message of 4 MiB in fragments
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				break // the server has closed
			}
		}
		<-server.Done()
		wantViolation(t, "large message", server.Err(), codeFrameEncoding)
		if grown := allocated() - before; grown > 1<<20 {
			t.Errorf("%v: the heap grew by %d bytes for a message that is refused", d, grown)
		}
	}
}

func TestLengthBombsTakeNoMemoryAndHarmNobodyElse(t *testing.T) {
	huge := []string{
		"0e0000bfffffff",                       // STREAM of 1 GiB
		"0effffffffffffffff00ffffffffffffffff", // the largest STREAM
		"1d00bfffffff",                         // reason of 1 GiB
		"1c0000ffffffffffffffff",               // the largest reason
		"31bfffffff",                           // datagram of 1 GiB
		"ff5153300d0a0d0abfffffff",             // parameters of 1 GiB
	}
	bystander, other := rawClient(t, Draft02)
	before := allocated()
	for _, b := range huge {
		ws, server := rawClient(t, Draft02)
		if err := ws.Write(t.Context(), websocket.MessageBinary, unhex(b)); err != nil {
			t.Fatal(err)
		}
		wantClosed(t, ws, codeFrameEncoding)
		<-server.Done()
	}
	if grown := allocated() - before; grown > 2<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if err := bystander.Write(t.Context(), websocket.MessageBinary, unhex("0f020001aa")); err != nil {
		t.Fatal(err)
	}
	s, err := other.AcceptReceiveStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); err != nil || string(b) != "\xaa" {
		t.Errorf("the bystander's stream gives %x, %v", b, err)
	}
}

func TestAWebSocketCloseWithoutACloseFrameIsALoss(t *testing.T) {
	ws, server := rawClient(t, Draft02)
	go func() { _ = ws.Close(websocket.StatusNormalClosure, "") }()
	<-server.Done()
	if _, ok := errors.AsType[*transport.CloseError](server.Err()); ok {
		t.Errorf("the end is %v, want a lost carrier", server.Err())
	}
}

func TestAPingOfThePeerIsAnswered(t *testing.T) {
	ws, server := rawClient(t, Draft00)
	read := make(chan error, 1)
	go func() { // the pong is seen by a reader only
		var err error
		for err == nil {
			_, _, err = ws.Read(t.Context())
		}
		read <- err
	}()
	if err := ws.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	server.Close(0, "")
	<-read
}

// A record is masked and unmasked by the library's rules, whatever its size.
func TestMaskingIsItsOwnInverse(t *testing.T) {
	key := [4]byte{1, 2, 3, 4}
	for n := range 40 {
		b := make([]byte, n)
		mask(b, key)
		for i, c := range b {
			if c != key[i%4] {
				t.Fatalf("byte %d of %d zeros is masked as %d, want %d", i, n, c, key[i%4])
			}
		}
	}
}

// What a viewer costs per frame: nothing is allocated for a record.
func TestSendingAFrameAllocatesNothing(t *testing.T) {
	c := newConn(newMemCarrier(), Draft02, released(Draft02), transport.Info{Client: true})
	c.startTimer(time.Now())
	feed(c, appendParams(nil, params{
		maxData: 1 << 40, streamDataUni: 1 << 40, streamsUni: 1, recordSize: defaultRecordSize,
	}))
	s, err := c.openLocked(uni)
	if s == nil {
		t.Fatal(err)
	}
	payload := make([]byte, 8<<10)
	buf := new(buffer)
	c.next(buf[:room]) // our parameters
	got := testing.AllocsPerRun(1000, func() {
		c.mu.Lock()
		s.pending = payload
		s.readyLocked()
		c.mu.Unlock()
		if b, what := c.next(buf[:room]); what != sendRecord || len(b) < len(payload) {
			t.Fatalf("%d bytes were taken", len(b))
		}
	})
	if got > 0 {
		t.Errorf("%.1f allocations per frame, want none", got)
	}
	c.lost(io.EOF)
}

func TestTheContextOfDialBoundsTheHandshakeOnly(t *testing.T) {
	url, accepted := serve(t, &Config{Protocols: []string{"moq-lite-05"}})
	ctx, cancel := context.WithCancel(t.Context())
	client, err := Dial(ctx, url, &Config{Protocols: []string{"moq-lite-05"}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(0, "")
	cancel()
	s, err := client.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	got, err := (<-accepted).AcceptStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(got); err != nil || string(b) != "still here" {
		t.Errorf("read %q, %v", b, err)
	}
}
