package lite

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

func TestGoAwayRefusesNewRequestsAndKeepsWhatRuns(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		s.session.GoAway("https://b/")
		s.session.GoAway("only the first counts")
		if v.HasGoaway() {
			s.run(`
				accept bidi bye
				bye want 05 | 0b 0a"https://b/"
				bye want nothing
			`)
		}
		group(t, p, 0, "key", "p")
		s.run("accept uni g\n g want " + oneGroup(v, "00") + "\n g want fin")
		s.run(`
			open bidi b
			b write ` + strings.Replace(subscribeTo(v, "c8"), ` 00 03"cam"`, ` 01 03"cam"`, 1) + `
			b want reset 4
			none bidi
			alive
		`)
		if v.HasTrack() {
			s.run("open bidi t\n t write 06 | 0a 03\"cam\" 05\"video\"\n t want reset 4")
		}
		s.bench.cancel()
		s.run("close 0x10 going away")
	}, versions...)
}

func TestAReceivedGoAwayMakesThePeersRoutesTheLastChoice(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		said := make(chan string, 1)
		s := newScript(t, v, Config{OnGoaway: func(uri string) { said <- uri }}, transport.PipeConfig{HasURI: true}, false)
		s.opening(v)
		sub := s.upstream(t, v)
		defer sub.Close()
		s.run(`
			open bidi bye
			bye write 05 | 01 00
			bye fin
			bye want fin
			alive
		`)
		if uri := <-said; uri != "" {
			t.Fatalf("uri is %q", uri)
		}
		if r := s.route(t, "cam"); r.Warm != wire.MaxVarint || r.Cold != wire.MaxVarint {
			t.Fatalf("costs are %d and %d, want the ceiling", r.Warm, r.Cold)
		}
		// What runs goes on, nothing new is opened.
		s.run("open uni g\n g write " + oneGroup(v, "00") + "\n g fin")
		next(t, sub).Close()
		other, err := s.origin.Subscribe("cam", "audio", model.Peer{}, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := other.Info(within(t)); !errors.Is(err, model.ErrUnroutable) {
			t.Fatalf("a new track there: %v", err)
		}
		if !s.session.Stats().GoneAway {
			t.Fatal("the session does not know that its peer goes away")
		}
	}, lite.Lite04, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestGoAwayFaultsEndTheSession(t *testing.T) {
	rows := []struct {
		name   string
		script string
		reason string
	}{
		{"a second one", "open bidi a\n a write 05 | 01 00\n wait 1ms\n open bidi b\n b write 05 | 01 00", "a second GOAWAY"},
		{"a client names a URI", "open bidi a\n a write 05 | 02 01\"x\"", "a client named a URI"},
		{"a URI of more than 8192 bytes", "open bidi a\n a write 05 | 6003 6001 \"" + strings.Repeat("x", 8193) + "\"", "8193 bytes, limit 8192"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := server(t, lite.Lite06)
				s.run(row.script + "\n close 3 " + row.reason)
			})
		})
	}
}

// Before 06 nothing says that there is one GOAWAY only, or who may name a URI.
func TestGoAwayFaultsAreNoneBefore06(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		said := make(chan string, 2)
		s := newScript(t, v, Config{OnGoaway: func(uri string) { said <- uri }}, transport.PipeConfig{HasURI: true}, false)
		s.opening(v)
		s.run("open bidi a\n a write 05 | 02 01\"x\"\n a fin\n a want fin")
		s.run("open bidi b\n b write 05 | 02 01\"y\"\n b fin\n b want fin\n alive")
		if uri := <-said; uri != "x" || len(said) > 0 {
			t.Fatalf("heard of %q and %d more, want x alone", uri, len(said))
		}
		s.run("open bidi c\n c write 05 | 6003 6001 \"" + strings.Repeat("x", 8193) + "\"\n c fin\n c want fin\n alive")
	}, lite.Lite04, lite.Lite05)
}

func TestAMessageOverTheLimitEndsTheSessionByName(t *testing.T) {
	bomb := "80010001" // a body of 65,537 bytes
	rows := []struct {
		name, script, reason string
	}{
		{"ANNOUNCE_REQUEST", "open bidi a\n a write 01 " + bomb, "Announce stream: ANNOUNCE_REQUEST: message length: too long: 65537 bytes, limit 65536"},
		{"SUBSCRIBE", "open bidi a\n a write 02 " + bomb, "Subscribe stream: SUBSCRIBE: message length: too long"},
		{"SUBSCRIBE_UPDATE", "open bidi a\n a write " + subscribeTo(lite.Lite06, "00") + "\n a write " + bomb, "SUBSCRIBE_UPDATE: message length: too long"},
		{"FETCH", "open bidi a\n a write 03 " + bomb, "Fetch stream: FETCH: message length: too long"},
		{"GOAWAY", "open bidi a\n a write 05 " + bomb, "Goaway stream: GOAWAY: message length: too long"},
		{"TRACK", "open bidi a\n a write 06 " + bomb, "Track stream: TRACK: message length: too long"},
		{"ANNOUNCE_OK", "ann write " + bomb, "Announce stream: ANNOUNCE_OK: message length: too long"},
		{"ANNOUNCE_START", "ann write 02 07 00 | 00 " + bomb, "Announce stream: message length: too long"},
		{"2^62-1 bytes", "open bidi a\n a write 02 ffffffffffffffff", "4611686018427387903 bytes, limit 65536"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := server(t, lite.Lite06)
				s.publisher("cam")
				s.run(row.script + "\n close 3 " + row.reason)
			})
		})
	}
}

func TestAnAnswerOverTheLimitEndsTheSession(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		s.run("a write 02 80010001\n close 3 message length: too long")
		if _, err := sub.Next(within(t)); !errors.Is(err, model.ErrSourceGone) {
			t.Fatalf("the viewer is told %v", err)
		}
	}, versions...)
}

func TestAGroupHeaderOverTheLimitHarmsItsStreamAlone(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.run(`
			open uni g
			g write 00 | ffffffffffffffff
			g want stop 0
			alive
		`)
		synctest.Wait() // what it counts may come after what it sends
		if got := s.counters.Malformed.Load(); got != 1 {
			t.Fatalf("%d streams count as malformed, want 1", got)
		}
	}, versions...)
}

func TestAMessageThatCannotBeReadEndsItsStreamAlone(t *testing.T) {
	rows := []struct {
		name    string
		version lite.Version
		write   string
	}{
		{"bytes left over", lite.Lite05, `01 | 04 01"x" 07 00`},
		{"short of a field", lite.Lite05, `01 | 02 01"x"`},
		{"SUBSCRIBE short of a field", lite.Lite03, `02 | 0f 00 03"cam" 05"video" c8 00 00 00`},
		{"Frame End without Group End", lite.Lite06, `02 | 11 00 03"cam" 05"video" c8 00 00 00 00 01`},
		{"TRACK that is not UTF-8", lite.Lite06, `06 | 07 03 fffefd 02"ab"`},
		{"FETCH whose end is below its start", lite.Lite06, `03 | 0e 03"cam" 05"video" 00 00 02 01`},
		{"GOAWAY with two strings", lite.Lite04, `05 | 02 00 00`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := server(t, row.version)
				s.run("open bidi a\n a write " + row.write + "\n a want reset 0\n a want stop 0\n alive")
				synctest.Wait() // what it counts may come after what it sends
				if got := s.counters.Malformed.Load(); got != 1 {
					t.Fatalf("%d streams count as malformed, want 1", got)
				}
			})
		})
	}
}

func TestATruncatedMessageEndsItsStreamAlone(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		whole, err := parseBytes(subscribeTo(v, "c8"))
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n < len(whole); n++ {
			s.run(fmt.Sprintf("open bidi a\n a write %x\n a fin\n a want reset 0", whole[:n]))
		}
		s.run("alive")
		synctest.Wait() // what it counts may come after what it sends
		if got := s.counters.Malformed.Load(); got != int64(len(whole)-1) {
			t.Fatalf("%d streams count as malformed, want %d", got, len(whole)-1)
		}
	}, versions...)
}

func TestAPathThatNobodyMayCarryIsRefused(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.publisher("") // covers every path
		body := `02 | 0f 00 02".." 05"video" c8 00 00 00 00`
		if v.HasFrameBounds() {
			body = `02 | 10 00 02".." 05"video" c8 00 00 00 00 00`
		}
		s.run("open bidi a\n a write " + body + "\n a want reset 0x36\n alive")
	}, versions...)
}

func TestABlockedWriteEndsWhenTheGroupIsSuperseded(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		// The viewer lets 1,000 bytes in and does not read.
		pipe := transport.PipeConfig{HasURI: true, Client: transport.PipeGrant{Windows: transport.Windows{Stream: 1000, Connection: 100_000}}}
		s := newScript(t, v, Config{Role: lite.RolePublisher}, pipe, false)
		if v.HasSetup() {
			s.run("open uni mine\n mine write 01 | 01 00\n mine fin\n accept uni setup")
		}
		pub, _ := s.publisher("cam")
		s.deaf.Store(true)
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		group(t, p, 0, strings.Repeat("x", 5000))
		s.run("accept uni g\n wait 30s")
		if n := s.session.Stats().Requests; n != 1 {
			t.Fatalf("%d requests are open, want 1", n)
		}
		group(t, p, 1, "key", "p")
		s.run("accept uni h")
		synctest.Wait() // until the other one is reset
		s.deaf.Store(false)
		s.bench.tasks.Go(s.streams["g"].collect)
		s.bench.tasks.Go(s.streams["h"].collect)
		s.run("g want reset 0x34\n h want " + oneGroup(v, "01") + "\n h want fin")
	}, versions...)
}

func TestGroupsThatExpireWhileTheyWaitForCreditAreNeverOpened(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		// The viewer lets one stream in at a time.
		pipe := transport.PipeConfig{HasURI: true, Client: transport.PipeGrant{MaxStreams: 1}}
		s := newScript(t, v, Config{Role: lite.RolePublisher}, pipe, false)
		if v.HasSetup() {
			s.run("open uni mine\n mine write 01 | 01 00\n mine fin\n accept uni setup\n setup want 01 | 04 01 05 01 0a\n setup want fin")
		}
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		s.deaf.Store(true)
		group(t, p, 0, "key", "p")
		s.run("accept uni g")
		for seq := uint64(1); seq <= 5; seq++ {
			group(t, p, seq, "key", "p")
			synctest.Wait()
		}
		s.run("none uni\n wait 10s\n none uni")
		s.deaf.Store(false)
		s.bench.tasks.Go(s.streams["g"].collect)
		s.run("accept uni h\n h want " + oneGroup(v, "05") + "\n h want fin\n none uni")
	}, versions...)
}

func TestTheNewestGroupIsOpenedFirst(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		pipe := transport.PipeConfig{HasURI: true, Client: transport.PipeGrant{MaxStreams: 1}}
		s := newScript(t, v, Config{Role: lite.RolePublisher}, pipe, false)
		if v.HasSetup() {
			s.run("open uni mine\n mine write 01 | 01 00\n mine fin\n accept uni setup\n setup want 01 | 04 01 05 01 0a\n setup want fin")
		}
		pub, _ := s.publisher("cam")
		pub.info.MaxAge = time.Minute
		patient := strings.Replace(subscribeTo(v, "c8"), "c8 00 00", "c8 00 7530", 1) // max age 30,000 ms
		patient = strings.Replace(patient, "02 | 10", "02 | 11", 1)
		if v.HasFrameBounds() {
			patient = `02 | 12 00 03"cam" 05"video" c8 7530 00 00 00 00`
		}
		s.run("open bidi a\n a write " + patient)
		p := pub.producer(t, 0)
		s.deaf.Store(true)
		for seq := uint64(0); seq <= 4; seq++ {
			group(t, p, seq, "key", "p")
			synctest.Wait()
		}
		// Group 0 has the stream. Which one is next is decided when there is credit.
		var got []string
		for range 5 {
			s.run("accept uni g")
			s.bench.tasks.Go(s.streams["g"].collect)
			synctest.Wait()
			st := s.streams["g"]
			st.mu.Lock()
			got = append(got, fmt.Sprintf("%d", st.got[3]))
			st.mu.Unlock()
		}
		if order := strings.Join(got, " "); order != "0 4 3 2 1" {
			t.Fatalf("groups came in the order %s, want 0 4 3 2 1", order)
		}
	}, versions...)
}

func TestAPublisherAsksForNoAnnouncements(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{Role: lite.RolePublisher}, transport.PipeConfig{HasURI: true}, true)
		s.run("wait 10s\n none bidi")
		if v.HasSetup() {
			s.run("accept uni setup\n setup want 01 | 07 02 03 01 01 05 01 0a # Role publisher, Hop 10")
		}
	}, versions...)
}

func TestASubscriberShowsAndServesNothing(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{Role: lite.RoleSubscriber}, transport.PipeConfig{HasURI: true}, true)
		if v.HasSetup() {
			s.run("open uni mine\n mine write 01 | 01 00\n mine fin")
		}
		s.publisher("cam")
		ok := "nothing"
		if v.HasAnnounceOK() {
			ok = "02 0a 00"
		}
		s.run("open bidi a\n a write " + request(v) + "\n a want " + ok)
		s.run("open bidi b\n b write " + subscribeTo(v, "00") + "\n b want reset 0x36\n a want nothing\n alive")
	}, versions...)
}
