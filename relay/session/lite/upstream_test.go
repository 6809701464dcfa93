package lite

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// pair returns a peer that publishes "cam" and one that watches, of one relay,
// both of the same version. The viewer has asked for "cam" "video" on stream "v".
func pair(t *testing.T, v lite.Version) (publisher, viewer *script) {
	t.Helper()
	publisher = server(t, v)
	publisher.announceCam(v)
	viewer = newScript(t, v, Config{Origin: publisher.origin}, transport.PipeConfig{HasURI: true}, false)
	viewer.openingOf(v, "08")
	viewer.run("open bidi v\n v write " + subscribeTo(v, "c8"))
	return publisher, viewer
}

func TestASilentPublisherIsGivenUpAfterFiveSeconds(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		publisher, viewer := pair(t, v)
		publisher.run("accept bidi a")
		viewer.run(`
			wait 4900ms
			v want nothing
			wait 200ms
			v want reset 0x31   # CONTROL_TIMEOUT
			alive
		`)
		if v.HasTrack() {
			publisher.run("a want reset 1   # TRACK")
		} else {
			publisher.run("a want " + subscribeTo(v, "c8") + "\n a want fin")
		}
		publisher.run("a want stop 1\n alive")
	}, versions...)
}

func TestAPublishersRefusalTravelsWithItsCode(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		publisher, viewer := pair(t, v)
		publisher.run("accept bidi a\n a reset 0x45")
		viewer.run("v want reset 0x45\n alive")
	}, versions...)
	scripted(t, func(t *testing.T, v lite.Version) {
		publisher, viewer := pair(t, v)
		publisher.run("accept bidi a\n a reset 0x33")
		viewer.run("v want reset 0x33\n alive")
	}, lite.Lite06)
}

// The publisher lets 40 bytes of a stream in and reads none of them.
func TestAPublisherThatTakesNoUpdateLosesTheSubscription(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		grant := transport.PipeGrant{Windows: transport.Windows{Stream: 40, Connection: 1 << 20}}
		s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true, Client: grant}, false)
		s.opening(v)
		sub := s.upstream(t, v)
		defer sub.Close()
		s.deaf.Store(!v.HasTrack())
		other := s.viewerOf(t, "audio", model.Options{})
		defer other.Close()
		if v.HasTrack() {
			s.run("accept bidi t\n t want 06 | 0a 03\"cam\" 05\"audio\"")
			s.deaf.Store(true) // for what comes next
			s.run("t write " + trackInfo(v) + "\n t fin")
		}
		s.run("accept bidi b")
		if !v.HasTrack() {
			s.run("b write " + accepted(v))
		}
		if _, err := other.Info(within(t)); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			other.Update(model.Options{Priority: uint8(i + 1)})
			s.run("wait 100ms")
		}
		s.run("wait 4s\n alive")
		if err := endOf(t, other); err != nil {
			t.Fatalf("after 4 seconds: %v", err)
		}
		s.run("wait 2s\n alive")
		if err := endOf(t, other); !errors.Is(err, model.ErrUpstreamTimeout) {
			t.Fatalf("after 6 seconds: %v, want %v", err, model.ErrUpstreamTimeout)
		}
		if err := endOf(t, sub); err != nil {
			t.Fatalf("the other track: %v", err)
		}
	}, versions...)
}

// endOf is the error that a subscription has ended with, nil while it has not.
func endOf(t *testing.T, sub *model.Subscription) error {
	t.Helper()
	select {
	case <-sub.Ended():
	default:
		return nil
	}
	_, err := sub.Next(within(t))
	return err
}

// viewerOf subscribes to a track of "cam" in the relay's own process.
func (s *script) viewerOf(t *testing.T, track string, o model.Options) *model.Subscription {
	t.Helper()
	sub, err := s.origin.Subscribe("cam", track, model.Peer{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// announcedTo returns a viewer that asked for announcements on stream "e" and was
// told of "cam".
func announcedTo(t *testing.T, origin *model.Origin) *script {
	t.Helper()
	viewer := newScript(t, lite.Lite03, Config{Origin: origin}, transport.PipeConfig{HasURI: true}, false)
	viewer.run("accept bidi ann")
	viewer.run(`
		open bidi e
		e write 01 | 01 00
		e want 06 01 03"cam" 02
	`)
	return viewer
}

// Of "cam", as 03 has it.
const (
	camEnded   = `06 00 03"cam" 00`
	camStarted = `06 01 03"cam" 02`
)

func TestAWithdrawalIsAtOnceAndALossAfterFiveSeconds(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(s *script)
		lost bool
	}{
		{"the announcement ends", func(s *script) { s.run("ann write 01 01 00") }, false},
		{"the Announce stream ends", func(s *script) { s.run("ann fin") }, false},
		{"the session ends with NO_ERROR", func(s *script) { s.conn.Close(0, "") }, false},
		{"the Announce stream is reset", func(s *script) { s.run("ann reset 1") }, true},
		{"the session ends with an error", func(s *script) { s.conn.Close(1, "") }, true},
		{"the connection is lost", func(s *script) { s.ours.Lose(nil) }, true},
		{"the session is closed for a fault", func(s *script) { s.run("open uni x\n x write 01 01 00\n close 3") }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				publisher := server(t, lite.Lite06)
				publisher.announceCam(lite.Lite06)
				viewer := announcedTo(t, publisher.origin)
				row.end(publisher)
				if row.lost {
					viewer.run("wait 4900ms\n e want nothing\n wait 200ms")
				}
				synctest.Wait()
				if want, _ := parseBytes(camEnded); !bytes.Equal(viewer.streams["e"].bytes(), want) {
					t.Fatalf("the viewer was told %x, want %x", viewer.streams["e"].bytes(), want)
				}
			})
		})
	}
}

// The path of a publisher that returns in time is announced all the while. What is
// the same content by its first hop goes on; to a viewer of 03 another one is an
// end and a start.
func TestAPublisherThatReturnsInTimeKeepsItsPath(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		publisher := server(t, v)
		publisher.announceCam(v)
		viewer := announcedTo(t, publisher.origin)
		publisher.ours.Lose(nil)
		viewer.run("wait 4s\n e want nothing")
		again := newScript(t, v, Config{Origin: publisher.origin}, transport.PipeConfig{HasURI: true}, false)
		again.opening(v)
		again.announceCam(v)
		viewer.run("wait 1m")
		want := camEnded + camStarted
		if v == lite.Lite05 || v == lite.Lite06wip {
			want = ""
		}
		if want, _ := parseBytes(want); !bytes.Equal(viewer.streams["e"].bytes(), want) {
			t.Fatalf("the viewer was told %x, want %x", viewer.streams["e"].bytes(), want)
		}
		again.run("alive")
		if r := viewer.route(t, "cam"); r.Source != again.session {
			t.Fatal("the route is not the new session's")
		}
	}, versions...)
}

// On 05 a viewer keeps its subscription when its publisher returns; on 06 it is
// reset and comes again.
func TestAReturningPublisherIsSplicedInOn05Alone(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		publisher, viewer := pair(t, v)
		answer := func(s *script, n string) {
			s.run("accept bidi t\n t want 06 | 0a 03\"cam\" 05\"video\"\n t write " + trackInfo(v) + "\n t fin\n accept bidi a")
			s.run("open uni g\n g write " + oneGroup(v, n) + "\n g fin")
		}
		answer(publisher, "05")
		viewer.run("accept uni g\n g want " + oneGroup(v, "05") + "\n g want fin\n v want 00 01 05")
		publisher.ours.Lose(nil)
		viewer.run("wait 2s")
		again := newScript(t, v, Config{Origin: publisher.origin}, transport.PipeConfig{HasURI: true}, false)
		again.opening(v)
		again.announceCam(v)
		if v == lite.Lite06 {
			viewer.run("v want reset 3   # SESSION_CLOSED")
			again.run("none bidi")
			return
		}
		answer(again, "06")
		viewer.run("accept uni h\n h want " + oneGroup(v, "06") + "\n h want fin\n v want nothing\n alive")
	}, lite.Lite05, lite.Lite06wip, lite.Lite06)
}
