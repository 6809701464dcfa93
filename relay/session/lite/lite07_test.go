package lite

import (
	"bytes"
	"context"
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
	"github.com/moqrelay/operator/relay/wire/lite"
)

// Two instances of a publisher.
const (
	epoch1 = "10 0198c0de00007abc8def0123456789ab"
	epoch2 = "10 0198c0de00007abc8def0123456789ac"
)

func epochOf(t *testing.T, text string) [16]byte {
	t.Helper()
	b, err := parseBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	return [16]byte(b[1:])
}

// server07 returns a peer of 07 after the opening.
func server07(t *testing.T, cfg Config) *script {
	t.Helper()
	s := newScript(t, lite.Lite07wip, cfg, transport.PipeConfig{HasURI: true, Path: "/room?jwt=first"}, false)
	s.run(`
		accept uni setup
		setup want 01 | 04 01 05 01 0a   # SETUP, one parameter: Hop 10
		setup want fin
		open uni mine
		mine write 01 | 04 01 05 01 07   # Hop 7
		mine fin
		accept bidi ann
		ann want 01 | 02 00 01           # prefix "", hidden ones too
	`)
	return s
}

func in07(t *testing.T, test func(t *testing.T, s *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, server07(t, Config{})) })
}

func TestAViewerOf07GetsItsOwnNumbersTheLargestPlaceAndTheCountOfStreams(t *testing.T) {
	in07(t, func(t *testing.T, s *script) {
		pub, _ := s.publisher("room/cam")
		s.run(`
			open bidi a
			a write 02 | 13 80c8 03"cam" 00 05"video" 80 00 00 00 00 00   # id 200, any epoch
		`)
		p := pub.producer(t, 0)
		group(t, p, 0, "key", "p")
		s.run(`
			accept uni g
			g want 00 | 04 80c8 00 00 | 87d0 03"key" 50 01"p"   # 1000 is 2000 in zigzag, +40 is 80
			g want fin
			a want 00 03 00 01 01      # from group 0; the largest is group 0, frame 1
		`)
		p.Finish(1)
		p.Close()
		s.run(`
			a want 01 02 01 01         # ends before group 1; one stream was opened
			wait 9s
			a want nothing             # until the subscriber acknowledges
			a fin
			a want fin
			alive
		`)
	})
}

func TestASubscriberOf07ThatAcknowledgesNothingGetsTheFINAfterTenSeconds(t *testing.T) {
	in07(t, func(t *testing.T, s *script) {
		pub, _ := s.publisher("room/cam")
		s.run(`
			open bidi a
			a write 02 | 12 01 03"cam" 00 05"video" 80 00 00 00 00 00
		`)
		p := pub.producer(t, 0)
		p.Finish(0)
		p.Close()
		s.run(`
			a want 01 02 00 00
			wait 9s
			a want nothing
			wait 2s
			a want fin
		`)
	})
}

func TestWeAcknowledgeTheEndOf07WhenEveryStreamHasCome(t *testing.T) {
	in07(t, func(t *testing.T, s *script) {
		s.run(`ann write 02 07 01 | 00 0b 00 00 03"cam" 00 00 00 00 00`)
		s.bench.mustSee(s.origin, "room/cam")
		sub, err := s.origin.Subscribe("room/cam", "video", model.Peer{}, model.Options{MaxLatency: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		s.run(`
			accept bidi t
			t want 06 | 0b 03"cam" 00 05"video"
			t write 05 02 9388 83e8
			t fin
			accept bidi a
			a want 02 | 13 00 03"cam" 00 05"video" 00 9388 00 00 00 00
			a write 00 02 00 00
			a write 01 02 0a 02            # ends before group 10; two streams were opened
			open uni g
			g write 00 | 03 00 00 00 | 87d0 03"key"
			g fin
			a want nothing
			open uni h
			h write 00 | 03 00 05 00 | 87d0 01"p"
			h fin
			a want fin
		`)
		for _, want := range []string{"p", "key"} { // the newest first
			r := next(t, sub)
			f, err := r.NextFrame(within(t))
			payload, _ := r.Payload(within(t))
			if err != nil || string(payload) != want || f.Timestamp != 1000 {
				t.Errorf("frame %q at %d, %v, want %q at 1000", payload, f.Timestamp, err, want)
			}
			r.Close()
		}
	})
}

func TestAnnouncementsOf07AreCopiedRestartedAndHaveOneCost(t *testing.T) {
	in07(t, func(t *testing.T, s *script) {
		s.run(`
			ann write 02 07 02
			ann write 00 20 00 00 06"room/a" ` + epoch1 + ` 00 02 05 06 00 03   # hops 5 6
			ann write 00 0d 01 01 03"mic" 00 01 01 09 01 80c8                 # room/mic, hops 9 6, cost 200
		`)
		s.bench.mustSee(s.origin, "room/room/mic")
		check := func(path model.Path, epoch [16]byte, warm uint64, hops ...uint64) {
			t.Helper()
			for _, r := range s.origin.Routes() {
				if r.Path == path {
					if r.Epoch != epoch || r.Warm != warm || !slices.Equal(r.Hops, hops) {
						t.Errorf("%s: epoch %x, cost %d, hops %v, want %x, %d, %v", path, r.Epoch, r.Warm, r.Hops, epoch, warm, hops)
					}
					return
				}
			}
			t.Errorf("%s is not announced", path)
		}
		check("room/room/a", epochOf(t, epoch1), 4, 5, 6, 7) // one more for the link, and the peer behind the chain
		check("room/room/mic", [16]byte{}, 201, 9, 6, 7)
		s.run(`
			ann write 03 16 00 ` + epoch2 + ` 00 00 00 02   # another instance, no hops, cost 2
			ann write 02 06 01 02 01 08 00 00               # mic: hop 8 alone
		`)
		synctest.Wait()
		check("room/room/a", epochOf(t, epoch2), 3, 7)
		check("room/room/mic", [16]byte{}, 1, 8, 7)
		s.run(`
			ann write 00 09 00 00 01"x" 02 00 00 00 00      # an epoch of two bytes
			ann want reset 0
			alive
		`)
	})
}

func TestACopyOfWhatWasNeverThereEndsTheSessionOf07(t *testing.T) {
	in07(t, func(t *testing.T, s *script) {
		s.run(`
			ann write 02 07 00
			ann write 00 09 01 01 01"x" 00 00 00 00 00
			close 0x3 the announcement 1 back is not live
		`)
	})
}

func TestAPeerOf07SeesHiddenPathsAndInstancesAsItAsksForThem(t *testing.T) {
	in07(t, func(t *testing.T, s *script) {
		l := &local{info: model.Info{Timescale: 1000}}
		first := s.origin.Announce(model.Route{Path: "room/cam", Hops: []uint64{3}, Warm: 1, Source: l, Epoch: epochOf(t, epoch1)})
		s.origin.Announce(model.Route{Path: "room/.stats/x", Hops: []uint64{3, 4}, Warm: 1, Source: l})
		s.run(`
			open bidi a
			a write 01 | 02 00 00
			a want 02 0a 01 | 00 1c 00 00 03"cam" ` + epoch1 + ` 00 01 03 00 01
			open bidi b
			b write 01 | 08 06".stats" 00     # what is hidden below the prefix counts, not the prefix
			b want 02 0a 01 | 00 0b 00 00 01"x" 00 00 02 03 04 00 01
			open bidi c
			c write 01 | 02 00 01
			c want 02 0a 02 | 00 12 00 00 08".stats/x" 00 00 02 03 04 00 01 | 00 1c 00 00 03"cam" ` + epoch1 + ` 00 01 03 00 01
		`)
		s.origin.Announce(model.Route{Path: "room/cam", Hops: []uint64{4}, Warm: 2, Source: &local{}, Epoch: epochOf(t, epoch2)})
		first.Withdraw()
		s.run(`
			a want 03 17 00 ` + epoch2 + ` 00 01 04 00 02
			open bidi d
			d write 02 | 22 00 03"cam" ` + epoch1 + ` 05"video" 80 00 00 00 00 00
			d want reset 0x36              # that instance is not there any more
			alive
		`)
	})
}

func TestATokenOnAnAuthStreamAddsToTheGrantUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		pattern := func(text string) []model.Pattern {
			p, err := model.ParsePattern(text)
			if err != nil {
				t.Fatal(err)
			}
			return []model.Pattern{p}
		}
		s := server07(t, Config{Authorize: func(_ context.Context, request string) (session.Grant, error) {
			switch request {
			case "/room?jwt=first":
				return session.Grant{Root: "room", Subscribe: pattern("room/a/**"), Expires: began.Add(time.Hour)}, nil
			case "/room?jwt=more":
				return session.Grant{Root: "room", Subscribe: pattern("room/**"), Publish: pattern("room/cam"), Expires: began.Add(2 * time.Hour)}, nil
			case "/room?jwt=elsewhere":
				return session.Everything(""), nil
			}
			return session.Grant{}, errors.New("no such token")
		}})
		s.publisher("room/cam")
		ask := func(name, want string) {
			t.Helper()
			s.run("open bidi " + name + "\n " + name + ` write 06 | 0b 03"cam" 00 05"video"` + "\n " + want)
		}
		ask("t1", "t1 want reset 0x36") // the first token says room/a
		s.run(`
			open bidi x
			x write 07 | 04 03"bad"
			x want 01 0f 02 0d"no such token"
			x want fin
			open bidi y
			y write 07 | 0a 09"elsewhere"
			y want 01 32 02 30"the token is for another path than the session's"
			y want fin
			open bidi z
			z write 07 | 05 04"more"
			z want 00 0d 01 03"cam" 01 02"**" e06ddd00   # 7,200,000 ms
		`)
		ask("t2", "t2 want 05 02 9388 83e8")
		s.run(`
			wait 61m                       # the first token has expired, the other has not
			alive
		`)
		ask("t3", "t3 want 05 02 9388 83e8")
		s.run(`
			wait 60m
			z want 01 3c 02 3a"the token has expired: present a fresh one on a new stream"
			close 0x2 expired
		`)
	})
}

func TestAGroupOf07IsStoredInTheOneForm(t *testing.T) {
	in := bytes.NewReader([]byte{0x87, 0xd0, 3, 'k', 'e', 'y', 0x80, 0x50, 0})
	h := &heads{s: &Session{version: lite.Lite07wip}}
	var stored []byte
	for range 2 {
		buf := session.OpenBuffer(in)
		head, err := h.Next(buf)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, head.Stored...)
		rest, _ := io.ReadAll(buf)
		in = bytes.NewReader(rest[head.Size:])
		session.CloseBuffer(buf)
	}
	if want := "\x47\xd0\x03\x40\x50\x00"; string(stored) != want { // as moq-lite-06 writes them
		t.Errorf("stored %x, want %x", stored, want)
	}
	if strings.Contains(string(stored), "key") {
		t.Error("a head holds payload")
	}
}
