package lite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// withFetch are the versions that serve FETCH.
var withFetch = []lite.Version{lite.Lite05, lite.Lite06wip, lite.Lite06}

// fetchOf is FETCH of a group of "cam" "video", priority 9; bounds are Frame Start
// and Frame End where there are such.
func fetchOf(v lite.Version, group, bounds string) string {
	if v.HasFrameBounds() {
		return `03 | 0e 03"cam" 05"video" 09 ` + group + " " + bounds
	}
	return `03 | 0c 03"cam" 05"video" 09 ` + group
}

// Frames of a group: "key" at 1000 and "p" at 1040.
const (
	bothFrames  = `47d0 03"key" 4050 01"p"`
	secondFrame = `4820 01"p"` // a stream's first timestamp is absolute
)

// held returns a relay with a live track of "cam" "video", whose producer is p.
func held(t *testing.T, v lite.Version, limits session.Limits) (s *script, p *model.Producer) {
	t.Helper()
	s = newScript(t, v, Config{Limits: limits}, transport.PipeConfig{HasURI: true}, false)
	s.opening(v)
	pub, _ := s.publisher("cam")
	sub := s.viewer(t, model.Options{MaxLatency: time.Minute})
	t.Cleanup(sub.Close)
	return s, pub.producer(t, 0)
}

// begin publishes a group with frame "key" that stays open.
func begin(t *testing.T, p *model.Producer, seq uint64) *model.GroupWriter {
	t.Helper()
	g, err := p.Group(seq, model.Window{})
	if err != nil {
		t.Fatal(err)
	}
	add(t, g, "47d003", "key", 1000)
	return g
}

func add(t *testing.T, g *model.GroupWriter, head, payload string, timestamp int64) {
	t.Helper()
	h, err := parseBytes(head)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.WriteFrame(t.Context(), h, timestamp, []byte(payload)); err != nil {
		t.Fatal(err)
	}
}

func TestAHeldGroupIsFetchedAsItIs(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, p := held(t, v, session.Limits{})
		group(t, p, 0, "key", "p")
		group(t, p, 1, "other")
		s.run(`
			open bidi a
			a write ` + fetchOf(v, "00", "00 00") + `
			a fin
			a want ` + bothFrames + `
			a want fin
			open bidi b                # a peer may keep its half open
			b write ` + fetchOf(v, "00", "00 00") + `
			b want ` + bothFrames + `
			b want fin
			b want stop 1
			alive
		`)
		if n := s.counters.Fetches.Load(); n != 2 {
			t.Fatalf("%d fetches are counted, want 2", n)
		}
	}, withFetch...)
}

func TestAFetchGivesTheFramesItAskedForOrIsReset(t *testing.T) {
	for _, row := range []struct{ name, bounds, want string }{
		{"all", "00 00", "a want " + bothFrames + "\n a want fin"},
		{"up to one that the group does not have", "00 08", "a want " + bothFrames + "\n a want fin"},
		{"the second", "01 00", "a want " + secondFrame + "\n a want fin"},
		{"the second alone", "01 02", "a want " + secondFrame + "\n a want fin"},
		{"the first alone", "00 01", "a want 47d0 03\"key\"\n a want fin"},
		{"from one that the group does not have", "02 00", "a want reset 0x33"},
		{"an end in front of the start", "01 01", "a want reset 0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := held(t, lite.Lite06, session.Limits{})
				group(t, p, 0, "key", "p")
				s.run("open bidi a\n a write " + fetchOf(lite.Lite06, "00", row.bounds) + "\n a fin\n " + row.want + "\n alive")
			})
		})
	}
}

func TestAGroupInFlightIsFetchedAsItGrows(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, p := held(t, v, session.Limits{})
		g := begin(t, p, 0)
		s.run(`
			open bidi a
			a write ` + fetchOf(v, "00", "00 00") + `
			a fin
			a want 47d0 03"key"
			a want nothing
		`)
		add(t, g, "405001", "p", 1040)
		s.run(`a want 4050 01"p"` + "\n a want nothing")
		if err := g.Finish(); err != nil {
			t.Fatal(err)
		}
		s.run("a want fin")

		g = begin(t, p, 1)
		s.run("open bidi b\n b write " + fetchOf(v, "01", "00 00") + "\n b fin\n b want 47d0 03\"key\"")
		g.Abort(&model.AbortError{Code: 0x45})
		s.run("b want reset 0x45\n alive")
	}, withFetch...)
}

// What was cut short is no answer, but the frames before the cut are one.
func TestAGroupThatWasCutShortIsFetchedUpToTheCutAlone(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, p := held(t, v, session.Limits{})
		begin(t, p, 0).Abort(&model.AbortError{Code: 0x45})
		begin(t, p, 1)
		s.run(`
			open bidi a
			a write ` + fetchOf(v, "00", "00 00") + `
			a want reset 0x33          # and the source of this test has no FETCH
			open bidi b
			b write ` + fetchOf(v, "00", "00 01") + `
			b want 47d0 03"key"
			b want fin
		`)
	}, lite.Lite06)
}

func TestAFetchThatCannotBeServedIsResetWithTheReason(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, p := held(t, v, session.Limits{})
		group(t, p, 0, "key", "p")
		s.run(`
			open bidi a
			a write ` + fetchOf(v, "07", "00 00") + `
			a want reset 0x33          # NOT_FOUND: its source has no FETCH
			open bidi b
			b write ` + strings.Replace(fetchOf(v, "00", "00 00"), `"cam"`, `"dog"`, 1) + `
			b want reset 0x36          # UNROUTABLE
		`)
		s.session.GoAway("")
		s.run(`
			open bidi c
			c write ` + fetchOf(v, "00", "00 00") + `
			c want reset 4             # GOING_AWAY
			alive
		`)
		synctest.Wait() // what it counts may come after what it sends
		r := &s.counters.Refused
		if r.NotFound.Load() != 1 || r.Unroutable.Load() != 1 || r.GoingAway.Load() != 1 || r.Load() != 3 {
			t.Fatalf("refusals: %d not found, %d unroutable, %d going away, %d in all", r.NotFound.Load(), r.Unroutable.Load(), r.GoingAway.Load(), r.Load())
		}
	}, withFetch...)
}

func TestFetchIsUnknownOn03And04(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.publisher("cam")
		s.run(`
			open bidi a
			a write ` + fetchOf(v, "00", "") + `
			a want reset 0
			a want stop 0
			alive
		`)
	}, lite.Lite03, lite.Lite04)
}

func TestFetchesOverTheLimitWaitInOrder(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s, p := held(t, v, session.Limits{Fetches: 2})
		open := []*model.GroupWriter{begin(t, p, 0), begin(t, p, 1)}
		group(t, p, 2, "key", "p")
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			s.run(fmt.Sprintf("open bidi %s\n %s write %s\n wait 1ms", name, name, fetchOf(v, fmt.Sprintf("%02x", min(i, 2)), "00 00")))
		}
		s.run(`
			a want 47d0 03"key"
			b want 47d0 03"key"
			c want nothing
			d want nothing
			c reset 1                  # it does not wait any more
			c want reset 1
			wait 1ms
			d want nothing
			b reset 1                  # it leaves its place
			b want reset 1
			d want ` + bothFrames + `
			d want fin
			e want ` + bothFrames + `
			e want fin
		`)
		if err := open[0].Finish(); err != nil {
			t.Fatal(err)
		}
		s.run("a want fin\n alive")
	}, withFetch...)
}

// fetching asks the relay for group 5 of "cam" "video" in its own process.
type fetching struct {
	fetch  *model.Fetch
	cancel context.CancelFunc
	done   chan struct{}
	got    []byte
	err    error
}

func (s *script) fetch5(t *testing.T) *fetching {
	t.Helper()
	f, err := s.origin.Fetch("cam", "video", model.Peer{}, model.FetchOptions{Group: 5, Priority: 9})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.bench.ctx)
	x := &fetching{fetch: f, cancel: cancel, done: make(chan struct{})}
	s.bench.tasks.Go(func() {
		defer close(x.done)
		defer f.Close()
		x.got, x.err = readAll(ctx, f)
	})
	synctest.Wait()
	return x
}

// readAll reads a fetched group, in the stored form, to its end. The error of a
// clean end is io.EOF.
func readAll(ctx context.Context, f *model.Fetch) (got []byte, err error) {
	r, err := f.Reader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		p, err := r.Next(ctx)
		if err != nil {
			return got, err
		}
		got = append(got, p...)
		r.Taken(len(p))
	}
}

// want waits for the end of a fetch, which got these bytes.
func (x *fetching) want(t *testing.T, bytes string, err error) {
	t.Helper()
	select {
	case <-x.done:
	case <-time.After(time.Minute):
		t.Fatal("the fetch has not ended within a minute")
	}
	want, _ := parseBytes(bytes)
	if abort, ok := errors.AsType[*model.AbortError](err); ok {
		if got, ok := errors.AsType[*model.AbortError](x.err); !ok || got.Code != abort.Code {
			t.Fatalf("the fetch ended with %v, want %v", x.err, err)
		}
	} else if !errors.Is(x.err, err) {
		t.Fatalf("the fetch ended with %v, want %v", x.err, err)
	}
	if string(x.got) != string(want) {
		t.Fatalf("the fetch got %x, want %x", x.got, want)
	}
}

func TestAGroupThatIsNotHereIsAskedForOnceForAllWhoWait(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		first, second := s.fetch5(t), s.fetch5(t)
		s.run(`
			accept bidi f
			f want ` + fetchOf(v, "05", "00 00") + `
			f want fin
			none bidi
			f write 47d0 03"key"
		`)
		third := s.fetch5(t) // the group is in flight
		s.run(`
			none bidi
			f write 4050 01"p"
			f fin
		`)
		for _, x := range []*fetching{first, second, third} {
			x.want(t, bothFrames, io.EOF)
		}
		s.fetch5(t).want(t, bothFrames, io.EOF) // it is held
		s.run("none bidi\n alive")
		if n := s.counters.UpstreamFetches.Load(); n != 1 {
			t.Fatalf("%d fetches are counted, want 1", n)
		}
	}, withFetch...)
}

func TestAFetchEndsAsItsAnswerDoes(t *testing.T) {
	abort := func(code uint64) error { return &model.AbortError{Code: code} }
	rows := []struct {
		name, answer string
		bytes        string
		err          error
		vs           []lite.Version
	}{
		{"a group without frames", "f fin", "", io.EOF, withFetch},
		{"refused", "f reset 0x33", "", model.ErrNotFound, []lite.Version{lite.Lite06}},
		{"refused with a code of its own", "f reset 0x45", "", abort(0x45), withFetch},
		{"refused by an older peer", "f reset 0", "", model.ErrNotFound, []lite.Version{lite.Lite05, lite.Lite06wip}},
		{"cut short", "f write 47d0 03\"key\"\n wait 1ms\n f reset 0x35", `47d0 03"key"`, abort(0x35), withFetch},
		{"ended inside a frame", "f write 47d0 03\"key\" 4050 02\"p\"\n f fin", `47d0 03"key" 4050 02"p"`, session.ErrWrongSize, withFetch},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			scripted(t, func(t *testing.T, v lite.Version) {
				s := server(t, v)
				s.announceCam(v)
				x := s.fetch5(t)
				s.run("accept bidi f\n f want " + fetchOf(v, "05", "00 00") + "\n f want fin\n " + row.answer)
				x.want(t, row.bytes, row.err)
				s.run("alive")
			}, row.vs...)
		})
	}
}

func TestAnAnswerThatDoesNotBeginIsGivenUpAfterFiveSeconds(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		x := s.fetch5(t)
		s.run("accept bidi f\n wait 4900ms")
		select {
		case <-x.done:
			t.Fatalf("given up too early: %v", x.err)
		default:
		}
		s.run("wait 200ms\n f want stop 1\n alive")
		x.want(t, "", model.ErrUpstreamTimeout)
	}, withFetch...)
}

func TestAFetchThatNobodyWaitsForIsCancelled(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		first, second := s.fetch5(t), s.fetch5(t)
		s.run("accept bidi f\n f want " + fetchOf(v, "05", "00 00") + "\n f want fin")
		first.cancel()
		s.run("wait 1s")
		select {
		case <-s.streams["f"].send.Stopped():
			t.Fatal("the fetch was cancelled though somebody waits")
		default:
		}
		second.cancel()
		s.run("f want stop 1\n alive")
	}, withFetch...)
}

func TestNothingIsFetchedFrom03And04NorFromAPeerThatGoesAway(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		want := model.ErrNotFound
		if v.ServesFetch() {
			s.run("open bidi bye\n bye write 05 | 01 00\n bye fin\n bye want fin")
			want = model.ErrUnroutable
		}
		s.fetch5(t).want(t, "", want)
		s.run("none bidi\n alive")
	}, versions...)
}

// Groups over the bound wait, and are asked for when an answer has ended.
func TestSixtyFourGroupsAreAskedForAtATime(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		s.announceCam(v)
		const all = mostAsking + 1
		for i := range all {
			f, err := s.origin.Fetch("cam", "video", model.Peer{}, model.FetchOptions{Group: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			s.bench.tasks.Go(func() {
				defer f.Close()
				_, _ = readAll(s.bench.ctx, f)
			})
		}
		for range mostAsking {
			s.run("accept bidi f")
		}
		s.run(`
			none bidi
			f reset 0x33
			accept bidi g
			none bidi
			wait 6s       # the upstream timeout ends them all
			none bidi
			alive
		`)
	}, lite.Lite06)
}
