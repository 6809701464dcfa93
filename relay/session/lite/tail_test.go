package lite

import (
	"testing"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// withEnd are the versions that have SUBSCRIBE_END.
var withEnd = []lite.Version{lite.Lite05, lite.Lite06wip, lite.Lite06}

func TestATracksPropertiesAreAskedForWithoutSubscribing(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		curious := s.viewer(t, model.Options{Passive: true})
		defer curious.Close()
		s.run(`
			accept bidi t
			t want 06 | 0a 03"cam" 05"video"
			t write ` + trackInfo(v) + `
			t fin
			none bidi
			wait 1m
			none bidi
		`)
		sub := s.viewer(t, model.Options{Priority: 200})
		defer sub.Close()
		s.run(`
			accept bidi a
			a want ` + subscribeTo(v, "c8"))
	}, withEnd...)
}

func TestOurFINSaysThatAllGroupsWereRead(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		s.run(`
			open uni g
			g write ` + oneGroup(v, "00") + `
			a write 00 01 00
			a write 01 01 01
			a fin
			wait 1m
			a want nothing
			g fin
			a want fin
		`)
	}, withEnd...)
}

func TestWhoHasAllUpToTheEndDoesNotWaitForTheFIN(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		s.run(`
			open uni g
			g write ` + oneGroup(v, "00") + `
			g fin
			a write 00 01 00   # the group has overtaken OK
			a want nothing
			a write 01 01 01
			a want fin
		`)
	}, withEnd...)
}

func TestTheFINOfATrackComesASecondAfterItsGroups(t *testing.T) {
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
			a want 00 01 00 | 01 01 01
			wait 999ms
			a want nothing
			wait 2ms
			a want fin
		`)
	}, withEnd...)
}
