package relay

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
)

// desk is the client port of a relay inside a synctest bubble.
type desk struct {
	t        *testing.T
	server   *Server
	listener oneConn
	tasks    sync.WaitGroup
}

// inBubble runs a test with a relay whose client port answers over net.Pipe.
func inBubble(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Helper()
	cfg := config.Development()
	loaded, err := config.Load(config.Source{Base: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Loaded: loaded})
		if err != nil {
			t.Fatal(err)
		}
		d := &desk{t: t, server: s, listener: make(oneConn)}
		web := s.httpServer(t.Context())
		d.tasks.Go(func() { _ = web.Serve(d.listener) })
		test(t, d)
		close(d.listener)
		d.tasks.Wait()
		_ = web.Close()
		<-time.After(10 * time.Second) // what the model does later
	})
}

// ask sends a request and returns the answer, its body unread.
func (d *desk) ask(target string) (*http.Response, net.Conn) {
	d.t.Helper()
	client, server := net.Pipe()
	d.listener <- server
	go func() {
		_, _ = io.WriteString(client, "GET "+target+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	}()
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		d.t.Fatalf("%s: %v", target, err)
	}
	return response, client
}

// want asks and wants that whole answer.
func (d *desk) want(target string, code int, body string) {
	d.t.Helper()
	response, client := d.ask(target)
	defer client.Close()
	got, err := io.ReadAll(response.Body)
	if response.StatusCode != code || err != nil || !strings.Contains(string(got), body) {
		d.t.Errorf("%s: %d %q, %v, want %d %q", target, response.StatusCode, got, err, code, body)
	}
	if origin := response.Header.Get("Access-Control-Allow-Origin"); origin != "*" {
		d.t.Errorf("%s lets pages of %q read it, want *", target, origin)
	}
}

// source answers every request for a track in its own way.
func source(pull func(p *model.Producer)) model.Source { return &funcSource{pull} }

// funcSource is a source; it can be compared.
type funcSource struct{ pull func(p *model.Producer) }

func (f *funcSource) Pull(p *model.Producer) { f.pull(p) }

// begin opens a group of a track that it accepts.
func begin(t *testing.T, p *model.Producer, sequence uint64, payloads ...string) *model.GroupWriter {
	t.Helper()
	w, err := p.Group(sequence, model.Window{})
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range payloads {
		if err := writeFrame(context.WithoutCancel(t.Context()), w, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func TestAFetchOverHTTPIsTheFramesOfOneGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		d.server.origin.Announce(model.Route{Path: "room/a b", Source: source(func(p *model.Producer) {
			p.Accept(model.Info{Timescale: 1000, MaxAge: time.Minute})
			for i, text := range []string{"zero", "one", "two"} {
				if err := begin(t, p, uint64(i), text, "", "+"+text).Finish(); err != nil {
					t.Error(err)
				}
			}
		})})
		sub, err := d.server.origin.Subscribe("room/a b", "video/hd", model.Peer{}, model.Options{}) // a viewer, so that all groups come
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		synctest.Wait()
		d.want("/fetch/room/a%20b/video%2Fhd?group=1", 200, "one+one")
		d.want("/fetch/room/a%20b/video%2Fhd?group=0", 200, "zero+zero")
		d.want("/fetch/room/a%20b/video%2Fhd?group=latest", 200, "two+two")
		d.want("/fetch/room/a%20b/video%2Fhd", 200, "two+two")
		d.want("/fetch/room/a%20b/video%2Fhd?group=3", 404, "no such")
		d.want("/fetch/room/x/video?group=1", 404, "no route")
		for _, traffic := range d.server.Stats().Traffic {
			if out := traffic.Subscriber; traffic.Transport == "http" &&
				(out.Fetches != 6 || out.Groups != 4 || out.Frames != 12 || out.Bytes != 30 || out.Errors["not_found"] != 1 || out.Errors["unroutable"] != 1) {
				t.Errorf("counted are %+v, want 6 fetches, 4 groups, 12 frames, 30 bytes", out)
			}
		}
	})
}

func TestAFetchThatMakesNoSenseSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		for target, text := range map[string]string{
			"/fetch/video":                                "no track",
			"/fetch/room/":                                "no track name",
			"/fetch/room/video?group=-1":                  "neither latest nor a number",
			"/fetch/room/video?group=newest":              "neither latest nor a number",
			"/fetch/room/video?group=":                    "neither latest nor a number",
			"/fetch/room/video?group=1&group=2":           "more than once",
			"/fetch/room/video?grup=1":                    `no such parameter: "grup"`,
			"/fetch/room/video?group=%zz":                 "cannot be read",
			"/fetch/room%00/video":                        "NUL",
			"/fetch/%2e%2e/video":                         `segment ".."`,
			"/fetch/room/" + strings.Repeat("x", 1025):    "1 to 1024 bytes",
			"/announced/%ff":                              "UTF-8",
			"/fetch/room/video?group=4611686018427387904": "below 2^62",
		} {
			d.want(target, 400, text)
		}
	})
}

func TestAFetchGivesAPublisherItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		var silent *model.Producer
		d.server.origin.Announce(model.Route{Path: "silent", Source: source(func(p *model.Producer) { silent = p })})
		d.server.origin.Announce(model.Route{Path: "empty", Source: source(func(p *model.Producer) {
			p.Accept(model.Info{})
			begin(t, p, 7)
		})})
		began := time.Now()
		d.want("/fetch/silent/video", 504, "did not answer in time")
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("a publisher that does not answer is given %v, want limits.upstreamTimeoutSeconds, 5 s", took)
		}
		silent.Fail(model.ErrNotFound)
		began = time.Now()
		d.want("/fetch/empty/video", 504, "did not answer in time")
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("a group that says nothing is given %v, want 5 s", took)
		}
	})
}

func TestAFetchIsAnsweredWithin30SecondsWhateverThePublisherMayTake(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		live := *d.server.live.Load()
		live.Limits.UpstreamTimeoutSeconds = 60
		d.server.apply(config.Update{Live: live})
		d.server.origin.Announce(model.Route{Path: "silent", Source: source(func(*model.Producer) {})})
		began := time.Now()
		d.want("/fetch/silent/video", 504, "nothing came for 30s")
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v, want 30 s", took)
		}
		<-time.After(time.Minute) // the model's own patience
	})
}

func TestAFetchIsCutWhenTheRelayEnds(t *testing.T) {
	server := newServer(t, nil)
	server.origin.Announce(model.Route{Path: "room", Source: source(func(p *model.Producer) {
		p.Accept(model.Info{})
		begin(t, p, 7, "first")
	})})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.addresses.TCP+"/fetch/room/video", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := insecure.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	server.stop()
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("a group that is not whole ended as if it were")
	}
	if err := server.wait(); err != nil {
		t.Error(err)
	}
}

func TestAFetchOf30SecondsWithoutAByteEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		var w *model.GroupWriter
		d.server.origin.Announce(model.Route{Path: "room", Source: source(func(p *model.Producer) {
			p.Accept(model.Info{})
			w = begin(t, p, 7, "first")
		})})
		response, client := d.ask("/fetch/room/video")
		defer client.Close()
		first := make([]byte, 5)
		if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "first" {
			t.Fatalf("got %q, %v", first, err)
		}
		<-time.After(29 * time.Second)
		if err := writeFrame(context.WithoutCancel(t.Context()), w, []byte("second")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		rest, err := io.ReadAll(response.Body)
		if string(rest) != "second" || !errors.Is(err, io.ErrUnexpectedEOF) || time.Since(began) != 30*time.Second {
			t.Errorf("after %v it ended with %q, %v, want second, then a cut after 30 s", time.Since(began), rest, err)
		}
		_ = w.Finish()
	})
}

func TestAFetchWhoseClientIsGoneLetsGoOfTheTrack(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		d.server.origin.Announce(model.Route{Path: "room", Source: source(func(p *model.Producer) {
			p.Accept(model.Info{})
			begin(t, p, 7, "first")
		})})
		response, client := d.ask("/fetch/room/video")
		first := make([]byte, 5)
		if _, err := io.ReadFull(response.Body, first); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Second) // the server's own deadlines do not end it
		synctest.Wait()
		if n := d.server.origin.Stats().Tracks.Load(); n != 1 {
			t.Fatalf("%d tracks are fetched, want 1", n)
		}
		_ = client.Close()
		<-time.After(2 * time.Second) // what is not wanted is given up after one
		synctest.Wait()
		if n := d.server.origin.Stats().Tracks.Load(); n != 0 {
			t.Errorf("%d tracks are fetched without the client, want 0", n)
		}
	})
}

func TestAnnouncedListsWhatIsBelowAPrefix(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk) {
		for _, path := range []model.Path{"room/b", "room/a/x", "room", "roommate", "other", "room/two\nlines"} {
			d.server.origin.Announce(model.Route{Path: path, Source: nobody{}})
		}
		for target, body := range map[string]string{
			"/announced/":           "other\nroom\nroom/a/x\nroom/b\nroommate\n",
			"/announced/room":       "\na/x\nb\n",
			"/announced/room/":      "\na/x\nb\n",
			"/announced/room/a":     "\nx\n", // the broadcast above serves this path too
			"/announced/elsewhere":  "",
			"/announced/other%2Fer": "\n",
		} {
			response, client := d.ask(target)
			if got, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 200 || string(got) != body {
				t.Errorf("%s: %d %q, %v, want %q", target, response.StatusCode, got, err, body)
			}
			_ = client.Close()
		}
	})
}

func TestAFetchIsAnsweredWithAndWithoutTLS(t *testing.T) {
	server := newServer(t, nil)
	server.origin.Announce(model.Route{Path: "room", Source: source(func(p *model.Producer) {
		p.Accept(model.Info{})
		if err := begin(t, p, 3, "abc").Finish(); err != nil {
			t.Error(err)
		}
	})})
	for _, scheme := range []string{"http", "https"} {
		if code, body, header := get(t, scheme+"://"+server.addresses.TCP+"/fetch/room/video?group=latest"); code != 200 || body != "abc" || header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%s: %d %q as %q", scheme, code, body, header.Get("Content-Type"))
		}
	}
	if n := sumTraffic(server, func(t admin.Traffic) int64 { return t.Subscriber.Bytes }); n != 6 {
		t.Errorf("%d bytes are counted, want 6", n)
	}
}

func TestPlainRequestsSeeWhatTheirGrantAllows(t *testing.T) {
	server := newGuarded(t, nil)
	for _, path := range []model.Path{"lobby/a", "room/a"} {
		server.origin.Announce(model.Route{Path: path, Source: source(func(p *model.Producer) {
			p.Accept(model.Info{})
			if err := begin(t, p, 3, "abc").Finish(); err != nil {
				t.Error(err)
			}
		})})
	}
	token := "?jwt=" + server.token(t, `{"root":"room","get":""}`)
	for _, row := range []struct {
		target string
		code   int
		body   string
	}{
		{"/announced/", 200, "lobby/a\n"},
		{"/announced/room", 200, ""},
		{"/announced/" + token, 200, "room/a\n"},
		{"/announced/?jwt=nonsense", 401, ""},
		{"/fetch/lobby/a/video", 200, "abc"},
		{"/fetch/room/a/video", 403, ""},
		{"/fetch/room/a/video" + token, 200, "abc"},
		{"/fetch/room/a/video" + token + "&group=3", 200, "abc"},
		{"/fetch/lobby/a/video" + token, 403, ""},
		{"/fetch/lobby/a/video?jwt=nonsense", 401, ""},
	} {
		code, body, header := get(t, "http://"+server.addresses.TCP+row.target)
		if code != row.code || code == 200 && body != row.body || header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%.30s: %d %q, want %d %q", row.target, code, body, row.code, row.body)
		}
	}
	for tier, want := range map[string]int64{"token": 2, "public": 1} {
		if got := sumTraffic(server.running, func(t admin.Traffic) int64 {
			if t.Tier != tier {
				return 0
			}
			return t.Subscriber.Fetches
		}); got != want {
			t.Errorf("%d fetches of tier %s are counted, want %d", got, tier, want)
		}
	}
	if refused := server.Stats().Refused; refused["unauthorized"] != 2 {
		t.Errorf("refused are %v, want 2 unauthorized", refused)
	}
}
