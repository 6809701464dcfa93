package lite

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// twoLinks returns two peers of one relay, of hops 7 and 8. The first one is the
// cheaper way to cam; both announce it with the epoch.
func twoLinks(t *testing.T, v lite.Version, epoch string) (first, second *script) {
	t.Helper()
	origin := newOrigin(relayID)
	link := func(hop, cost string) *script {
		s := newScript(t, v, Config{Origin: origin, Link: &Link{}}, transport.PipeConfig{HasURI: true}, false)
		if v.HasHidden() {
			s.run(`
				accept uni setup
				open uni mine
				mine write 01 | 04 01 05 01 ` + hop + `
				mine fin
				accept bidi ann
				ann want 01 | 02 00 01
				ann write 02 ` + hop + ` 01 | 00 1c 00 00 03"cam" ` + epoch + ` 00 01 03 00 ` + cost + `
				wait 10ms
			`)
			return s
		}
		s.openingOf(v, hop)
		s.run(`ann write 02 ` + hop + ` 01 | 00 08 03"cam" 01 03 ` + cost + ` 06` + "\n wait 10ms")
		return s
	}
	return link("07", "05"), link("08", "09")
}

func TestALinkWhosePeerLostItsSourceIsTheEndOfThatWayAlone(t *testing.T) {
	for _, code := range []string{"0x3", "0x4", "0x36"} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := twoLinks(t, lite.Lite06, "")
				sub, err := first.origin.Subscribe("cam", "video", model.Peer{}, model.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer sub.Close()
				first.run(`
					accept bidi t
					t want 06 | 0a 03"cam" 05"video"
					t reset ` + code + `
				`)
				second.run(`
					accept bidi t
					t want 06 | 0a 03"cam" 05"video"
					t write ` + trackInfo(lite.Lite06))
				info, err := sub.Info(within(t))
				if err != nil || info.MaxAge != 5*time.Second {
					t.Fatalf("the other way gave %v, %v", info, err)
				}
				first.run("alive")
				second.run("alive")
			})
		})
	}
}

func TestALinkWhosePeerRefusesTheTrackIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := twoLinks(t, lite.Lite06, "")
		sub, err := first.origin.Subscribe("cam", "video", model.Peer{}, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		first.run(`
			accept bidi t
			t want 06 | 0a 03"cam" 05"video"
			t reset 0x33
		`)
		if _, err := sub.Info(within(t)); !errors.Is(err, model.ErrNotFound) {
			t.Fatalf("%v, want that there is no such track", err)
		}
		second.run("none bidi")
	})
}

func TestATrackOfOneEpochGoesOnOverAnotherLinkAndIsAskedForByThatEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := twoLinks(t, lite.Lite07wip, epoch1)
		sub, err := first.origin.Subscribe("cam", "video", model.Peer{}, model.Options{MaxLatency: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		first.run(`
			accept bidi t
			t want 06 | 1b 03"cam" ` + epoch1 + ` 05"video"
			t write 05 02 9388 83e8
			t fin
			accept bidi a
			a want 02 | 23 00 03"cam" ` + epoch1 + ` 05"video" 00 9388 00 00 00 00
			a write 00 02 00 00
			open uni g
			g write 00 | 03 00 00 00 | 87d0 03"key"
			g fin
		`)
		wantPayload(t, sub, 0, "key")
		first.run("wait 10ms\n a reset 0x3") // its source is gone; the link lives
		second.run(`
			accept bidi t
			t want 06 | 1b 03"cam" ` + epoch1 + ` 05"video"
			t write 05 02 9388 83e8
			t fin
			accept bidi a
			a want 02 | 23 00 03"cam" ` + epoch1 + ` 05"video" 00 9388 01 00 00 00   # from group 1 on
			a write 00 02 01 00
			open uni g
			g write 00 | 03 00 01 00 | 87d0 03"two"
			g fin
		`)
		wantPayload(t, sub, 1, "two")
		first.run("alive")
	})
}

// wantPayload waits for the next group, which has this number and this first frame.
func wantPayload(t *testing.T, sub *model.Subscription, sequence uint64, want string) {
	t.Helper()
	r := next(t, sub)
	defer r.Close()
	_, err := r.NextFrame(within(t))
	payload, _ := r.Payload(within(t))
	if err != nil || string(payload) != want || r.Sequence() != sequence {
		t.Fatalf("group %d begins with %q, %v; want group %d with %q", r.Sequence(), payload, err, sequence, want)
	}
}

func TestAGroupThatIsFetchedOf07IsAskedForByItsEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _ := twoLinks(t, lite.Lite07wip, epoch1)
		f, err := first.origin.Fetch("cam", "video", model.Peer{}, model.FetchOptions{Group: 4, Priority: 9})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		done := make(chan error, 1)
		go func() {
			r, err := f.Reader(t.Context())
			if err == nil {
				r.Close()
			}
			done <- err
		}()
		first.run(`
			accept bidi f
			f want 03 | 1f 03"cam" ` + epoch1 + ` 05"video" 09 04 00 00
			f want fin
			f write 87d0 03"key"
			f fin
		`)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnEpochThatWasGivenHereIsNotNamedToThePublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server07(t, Config{})
		s.run(`ann write 02 07 01 | 00 0b 00 00 03"cam" 00 00 00 00 00`)
		s.bench.mustSee(s.origin, "room/cam")
		if s.origin.Epoch("room/cam", model.Peer{}) == [16]byte{} {
			t.Fatal("no epoch was given to it")
		}
		f, err := s.origin.Fetch("room/cam", "video", model.Peer{}, model.FetchOptions{Group: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		go func() {
			if r, err := f.Reader(t.Context()); err == nil {
				r.Close()
			}
		}()
		s.run(`
			accept bidi f
			f want 03 | 0f 03"cam" 00 05"video" 00 04 00 00
			f reset 0x33
		`)
	})
}
