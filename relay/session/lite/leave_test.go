package lite

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

func TestOurGoawayEndsWhenNothingIsAskedForAnyMore(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		group(t, pub.producer(t, 0), 0, "key", "p")
		s.session.GoAway("")
		s.run(`
			accept bidi bye
			bye want 05 | 01 00
			wait 10s
			bye want nothing
			a fin
			bye want fin
			alive
		`)
	}, lite.Lite04, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestOurGoawayEndsAtOnceWhereNothingRunsAndNeverOnALinkThatStays(t *testing.T) {
	for name, link := range map[string]*Link{"fin": nil, "nothing": {Stays: true}} {
		t.Run(name, func(t *testing.T) {
			scripted(t, func(t *testing.T, v lite.Version) {
				s := newScript(t, v, Config{Link: link}, transport.PipeConfig{HasURI: true}, false)
				s.opening(v)
				s.session.GoAway("")
				s.run(`
					accept bidi bye
					bye want 05 | 01 00
					wait 10s
					bye want ` + name + `
					alive
				`)
			}, lite.Lite04, lite.Lite05, lite.Lite06wip, lite.Lite06)
		})
	}
}

func TestAClientThatWasToldToGoLeavesWhenNothingIsAskedForAnyMore(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, true)
		s.opening(v)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		group(t, pub.producer(t, 0), 0, "key", "p")
		s.run(`
			open bidi bye
			bye write 05 | 01 00
			wait 10s
			alive
			a fin
			close 0x0 nothing is asked for any more
		`)
	}, lite.Lite04, lite.Lite05, lite.Lite06wip, lite.Lite06)
}

func TestASessionThatIsToLeaveWaitsForWhatItAskedFor(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, true)
		s.opening(v)
		sub := s.upstream(t, v)
		s.session.Leave()
		s.run("wait 10s\n alive\n open uni g\n g write " + oneGroup(v, "00") + "\n g fin")
		next(t, sub).Close()
		sub.Close()
		s.run("close 0x0 nothing is asked for any more")
	}, versions...)
}

func TestRunReturnsNilAfterLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := transport.Pipe(transport.PipeConfig{Protocol: lite.Lite06.String()})
		defer far.Close(0, "")
		s := New(c, lite.Lite06, Config{Origin: newOrigin(1)})
		s.Leave() // it is done as soon as the session has begun
		if err := s.Run(t.Context()); err != nil {
			t.Fatalf("Run: %v, want nil", err)
		}
		advance(time.Minute)
	})
}
