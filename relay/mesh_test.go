package relay

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// parkedConn is a viewer's connection at its relay whose group streams take nothing
// until they are let go: the viewer has attached and does not read.
type parkedConn struct {
	transport.Conn
	resume <-chan struct{}
}

// OpenSendStream parks every stream but the first, which is SETUP's.
func (c *parkedConn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	st, err := c.Conn.OpenSendStream(ctx)
	if err != nil {
		return nil, err
	}
	return &parkedStream{SendStream: st, resume: c.resume}, nil
}

type parkedStream struct {
	transport.SendStream
	resume <-chan struct{}
	began  bool
}

// Write lets what is no frame through: SETUP, and the head of a group.
func (s *parkedStream) Write(p []byte) (int, error) {
	const heads = 256
	if s.began || len(p) > heads {
		s.began = true
		select {
		case <-s.resume:
		case <-s.Stopped():
		}
	}
	return s.SendStream.Write(p)
}

// parking is a further client port of a relay, whose viewers are parked.
type parking struct {
	*running
	resume chan struct{}
}

// park opens a parking of a relay. It ends before the relay.
func (r *running) park(t *testing.T) *parking {
	t.Helper()
	listener, err := quic.Listen(t.Context(), quic.Config{
		Settings: r.quicSettings(), Address: "127.0.0.1:0", TLS: r.quicTLS(), Protocols: r.protocols(),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &parking{running: &running{Server: r.Server, addresses: r.addresses, hash: r.hash}, resume: make(chan struct{})}
	p.addresses.UDP = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			conn, err := listener.Accept(ctx)
			if err != nil {
				return
			}
			tasks.Go(func() { r.serve(ctx, &parkedConn{Conn: conn, resume: p.resume}) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		tasks.Wait()
	})
	return p
}

// chained runs n relays, each of which is joined to the one before: as a peer, or as
// an upstream where the links speak the clients' version.
func chained(t *testing.T, n int, kind string, version wire.Version, windows config.Windows) []*running {
	t.Helper()
	directory := t.TempDir()
	putPair(t, directory)
	relays := make([]*running, n)
	var before *opened
	for i := range relays {
		next := openRelay(t, directory, func(c *config.Config) {
			c.Windows = windows
			c.Protocols = []string{version.String()}
			if kind == "upstreams" && before != nil {
				c.Cluster.UpstreamsCA = filepath.Join(directory, "tls.crt")
				c.Cluster.Upstreams = []config.Upstream{{URL: "https://" + before.addresses.UDP}}
			}
		})
		if kind == "peers" && before != nil {
			relays[i] = next.run(t, before)
		} else {
			relays[i] = next.run(t)
		}
		before = next
	}
	return relays
}

// bigFrame is the size of all frames of the group of the figures.
const bigFrame = 64 << 10

// publishBig writes the group through a window of 16 MiB of the publisher's own.
func publishBig(frames int64, written *atomic.Int64) func(context.Context, *model.Producer) error {
	return func(ctx context.Context, p *model.Producer) error {
		w, err := p.Group(0, model.Window{Bytes: 16 << 20})
		if err != nil {
			return err
		}
		for i := range frames {
			if err := writeFrame(ctx, w, pattern(bigFrame, byte(i))); err != nil {
				return err
			}
			written.Add(1)
		}
		if err := w.Finish(); err != nil {
			return err
		}
		p.Finish(1)
		p.Close()
		return nil
	}
}

// wantBig reads the group to its clean end, and the track's, and checks every byte.
func wantBig(ctx context.Context, sub *model.Subscription, frames int64) error {
	r, err := sub.Next(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	for i := range frames {
		if _, err := r.NextFrame(ctx); err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
		want := pattern(bigFrame, byte(i))
		for len(want) > 0 {
			b, err := r.Payload(ctx)
			if err != nil || !bytes.HasPrefix(want, b) {
				return fmt.Errorf("frame %d has other bytes, or too few (%w)", i, err)
			}
			want = want[len(b):]
			r.Taken(len(b))
		}
		if _, err := r.Payload(ctx); !isEOF(err) {
			return fmt.Errorf("frame %d goes on: %w", i, err)
		}
	}
	if _, err := r.NextFrame(ctx); !isEOF(err) {
		return fmt.Errorf("the group ends with %w, want a clean end", err)
	}
	if _, err := sub.Next(ctx); !isEOF(err) {
		return fmt.Errorf("the track ends with %w, want a clean end", err)
	}
	return nil
}

// figures are a group, and the most of it that each part of a chain may have while
// the viewer is parked.
type figures struct {
	windows config.Windows
	frames  int64   // of the group
	edge    int64   // frames at the viewer's relay, exactly
	held    []int64 // bytes, the viewer's relay first
	written int64   // frames of the publisher
}

func windowsOf(stream, connection config.Bytes) config.Windows {
	return config.Windows{Stream: stream, Connection: connection, PacingCap: 16 * config.MiB, MaxIncomingStreams: 1024}
}

// The relays before the viewer's hold what they have sent too. Each further one adds
// to that what the next has read, and the credit of that one: two windows, 32 frames.
// Of windows of 16 MiB a relay keeps no more than the 32 MiB of a group's tail.
var (
	twoRelays   = figures{windowsOf(config.MiB, 4*config.MiB), 1024, 15, []int64{1 << 20, 3_700_000}, 340}
	threeRelays = figures{windowsOf(config.MiB, 4*config.MiB), 1024, 15, []int64{1 << 20, 3_700_000, 3_700_000 + 2<<20}, 340 + 32}
	twoWide     = figures{windowsOf(16*config.MiB, 32*config.MiB), 1024, 255, []int64{16_800_000, 33_600_000}, 1024}
	threeWide   = figures{windowsOf(16*config.MiB, 32*config.MiB), 2048, 255, []int64{16_800_000, 33_600_000, 33_600_000}, 6*256 + 32}
)

// hold parks a viewer behind a chain of relays, checks what is where, and lets the
// viewer go.
func (f figures) hold(t *testing.T, kind string, version wire.Version) {
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	relays := chained(t, len(f.held), kind, version, f.windows)
	parking := relays[len(relays)-1].park(t)
	publisher := newClient(t, relays[0].dial(t, transport.QUIC, version), wire.RolePublisher)
	var written atomic.Int64
	studio := newStudio(t, publisher.origin, "room", publishBig(f.frames, &written))
	viewer := newClient(t, parking.dial(t, transport.QUIC, version), wire.RoleSubscriber)
	awaitRoute(t, viewer.origin, "room")
	sub, err := viewer.origin.Subscribe("room", "video", model.Peer{}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	await(ctx, t, "publisher and relays to stand still", func() bool {
		for _, r := range relays {
			if r.origin.Stats().Paused.Load() != 1 {
				return false
			}
		}
		return publisher.origin.Stats().Paused.Load() == 1 || written.Load() == f.frames
	})
	f.check(t, relays, written.Load())
	close(parking.resume)
	if err := wantBig(ctx, sub, f.frames); err != nil {
		t.Error(err)
	}
	if len(studio.fail) > 0 {
		t.Errorf("the publisher has failed: %v", <-studio.fail)
	}
}

// check holds what a chain has while its viewer is parked against the figures.
func (f figures) check(t *testing.T, relays []*running, written int64) {
	t.Helper()
	held := make([]int64, len(relays))
	for i := range held { // the viewer's relay first
		held[i], _ = relays[len(relays)-1-i].origin.CacheBytes()
		if held[i] > f.held[i] {
			t.Errorf("%d relays from the viewer %d bytes are held, want at most %d", i+1, held[i], f.held[i])
		}
	}
	if n := held[0] / (bigFrame + 128); n != f.edge {
		t.Errorf("the viewer's relay holds %d frames, want %d", n, f.edge)
	}
	if written > f.written {
		t.Errorf("the publisher wrote %d frames, want at most %d", written, f.written)
	}
	t.Logf("parked: the publisher wrote %d of %d frames; held are, from the viewer's relay on, %d bytes", written, f.frames, held)
}

// Clients of every version; relays that are peers speak 07 between each other, and
// upstreams the version of their clients.
func TestAParkedViewerBehindSeveralRelaysHoldsOneWindowInEach(t *testing.T) {
	if raceOn {
		t.Skip("64 MiB over several relays take minutes where races are looked for")
	}
	for _, version := range append(wire.Released(), wire.Lite07wip) {
		t.Run(fmt.Sprintf("two relays, peers, %s", version), func(t *testing.T) { twoRelays.hold(t, "peers", version) })
	}
	for _, version := range []wire.Version{wire.Lite06, wire.Lite03} {
		t.Run(fmt.Sprintf("two relays, upstreams, %s", version), func(t *testing.T) { twoRelays.hold(t, "upstreams", version) })
	}
	t.Run("three relays", func(t *testing.T) { threeRelays.hold(t, "peers", wire.Lite06) })
	t.Run("windows of 16 MiB, two relays", func(t *testing.T) { twoWide.hold(t, "peers", wire.Lite06) })
	t.Run("windows of 16 MiB, three relays", func(t *testing.T) { threeWide.hold(t, "peers", wire.Lite06) })
}
