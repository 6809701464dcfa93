package admin

import (
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/status"
)

// fake is a relay whose state the test sets.
type fake struct {
	doc   status.Document
	stats Stats
}

func (f *fake) Status() status.Document { return f.doc }
func (f *fake) Stats() Stats            { return f.stats }

// newHandler is a handler on a fake relay that is ready.
func newHandler(change func(f *fake, o *Options)) http.Handler {
	f := &fake{doc: status.Document{Schema: 1, Version: "v0.1.0", Ready: true}}
	o := Options{Status: f, Stats: f}
	if change != nil {
		change(f, &o)
	}
	return Handler(o)
}

// ask sends a request as from that peer and returns the answer's code and body.
func ask(h http.Handler, method, target, peer string, header ...string) (code int, body string) {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr, r.Host = peer, "127.0.0.1:9090"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	data, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(data)
}

// wantAnswer fails the test unless the answer is that.
func wantAnswer(t *testing.T, h http.Handler, method, target string, code int, body string) {
	t.Helper()
	gotCode, gotBody := ask(h, method, target, "192.0.2.1:5000")
	if gotCode != code || gotBody != body {
		t.Errorf("%s %s: %d %q, want %d %q", method, target, gotCode, gotBody, code, body)
	}
}

func TestReadinessOnceGreenNeverTurnsRed(t *testing.T) {
	f := &fake{}
	h := Handler(Options{Status: f, Stats: f})
	wantAnswer(t, h, "GET", "/readyz", 503, "not ready: sockets or certificate missing\n")
	f.doc.Ready = true
	wantAnswer(t, h, "GET", "/readyz", 200, "ready\n")
	f.doc.Ready = false
	wantAnswer(t, h, "GET", "/readyz", 200, "ready\n")
	f.doc.Draining = true
	wantAnswer(t, h, "GET", "/readyz", 200, "draining\n")
}

func TestADrainingRelayThatWasNeverReadyIsNotReady(t *testing.T) {
	f := &fake{doc: status.Document{Draining: true}}
	wantAnswer(t, Handler(Options{Status: f, Stats: f}), "GET", "/readyz", 503, "not ready: sockets or certificate missing\n")
}

func TestLivenessTellsWhatIsStuck(t *testing.T) {
	var stuck error
	h := newHandler(func(_ *fake, o *Options) { o.Alive = func() error { return stuck } })
	wantAnswer(t, h, "GET", "/livez", 200, "ok\n")
	stuck = errors.New("socket reader: no progress for 61 s")
	wantAnswer(t, h, "GET", "/livez", 503, "socket reader: no progress for 61 s\n")
	wantAnswer(t, newHandler(nil), "GET", "/livez", 200, "ok\n")
}

func TestTheStatusDocumentIsShownToEveryone(t *testing.T) {
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	h := newHandler(func(f *fake, _ *Options) {
		f.doc.Started, f.doc.Sessions = start, 3
		f.doc.Config = status.Config{Hash: "aa", LiveHash: "bb", NeedsRestart: []string{"windows.stream"}}
		f.doc.Certificates = []status.Certificate{{Name: "web", SHA256: "cc", NotBefore: start, NotAfter: start.Add(time.Hour)}}
		f.doc.SocketBuffers = &status.SocketBuffers{Receive: status.Buffer{Requested: 4, Granted: 2}, Drops: 7}
		f.doc.Cache = status.Cache{Bytes: 10, Capacity: 20}
	})
	wantAnswer(t, h, "GET", "/statusz", 200, `{"v":1,"version":"v0.1.0","started":"2026-06-01T12:00:00Z","ready":true,"draining":false,"sessions":3,`+
		`"config":{"hash":"aa","liveHash":"bb","needsRestart":["windows.stream"]},`+
		`"certificates":[{"name":"web","sha256":"cc","notBefore":"2026-06-01T12:00:00Z","notAfter":"2026-06-01T13:00:00Z"}],`+
		`"socketBuffers":{"receive":{"requested":4,"granted":2},"send":{"requested":0,"granted":0},"drops":7},`+
		`"cache":{"bytes":10,"capacity":20},"misrouted":0}`+"\n")
}

func TestDrainSnapshotsAndProfilesAnswerLoopbackPeersAlone(t *testing.T) {
	drains := 0
	h := newHandler(func(_ *fake, o *Options) {
		o.Drain = func() { drains++ }
		o.Snapshots = map[string]func() iter.Seq[any]{"sessions": func() iter.Seq[any] { return func(func(any) bool) {} }}
		o.Profiles = true
	})
	tests := []struct {
		name, peer string
		header     []string
		let        bool
	}{
		{"loopback", "127.0.0.1:5000", nil, true},
		{"all of 127/8", "127.9.9.9:5000", nil, true},
		{"IPv6 loopback", "[::1]:5000", nil, true},
		{"mapped loopback", "[::ffff:127.0.0.1]:5000", nil, true},
		{"localhost by name", "127.0.0.1:5000", []string{"Host", "localhost:9090"}, true},
		{"another machine", "192.0.2.1:5000", nil, false},
		{"IPv6", "[2001:db8::1]:5000", nil, false},
		{"no address", "@", nil, false},
		{"a name that points here", "127.0.0.1:5000", []string{"Host", "evil.example:9090"}, false},
	}
	for _, tt := range tests {
		for _, request := range []struct {
			method, target string
			good           int
		}{{"POST", "/drain", 202}, {"GET", "/sessions", 200}, {"GET", "/debug/pprof/", 200}, {"GET", "/debug/pprof/goroutine", 200}} {
			want := 403
			if tt.let {
				want = request.good
			}
			if code, body := ask(h, request.method, request.target, tt.peer, tt.header...); code != want {
				t.Errorf("%s: %s %s: %d %q, want %d", tt.name, request.method, request.target, code, body, want)
			}
		}
	}
	if drains != 5 {
		t.Errorf("drained %d times, want 5", drains)
	}
}

func TestAPageOfAnotherOriginCannotDrain(t *testing.T) {
	h := newHandler(func(_ *fake, o *Options) { o.Drain = func() { t.Error("drained") } })
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		if code, _ := ask(h, "POST", "/drain", "127.0.0.1:5000", header...); code != 403 {
			t.Errorf("with %v: %d, want 403", header, code)
		}
	}
}

func TestWhatIsNotOfferedIsNotThere(t *testing.T) {
	h := newHandler(nil)
	for _, target := range []string{"/drain", "/sessions", "/debug/pprof/", "/", "/health"} {
		if code, _ := ask(h, "GET", target, "127.0.0.1:5000"); code != 404 {
			t.Errorf("GET %s: %d, want 404", target, code)
		}
	}
	if code, _ := ask(h, "POST", "/livez", "127.0.0.1:5000"); code != 405 {
		t.Errorf("POST /livez: %d, want 405", code)
	}
}

func TestASnapshotIsAnArrayWithOneItemALine(t *testing.T) {
	tests := []struct {
		name  string
		items []any
		want  string
	}{
		{"empty", nil, "[\n]\n"},
		{"one", []any{status.Route{Path: "a", Session: 1, Hops: []uint64{7}}}, "[\n" + `{"path":"a","session":1,"hops":[7]}` + "\n]\n"},
		{"two", []any{1, 2}, "[\n1,\n2\n]\n"},
		{"one that has no JSON form", []any{1, make(chan int), 2}, "[\n1,\n2\n]\n"},
	}
	for _, tt := range tests {
		h := newHandler(func(_ *fake, o *Options) {
			o.Snapshots = map[string]func() iter.Seq[any]{"routes": func() iter.Seq[any] {
				return func(yield func(any) bool) {
					for _, item := range tt.items {
						if !yield(item) {
							return
						}
					}
				}
			}}
		})
		if code, body := ask(h, "GET", "/routes", "127.0.0.1:5000"); code != 200 || body != tt.want {
			t.Errorf("%s: %d %q, want %q", tt.name, code, body, tt.want)
		}
	}
}

// metrics returns the relay's own lines of /metrics without comments.
func metrics(t *testing.T, h http.Handler) []string {
	t.Helper()
	code, body := ask(h, "GET", "/metrics", "192.0.2.1:5000")
	if code != 200 {
		t.Fatalf("GET /metrics: %d %s", code, body)
	}
	var lines []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "moq_relay_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
