package lite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// link joins two relays by one session.
func (b *bench) link(v lite.Version, one, two *model.Origin) (*Session, *Session) {
	return b.connect(v, Config{Origin: one, Link: &Link{}}, Config{Origin: two, Link: &Link{}}, transport.PipeConfig{})
}

// routesOf are the routes of a path in an origin, its own among them.
func routesOf(o *model.Origin, path model.Path) (out []model.Route) {
	for _, r := range o.Routes() {
		if r.Path == path {
			out = append(out, r)
		}
	}
	return out
}

func TestEveryFrameArrivesOverTwoLinks(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		publisher, one, two, three, viewer := newOrigin(20), newOrigin(11), newOrigin(12), newOrigin(13), newOrigin(21)
		b.connect(v, Config{Origin: publisher, Role: lite.RolePublisher}, Config{Origin: one}, transport.PipeConfig{})
		b.link(v, one, two)
		b.link(v, two, three)
		b.connect(v, Config{Origin: viewer, Role: lite.RoleSubscriber}, Config{Origin: three}, transport.PipeConfig{})
		want := testGroups(8, 7, 100_000)
		info := model.Info{MaxAge: 30 * time.Second, Timescale: 1000}
		b.announce(publisher, "room/cam", info, publishGroups(want))
		b.mustSee(viewer, "room/cam")
		got, err := b.watch(viewer, "room/cam", "video", model.Options{MaxLatency: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := compare(want, got, v.HasTimestamps()); err != nil {
			t.Fatal(err)
		}
	}, every...)
}

func TestChainsAndCostsOverTwoLinks(t *testing.T) {
	const most = model.MaxCost
	type told struct {
		hops       []uint64
		warm, cold uint64
	}
	rows := map[lite.Version][2]told{ // at the second and at the third relay
		lite.Lite03:    {{[]uint64{0, 0}, 2, most}, {[]uint64{0, 0, 0}, 3, most}},
		lite.Lite04:    {{[]uint64{3, 11}, 2, most}, {[]uint64{3, 11, 12}, 3, most}},
		lite.Lite05:    {{[]uint64{3, 11}, 2, most}, {[]uint64{3, 11, 12}, 3, most}},
		lite.Lite06wip: {{[]uint64{3, 11}, 6, most}, {[]uint64{3, 11, 12}, 7, most}},
		lite.Lite06:    {{[]uint64{3, 11}, 6, 10}, {[]uint64{3, 11, 12}, 7, 11}},
		lite.Lite07wip: {{[]uint64{3, 11}, 6, most}, {[]uint64{3, 11, 12}, 7, most}},
	}
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		one, two, three := newOrigin(11), newOrigin(12), newOrigin(13)
		b.link(v, one, two)
		b.link(v, two, three)
		one.Announce(model.Route{Path: "cam", Hops: []uint64{3}, Warm: 5, Cold: 9, Source: &local{}})
		advance(3 * time.Second)
		for i, o := range []*model.Origin{two, three} {
			want, routes := rows[v][i], routesOf(o, "cam")
			if len(routes) != 1 {
				t.Fatalf("relay %d knows %d routes, want 1", o.ID(), len(routes))
			}
			if r := routes[0]; !slices.Equal(r.Hops, want.hops) || r.Warm != want.warm || r.Cold != want.cold {
				t.Errorf("relay %d: hops %v, costs %d and %d; want %v", o.ID(), r.Hops, r.Warm, r.Cold, want)
			}
		}
		if n := len(routesOf(one, "cam")); n != 1 {
			t.Errorf("the relay of the publisher knows %d routes, want its own alone", n)
		}
	}, every...)
}

func TestInARingOfLinksNothingCirclesAndNothingStays(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		relays := []*model.Origin{newOrigin(11), newOrigin(12), newOrigin(13)}
		for i, o := range relays {
			b.link(v, o, relays[(i+1)%3])
		}
		cam := relays[0].Announce(model.Route{Path: "cam", Hops: []uint64{3}, Warm: 1, Cold: 1, Source: &local{}})
		advance(3 * time.Second)
		for _, o := range relays[1:] {
			var lengths []int
			for _, r := range routesOf(o, "cam") {
				lengths = append(lengths, len(r.Hops))
				if slices.Contains(r.Hops, o.ID()) {
					t.Errorf("relay %d knows the route %v", o.ID(), r.Hops)
				}
			}
			slices.Sort(lengths)
			if !slices.Equal(lengths, []int{2, 3}) { // both ways round
				t.Errorf("relay %d knows ways of %v hops, want 2 and 3", o.ID(), lengths)
			}
		}
		cam.Withdraw()
		advance(3 * time.Second)
		for _, o := range relays {
			if r := routesOf(o, "cam"); len(r) != 0 {
				t.Errorf("relay %d still knows %v", o.ID(), r)
			}
		}
	}, every[1:]...) // 03 has no ids to see a circle by
}

func TestALinkThatEndsTakesItsRoutesAtOnceAndOneThatBreaksAfterALinger(t *testing.T) {
	for name, code := range map[string]uint64{"ends": 0, "breaks": 1} {
		t.Run(name, func(t *testing.T) {
			scripted(t, func(t *testing.T, v lite.Version) {
				b := newBench(t)
				defer b.end()
				one, two := newOrigin(11), newOrigin(12)
				far, _ := b.link(v, one, two)
				one.Announce(model.Route{Path: "cam", Hops: []uint64{3}, Warm: 1, Cold: 1, Source: &local{}})
				b.mustSee(two, "cam")
				w := two.Watch("", model.Peer{})
				defer w.Close()
				wantChange(t, w, model.Started, 0)
				began := time.Now()
				far.conn.Close(code, "")
				wantChange(t, w, model.Ended, 10*time.Second)
				took := time.Since(began)
				if code == 0 && took != 0 || code == 1 && took != 5*time.Second {
					t.Fatalf("the path was announced for %v more", took)
				}
			}, every...)
		})
	}
}

// wantChange waits for one change of this kind; a limit of 0 does not wait.
func wantChange(t *testing.T, w *model.Watcher, kind model.ChangeKind, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), max(limit, time.Millisecond))
	defer cancel()
	changes, err := w.Next(ctx)
	if err != nil || len(changes) != 1 || changes[0].Kind != kind {
		t.Fatalf("changes %+v, %v; want one of kind %d", changes, err, kind)
	}
}

// clock is a publisher that brings group n at n times 100 ms after it was made, with
// one frame that says the number: two of them bring the same.
type clock struct{ began time.Time }

func (c clock) publish(ctx context.Context, p *model.Producer) {
	const period = 100 * time.Millisecond
	n := uint64(time.Since(c.began)/period) + 1
	if prefs := p.Preferences(); prefs.HasStart {
		n = min(n, prefs.Start)
	}
	for ; ; n++ {
		select {
		case <-time.After(time.Until(c.began.Add(time.Duration(n) * period))):
		case <-p.Done():
			return
		case <-ctx.Done():
			p.Fail(model.ErrSourceGone)
			return
		}
		if publishGroup(ctx, p, n, []frame{{int64(n) * 100, []byte{byte(n)}}}) != nil {
			return
		}
	}
}

// publisher07 runs a publisher of cam with an epoch at a relay until it is ended.
func (b *bench) publisher07(relay *model.Origin, id uint64, epoch [16]byte, c clock) (end func()) {
	o := newOrigin(id)
	src := &source{ctx: b.ctx, info: model.Info{MaxAge: 30 * time.Second, Timescale: 1000}, publish: c.publish, tasks: &b.tasks}
	o.Announce(model.Route{Path: "cam", Source: src, Epoch: epoch})
	client, server := transport.Pipe(transport.PipeConfig{Protocol: lite.Lite07wip.String(), Client: transport.PipeGrant{Windows: windows}, Server: transport.PipeGrant{Windows: windows}})
	b.run(server, lite.Lite07wip, Config{Origin: relay})
	s := New(client, lite.Lite07wip, Config{Origin: o, Role: lite.RolePublisher})
	ctx, cancel := context.WithCancel(b.ctx)
	b.tasks.Go(func() { _ = s.Run(ctx) })
	return cancel
}

// counting is a viewer that notes the groups that come whole.
type counting struct {
	mu     sync.Mutex
	groups []uint64
	err    error // of the subscription's end
	cut    error // of a group's
}

func (c *counting) watch(b *bench, o *model.Origin, readers *sync.WaitGroup) {
	sub, err := o.Subscribe("cam", "video", model.Peer{}, model.Options{MaxLatency: 10 * time.Second})
	for err == nil {
		var r *model.Reader
		if r, err = sub.Next(b.ctx); err == nil {
			readers.Go(func() { c.read(b.ctx, r) })
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *counting) read(ctx context.Context, r *model.Reader) {
	defer r.Close()
	err := readFrames(ctx, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.groups = append(c.groups, r.Sequence())
	} else if ctx.Err() == nil {
		c.cut = err
	}
}

// readFrames reads to the end of a group: nil when that is clean.
func readFrames(ctx context.Context, r *model.Reader) error {
	for {
		if _, err := r.NextFrame(ctx); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for {
			p, err := r.Payload(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			r.Taken(len(p))
		}
	}
}

// take returns the groups so far, sorted, and why it ended.
func (c *counting) take() (groups []uint64, err, cut error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	groups = slices.Sorted(slices.Values(c.groups))
	return groups, c.err, c.cut
}

func TestOfTwoPublishersOfOneEpochOneMayLeaveAndNobodyNotices(t *testing.T) {
	for _, order := range []string{"first", "second"} {
		t.Run(order, func(t *testing.T) {
			scripted(t, func(t *testing.T, v lite.Version) {
				b := newBench(t)
				defer b.end()
				one, two, three, viewer := newOrigin(11), newOrigin(12), newOrigin(13), newOrigin(21)
				b.link(lite.Lite07wip, one, two)
				b.link(lite.Lite07wip, two, three)
				b.link(lite.Lite07wip, one, three)
				b.connect(v, Config{Origin: viewer, Role: lite.RoleSubscriber}, Config{Origin: three}, transport.PipeConfig{})
				c := clock{time.Now()}
				ends := []func(){
					b.publisher07(one, 31, epochOf(t, epoch1), c),
					b.publisher07(two, 32, epochOf(t, epoch1), c),
				}
				if order == "second" {
					slices.Reverse(ends)
				}
				advance(2 * time.Second)
				var seen counting
				b.tasks.Go(func() { seen.watch(b, viewer, &b.tasks) })
				advance(3*time.Second + 50*time.Millisecond)
				ends[0]()
				advance(5 * time.Second)
				groups, err, cut := seen.take()
				if err != nil || cut != nil {
					t.Fatalf("the viewer was told %v, a group of it %v", err, cut)
				}
				if len(groups) < 75 || groups[len(groups)-1]-groups[0] != uint64(len(groups)-1) {
					t.Fatalf("groups %v have come, want all of 8 s", groups)
				}
			}, lite.Lite06, lite.Lite07wip)
		})
	}
}

func TestAViewerBehindALinkIsToldOfAnotherInstanceAndComesAgain(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		one, two, viewer := newOrigin(11), newOrigin(12), newOrigin(21)
		b.link(lite.Lite07wip, one, two)
		b.connect(v, Config{Origin: viewer, Role: lite.RoleSubscriber}, Config{Origin: two}, transport.PipeConfig{})
		first := b.publisher07(one, 31, epochOf(t, epoch1), clock{time.Now()})
		b.mustSee(viewer, "cam")
		var seen counting
		b.tasks.Go(func() { seen.watch(b, viewer, &b.tasks) })
		advance(2 * time.Second)
		b.publisher07(one, 31, epochOf(t, epoch2), clock{time.Now()})
		advance(time.Second)
		if got := two.Epoch("cam", model.Peer{}); got != epochOf(t, epoch2) {
			t.Fatalf("the other relay knows of instance %x", got)
		}
		groups, err, _ := seen.take()
		if err == nil || errors.Is(err, io.EOF) || len(groups) < 15 {
			t.Fatalf("after %d groups the viewer was told %v, want a reset", len(groups), err)
		}
		first()
		var again counting
		b.tasks.Go(func() { again.watch(b, viewer, &b.tasks) })
		advance(2 * time.Second)
		groups, err, cut := again.take()
		if err != nil || cut != nil || len(groups) < 15 || groups[0] > 15 {
			t.Fatalf("groups %v of the new instance have come, %v, %v", groups, err, cut)
		}
	}, lite.Lite06, lite.Lite07wip)
}

func TestAChainIsUsedAndTellsOnOnlyWhereThereIsRoomInIt(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		chain := func(n int) string {
			return fmt.Sprintf("%02x %s", n, " 03"+strings.Repeat(" 00", n-1))
		}
		s.run(`
			ann write 02 07 00 | 00 25 01"a" ` + chain(32) + ` 05 06   # 33 with the peer: its id counts, no more
			ann write 00 24 01"b" ` + chain(31) + ` 05 06              # 32 with the peer: here and no further
			ann write 00 23 01"c" ` + chain(30) + ` 05 06
			wait 10ms
		`)
		s.wantRoutes(t, "b", "c")
		far := newScript(t, v, Config{Origin: s.origin}, transport.PipeConfig{HasURI: true}, false)
		far.openingOf(v, "08")
		far.run(`
			open bidi x
			x write ` + request(v) + `
			x want 02 0a 01 | 00 24 01"c" 1f ` + strings.TrimPrefix(chain(30), "1e") + ` 07 06 07
		`)
		s.run(`
			ann write 02 05 00 01 03 05 06    # the first is short enough now
			wait 10ms
			alive
		`)
		s.wantRoutes(t, "a", "b", "c")
	}, lite.Lite06)
}
