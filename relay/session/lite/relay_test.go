package lite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// versions are all that we speak, oldest first.
var versions = []lite.Version{lite.Lite03, lite.Lite04, lite.Lite05, lite.Lite06wip, lite.Lite06}

// windows are the ones that the figures of the design are for.
var windows = transport.Windows{Stream: 1 << 20, Connection: 4 << 20}

// source is a local publisher: each track that is asked for is run by publish.
type source struct {
	ctx     context.Context
	info    model.Info
	publish func(ctx context.Context, p *model.Producer)
	tasks   *sync.WaitGroup
}

func (s *source) Pull(p *model.Producer) {
	s.tasks.Go(func() {
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		p.Accept(s.info)
		s.publish(ctx, p)
	})
}

// bench runs sessions and local publishers, and ends them with the test.
type bench struct {
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

func newBench(t *testing.T) *bench {
	ctx, cancel := context.WithCancel(t.Context())
	b := &bench{t: t, ctx: ctx, cancel: cancel}
	return b
}

// end ends everything and waits for it: what is left then is a leak.
func (b *bench) end() {
	b.cancel()
	b.tasks.Wait()
	advance(time.Minute) // of fake time: timers of the model
}

func newOrigin(id uint64) *model.Origin { return model.NewOrigin(model.Config{ID: id}) }

// connect joins two origins by a session pair: the client's and the server's.
func (b *bench) connect(v lite.Version, client, server Config, pipe transport.PipeConfig) (*Session, *Session) {
	pipe.Protocol = v.String()
	if pipe.Client.Windows.Stream == 0 {
		pipe.Client.Windows = windows
	}
	if pipe.Server.Windows.Stream == 0 {
		pipe.Server.Windows = windows
	}
	c, s := transport.Pipe(pipe)
	return b.run(c, v, client), b.run(s, v, server)
}

func (b *bench) run(conn transport.Conn, v lite.Version, cfg Config) *Session {
	s := New(conn, v, cfg)
	b.tasks.Go(func() { _ = s.Run(b.ctx) })
	return s
}

// announce makes a local publisher known in an origin.
func (b *bench) announce(o *model.Origin, path model.Path, info model.Info, publish func(context.Context, *model.Producer)) *model.Announcement {
	src := &source{ctx: b.ctx, info: info, publish: publish, tasks: &b.tasks}
	return o.Announce(model.Route{Path: path, Source: src})
}

// mustSee waits until an origin has a route.
func (b *bench) mustSee(o *model.Origin, path model.Path) {
	b.t.Helper()
	w := o.Watch(path, model.Peer{})
	defer w.Close()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			b.t.Fatalf("no route to %q: %v", path, err)
		}
		for _, c := range changes {
			if c.Path == path && c.Kind != model.Ended {
				return
			}
		}
	}
}

// frame is one frame of a track in a test.
type frame struct {
	timestamp int64
	payload   []byte
}

// testGroups makes groups of frames of up to most bytes, all different.
func testGroups(groups, frames, most int) [][]frame {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([][]frame, groups)
	for g := range out {
		for i := range frames {
			p := make([]byte, rng.IntN(most+1))
			fill(p, rng.Int64())
			ts := int64(g*frames+i)*40 + 1_000_000
			if i%3 == 2 {
				ts -= 60 // frames may go back in time
			}
			out[g] = append(out[g], frame{ts, p})
		}
	}
	return out
}

// publishGroups returns a publisher of a whole track.
func publishGroups(groups [][]frame) func(context.Context, *model.Producer) {
	return func(ctx context.Context, p *model.Producer) {
		for seq, frames := range groups {
			// A live publisher: whoever asked for the track has subscribed before the
			// first group, and no group overtakes another.
			advance(100 * time.Millisecond)
			if err := publishGroup(ctx, p, uint64(seq), frames); err != nil {
				p.Fail(err)
				return
			}
		}
		p.Finish(uint64(len(groups)))
		p.Close()
	}
}

func publishGroup(ctx context.Context, p *model.Producer, seq uint64, frames []frame) error {
	g, err := p.Group(seq, model.Window{})
	if err != nil {
		return err
	}
	last := int64(0)
	for _, f := range frames {
		head, err := lite.FrameHead{Timestamp: f.timestamp, Size: uint64(len(f.payload))}.Append(nil, lite.Lite06, last)
		if err != nil {
			return err
		}
		last = f.timestamp
		if err := g.WriteFrame(ctx, head, f.timestamp, f.payload); err != nil {
			return err
		}
	}
	return g.Finish()
}

// watched is what a viewer received: groups by number.
type watched struct {
	mu     sync.Mutex
	groups map[uint64][]frame
}

// watch reads a track to its end.
func (b *bench) watch(o *model.Origin, path model.Path, track string, opts model.Options) (map[uint64][]frame, error) {
	sub, err := o.Subscribe(path, track, model.Peer{}, opts)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	got := &watched{groups: make(map[uint64][]frame)}
	var readers sync.WaitGroup
	defer readers.Wait()
	for {
		r, err := sub.Next(b.ctx)
		if err == io.EOF {
			readers.Wait()
			return got.groups, nil
		}
		if err != nil {
			readers.Wait()
			return got.groups, err
		}
		readers.Go(func() { got.read(b.ctx, r) })
	}
}

func (w *watched) read(ctx context.Context, r *model.Reader) {
	defer r.Close()
	var frames []frame
	for {
		f, err := r.NextFrame(ctx)
		if err != nil {
			if err != io.EOF {
				frames = append(frames, frame{-1, []byte(err.Error())})
			}
			break
		}
		var payload []byte
		for {
			p, err := r.Payload(ctx)
			if err != nil {
				break
			}
			payload = append(payload, p...)
			r.Taken(len(p))
		}
		frames = append(frames, frame{f.Timestamp, payload})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[r.Sequence()] = frames
}

// compare reports the first difference between what was published and what came.
func compare(want [][]frame, got map[uint64][]frame, timestamps bool) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d groups came, want %d", len(got), len(want))
	}
	for seq, frames := range want {
		g := got[uint64(seq)]
		if len(g) != len(frames) {
			return fmt.Errorf("group %d has %d frames, want %d", seq, len(g), len(frames))
		}
		for i, f := range frames {
			if timestamps && g[i].timestamp != f.timestamp {
				return fmt.Errorf("group %d frame %d has timestamp %d, want %d", seq, i, g[i].timestamp, f.timestamp)
			}
			if !bytes.Equal(g[i].payload, f.payload) {
				return fmt.Errorf("group %d frame %d: %d bytes %x, want %d bytes %x", seq, i,
					len(g[i].payload), sha256.Sum256(g[i].payload), len(f.payload), sha256.Sum256(f.payload))
			}
		}
	}
	return nil
}

func TestEveryFrameArrivesByteExactBetweenAnyTwoVersions(t *testing.T) {
	every := append(versions[:len(versions):len(versions)], lite.Lite07wip)
	for _, pub := range every {
		for _, sub := range every {
			t.Run(pub.String()+" to "+sub.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { relayOneTrack(t, pub, sub) })
			})
		}
	}
}

// relayOneTrack publishes 8 groups of 7 frames of up to 100 KB through a relay.
func relayOneTrack(t *testing.T, pub, sub lite.Version) {
	b := newBench(t)
	defer b.end()
	relay, publisher, viewer := newOrigin(10), newOrigin(11), newOrigin(12)
	b.connect(pub, Config{Origin: publisher, Role: lite.RolePublisher}, Config{Origin: relay}, transport.PipeConfig{})
	b.connect(sub, Config{Origin: viewer, Role: lite.RoleSubscriber}, Config{Origin: relay}, transport.PipeConfig{})

	want := testGroups(8, 7, 100_000)
	info := model.Info{MaxAge: 30 * time.Second, Timescale: 1000}
	b.announce(publisher, "room/cam", info, publishGroups(want))
	b.mustSee(viewer, "room/cam")
	got, err := b.watch(viewer, "room/cam", "video", model.Options{MaxLatency: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := compare(want, got, pub.HasTimestamps() && sub.HasTimestamps()); err != nil {
		t.Fatal(err)
	}
}
