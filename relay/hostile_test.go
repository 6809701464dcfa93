package relay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// The check before a handshake cannot see the others that are under way.
func TestManySessionsAtOnceStayWithinTheLimit(t *testing.T) {
	const most, at = 3, 40
	server := newServer(t, func(c *config.Config) { c.Limits.Sessions = most })
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	pinned := quic.DialConfig{Protocols: []string{"moq-lite-06"}, CertificateHashes: [][sha256.Size]byte{server.hash}}
	var mu sync.Mutex
	var conns []transport.Conn
	failed := 0
	var tasks sync.WaitGroup
	for i := range at {
		tasks.Go(func() {
			var conn transport.Conn
			var err error
			switch i % 3 {
			case 0:
				conn, err = quic.Dial(ctx, server.addresses.UDP, pinned)
			case 1:
				conn, err = quic.DialWebTransport(ctx, "https://"+server.addresses.UDP+"/", pinned)
			default:
				conn, err = qmux.Dial(ctx, "ws://"+server.addresses.TCP+"/", &qmux.Config{Protocols: []string{"moq-lite-06"}})
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
			} else {
				conns = append(conns, conn)
			}
		})
	}
	tasks.Wait()
	await(ctx, t, "all but three to be gone", func() bool {
		alive := 0
		for _, conn := range conns {
			if conn.Err() == nil {
				alive++
			}
		}
		return alive == most && server.Status().Sessions == most
	})
	opened := sumTraffic(server, func(t admin.Traffic) int64 { return t.Opened })
	if refused := server.Stats().Refused["overload"]; opened != most || refused < at-most { // an Initial that comes again is refused again
		t.Errorf("%d sessions were opened and %d refused of %d, want %d and at least %d", opened, refused, at, most, at-most)
	}
	for _, conn := range conns {
		conn.Close(0, "")
	}
}

// oneConn is a listener of one connection.
type oneConn chan net.Conn

func (l oneConn) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestAClientThatKeepsARequestOpenIsClosedInTime(t *testing.T) {
	for _, row := range []struct{ name, text, answer string }{
		{"silent", "", ""},
		{"half a line", "GET /hea", ""},
		{"headers without end", "GET /health HTTP/1.1\r\nHost: a\r\nA: b\r\n", ""},
		{"a body that does not come", "POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", "404"},
		{"a body of chunks that does not end", "PUT /room HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "404"},
		{"an answer and then nothing", "GET /health HTTP/1.1\r\nHost: a\r\n\r\n", "200"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := config.Development()
			loaded, err := config.Load(config.Source{Base: &cfg})
			if err != nil {
				t.Fatal(err)
			}
			s, err := New(Options{Loaded: loaded})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				listener := make(oneConn, 1)
				listener <- server
				web := s.httpServer(t.Context())
				var task sync.WaitGroup
				task.Go(func() { _ = web.Serve(listener) })
				task.Go(func() { _, _ = io.WriteString(client, row.text) })
				began := time.Now()
				answer, _ := io.ReadAll(client) // until the server closes
				if lasted := time.Since(began); lasted > time.Minute {
					t.Errorf("the connection was held for %v, want at most a minute", lasted)
				}
				if row.answer != "" && !strings.HasPrefix(string(answer), "HTTP/1.1 "+row.answer) {
					t.Errorf("the answer is %.60q, want %s", answer, row.answer)
				}
				_ = client.Close()
				close(listener)
				task.Wait()
			})
		})
	}
}

func TestOddRequestsAreAnsweredWithAnErrorAndNothingElse(t *testing.T) {
	server := newServer(t, nil)
	for _, row := range []struct{ text, want string }{
		{"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", "307"}, // to the clean path, which is no route
		{"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", "404"},
		{"GET /etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", "404"},
		{"GET /health%00 HTTP/1.1\r\nHost: a\r\n\r\n", "404"},
		{"DELETE /health HTTP/1.1\r\nHost: a\r\n\r\n", "404"},
		{"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", "404"},
		{"CONNECT evil:443 HTTP/1.1\r\nHost: a\r\n\r\n", "404"},
		{"GET http://evil/metrics HTTP/1.1\r\nHost: evil\r\n\r\n", "404"},
		{"GET /debug/pprof/ HTTP/1.1\r\nHost: a\r\n\r\n", "404"},
		{"GET / HTTP/1.1\r\n\r\n", "400"},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		{"GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("b", 100<<10) + "\r\n\r\n", "431"},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
		{"GET /room HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "4"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "4"},
	} {
		conn, err := net.Dial("tcp", server.addresses.TCP)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, row.text) }()
		_ = conn.SetReadDeadline(time.Now().Add(failsafe))
		line := make([]byte, 12)
		if _, err := io.ReadFull(conn, line); err != nil || !strings.HasPrefix(string(line[9:]), row.want) {
			t.Errorf("%.70q is answered %q, %v, want %s", row.text, line, err, row.want)
		}
		_ = conn.Close()
	}
	if n := server.Status().Sessions; n != 0 {
		t.Errorf("%d sessions came of it", n)
	}
}

// Peers that come, ask for something and vanish leave nothing behind.
func TestSessionsThatVanishLeaveNothing(t *testing.T) {
	server := newServer(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	churn := func(n int) {
		var tasks sync.WaitGroup
		for i := range n {
			kind := []transport.Kind{transport.QUIC, transport.WebTransport, transport.WebSocket}[i%3]
			conn := server.dial(t, kind, wire.Lite06)
			tasks.Go(func() { visit(ctx, conn, i) })
		}
		tasks.Wait()
		await(ctx, t, "the sessions to end", func() bool { return server.Status().Sessions == 0 })
	}
	churn(3) // what is made once is there then
	runtime.GC()
	before := runtime.NumGoroutine()
	churn(90)
	await(ctx, t, fmt.Sprintf("%d goroutines to be left", before), func() bool { return runtime.NumGoroutine() <= before })
	stats := server.Origin().Stats()
	for name, n := range map[string]int64{
		"routes": stats.Routes.Load(), "broadcasts": stats.Broadcasts.Load(), "subscriptions": stats.Subscriptions.Load(),
		"groups": stats.CachedGroups.Load(), "paused": stats.Paused.Load(), "tracks": stats.Tracks.Load(),
	} {
		if n != 0 {
			t.Errorf("%d %s are left", n, name)
		}
	}
	if held, _ := server.Origin().CacheBytes(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	opened := sumTraffic(server, func(t admin.Traffic) int64 { return t.Opened })
	closed := opened - sumTraffic(server, func(t admin.Traffic) int64 { return t.Sessions })
	if opened != closed || opened == 0 || opened > 93 { // some are gone before they are seen
		t.Errorf("%d sessions were opened and %d closed of 93", opened, closed)
	}
}

// visit speaks a little, in one of several ways, and is gone.
func visit(ctx context.Context, conn transport.Conn, way int) {
	defer conn.Close(uint64(way%2), "")
	origin := model.NewOrigin(model.Config{})
	sessionCtx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		defer close(ended)
		_ = serveClient(sessionCtx, conn, origin)
	}()
	switch way % 4 {
	case 0: // announces
		origin.Announce(model.Route{Path: model.Path(fmt.Sprint("room/", way)), Source: nobody{}})
	case 1: // asks for what nobody has
		if sub, err := origin.Subscribe("room", "video", model.Peer{}, model.Options{}); err == nil {
			_, _ = sub.Info(ctx)
			sub.Close()
		}
	case 2: // opens a stream and says half a word
		if st, err := conn.OpenStream(ctx); err == nil {
			_, _ = st.Write([]byte{2, 0x40})
		}
	default: // opens group streams of no subscription
		for range 8 {
			if st, err := conn.OpenSendStream(ctx); err == nil {
				_, _ = st.Write([]byte{0, 2, 0x21, 1})
			}
		}
	}
}

type nobody struct{}

func (nobody) Pull(p *model.Producer) { p.Fail(model.ErrNotFound) }

func serveClient(ctx context.Context, conn transport.Conn, origin *model.Origin) error {
	return lite.Serve(ctx, conn, wire.Lite06, lite.Config{Origin: origin})
}
