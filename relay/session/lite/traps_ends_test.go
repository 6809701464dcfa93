package lite

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

func TestLateGroupsOfAnEndedSubscriptionAreStoppedQuietly(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		sub.Close()
		s.run(`
			a want ` + map[bool]string{true: "06 00 00 00 00 00 00", false: "05 00 00 00 00 00"}[v.HasFrameBounds()] + ` # nobody's wishes
			wait 2s          # the unsubscribe delay
			a want fin
			open uni g
			g write ` + oneGroup(v, "00") + `
			g want stop 1
			alive
		`)
		if n := s.session.Stats().Pulls; n != 0 {
			t.Fatalf("%d tracks are still asked for", n)
		}
		// The next subscription has another id.
		sub = s.viewer(t, model.Options{Priority: 200})
		defer sub.Close()
		if v.HasTrack() {
			s.run("accept bidi t\n t write " + trackInfo(v))
		}
		s.run("accept bidi b\n b want " + strings.Replace(subscribeTo(v, "c8"), ` 00 03"cam"`, ` 01 03"cam"`, 1))
	}, versions...)
}

func TestShortTransactionsGiveTheirStreamsBack(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		// Two streams at a time, a hundred questions.
		pipe := transport.PipeConfig{HasURI: true, Server: transport.PipeGrant{MaxStreams: 3}}
		s := newScript(t, v, Config{}, pipe, false)
		s.opening(v)
		s.publisher("cam")
		for range 100 {
			s.run(`
				open bidi t
				t write 06 | 0a 03"cam" 05"video"
				t fin
				t want ` + trackInfo(v) + `
				t want fin
				open bidi x
				x write 03 | 0b 03"cam" 05"video" 00 ` + map[lite.Version]string{lite.Lite05: "00", lite.Lite06: "00 00 00"}[v])
		}
	}, lite.Lite05)
}

func TestSetupValuesAreRawBytes(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, false)
		s.run(`
			open uni mine
			mine write 01 | 0b 01 05 08 c01439 73c4efece4  # Hop in eight bytes that are no UTF-8
			mine fin
			wait 10ms
			alive
		`)
		if got := s.session.identity().ID; got != 0x143973c4efece4 {
			t.Fatalf("hop is %#x", got)
		}
	}, lite.Lite05, lite.Lite06)
}

func TestTheEndOfATrackIsEndAndFinFrom05(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		group(t, p, 0, "key", "p")
		p.Finish(1)
		p.Close()
		s.run(`
			accept uni g
			g want ` + oneGroup(v, "00") + `
			g want fin
			a want 00 01 00   # OK: group 0
			a want 01 01 01   # END: 1 never comes
			a want fin
		`)
	}, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestATrackWithoutGroupsEndsWithoutOK(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		p.Finish(0)
		p.Close()
		s.run(`
			a want 01 01 00
			a want fin
		`)
	}, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestTheEndOfATrackRetractsTheBroadcastOn03And04(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, cam := s.publisher("cam")
		active := map[lite.Version]string{lite.Lite03: `06 01 03"cam" 02`, lite.Lite04: `08 01 03"cam" 02 03 0a`}[v]
		s.run(`
			open bidi x
			x write ` + request(v) + `
			x want ` + active + `
			open bidi a
			a write ` + subscribeTo(v, "c8") + `
			a want ` + accepted(v))
		p := pub.producer(t, 0)
		s.run(`
			open bidi b
			b write ` + strings.Replace(strings.Replace(subscribeTo(v, "c8"), ` 00 03"cam"`, ` 01 03"cam"`, 1), `"video"`, `"audio"`, 1) + `
			b want ` + accepted(v))
		p.Finish(0)
		p.Close()
		s.run(`
			a want fin
			x want nothing           # another track of it is live
		`)
		pub.producer(t, 1).Fail(model.ErrSourceGone)
		s.run(`
			b want reset 3
			x want 06 00 03"cam" 00  # the last one has ended
			x want nothing
		`)
		cam.Update([]uint64{3, 4}, 1, 1)
		s.run(`x want ` + map[lite.Version]string{lite.Lite03: `06 01 03"cam" 03`, lite.Lite04: `09 01 03"cam" 03 03 04 0a`}[v])
	}, lite.Lite03, lite.Lite04)
}

func TestAnAnnounceStreamIsLeftWithFinAndStop(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		s.run(`
			ann fin
			ann want fin
		`)
		synctest.Wait()
		s.wantRoutes(t) // what was learned on it is gone

		// A peer that only stops reading is let go as well.
		s.run(`
			open bidi a
			a write ` + request(v) + `
			wait 10ms
			a stop 0
			a want stop 1
			alive
		`)
	}, versions...)
}

func TestExcludedHopsAreNotShown(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		l, _ := s.publisher("ours")
		s.origin.Announce(model.Route{Path: "theirs", Hops: []uint64{7, 3}, Source: l})
		s.run("open bidi a\n a write " + request(v))
		s.run(map[lite.Version]string{
			lite.Lite04:    `a want 09 01 04"ours" 02 03 0a`,
			lite.Lite05:    `a want 02 0a 01 | 08 01 04"ours" 01 03`,
			lite.Lite06wip: `a want 02 0a 01 | 00 08 04"ours" 01 03 01`,
			lite.Lite06:    `a want 02 0a 01 | 00 09 04"ours" 01 03 01 02`,
		}[v])
		s.run("a want nothing")
		// Nor served: by the same filter.
		body := `02 | 13 00 06"theirs" 05"video" c8 00 00 00 00`
		if v.HasFrameBounds() {
			body = `02 | 14 00 06"theirs" 05"video" c8 00 00 00 00 00`
		}
		s.run("open bidi b\n b write " + body + "\n b want reset 0x36")
	}, lite.Lite04, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestASessionIsNotShownItsOwnBroadcasts(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, false)
		if v.HasSetup() {
			s.run("open uni mine\n mine write 01 | 01 00\n mine fin\n accept uni setup")
		}
		s.run("accept bidi ann")
		s.streams["ann"].clear()
		s.announceCam(v)
		ok := "nothing"
		if v.HasAnnounceOK() {
			ok = "02 0a 00"
		}
		s.run(`
			open bidi a
			a write ` + map[bool]string{true: "01 | 02 00 00", false: "01 | 01 00"}[v.HasExcludeHop()] + `
			a want ` + ok + `
			a want nothing
		`)
	}, versions...)
}

func TestTwoSecondsAreTheLongestWaitForAHalfThatNeverEnds(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		p.Finish(0)
		p.Close()
		s.run(`wait 10ms`)
		if n := s.session.Stats().Requests; n != 0 {
			t.Fatalf("%d requests are open, want 0 at once", n)
		}
		s.run(`
			wait 1s
			a write 05 c8 00 00 00 00   # an update that comes too late is no fault
			wait 2s
			a want stop 1
			alive
		`)
	}, lite.Lite03, lite.Lite04, lite.Lite05)
}
