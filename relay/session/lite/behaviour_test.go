package lite

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

func TestUnknownStreamsAreResetAndNothingElse(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.run(`
			open bidi a
			a write 00 | 01 00      # the session stream of old drafts
			a want reset 0
			a want stop 0
			open bidi b
			b write 20 | 01 00
			b want reset 0
			open bidi c
			c write 04              # Probe: level 0 is declared
			c want reset 0
			open uni d
			d write 3f 01 02
			d want stop 0
			open bidi e
			e fin                   # ends before it says what it is
			e want reset 1
			alive
		`)
		synctest.Wait() // what it counts may come after what it sends
		if got := s.counters.Unknown.Load(); got != 4 {
			t.Fatalf("%d streams count as unknown, want 4", got)
		}
	}, versions...)
}

func TestStreamsOfLaterVersionsAreUnknownBefore(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.run(`
			open bidi a
			a write 06 | 0a 03"cam" 05"video"   # TRACK
			a want reset 0
			open uni b
			b write 01 | 01 00                  # SETUP
			b want stop 0
			alive
		`)
		if v == lite.Lite03 {
			s.run(`
				open bidi c
				c write 05 | 01 00              # GOAWAY
				c want reset 0
			`)
		}
	}, lite.Lite03, lite.Lite04)
}

func TestRefusalsAreAPromptResetWithTheReason(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{Limits: session.Limits{Subscriptions: 2}}, transport.PipeConfig{HasURI: true}, false)
		s.opening(v)
		s.run(`
			open bidi a
			a write ` + subscribeTo(v, "00") + `
			a want reset 0x36           # nobody announces it
		`)
		pub, _ := s.publisher("cam")
		pub.silent = true
		s.run(`
			open bidi b
			b write ` + subscribeTo(v, "00") + `
			b want nothing              # pending is silence
			wait 4900ms
			b want nothing
			wait 200ms
			b want reset 0x31           # the upstream's time is over
			b want stop 0x31
			open bidi c
			c write ` + subscribeTo(v, "00") + `
			wait 1ms
		`)
		pub.producer(t, 1).Fail(model.ErrNotFound)
		s.run(`
			c want reset 0x33
			open bidi d
			d write ` + subscribeTo(v, "00") + `
			wait 1ms
			open bidi e
			e write ` + strings.Replace(subscribeTo(v, "00"), ` 00 03"cam"`, ` 01 03"cam"`, 1) + `
			wait 1ms
			open bidi f
			f write ` + strings.Replace(subscribeTo(v, "00"), ` 00 03"cam"`, ` 02 03"cam"`, 1) + `
			f want reset 0x30           # the third of two
		`)
		pub.producer(t, 2).Fail(&model.AbortError{Code: 0x45})
		s.run(`
			d want reset 0x45           # the publisher's own code
			e want reset 0x45
			alive
		`)
		if n := s.session.Stats().Requests; n != 0 {
			t.Fatalf("%d requests are open, want 0", n)
		}
	}, versions...)
}

func TestASubscribeIDInUseEndsTheSession(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.publisher("cam")
		s.run(`
			open bidi a
			a write ` + subscribeTo(v, "00") + `
			open bidi b
			b write ` + subscribeTo(v, "00") + `
			close 3 id 0 is in use
		`)
	}, versions...)
}

func TestUpdatesActAndBoundsAreACap(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		// Groups 0 to 0, then everything.
		first := `02 | 10 00 03"cam" 05"video" 09 00 00 01 01`
		then := `05 0a 00 00 01 00`
		if v.HasFrameBounds() {
			first = `02 | 11 00 03"cam" 05"video" 09 00 00 01 00 00`
			then = `06 0a 00 00 00 00 00`
		}
		s.run("open bidi a\n a write " + first)
		p := pub.producer(t, 0)
		group(t, p, 0, "key", "p")
		s.run("accept uni g\n g want " + oneGroup(v, "00") + "\n g want fin")
		group(t, p, 1, "key", "p")
		s.run("none uni\n wait 1m\n none uni")
		if v.HasSubscribeEnd() {
			s.run("a want 00 01 00")
		} else {
			s.run("a want 00 06 09 00 5388 00 00")
		}
		s.run(`
			a want nothing            # the range is in, the stream stays
			a write ` + then + `
			accept uni h
			h want ` + oneGroup(v, "01") + `
			h want fin
		`)
		if got := p.Preferences(); got.Priority != 10 || got.HasEnd {
			t.Fatalf("preferences after the update are %+v", got)
		}
	}, versions...)
}

func TestUpdatesTravelUpstream(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		sub.Update(model.Options{Priority: 7, MaxLatency: time.Second, HasEnd: true, End: 9})
		switch {
		case v.HasFrameBounds():
			s.run("a want 07 07 43e8 00 0a 00 00")
		default:
			s.run("a want 06 07 00 43e8 00 0a")
		}
		s.run("a want nothing")
	}, versions...)
}

func TestUnsubscribingResetsOpenGroups(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		g := s.openGroup(t, pub.producer(t, 0), 0)
		s.run(`
			accept uni g
			a fin
			g want reset 1
		`)
		s.streams["a"].clear()
		s.run("a want fin\n alive")
		_ = g
		if n := s.session.Stats().Requests; n != 0 {
			t.Fatalf("%d requests are open, want 0", n)
		}
	}, versions...)
}

// openGroup begins a group with one frame of one byte.
func (s *script) openGroup(t *testing.T, p *model.Producer, seq uint64) *model.GroupWriter {
	t.Helper()
	g, err := p.Group(seq, model.Window{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.WriteFrame(t.Context(), []byte{0, 1}, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return g
}

func TestStoppingOneGroupEndsThatGroupAlone(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		s.openGroup(t, p, 0)
		s.run(`
			accept uni g
			g stop 1
			wait 1ms
		`)
		group(t, p, 1, "key", "p")
		s.run("accept uni h\n h want " + oneGroup(v, "01") + "\n h want fin\n alive")
	}, versions...)
}

func TestAGroupsAbortTravelsWithItsCode(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		g := s.openGroup(t, pub.producer(t, 0), 0)
		g.Abort(&model.AbortError{Code: 0x35})
		s.run("accept uni g\n g want reset 0x35\n alive")
	}, versions...)
}

func TestAGroupThatMakesNoSenseHarmsItselfAlone(t *testing.T) {
	rows := []struct {
		name, group, stop string
		err               error
		code              uint64
	}{
		{"timestamp out of range", `00 | 02 00 00 | ffffffffffffffff 01"a" 01 00`, "0x12", session.ErrMalformed, 0x12},
		{"frame larger than the limit", `00 | 02 00 00 | 00 82100000`, "0x38", model.ErrFrameTooLarge, 0x38},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := server(t, lite.Lite05)
				sub := s.upstream(t, lite.Lite05)
				defer sub.Close()
				s.run("open uni g\n g write " + row.group)
				r := next(t, sub)
				defer r.Close()
				err := readToEnd(t, r)
				if !errors.Is(err, row.err) || session.StreamCode(err) != row.code {
					t.Fatalf("the viewer is told %v, code %#x", err, session.StreamCode(err))
				}
				s.run("g want stop " + row.stop)
				s.run("open uni h\n h write " + oneGroup(lite.Lite05, "01") + "\n h fin")
				r = next(t, sub)
				defer r.Close()
				if err := readToEnd(t, r); err != io.EOF {
					t.Fatalf("the next group ends with %v", err)
				}
				s.run("alive")
			})
		})
	}
}

// readToEnd reads a group and returns how it ends.
func readToEnd(t *testing.T, r *model.Reader) error {
	t.Helper()
	for {
		p, err := r.Next(within(t))
		if err != nil {
			return err
		}
		r.Taken(len(p))
	}
}

func TestAGroupThatEndsInsideAFrameIsCutShort(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		whole := oneGroup(v, "00")
		s.run("open uni g\n g write " + strings.Replace(whole, `01"p"`, `02"p"`, 1) + "\n g fin")
		r := next(t, sub)
		defer r.Close()
		err := readToEnd(t, r)
		if code := session.StreamCode(err); code != 0x37 {
			t.Fatalf("the viewer is told %v, code %#x, want 0x37", err, code)
		}
		synctest.Wait() // what it counts may come after what it sends
		if got := s.counters.Malformed.Load(); got != 1 {
			t.Fatalf("%d streams count as malformed, want 1", got)
		}
	}, versions...)
}

func TestTheEndOfAPublishersSessionResetsWhatItFed(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		relay := newOrigin(relayID)
		up := newScript(t, v, Config{Origin: relay}, transport.PipeConfig{HasURI: true}, false)
		up.opening(v)
		sub := up.upstream(t, v)
		defer sub.Close()
		up.run("open uni g\n g write " + oneGroup(v, "00"))
		r := next(t, sub)
		defer r.Close()
		up.conn.Close(0, "bye")
		if err := readToEnd(t, r); session.StreamCode(err) != session.CodeSessionClosed {
			t.Fatalf("the group ends with %v", err)
		}
		if _, err := sub.Next(within(t)); !errors.Is(err, model.ErrSourceGone) {
			t.Fatalf("the track ends with %v", err)
		}
		up.wantRoutes(t)
	}, versions...)
}

func TestSecondSetupsAndMisplacedPathsEndTheSession(t *testing.T) {
	rows := []struct{ name, setup, reason string }{
		{"second Setup stream", "open uni a\n a write 01 | 01 00\n a fin\n open uni b\n b write 01 | 01 00", "a second Setup stream"},
		{"path though there is a URI", "open uni a\n a write 01 | 05 01 02 02\"/x\"", "a path, though"},
		{"parameter twice", "open uni a\n a write 01 | 07 02 05 01 07 05 01 08", "parameter 0x5 twice"},
		{"longer than 65535 bytes", "open uni a\n a write 01 | 80010000", "message length"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, lite.Lite06, Config{}, transport.PipeConfig{HasURI: true}, false)
				s.run(row.setup + "\n close 3 " + row.reason)
			})
		})
	}
}

func TestAClientIsLenientWithItsServersSetup(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, true)
		s.run(`
			open uni a
			a write 01 | 0b 03 02 02"/x" 03 01 01 05 01 07   # Path and Role, which only clients send
			a fin
			wait 10ms
			alive
		`)
		if id := s.session.identity().ID; id != 7 {
			t.Fatalf("hop is %d, want 7", id)
		}
	}, lite.Lite05, lite.Lite06)
}

func TestTheRequestPathIsTheRootOfAllNames(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		pipe := transport.PipeConfig{HasURI: true, Path: "/room/1?jwt=secret"}
		s := newScript(t, v, Config{Root: "live"}, pipe, false)
		s.opening(v)
		s.announceAt(v, "live/room/1/cam")
		s.publisher("live/room/1/mic")
		s.publisher("elsewhere")
		s.run("open bidi x\n x write " + request(v))
		ok := ""
		if v.HasAnnounceOK() {
			ok = "02 0a 01 | "
		}
		s.run("x want " + ok + map[lite.Version]string{
			lite.Lite03:    `06 01 03"mic" 02`,
			lite.Lite04:    `08 01 03"mic" 02 03 0a`,
			lite.Lite05:    `07 01 03"mic" 01 03`,
			lite.Lite06wip: `00 07 03"mic" 01 03 01`,
			lite.Lite06:    `00 08 03"mic" 01 03 01 02`,
		}[v] + "\n x want nothing")
	}, versions...)
}

// announceAt is announceCam for a peer whose root is not the origin's.
func (s *script) announceAt(v lite.Version, path model.Path) {
	s.t.Helper()
	s.run(map[lite.Version]string{
		lite.Lite03:    `ann write 06 01 03"cam" 01`,
		lite.Lite04:    `ann write 07 01 03"cam" 01 07`,
		lite.Lite05:    `ann write 02 07 01 | 06 01 03"cam" 00`,
		lite.Lite06wip: `ann write 02 07 01 | 00 06 03"cam" 00 00`,
		lite.Lite06:    `ann write 02 07 01 | 00 07 03"cam" 00 00 00`,
	}[v])
	s.bench.mustSee(s.origin, path)
}

func TestWithoutAURITheRootComesInSetup(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		relay, client := newOrigin(relayID), newOrigin(11)
		b.connect(v, Config{Origin: client, Role: lite.RolePublisher, RequestPath: "/room?jwt=x"}, Config{Origin: relay}, transport.PipeConfig{})
		b.announce(client, "cam", model.Info{Timescale: 1000}, publishGroups(nil))
		b.mustSee(relay, "room/cam")
	}, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestAPathThatComesAfterItsTimeEndsTheSession(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{}, transport.PipeConfig{}, false)
		s.run(`
			wait 3s
			open uni a
			a write 01 | 07 01 02 04"room"
			close 0x11 a path came later than 2s
		`)
	}, lite.Lite06)
}

func TestAnnouncementFaultsEndTheSession(t *testing.T) {
	rows := []struct {
		name    string
		version lite.Version
		write   string
		reason  string
	}{
		{"END of an id that never was", lite.Lite06, `02 07 00 | 01 01 00`, "announcement 0 was never started"},
		{"END twice", lite.Lite06, `02 07 00 | 00 05 01"x" 00 00 00 | 01 01 00 | 01 01 00`, "announcement 0 was never started"},
		{"UPDATE of an id that has ended", lite.Lite06wip, `02 07 00 | 00 04 01"x" 00 00 | 01 01 00 | 02 03 00 00 00`, "announcement 0 was never started"},
		{"START of a live path", lite.Lite06, `02 07 00 | 00 05 01"x" 00 00 00 | 00 06 02"/x" 00 00 00`, `START of "x", which is live`},
		{"hop twice", lite.Lite06, `02 07 00 | 00 07 01"x" 02 05 05 00 00`, "hop 5 twice"},
		{"second active on 03", lite.Lite03, `04 01 01"x" 01 | 04 01 01"x" 01`, `"x", which is live`},
		{"second active on 04", lite.Lite04, `05 01 01"x" 01 07 | 05 01 01"x" 01 07`, `"x", which is live`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := server(t, row.version)
				s.run("ann write " + row.write + "\n close 3 " + row.reason)
				s.bench.end()
				s.wantRoutes(t)
			})
		})
	}
}

func TestAnnouncementsThatReplaceAndRepeat(t *testing.T) {
	rows := []struct {
		name    string
		version lite.Version
		write   string
		hops    []uint64
	}{
		{"second active on 05", lite.Lite05, `02 07 00 | 05 01 01"x" 01 05 | 05 01 01"x" 01 06`, []uint64{6, 7}},
		{"status 2 on 05", lite.Lite05, `02 07 00 | 05 01 01"x" 01 05 | 05 02 01"x" 01 06`, []uint64{6, 7}},
		{"UPDATE", lite.Lite06, `02 07 00 | 00 06 01"x" 01 05 00 00 | 02 05 00 01 06 00 00`, []uint64{6, 7}},
		{"zeros may repeat", lite.Lite06, `02 07 00 | 00 07 01"x" 02 00 00 00 00`, []uint64{0, 0, 7}},
		{"an unknown sender is a zero", lite.Lite06, `02 00 00 | 00 06 01"x" 01 05 00 00`, []uint64{5, 0}},
		{"out of a loop by UPDATE", lite.Lite06, `02 07 00 | 00 06 01"x" 01 0a 00 00 | 02 05 00 01 06 00 00`, []uint64{6, 7}},
		{"ended that never was", lite.Lite05, `02 07 00 | 04 00 01"x" 00 | 05 01 01"x" 01 05`, []uint64{5, 7}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := server(t, row.version)
				s.run("ann write " + row.write + "\n wait 10ms\n alive")
				if got := s.route(t, "x").Hops; !slices.Equal(got, row.hops) {
					t.Fatalf("hops are %v, want %v", got, row.hops)
				}
			})
		})
	}
}

func TestCostsGrowByThePriceOfTheLink(t *testing.T) {
	rows := []struct {
		name       string
		version    lite.Version
		setup      string
		write      string
		warm, cold uint64
	}{
		{"one without a price", lite.Lite06, `01 | 01 00`, `02 07 00 | 00 05 01"x" 00 05 06`, 6, 7},
		{"the peer's price", lite.Lite06, `01 | 04 01 04 01 03`, `02 07 00 | 00 05 01"x" 00 05 06`, 8, 9},
		{"free", lite.Lite06, `01 | 04 01 04 01 00`, `02 07 00 | 00 05 01"x" 00 05 06`, 5, 6},
		{"at the ceiling", lite.Lite06, `01 | 01 00`, `02 07 00 | 00 0c 01"x" 00 05 ffffffffffffffff`, 6, wire.MaxVarint},
		{"one cost", lite.Lite06wip, `01 | 01 00`, `02 07 00 | 00 04 01"x" 00 05`, 6, wire.MaxVarint},
		{"no cost: one for each hop", lite.Lite05, `01 | 01 00`, `02 07 00 | 05 01 01"x" 01 05`, 2, wire.MaxVarint},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, row.version, Config{}, transport.PipeConfig{HasURI: true}, false)
				s.run("accept bidi ann\n ann write " + row.write + "\n open uni a\n a write " + row.setup + "\n a fin\n wait 10ms")
				if r := s.route(t, "x"); r.Warm != row.warm || r.Cold != row.cold {
					t.Fatalf("costs are %d and %d, want %d and %d", r.Warm, r.Cold, row.warm, row.cold)
				}
			})
		})
	}
}

func TestAnnouncementsOverTheLimitAreIgnored(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{Limits: session.Limits{Announcements: 2}}, transport.PipeConfig{HasURI: true}, false)
		s.opening(v)
		s.run(`
			ann write 02 07 00 | 00 05 01"a" 00 00 00 | 00 05 01"b" 00 00 00 | 00 05 01"c" 00 00 00
			wait 10ms
			alive
		`)
		s.wantRoutes(t, "a", "b")
		synctest.Wait() // what it counts may come after what it sends
		if got := s.counters.Discarded.Load(); got != 1 {
			t.Fatalf("%d announcements count as discarded, want 1", got)
		}
		s.run(`
			ann write 01 01 00 | 00 05 01"d" 00 00 00   # room again
			wait 10ms
			alive
		`)
		s.wantRoutes(t, "b", "d")
	}, lite.Lite06)
}

func TestAnotherPublisherIsEndAndStartOn03And04AndAnUpdateAfter(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.publisher("cam")
		s.run("open bidi a\n a write " + request(v))
		s.run(map[lite.Version]string{
			lite.Lite03: `a want 06 01 03"cam" 02`,
			lite.Lite04: `a want 08 01 03"cam" 02 03 0a`,
			lite.Lite05: `a want 02 0a 01 | 07 01 03"cam" 01 03`,
			lite.Lite06: `a want 02 0a 01 | 00 08 03"cam" 01 03 01 02`,
		}[v])
		newer := [16]byte{0xff} // it stays the newer one when it comes by a relay
		better := s.origin.Announce(model.Route{Path: "cam", Hops: []uint64{4}, Source: &local{}, Epoch: newer})
		s.run(map[lite.Version]string{
			lite.Lite03: `a want 06 00 03"cam" 00 | 06 01 03"cam" 02`,
			lite.Lite04: `a want 06 00 03"cam" 00 | 08 01 03"cam" 02 04 0a`,
			lite.Lite05: `a want 07 01 03"cam" 01 04`,
			lite.Lite06: `a want 02 05 00 01 04 00 00`,
		}[v])
		better.Update([]uint64{4, 5}, 0, 0)
		s.run(map[lite.Version]string{
			lite.Lite03: `a want nothing   # the same publisher by another way`,
			lite.Lite04: `a want nothing`,
			lite.Lite05: `a want 08 01 03"cam" 02 04 05`,
			lite.Lite06: `a want 02 06 00 02 04 05 00 00`,
		}[v])
	}, lite.Lite03, lite.Lite04, lite.Lite05, lite.Lite06)
}

// The first viewer makes the broadcast free for others, which 05 has no words for.
func TestACostThatChangesIsToldWhereThereIsOne(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + request(v))
		s.run(map[lite.Version]string{
			lite.Lite05: `a want 02 0a 01 | 07 01 03"cam" 01 03`,
			lite.Lite06: `a want 02 0a 01 | 00 08 03"cam" 01 03 01 02`,
		}[v])
		sub, err := s.origin.Subscribe("cam", "video", model.Peer{}, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		pub.producer(t, 0)
		s.run(map[lite.Version]string{
			lite.Lite05: "a want nothing",
			lite.Lite06: "a want 02 05 00 01 03 00 02",
		}[v])
		sub.Close()
		s.run("wait 5s")
		s.run(map[lite.Version]string{
			lite.Lite05: "a want nothing\n wait 100ms\n a want nothing",
			lite.Lite06: "a want nothing\n wait 100ms\n a want 02 05 00 01 03 01 02",
		}[v])
	}, lite.Lite05, lite.Lite06)
}
