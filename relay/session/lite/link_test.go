package lite

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// every are all versions, the next draft included.
var every = append(versions[:len(versions):len(versions)], lite.Lite07wip)

func TestALinksOwnPriceBeatsThePeers(t *testing.T) {
	rows := []struct {
		name       string
		price      *uint64
		setup      string
		warm, cold uint64
	}{
		{"none said", nil, `01 | 01 00`, 6, 7},
		{"the peer's", nil, `01 | 04 01 04 01 03`, 8, 9},
		{"ours", new(uint64(10)), `01 | 04 01 04 01 03`, 15, 16},
		{"ours is nothing", new(uint64(0)), `01 | 04 01 04 01 03`, 5, 6},
		{"ours is over all", new(^uint64(0)), `01 | 04 01 04 01 03`, wire.MaxVarint, wire.MaxVarint},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Link: &Link{Price: row.price}}
				s := newScript(t, lite.Lite06, cfg, transport.PipeConfig{}, false)
				s.run(`
					accept bidi ann
					ann write 02 07 00 | 00 05 01"x" 00 05 06
					open uni a
					a write ` + row.setup + `
					a fin
					wait 10ms
				`)
				if r := s.route(t, "x"); r.Warm != row.warm || r.Cold != row.cold {
					t.Fatalf("costs are %d and %d, want %d and %d", r.Warm, r.Cold, row.warm, row.cold)
				}
			})
		})
	}
}

// metLink is a link that notes what it is told.
type metLink struct {
	calls atomic.Int32
	hop   atomic.Uint64
	err   error
}

func (m *metLink) link() *Link {
	return &Link{Met: func(hop uint64) error {
		m.calls.Add(1)
		m.hop.Store(hop)
		return m.err
	}}
}

func (m *metLink) want(t *testing.T, calls int32, hop uint64) {
	t.Helper()
	synctest.Wait()
	if m.calls.Load() != calls || m.hop.Load() != hop {
		t.Fatalf("the link was told %d times, last of hop %d; want %d times, hop %d", m.calls.Load(), m.hop.Load(), calls, hop)
	}
}

func TestALinkIsToldOnceWhoThePeerIs(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		var m metLink
		s := newScript(t, v, Config{Link: m.link()}, transport.PipeConfig{}, false)
		if !v.HasSetup() {
			m.want(t, 1, 0)
			return
		}
		s.run("accept bidi ann\n open bidi b\n b write " + linkRequest(v) + "\n wait 1s")
		m.want(t, 0, 0)
		s.run("open uni a\n a write 01 | 04 01 05 01 07\n a fin\n wait 10s\n alive")
		m.want(t, 1, 7)
	}, every...)
}

func TestALinkIsMetWithHop0WhereSetupIsNotWaitedForAnyMore(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		var m metLink
		s := newScript(t, v, Config{Link: m.link()}, transport.PipeConfig{}, false)
		s.run("wait 2s")
		m.want(t, 1, 0)
		s.run("open uni a\n a write 01 | 04 01 05 01 07\n a fin\n wait 1s\n alive")
		m.want(t, 1, 0) // it is not told again
		if got := s.session.Stats().PeerHop; got != 7 {
			t.Fatalf("the peer's hop is %d, want 7: it was told late", got)
		}
	}, lite.Lite05, lite.Lite06, lite.Lite07wip)
}

func TestALinkThatIsRefusedEndsWithNoErrorAndHasShownAndTakenNothing(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		m := metLink{err: errors.New("the other session stays")}
		s := newScript(t, v, Config{Link: m.link()}, transport.PipeConfig{}, false)
		s.publisher("cam")
		if v.HasSetup() {
			s.run(`
				accept bidi ann
				ann write 02 07 00 | 00 05 01"x" 00 05 06
				open bidi b
				b write ` + linkRequest(v) + `
				wait 1s
				b want nothing
				open uni a
				a write 01 | 04 01 05 01 07
				a fin
			`)
		}
		s.run("close 0x0 the other session stays")
		m.want(t, 1, map[bool]uint64{true: 7}[v.HasSetup()])
		if st := s.streams["b"]; st != nil {
			st.mu.Lock()
			defer st.mu.Unlock()
			if len(st.got) > 0 {
				t.Fatalf("%x was shown", st.got)
			}
		}
		for _, r := range s.origin.Routes() {
			if r.Path != "cam" {
				t.Fatalf("%q was taken over", r.Path)
			}
		}
	}, every...)
}

func TestALinkAsksNobodyForAGrantAndHasNoRequestPath(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		asked := false
		cfg := Config{
			Root: "all", Link: &Link{},
			Authorize: func(context.Context, string) (session.Grant, error) {
				asked = true
				return session.Grant{}, errors.New("no token")
			},
		}
		s := newScript(t, v, cfg, transport.PipeConfig{HasURI: true, Path: "/room?jwt=x"}, false)
		s.opening(v)
		s.run("ann write " + announcementOf(v, `01"x"`) + "\n wait 10ms\n alive")
		s.route(t, "all/x")
		if asked {
			t.Fatal("a grant was asked for")
		}
	}, versions...)
}

// linkRequest is request, which 07 has a flag in for hidden paths.
func linkRequest(v lite.Version) string {
	if v.HasHidden() {
		return "01 | 02 00 01"
	}
	return request(v)
}

// announcementOf is a whole answer to our ANNOUNCE_REQUEST, with one announcement.
func announcementOf(v lite.Version, suffix string) string {
	switch {
	case v == lite.Lite03:
		return `04 01 ` + suffix + ` 01`
	case v == lite.Lite04:
		return `05 01 ` + suffix + ` 01 07`
	case v == lite.Lite05:
		return `02 07 01 | 04 01 ` + suffix + ` 00`
	case v == lite.Lite06wip:
		return `02 07 01 | 00 04 ` + suffix + ` 00 05`
	}
	return `02 07 01 | 00 05 ` + suffix + ` 00 05 06`
}

func TestALinkHasLimitsOfItsOwn(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{Link: &Link{}, Limits: session.Limits{Announcements: 2}}, transport.PipeConfig{}, false)
		s.opening(v)
		s.run(`ann write 02 07 00 | 00 05 01"a" 00 00 00 | 00 05 01"b" 00 00 00 | 00 05 01"c" 00 00 00` + "\n wait 10ms\n alive")
		s.wantRoutes(t, "a", "b", "c")
	}, lite.Lite06)
}

func TestThePeersHopIsInStats(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		want := uint64(7)
		switch v {
		case lite.Lite03:
			want = 0
		case lite.Lite04: // it says so when it asks for announcements
			s.run("open bidi a\n a write 01 | 02 00 07\n wait 10ms")
		}
		synctest.Wait()
		if got := s.session.Stats().PeerHop; got != want {
			t.Fatalf("the peer's hop is %d, want %d", got, want)
		}
	}, versions...)
}

func TestHiddenPathsTravelOnLinks(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		one, two := newOrigin(10), newOrigin(11)
		b.connect(v, Config{Origin: one, Link: &Link{}}, Config{Origin: two, Link: &Link{}}, transport.PipeConfig{})
		info := model.Info{Timescale: 1000}
		b.announce(one, ".stats/one", info, nil)
		b.announce(two, "room/.stats/two", info, nil)
		b.mustSee(two, ".stats/one")
		b.mustSee(one, "room/.stats/two")
		advance(time.Second)
	}, every...)
}
