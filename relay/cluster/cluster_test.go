package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/transport"
)

func TestOneSessionIsLeftOfEachPairWhoeverDialsFirst(t *testing.T) {
	for round := range 30 {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t)
			m.slow = func() time.Duration { return rand.N(300 * time.Millisecond) }
			m.name("peers", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
			var relays []*relay
			for i, id := range shuffled(4) {
				relays = append(relays, m.start(id, fmt.Sprintf("10.0.0.%d:4444", i+1), nil))
				if rand.N(2) == 0 {
					advance(rand.N(2 * time.Second))
				}
			}
			advance(time.Minute)
			wantWhole(t, relays...)
			m.takeDials()
			advance(time.Minute)
			if again := m.takeDials(); len(again) > 0 {
				t.Errorf("round %d: a mesh that is whole still dials %v", round, again)
			}
			wantWhole(t, relays...)
		})
	}
}

func TestTheSessionStaysThatTheSmallerIDHasDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.name("peers", "10.0.0.1", "10.0.0.2")
		one := m.start(7, "10.0.0.1:4444", nil)
		advance(20 * time.Second) // it has waited for long: its dials come late
		two := m.start(3, "10.0.0.2:4444", nil)
		advance(time.Minute)
		wantWhole(t, one, two)
		if l := two.sessions()[0]; !l.Dialled {
			t.Error("the session that is left was not dialled by 3, the smaller id")
		}
		if got := one.Status().Peers[1]; got.State != "Duplicate" || got.Hop != 3 || got.Error != "" {
			t.Errorf("relay 7 shows %+v, want Duplicate of 3", got)
		}
		if got := one.Status().Peers[0]; got.State != "Self" {
			t.Errorf("relay 7 shows its own address as %+v", got)
		}
	})
}

func TestARelayFindsItselfOnceAndNotAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.name("peers", "10.0.0.1")
		r := m.start(1, "10.0.0.1:4444", nil)
		advance(10 * time.Minute)
		if dials := m.takeDials(); len(dials) != 1 {
			t.Errorf("it has dialled itself %d times in ten minutes, want once", len(dials))
		}
		if s := r.Status(); s.Expected != 0 || s.Connected != 0 || len(r.sessions()) != 0 {
			t.Errorf("expected %d, connected %d, %d sessions, want none", s.Expected, s.Connected, len(r.sessions()))
		}
		m.name("peers", "10.0.0.9") // somebody else's
		advance(lookEvery)
		m.name("peers", "10.0.0.1")
		advance(lookEvery)
		if dials := m.takeDials(); !slices.Contains(dials, "10.0.0.1:4444") {
			t.Errorf("dialled %v: an address that came back is to be looked at again", dials)
		}
	})
}

func TestTwoAddressesOfOneRelayAreOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.name("peers", "10.0.0.1", "10.0.0.2", "fd00::2")
		one := m.start(1, "10.0.0.1:4444", nil)
		two := m.start(2, "10.0.0.2:4444", nil)
		m.mu.Lock()
		m.relays["[fd00::2]:4444"] = two
		m.mu.Unlock()
		advance(time.Minute)
		if got := len(one.sessions()); got != 1 {
			t.Fatalf("%d sessions, want 1\n%s", got, one.log())
		}
		if s := one.Status(); s.Expected != 2 || s.Connected != 2 {
			t.Errorf("%d of %d connected, want both addresses", s.Connected, s.Expected)
		}
		m.takeDials()
		advance(time.Minute)
		if again := m.takeDials(); len(again) > 0 {
			t.Errorf("it still dials %v", again)
		}
	})
}

func TestARelayThatIsAwayIsDialledForEverWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.name("peers", "10.0.0.2")
		one := m.start(1, "10.0.0.1:4444", nil)
		advance(10 * time.Minute)
		m.mu.Lock()
		times := slices.Clone(m.dialled)
		m.mu.Unlock()
		bound := firstBackoff
		for i := 1; i < len(times); i++ {
			if pause := times[i] - times[i-1]; pause < bound/2 || pause > bound {
				t.Errorf("pause %d is %v, want %v to %v", i, pause, bound/2, bound)
			}
			bound = min(2*bound, lastBackoff)
		}
		if len(times) < 61 { // 600 s in pauses of at most 10 s
			t.Errorf("%d dials in ten minutes, want more than 60", len(times))
		}
		if s := one.Status(); s.Expected != 1 || s.Connected != 0 || s.Peers[0].State != "Connecting" || s.Peers[0].Error != "nobody answers" {
			t.Errorf("the status is %+v", s)
		}
		if warned := strings.Count(one.log(), "cannot reach another relay"); warned != 1 {
			t.Errorf("that it cannot be reached is said %d times, want once", warned)
		}
		two := m.start(2, "10.0.0.2:4444", func(c *Config) { c.Peers = nil })
		advance(lastBackoff)
		if s := one.Status(); s.Connected != 1 || len(two.sessions()) != 1 {
			t.Errorf("ten seconds after it came %d are connected, want 1", s.Connected)
		}
	})
}

func TestAPeerThatLeavesDNSIsKeptWhileItsSessionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.name("peers", "10.0.0.2")
		one := m.start(1, "10.0.0.1:4444", nil)
		two := m.start(2, "10.0.0.2:4444", func(c *Config) { c.Peers = nil })
		advance(lastBackoff)
		m.takeDials()
		m.name("peers", "10.0.0.3") // two is not there any more
		advance(time.Minute)
		if len(one.sessions()) != 1 {
			t.Fatal("the session ended with the address")
		}
		if s := one.Status(); s.Expected != 1 || s.Connected != 0 || len(s.Peers) != 2 {
			t.Errorf("the status is %+v, want one expected, which is not connected, and the old peer", s)
		}
		m.crash(two)
		advance(time.Minute)
		if slices.Contains(m.takeDials(), "10.0.0.2:4444") {
			t.Error("an address that has left DNS is dialled again")
		}
		if s := one.Status(); len(s.Peers) != 1 {
			t.Errorf("the status still has %+v", s.Peers)
		}
	})
}

func TestAFailingOrEmptyAnswerOfDNSKeepsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.name("peers", "10.0.0.2")
		one := m.start(1, "10.0.0.1:4444", nil)
		m.name("peers")
		advance(time.Minute)
		m.mu.Lock()
		delete(m.names, "peers")
		m.mu.Unlock()
		m.takeDials()
		advance(time.Minute)
		if s := one.Status(); s.Expected != 1 || len(m.takeDials()) < 6 {
			t.Errorf("%d expected, want the one address that was known, still dialled", s.Expected)
		}
	})
}

func TestALostSessionIsDialledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.name("peers", "10.0.0.1", "10.0.0.2")
		one, two := m.start(1, "10.0.0.1:4444", nil), m.start(2, "10.0.0.2:4444", nil)
		advance(time.Minute)
		for range 5 {
			one.sessions()[0].end(errors.New("cut"))
			advance(3 * time.Second) // both dial within a second, and one of the two is closed a second later
			wantWhole(t, one, two)
			advance(20 * time.Second)
		}
	})
}

func TestARelayThatIsStartedAnewIsJoinedAtOnceThoughItsOldSessionsSeemToLive(t *testing.T) {
	for _, ids := range [][2]uint64{{1, 2}, {2, 1}} {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t)
			m.name("peers", "10.0.0.1", "10.0.0.2")
			stays := m.start(ids[0], "10.0.0.1:4444", nil)
			dies := m.start(ids[1], "10.0.0.2:4444", nil)
			advance(time.Minute)
			old := stays.sessions()[0]
			m.die(dies)
			anew := m.start(ids[1], "10.0.0.2:4444", nil)
			advance(3 * time.Second)
			if n := len(anew.sessions()); n != 1 {
				t.Errorf("relay %d has %d sessions with relay %d three seconds after its start, want 1\n%s", ids[1], n, ids[0], anew.log())
			}
			now := anew.sessions()[0]
			advance(12 * time.Second)
			old.end(errors.New("silent for 15 s"))
			advance(time.Minute)
			if all := anew.sessions(); len(all) != 1 || all[0] != now {
				t.Errorf("relay %d has %d sessions, want the one that it began with", ids[1], len(all))
			}
			wantWhole(t, stays, anew)
		})
	}
}

func TestAPeerThatSaysGoawayIsLeftToEndAndNotDialledMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.name("peers", "10.0.0.2")
		one := m.start(1, "10.0.0.1:4444", nil)
		two := m.start(2, "10.0.0.2:4444", func(c *Config) { c.Peers = nil })
		advance(time.Minute)
		m.takeDials()
		one.sessions()[0].Goaway()
		advance(time.Minute)
		if dials := m.takeDials(); len(dials) > 0 || len(one.sessions()) != 1 {
			t.Errorf("dials %v and %d sessions, want none and 1", dials, len(one.sessions()))
		}
		m.crash(two)
		advance(time.Minute)
		if dials := m.takeDials(); len(dials) < 6 || len(dials) > 14 {
			t.Errorf("%d dials in the minute after it left, want one each 5 to 10 s", len(dials))
		}
	})
}

// upstreamOnly is a relay with that upstream and no peers.
func upstreamOnly(url string) func(*Config) {
	return func(c *Config) { c.Peers, c.Upstreams = nil, []config.Upstream{{URL: url}} }
}

func TestAnUpstreamThatSaysGoawayIsReplacedFirstAndThenLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		m.busy = true
		one := m.start(1, "x:1", upstreamOnly("https://origin:4443/live?jwt=secret"))
		m.start(2, "origin:4443", func(c *Config) { c.Peers = nil })
		advance(time.Minute)
		first := one.sessions()[0]
		if first.RequestPath != "/live?jwt=secret" || first.Kind != Upstream || first.Price != nil {
			t.Errorf("the session is %+v", first.Link)
		}
		m.start(3, "origin:4443", func(c *Config) { c.Peers = nil }) // where new connections end up
		m.takeDials()
		first.Goaway()
		advance(10 * time.Millisecond)
		if dials, n := m.takeDials(), len(one.sessions()); len(dials) != 1 || n != 2 {
			t.Fatalf("%v dialled and %d sessions, want the replacement at once, beside the first", dials, n)
		}
		advance(5 * time.Second)
		if n := len(one.sessions()); n != 2 {
			t.Fatalf("%d sessions: the first is left although something is asked for over it", n)
		}
		m.mu.Lock()
		m.busy = false
		m.mu.Unlock()
		advance(time.Second)
		if all := one.sessions(); len(all) != 1 || all[0].remote != 3 {
			t.Errorf("%d sessions are left, want the replacement alone", len(all))
		}
		if s := one.Status(); len(s.Upstreams) != 1 || s.Upstreams[0].URL != "https://origin:4443/live" || s.Upstreams[0].State != "Connected" {
			t.Errorf("the status is %+v", s.Upstreams)
		}
	})
}

func TestAnUpstreamIsKeptWhenItsReplacementLeavesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		one := m.start(1, "x:1", upstreamOnly("https://origin:4443"))
		m.start(2, "origin:4443", func(c *Config) { c.Peers = nil })
		advance(time.Minute)
		first := one.sessions()[0]
		m.takeDials()
		first.Goaway()
		for range 60 { // each new session is told the same at once
			advance(time.Second)
			for _, l := range one.sessions() {
				if l != first {
					l.Goaway()
				}
			}
			if !slices.Contains(one.sessions(), first) {
				t.Fatal("the first session was left for one that leaves too")
			}
		}
		if dials := m.takeDials(); len(dials) > 15 {
			t.Errorf("%d dials in a minute, want few", len(dials))
		}
	})
}

func TestUpstreamsFollowTheConfigurationAndTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		path := filepath.Join(t.TempDir(), "upstreams.json")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(`[{"url":"https://c:1"}]`)
		one := m.start(1, "x:1", func(c *Config) { c.Peers, c.UpstreamsFile = nil, path })
		for i, host := range []string{"a:1", "b:1", "c:1", "10.0.0.4:1", "10.0.0.5:1"} {
			m.start(uint64(i+2), host, func(c *Config) { c.Peers = nil })
		}
		m.name("many", "10.0.0.4", "10.0.0.5")
		wantUpstreams := func(want ...string) {
			t.Helper()
			var got []string
			for _, u := range one.Status().Upstreams {
				got = append(got, u.Address+" "+u.State)
			}
			if slices.Sort(got); strings.Join(got, ",") != strings.Join(want, ",") {
				t.Errorf("upstreams are %v, want %v", got, want)
			}
			if n := len(one.sessions()); n != len(want) {
				t.Errorf("%d sessions, want %d", n, len(want))
			}
		}
		advance(lastBackoff)
		wantUpstreams("c:1 Connected")
		cost := 7
		one.Update([]config.Upstream{{URL: "https://a:1"}, {URL: "https://b:1", Cost: &cost}})
		advance(time.Second)
		wantUpstreams("a:1 Connected", "b:1 Connected", "c:1 Connected")
		for _, l := range one.sessions() {
			if l.remote == 3 && (l.Price == nil || *l.Price != 7) {
				t.Errorf("the link to b has the price %v, want 7", l.Price)
			}
		}
		write(`[{"url":`)
		one.Update([]config.Upstream{{URL: "https://b:1", Cost: &cost}})
		advance(10 * time.Second)
		wantUpstreams("b:1 Connected", "c:1 Connected")
		if !strings.Contains(one.log(), "the last good list stays") {
			t.Error("the bad file is not in the log")
		}
		write(`[{"url":"dns+https://many:1"}]`)
		one.Update(nil)
		advance(20 * time.Second)
		wantUpstreams("10.0.0.4:1 Connected", "10.0.0.5:1 Connected")
	})
}

func TestNodeIDsAreTheFirst53BitsOfTheNamesHash(t *testing.T) {
	// printf %s abc | sha256sum: ba7816bf8f01cfea…, shifted right by 11 bits.
	if got, want := NodeID("abc"), uint64(0xba7816bf8f01cfea>>11); got != want {
		t.Errorf("id %#x, want %#x", got, want)
	}
	if NodeID("abc") >= 1<<53 {
		t.Error("the id has more than 53 bits")
	}
}

func TestARefusedKeyIsSaidInWordsThatHelp(t *testing.T) {
	err := closeReason(&transport.CloseError{Code: 0x100 + 42, Remote: true, Transport: true})
	if !strings.Contains(err.Error(), "give both the same tls.directories") {
		t.Errorf("%v", err)
	}
	other := &transport.CloseError{Code: 1, Remote: true}
	if closeReason(other) != error(other) {
		t.Error("another end is changed")
	}
}
