package lite

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// viewer is a script of a viewer of lite-06 that lets so much in and reads
// nothing of groups, with a publisher of "cam".
func viewer(t *testing.T, cfg Config, grant transport.PipeGrant) (*script, *local) {
	t.Helper()
	cfg.Role = lite.RolePublisher
	s := newScript(t, lite.Lite06, cfg, transport.PipeConfig{HasURI: true, Client: grant}, false)
	s.run("open uni mine\n mine write 01 | 01 00\n mine fin\n accept uni setup\n setup want 01 | 04 01 05 01 0a\n setup want fin")
	pub, _ := s.publisher("cam")
	pub.info.MaxAge = time.Minute
	s.deaf.Store(true)
	return s, pub
}

// window is a grant of so many bytes for each stream.
func window(stream int64) transport.PipeGrant {
	return transport.PipeGrant{Windows: transport.Windows{Stream: stream, Connection: 1 << 20}}
}

// want compares a count.
func want(t *testing.T, name string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %d, want %d", name, got, want)
	}
}

func TestASessionWhosePeerTakesNothingForAMinuteIsClosed(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, pub := viewer(t, Config{}, window(1000))
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		group(t, pub.producer(t, 0), 0, strings.Repeat("x", 5000))
		s.run("accept uni g\n wait 59s\n alive")
		// Control traffic goes on, and is no sign of life.
		s.deaf.Store(false)
		s.run("open bidi b\n b write " + request(v) + "\n b want 02 0a 01 | 00 08 03\"cam\" 01 03 00 02") // it is carried
		s.run("wait 11s\n close 0x5 too far behind")
		want(t, "stalled", s.counters.Stalled.Load(), 1)
	}, lite.Lite06)
}

func TestASessionThatTakesAWritePerMinuteOrHasNothingToTakeStays(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, pub := viewer(t, Config{}, window(1000))
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		s.run("wait 10m\n alive") // no group yet
		g, err := p.Group(0, model.Window{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 { // each frame is a write, and waits for the next read
			if err := g.WriteFrame(t.Context(), []byte{0, 0x43, 0xe8}, 0, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				s.run("accept uni g")
			}
			advance(50 * time.Second)
			s.read("g", 1000)
			s.run("alive")
		}
	}, lite.Lite06)
}

func TestTheTimeForWhatMayStallIsALimit(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		rows := []struct {
			limit time.Duration
			wait  string
		}{
			{12 * time.Second, "wait 11s\n alive\n wait 3s\n close 0x5 too far behind: no group's byte was taken for 12s"},
			{-1, "wait 1h\n alive"},
		}
		for _, row := range rows {
			s, pub := viewer(t, Config{Limits: session.Limits{StalledTimeout: row.limit}}, window(1000))
			s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
			group(t, pub.producer(t, 0), 0, strings.Repeat("x", 5000))
			s.run("accept uni g\n" + row.wait)
		}
	}, lite.Lite06)
}

func TestAPeerThatGivesNoStreamIsStalledToo(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, pub := viewer(t, Config{}, transport.PipeGrant{MaxStreams: 1})
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		group(t, p, 0, "key") // taken whole, and never read
		s.run("accept uni g\n wait 5m\n alive")
		group(t, p, 1, "key")
		s.run("wait 59s\n alive\n wait 11s\n close 0x5")
	}, lite.Lite06)
}

// A new group every five seconds opens a stream, for which there is credit, and
// has no byte to write: the first one has the connection's.
func TestAStreamThatCanBeOpenedIsNoSignOfLife(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, pub := viewer(t, Config{}, transport.PipeGrant{Windows: transport.Windows{Stream: 3000, Connection: 3000}})
		s.run("open bidi a\n" + ` a write 02 | 14 00 03"cam" 05"video" c8 8001d4c0 00 00 00 00`) // max latency 120 s
		p := pub.producer(t, 0)
		group(t, p, 0, strings.Repeat("x", 5000))
		s.run("accept uni g")
		for i := range uint64(11) {
			s.run("wait 5s\n alive")
			group(t, p, 1+i, "key")
		}
		s.run("wait 15s\n close 0x5 too far behind")
	}, lite.Lite06)
}

func TestWhatASlowViewerMissesIsCountedToTheByte(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, pub := viewer(t, Config{}, window(1000))
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		advance(300 * time.Millisecond)
		group(t, p, 0, strings.Repeat("x", 5000))
		s.run("accept uni g\n wait 1s")
		group(t, p, 1, "key", "p")
		s.run("accept uni h")
		synctest.Wait() // until the other one is reset
		s.bench.tasks.Go(s.streams["g"].collect)
		s.bench.tasks.Go(s.streams["h"].collect)
		s.run("g want reset 0x34\n h want " + oneGroup(v, "01") + "\n h want fin")

		c := s.counters
		// Group 0 is 4 bytes of head and 5,000 of payload. Its stream took 1,000 with
		// 5 of a header. Group 1 is 6 + 4 bytes.
		want(t, "bytes out", c.Out.Bytes.Load(), 995+10)
		want(t, "frames out", c.Out.Frames.Load(), 2)
		want(t, "groups out", c.Out.Groups.Load(), 2)
		want(t, "expired bytes", c.ExpiredBytes.Load(), 4+5000-995)
		want(t, "resets, expired", c.Resets.Expired.Load(), 1)
		want(t, "subscriptions", c.Subscriptions.Total.Load(), 1)
		want(t, "subscriptions open", c.Subscriptions.Open.Load(), 1)
		if h := c.FirstFrame.Snapshot(); h.Count != 1 || h.Sum != 300*time.Millisecond {
			t.Errorf("the first byte came %d times, after %v in all, want once after 300ms", h.Count, h.Sum)
		}
		s.bench.tasks.Go(s.streams["a"].collect)
		s.run("a fin\n a want 00 01 00\n a want fin") // the subscription lived on
		want(t, "subscriptions open", c.Subscriptions.Open.Load(), 0)
	}, lite.Lite06)
}

func TestGroupsThatWereNeverOpenedCountAsExpiredToo(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, pub := viewer(t, Config{}, transport.PipeGrant{MaxStreams: 1})
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		group(t, p, 0, "key")
		s.run("accept uni g")
		for seq := uint64(1); seq <= 4; seq++ {
			group(t, p, seq, "key", "p")
			s.run("none uni")
		}
		s.bench.tasks.Go(s.streams["g"].collect)
		s.run("g want 00 | 03 00 00 00 | 47d0 03\"key\"\n g want fin\n accept uni h\n none uni")
		s.bench.tasks.Go(s.streams["h"].collect)
		s.run("h want " + oneGroup(v, "04") + "\n h want fin")
		want(t, "groups out", s.counters.Out.Groups.Load(), 2)
		want(t, "expired bytes", s.counters.ExpiredBytes.Load(), 3*10)
		want(t, "resets, expired", s.counters.Resets.Expired.Load(), 0)
	}, lite.Lite06)
}

func TestAViewerThatLagsLosesOneStreamAndNotItsSubscription(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		origin := model.NewOrigin(model.Config{ID: relayID, GroupTail: 20_000, MaxFrame: 2000})
		s, pub := viewer(t, Config{Origin: origin}, window(1000))
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		g, err := p.Group(0, model.Window{})
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			if err := g.WriteFrame(t.Context(), []byte{0, 0x43, 0xe8}, 0, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		s.run("accept uni g")
		synctest.Wait()
		s.bench.tasks.Go(s.streams["g"].collect)
		s.run("g want reset 0x5")
		group(t, p, 1, "key", "p")
		s.run("accept uni h")
		s.bench.tasks.Go(s.streams["h"].collect)
		s.run("h want " + oneGroup(v, "01") + "\n h want fin\n alive")
		want(t, "resets, lagged", s.counters.Resets.Lagged.Load(), 1)
	}, lite.Lite06)
}

// read reads so many bytes of a stream.
func (s *script) read(stream string, n int) {
	s.t.Helper()
	if got, err := io.ReadFull(s.streams[stream].recv, make([]byte, n)); err != nil {
		s.t.Fatalf("%s: %d of %d: %v", stream, got, n, err)
	}
}

// noter is a connection that notes the priorities of the streams that its user
// opens, "uni" and "bidi", and of those it accepts, "peer's", each by its number.
type noter struct {
	transport.Conn
	mu   sync.Mutex
	seen map[string]transport.Priority
}

func (c *noter) note(kind string, s transport.SendStream) *noted {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for name := range c.seen {
		if strings.HasPrefix(name, kind) {
			n++
		}
	}
	name := fmt.Sprintf("%s %d", kind, n)
	c.seen[name] = transport.DefaultPriority
	return &noted{SendStream: s, c: c, name: name}
}

// urgencies are those of all streams now, by kind and number.
func (c *noter) urgencies() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for name, p := range c.seen {
		all = append(all, fmt.Sprintf("%s:%d", name, p.Urgency))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

type noted struct {
	transport.SendStream
	c    *noter
	name string
}

func (s *noted) SetPriority(p transport.Priority) {
	s.c.mu.Lock()
	s.c.seen[s.name] = p
	s.c.mu.Unlock()
	s.SendStream.SetPriority(p)
}

type notedBoth struct {
	transport.ReceiveStream
	*noted
}

func (c *noter) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	s, err := c.Conn.OpenSendStream(ctx)
	if err != nil {
		return nil, err
	}
	return c.note("uni", s), nil
}

func (c *noter) OpenStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.Conn.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	return notedBoth{s, c.note("bidi", s)}, nil
}

func (c *noter) AcceptStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.Conn.AcceptStream(ctx)
	if err != nil {
		return nil, err
	}
	return notedBoth{s, c.note("peer's", s)}, nil
}

func TestGroupsAreRankedAndControlStreamsGoBeforeThem(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		c := &noter{seen: make(map[string]transport.Priority)}
		s := newWrappedScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, false, func(ours *transport.PipeConn) transport.Conn {
			c.Conn = ours
			return c
		})
		s.opening(v)
		pub, _ := s.publisher("cam")
		pub.info.MaxAge = time.Minute
		wantUrgencies := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := c.urgencies(); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		s.run(`open bidi low
			low write 02 | 10 00 03"cam" 03"low" 01 5388 00 00 00 00`)
		low := pub.producer(t, 0)
		s.run(`open bidi high
			high write 02 | 11 01 03"cam" 04"high" c8 5388 00 00 00 00`)
		high := pub.producer(t, 1)
		const control = "bidi 0:0 peer's 0:0 peer's 1:0 uni 0:0" // Announce; the two SUBSCRIBE; SETUP
		begin := func(p *model.Producer, seq uint64) {
			t.Helper()
			g, err := p.Group(seq, model.Window{})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.WriteFrame(t.Context(), []byte{0, 1}, 0, []byte("x")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		begin(low, 0)
		wantUrgencies("one group of low", control+" uni 1:1")
		begin(low, 1)
		wantUrgencies("two of low", control+" uni 1:2 uni 2:1")
		begin(high, 0)
		wantUrgencies("one of high", control+" uni 1:3 uni 2:2 uni 3:1")
		s.run("low write 07 ff 5388 00 00 00 00")
		wantUrgencies("low is 255", control+" uni 1:2 uni 2:1 uni 3:3")
	}, lite.Lite06)
}
