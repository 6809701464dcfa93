package lite

import (
	"errors"
	"testing"

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
		s.deaf.Store(true)
		other := s.viewerOf(t, "audio", model.Options{})
		defer other.Close()
		if v.HasTrack() {
			s.deaf.Store(false)
			s.run("accept bidi t\n t want 06 | 0a 03\"cam\" 05\"audio\"\n t write " + trackInfo(v) + "\n t fin")
			s.deaf.Store(true)
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
		if err := endOf(t, other); !errors.Is(err, model.ErrSourceGone) {
			t.Fatalf("after 6 seconds: %v, want %v", err, model.ErrSourceGone)
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
