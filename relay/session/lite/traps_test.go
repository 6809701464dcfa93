package lite

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// The tests of this file are named after the traps of the protocol, most
// expensive first: each is a mistake that a peer punishes.

// subscribeTo is SUBSCRIBE of "cam" "video" with id 0 by version: the last bytes
// are priority, (ordered,) max age, start, end(, frame start, frame end).
func subscribeTo(v lite.Version, priority string) string {
	if v.HasFrameBounds() {
		return `02 | 11 00 03"cam" 05"video" ` + priority + ` 00 00 00 00 00`
	}
	return `02 | 10 00 03"cam" 05"video" ` + priority + ` 00 00 00 00`
}

// accepted is SUBSCRIBE_OK where it comes before any group.
func accepted(v lite.Version) string {
	if v.HasSubscribeEnd() {
		return "nothing"
	}
	return `00 06 c8 00 5388 00 00 # priority echoed, max age 5000`
}

// oneGroup is the stream of group n of subscription 0, with frames "key" at 1000
// and "p" at 1040.
func oneGroup(v lite.Version, n string) string {
	switch {
	case v.HasFrameBounds():
		return `00 | 03 00 ` + n + ` 00 | 47d0 03"key" 4050 01"p"`
	case v.HasTimestamps():
		return `00 | 02 00 ` + n + ` | 47d0 03"key" 4050 01"p"`
	}
	return `00 | 02 00 ` + n + ` | 03"key" 01"p"`
}

func TestPriorityIsARawByte(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run(`
			open bidi a
			a write ` + subscribeTo(v, "c8") + `
		`)
		p := pub.producer(t, 0)
		if got := p.Preferences().Priority; got != 200 {
			t.Fatalf("priority c8 reads as %d, want 200", got)
		}
	}, versions...)
}

func TestPriorityIsWrittenAsARawByteUpstream(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		sub := s.viewer(t, model.Options{Priority: 200})
		defer sub.Close()
		if v.HasTrack() {
			s.run(`
				accept bidi t
				t want 06 | 0a 03"cam" 05"video"
				t write ` + trackInfo(v) + `
			`)
		}
		s.run(`
			accept bidi a
			a want ` + subscribeTo(v, "c8") + `
			a want nothing
		`)
	}, versions...)
}

// trackInfo is TRACK_INFO: priority 2, max age 5000, timescale 1000.
func trackInfo(v lite.Version) string {
	if v.HasOrdered() {
		return "06 02 00 5388 43e8"
	}
	return "05 02 5388 43e8"
}

// announceCam answers the session's Announce stream: one broadcast "cam".
func (s *script) announceCam(v lite.Version) {
	s.t.Helper()
	s.run(map[lite.Version]string{
		lite.Lite03:    `ann write 06 01 03"cam" 01`,
		lite.Lite04:    `ann write 07 01 03"cam" 01 07`,
		lite.Lite05:    `ann write 02 07 01 | 06 01 03"cam" 00`,
		lite.Lite06wip: `ann write 02 07 01 | 00 06 03"cam" 00 00`,
		lite.Lite06:    `ann write 02 07 01 | 00 07 03"cam" 00 00 00`,
	}[v])
	s.bench.mustSee(s.origin, "cam")
}

// viewer subscribes to "cam" "video" in the relay's own process.
func (s *script) viewer(t *testing.T, o model.Options) *model.Subscription {
	t.Helper()
	sub, err := s.origin.Subscribe("cam", "video", model.Peer{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// upstream has a viewer ask for "cam" "video", which the peer accepts. Stream "a"
// is the session's Subscribe stream.
func (s *script) upstream(t *testing.T, v lite.Version) *model.Subscription {
	t.Helper()
	s.announceCam(v)
	sub := s.viewer(t, model.Options{Priority: 200})
	if v.HasTrack() {
		s.run(`
			accept bidi t
			t want 06 | 0a 03"cam" 05"video"
			t write ` + trackInfo(v) + `
			t fin
			accept bidi a
			a want ` + subscribeTo(v, "c8"))
		return sub
	}
	s.run(`
		accept bidi a
		a want ` + subscribeTo(v, "c8") + `
		a write 00 05 c8 00 00 00 00`)
	return sub
}

func TestResponseOneIsDropOn03And04AndEndFrom05(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		if !v.HasSubscribeEnd() {
			s.run(`a write 01 03 00 04 01 # DROP of groups 0 to 4, code 1`)
			synctest.Wait()
			if end, ok := sub.End(); ok {
				t.Fatalf("a DROP ended the track at %d", end)
			}
			return
		}
		s.run(`
			a write 00 01 00   # OK: group 0
			a write 02 03 00 04 01
			a write 01 01 05   # END: 5 is the first that never comes
		`)
		synctest.Wait()
		if end, ok := sub.End(); !ok || end != 5 {
			t.Fatalf("END(5) reads as %d, %v", end, ok)
		}
	}, versions...)
}

func TestGroupStartIsPlusOneUpTo05AndPlainOn06(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		// Start 2 is group 1 up to 05 and group 2 on 06; end 4 is group 3 everywhere.
		end := `02 04`
		s.run(`
			open bidi a
			a write ` + strings.Replace(subscribeTo(v, "c8"), "c8 00 00 00 00", "c8 00 00 "+end, 1))
		if v.HasFrameBounds() {
			s.streams = map[string]*scriptStream{}
			s = server(t, v)
			pub, _ = s.publisher("cam")
			s.run(`
				open bidi a
				a write 02 | 11 00 03"cam" 05"video" c8 00 02 04 00 00
			`)
		}
		p := pub.producer(t, 0)
		want := model.Preferences{Active: true, Priority: 200, Start: 1, HasStart: true, End: 3, HasEnd: true}
		if v.HasFrameBounds() {
			want.Start = 2
		}
		if got := p.Preferences(); got != want {
			t.Fatalf("preferences are %+v, want %+v", got, want)
		}
	}, versions...)
}

func TestFrameStartIsPlainAndFrameEndIsPlusOne(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run(`
			open bidi a
			a write 02 | 11 00 03"cam" 05"video" c8 00 00 01 01 03  # group 0, frames 1 to 2
		`)
		group(t, pub.producer(t, 0), 0, "a", "b", "c", "d")
		s.run(`
			accept uni g
			g want 00 | 03 00 00 01        # group 0 from frame 1
			g want 4820 01"b"              # 1040 from 0, not 40 from 1000
			g want 4050 01"c"
			g want fin
			a want 00 01 00
		`)
	}, lite.Lite06)
}

func TestAnnounceIDsCountEveryStartReceived(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		cost := map[lite.Version]string{lite.Lite06wip: "00", lite.Lite06: "00 00"}[v]
		n := map[lite.Version]string{lite.Lite06wip: "", lite.Lite06: "+"}[v]
		length := func(plain, two string) string {
			if n == "" {
				return plain
			}
			return two
		}
		s.run(`
			ann write 02 07 00
			ann write 00 ` + length("05", "06") + ` 01"x" 01 0a ` + cost + ` # id 0: loops through us, is not used
			ann write 00 ` + length("05", "06") + ` 02".." 00 ` + cost + `   # id 1: a path that nobody may carry
			ann write 00 ` + length("04", "05") + ` 01"y" 00 ` + cost + `    # id 2
			ann write 3f 03 "abc"                                            # of an unknown type: skipped, no id
			ann write 00 ` + length("04", "05") + ` 01"z" 00 ` + cost + `    # id 3
		`)
		s.bench.mustSee(s.origin, "z")
		s.run(`
			ann write 01 01 02   # END of id 2
			ann write 01 01 00   # of those never used, too
			ann write 01 01 01
		`)
		synctest.Wait()
		s.wantRoutes(t, "z")
		s.run(`alive`)
	}, lite.Lite06wip, lite.Lite06)
}

// wantRoutes checks which paths the relay would show.
func (s *script) wantRoutes(t *testing.T, want ...model.Path) {
	t.Helper()
	synctest.Wait()
	w := s.origin.Watch("", model.Peer{})
	defer w.Close()
	changes, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []model.Path
	for _, c := range changes {
		got = append(got, c.Path)
	}
	if len(got) != len(want) {
		t.Fatalf("routes are %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("routes are %q, want %q", got, want)
		}
	}
}

func TestAnnounceIDsCountOnlyTheStartsThatWereWritten(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		// A chain that is full cannot be announced, and gets no id.
		full := make([]uint64, 32)
		for i := range full {
			full[i] = uint64(100 + i)
		}
		l, _ := s.publisher("b")
		s.origin.Announce(model.Route{Path: "a", Hops: full, Source: l})
		s.run(`
			open bidi x
			x write 01 | 01 00
			x want 02 0a 01 | 00 06 01"b" 01 03 01 02 # id 0
		`)
		_, c := s.publisher("c")
		s.run(`x want 00 06 01"c" 01 03 01 02         # id 1`)
		c.Update([]uint64{3, 4}, 5, 6)
		s.run(`x want 02 06 01 02 03 04 05 06         # UPDATE of id 1`)
		c.Withdraw()
		s.run(`x want 01 01 01                        # END of id 1`)
		s.publisher("c")
		s.run(`x want 00 06 01"c" 01 03 01 02         # id 2: an id is never used again`)
		s.run(`x want nothing`)
	}, lite.Lite06)
}

// request asks for all announcements, as hop 7 where that is said here.
func request(v lite.Version) string {
	if v.HasExcludeHop() {
		return "01 | 02 00 07"
	}
	return "01 | 01 00"
}

func TestEndedCarriesAHopCount(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		_, cam := s.publisher("cam")
		s.run("open bidi a\n a write " + request(v))
		s.run(map[lite.Version]string{
			lite.Lite03: `a want 06 01 03"cam" 02`,
			lite.Lite04: `a want 08 01 03"cam" 02 03 0a`,
			lite.Lite05: `a want 02 0a 01 | 07 01 03"cam" 01 03`,
		}[v])
		cam.Withdraw()
		s.run(`a want 06 00 03"cam" 00`)
		// And it is read with one.
		if v.HasAnnounceOK() {
			s.run(`ann write 02 07 00`)
		}
		s.run(`
			ann write ` + map[lite.Version]string{lite.Lite03: `04 01 01"x" 01`, lite.Lite04: `05 01 01"x" 01 07`, lite.Lite05: `04 01 01"x" 00`}[v] + `
			ann write 04 00 01"x" 00
			ann write ` + map[lite.Version]string{lite.Lite03: `04 01 01"y" 01`, lite.Lite04: `05 01 01"y" 01 07`, lite.Lite05: `04 01 01"y" 00`}[v] + `
		`)
		s.bench.mustSee(s.origin, "y")
		s.wantRoutes(t, "y")
	}, lite.Lite03, lite.Lite04, lite.Lite05)
}

func TestTheSenderIsInTheHopListUpTo04AndNotAfter(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.publisher("cam")
		s.run("open bidi a\n a write " + request(v))
		s.run(map[lite.Version]string{
			lite.Lite03:    `a want 06 01 03"cam" 02          # two hops: the publisher and we`,
			lite.Lite04:    `a want 08 01 03"cam" 02 03 0a`,
			lite.Lite05:    `a want 02 0a 01 | 07 01 03"cam" 01 03`,
			lite.Lite06wip: `a want 02 0a 01 | 00 07 03"cam" 01 03 01`,
			lite.Lite06:    `a want 02 0a 01 | 00 08 03"cam" 01 03 01 02`,
		}[v])
		s.run("a want nothing")
		// And of what is received, the chain ends with the peer.
		s.run(map[lite.Version]string{
			lite.Lite03:    `ann write 04 01 01"x" 02`,
			lite.Lite04:    `ann write 06 01 01"x" 02 05 07`,
			lite.Lite05:    `ann write 02 07 01 | 05 01 01"x" 01 05`,
			lite.Lite06wip: `ann write 02 07 01 | 00 05 01"x" 01 05 00`,
			lite.Lite06:    `ann write 02 07 01 | 00 06 01"x" 01 05 00 00`,
		}[v])
		s.bench.mustSee(s.origin, "x")
		want := []uint64{5, 7}
		if v == lite.Lite03 {
			want = []uint64{0, 0}
		}
		route := s.route(t, "x")
		if len(route.Hops) != 2 || route.Hops[0] != want[0] || route.Hops[1] != want[1] {
			t.Fatalf("hops are %v, want %v", route.Hops, want)
		}
	}, versions...)
}

// route is the route that the relay has for a path.
func (s *script) route(t *testing.T, path model.Path) model.Route {
	t.Helper()
	w := s.origin.Watch(path, model.Peer{})
	defer w.Close()
	changes, err := w.Next(t.Context())
	if err != nil || len(changes) == 0 {
		t.Fatalf("no route to %q: %v", path, err)
	}
	return changes[0].Route
}

func TestOurSetupIsTheVeryFirstStream(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		// The peer grants one unidirectional stream: what comes first on it is SETUP.
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, true)
		s.run(`
			accept uni a
			a want 01 | 04 01 05 01 0a
			a want fin
			none uni
		`)
	}, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestAPeerWithoutSetupIsAnsweredAfterTwoSeconds(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, false)
		s.publisher("cam")
		s.run("open bidi a\n a write " + request(v) + "\n wait 1999ms\n a want nothing\n wait 2ms")
		s.run(map[lite.Version]string{
			lite.Lite05: `a want 02 0a 01 | 07 01 03"cam" 01 03`,
			lite.Lite06: `a want 02 0a 01 | 00 08 03"cam" 01 03 01 02`,
		}[v])
	}, lite.Lite05, lite.Lite06)
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, false)
		pub, _ := s.publisher("cam")
		s.run("open bidi b\n b write " + subscribeTo(v, "c8") + "\n wait 1999ms")
		if n := s.origin.Stats().Tracks.Load(); n != 0 {
			t.Fatalf("%d tracks are requested after 1,999 ms, want 0", n)
		}
		s.run("wait 2ms")
		pub.producer(t, 0)
	}, lite.Lite05, lite.Lite06)
}

func TestAnAnnounceStreamWithNothingToSayStaysOpen(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		ok := "nothing"
		if v.HasAnnounceOK() {
			ok = "02 0a 00"
		}
		asked := request(v)
		refused := strings.Replace(strings.Replace(asked, "01 00", "03 02\"..\"", 1), "02 00 07", "04 02\"..\" 07", 1)
		s.run(`
			open bidi a
			a write ` + asked + `
			a want ` + ok + `
			open bidi b
			b write ` + refused + `   # a prefix that nobody may ask for
			b want ` + ok + `
			wait 10m
			a want nothing
			b want nothing
			a fin
			a want fin
			b fin
			b want fin
		`)
	}, versions...)
}

func TestGroupsThatOvertakeTheAnswerAreKept(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		sub := s.viewer(t, model.Options{Priority: 200})
		defer sub.Close()
		synctest.Wait()
		// The id of the first subscription is 0, whatever is still to be said about it.
		s.run(`
			open uni g
			g write ` + oneGroup(v, "00") + `
			g fin
			wait 3s
		`)
		if v.HasTrack() {
			s.run(`
				accept bidi t
				t write ` + trackInfo(v) + `
				t fin`)
		} else {
			s.run(`
				accept bidi a
				a write 00 05 c8 00 00 00 00`)
		}
		r := next(t, sub)
		defer r.Close()
		f, err := r.NextFrame(within(t))
		if err != nil || f.Size != 3 {
			t.Fatalf("first frame is %+v, %v", f, err)
		}
	}, versions...)
}

func TestGroupsOfATrackThatIsNotAcceptedInTimeAreStopped(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		sub := s.viewer(t, model.Options{})
		defer sub.Close()
		s.run(`
			open uni g
			g write ` + oneGroup(v, "00") + `
			wait 6s
			g want stop 1
			alive
		`)
		synctest.Wait() // what it counts may come after what it sends
		if got := s.counters.Malformed.Load(); got != 0 {
			t.Fatalf("%d streams count as malformed, want 0", got)
		}
	}, versions...)
}

func TestTimestampsRestartWithEachStream(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		group(t, p, 0, "key", "p")
		s.run("accept uni g\n g want " + oneGroup(v, "00") + "\n g want fin")
		group(t, p, 1, "key", "p")
		s.run("accept uni h\n h want " + oneGroup(v, "01") + "\n h want fin")

		// And of what is received.
		w := server(t, v)
		sub := w.upstream(t, v)
		defer sub.Close()
		for _, n := range []string{"00", "01"} {
			w.run("open uni g\n g write " + oneGroup(v, n) + "\n g fin")
			r := next(t, sub)
			if f, err := r.NextFrame(within(t)); err != nil || f.Timestamp != 1000 {
				t.Fatalf("group %s begins at %d, %v, want 1000", n, f.Timestamp, err)
			}
			r.Close()
		}
	}, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestPathsAreComparedInNormalForm(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("room/a")
		written := `02 | 15 00 08"/room//a" 05"video" c8 00 00 00 00`
		if v.HasFrameBounds() {
			written = `02 | 16 00 08"/room//a" 05"video" c8 00 00 00 00 00`
		}
		s.run("open bidi a\n a write " + written)
		if p := pub.producer(t, 0); p.Path() != "room/a" {
			t.Fatalf("path is %q", p.Path())
		}
	}, versions...)
}

func TestPrefixesMatchWholeSegmentsAndASuffixMayBeEmpty(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.publisher("foo")
		s.publisher("foo/x")
		s.publisher("foobar")
		asked := `01 | 04 03"foo"`
		if v.HasExcludeHop() {
			asked = `01 | 05 03"foo" 07`
		}
		s.run("open bidi a\n a write " + asked)
		s.run(map[lite.Version]string{
			lite.Lite03: `a want 03 01 00 02 | 04 01 01"x" 02`,
			lite.Lite04: `a want 05 01 00 02 03 0a | 06 01 01"x" 02 03 0a`,
			lite.Lite05: `a want 02 0a 02 | 04 01 00 01 03 | 05 01 01"x" 01 03`,
			lite.Lite06: `a want 02 0a 02 | 00 05 00 01 03 01 02 | 00 06 01"x" 01 03 01 02`,
		}[v])
		s.run("a want nothing")
	}, lite.Lite03, lite.Lite04, lite.Lite05, lite.Lite06)
}

func TestMaxAgeZeroMeansTheLatestGroupOnly(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		if got := p.Preferences(); got.MaxLatency != 0 || got.HasEnd {
			t.Fatalf("preferences are %+v, want no latency and no end", got)
		}
		// A group that stays open is cut when the next one begins.
		g, err := p.Group(0, model.Window{})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.WriteFrame(t.Context(), []byte{0, 1}, 0, []byte("x")); err != nil {
			t.Fatal(err)
		}
		s.run(`accept uni g`)
		synctest.Wait()
		group(t, p, 1, "key", "p")
		s.run(`
			g want reset 0x34
			accept uni h
			h want ` + oneGroup(v, "01") + `
			h want fin
		`)
	}, versions...)
}

func TestHopIDsStayBelowTwoToThe53(t *testing.T) {
	for range 1000 {
		id := model.NewOrigin(model.Config{}).ID()
		if id == 0 || id >= 1<<53 {
			t.Fatalf("hop id is %d", id)
		}
	}
}

func TestEveryTrackStreamIsAnsweredAgain(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		for range 3 {
			s.run(`
				open bidi t
				t write 06 | 0a 03"cam" 05"video"
				t fin
				t want ` + trackInfo(v) + `
				t want fin
				wait 100ms
			`)
		}
		if n := len(pub.producers); n != 1 {
			t.Fatalf("the publisher was asked %d times, want 1", n)
		}
	}, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestAnOpenTrackStreamIsDemand(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run(`
			open bidi t
			t write 06 | 0a 03"cam" 05"video"
			t want ` + trackInfo(v) + `
			t want fin
			wait 1m
		`)
		p := pub.producer(t, 0)
		select {
		case <-p.Done():
			t.Fatal("the request upstream ended while the TRACK stream was open")
		default:
		}
		s.run(`
			t fin
			wait 2s
		`)
		select {
		case <-p.Done():
		default:
			t.Fatal("the request upstream outlives the TRACK stream")
		}
	}, lite.Lite05, lite.Lite06)
}

func TestAResetWithCodeZeroIsRoutine(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		s.run(`
			open uni g
			g write ` + oneGroup(v, "00") + `
			g reset 0
			a reset 0
			alive
		`)
		synctest.Wait() // what it counts may come after what it sends
		if got := s.counters.Malformed.Load(); got != 0 {
			t.Fatalf("%d streams count as malformed, want 0", got)
		}
	}, versions...)
}

func TestARefusalByAnOlderPeerReadsAsNotFound(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		sub := s.viewer(t, model.Options{})
		defer sub.Close()
		s.run(`
			accept bidi a
			a reset 0
			a stop 0
		`)
		if _, err := sub.Info(within(t)); err != model.ErrNotFound {
			t.Fatalf("the viewer is told %v, want %v", err, model.ErrNotFound)
		}
	}, lite.Lite03, lite.Lite04, lite.Lite05, lite.Lite06wip)
}
