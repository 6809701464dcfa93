package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// sizes are frames of one byte to 300,000, around the sizes of packets, chunks and windows.
var sizes = []int{1, 0, 1199, 1452, 4095, 4096, 8192, 65535, 65536, 300_000}

// publishAll writes groups of frames of all sizes and ends the track.
func publishAll(groups int) func(context.Context, *model.Producer) error {
	return func(ctx context.Context, p *model.Producer) error {
		for g := range groups {
			if err := publishGroup(ctx, p, g); err != nil {
				return err
			}
		}
		p.Finish(uint64(groups))
		p.Close()
		return nil
	}
}

// publishGroup writes group g with frames of all sizes.
func publishGroup(ctx context.Context, p *model.Producer, g int) error {
	w, err := p.Group(uint64(g), model.Window{Bytes: 16 << 20})
	if err != nil {
		return err
	}
	for i, n := range sizes {
		if err := writeFrame(ctx, w, pattern(n, byte(g*16+i))); err != nil {
			return err
		}
	}
	return w.Finish()
}

func TestAViewerOnAnyTransportAndVersionGetsEveryByte(t *testing.T) {
	type end struct {
		kind    transport.Kind
		version wire.Version
	}
	ends := []end{
		{transport.QUIC, wire.Lite06},
		{transport.QUIC, wire.Lite05},
		{transport.WebTransport, wire.Lite06},
		{transport.WebTransport, wire.Lite05},
		{transport.WebSocket, wire.Lite06},
		{transport.WebSocket, wire.Lite05},
		{transport.WebSocket, wire.Lite04},
		{transport.WebSocket, wire.Lite03},
	}
	const groups = 4
	server := newServer(t, nil)
	for i, from := range ends {
		path := model.Path(fmt.Sprintf("room/%d", i))
		publisher := newClient(t, server.dial(t, from.kind, from.version), wire.RolePublisher)
		start := make(chan struct{})
		newStudio(t, publisher.origin, path, func(ctx context.Context, p *model.Producer) error {
			select {
			case <-start:
			case <-ctx.Done():
				return ctx.Err()
			}
			return publishAll(groups)(ctx, p)
		})
		awaitRoute(t, server.origin, path)
		results := make(chan error, len(ends))
		for _, to := range ends {
			viewer := newClient(t, server.dial(t, to.kind, to.version), wire.RoleSubscriber)
			awaitRoute(t, viewer.origin, path)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), failsafe)
				defer cancel()
				results <- checkAll(ctx, viewer.origin, path, groups)
			}()
		}
		awaitSubscribers(t, server.origin, int64(len(ends)))
		close(start)
		for range ends {
			if err := <-results; err != nil {
				t.Errorf("from %s over %s: %v", from.version, from.kind, err)
			}
		}
		awaitSubscribers(t, server.origin, 0)
	}
}

// awaitSubscribers waits until the relay itself has so many subscriptions.
func awaitSubscribers(t *testing.T, o *model.Origin, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, fmt.Sprintf("%d subscriptions", n), func() bool { return o.Stats().Subscriptions.Load() == n })
}

func checkAll(ctx context.Context, o *model.Origin, path model.Path, groups int) error {
	got, err := watch(ctx, o, path, "video")
	if !isEOF(err) {
		return fmt.Errorf("%d of %d groups came, then: %w", len(got), groups, err)
	}
	for g := range groups {
		if len(got[uint64(g)]) != len(sizes) {
			return fmt.Errorf("group %d has %d frames, want %d", g, len(got[uint64(g)]), len(sizes))
		}
		for i, n := range sizes {
			if !bytes.Equal(got[uint64(g)][i], pattern(n, byte(g*16+i))) {
				return fmt.Errorf("group %d frame %d has other bytes", g, i)
			}
		}
	}
	return nil
}

// The figures of one and two hops with a viewer that takes nothing: windows of
// 1 and 4 MiB, one group of 32 MiB in frames of 64 KiB.
func TestAParkedViewerHoldsOneWindowInItsRelayAndStopsThePublisher(t *testing.T) {
	for _, c := range []struct {
		kind    transport.Kind
		version wire.Version
	}{{transport.QUIC, wire.Lite06}, {transport.QUIC, wire.Lite05}, {transport.WebTransport, wire.Lite06}, {transport.WebSocket, wire.Lite05}} {
		t.Run(fmt.Sprintf("%s %s", c.kind, c.version), func(t *testing.T) {
			const frame, frames = 64 << 10, 512
			a := newServer(t, nil)
			b := model.NewOrigin(model.Config{}) // the second relay, a client of the first
			link := joinOrigin(t, a.dial(t, c.kind, c.version), b, wire.RoleBoth)
			publisher := newClient(t, a.dial(t, c.kind, c.version), wire.RolePublisher)
			written := make(chan int, frames)
			newStudio(t, publisher.origin, "room", func(ctx context.Context, p *model.Producer) error {
				w, err := p.Group(0, model.Window{Bytes: 16 << 20})
				for i := 0; i < frames && err == nil; i++ {
					if err = writeFrame(ctx, w, pattern(frame, byte(i))); err == nil {
						written <- i
					}
				}
				if err != nil {
					return err
				}
				p.Finish(1)
				p.Close()
				return w.Finish()
			})
			_ = link
			awaitRoute(t, b, "room")
			sub, err := b.Subscribe("room", "video", model.Peer{}, model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			ctx, cancel := context.WithTimeout(t.Context(), failsafe)
			defer cancel()
			reader, err := sub.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			await(ctx, t, "the relays and the publisher to stand still", func() bool {
				return b.Stats().Paused.Load() == 1 && a.origin.Stats().Paused.Load() == 1 && publisher.origin.Stats().Paused.Load() == 1
			})
			heldA, _ := a.origin.CacheBytes()
			heldB, _ := b.CacheBytes()
			t.Logf("parked: %d bytes at the viewer's relay, %d at the publisher's, %d of %d frames written", heldB, heldA, len(written), frames)
			if framesB := (heldB - 256) / (frame + 128); heldB > 1<<20 || framesB != 15 {
				t.Errorf("the viewer's relay holds %d bytes, %d frames; want at most 1 MiB and 15 frames", heldB, framesB)
			}
			if heldA > 3_700_000 {
				t.Errorf("the publisher's relay holds %d bytes, want at most 3,700,000", heldA)
			}
			if n := len(written); n > 340 {
				t.Errorf("the publisher wrote %d frames, want at most 340", n)
			}
			got, err := readFrames(ctx, reader)
			if err != nil || len(got) != frames {
				t.Fatalf("after resume %d frames came (%v), want %d", len(got), err, frames)
			}
			for i, payload := range got {
				if !bytes.Equal(payload, pattern(frame, byte(i))) {
					t.Fatalf("frame %d has other bytes", i)
				}
			}
		})
	}
}

func TestFramesOf1MiBUnderAWindowOf4MiBAreHeldThreeAtATime(t *testing.T) {
	server := newServer(t, func(c *config.Config) { c.Windows.Stream, c.Windows.Connection = 4*config.MiB, 8*config.MiB })
	publisher := newClient(t, server.dial(t, transport.QUIC, wire.Lite06), wire.RolePublisher)
	newStudio(t, publisher.origin, "room", func(ctx context.Context, p *model.Producer) error {
		w, err := p.Group(0, model.Window{Bytes: 16 << 20})
		for i := 0; i < 40 && err == nil; i++ {
			err = writeFrame(ctx, w, pattern(1<<20, byte(i)))
		}
		return nil // ended by the test
	})
	awaitRoute(t, server.origin, "room")
	sub, err := server.origin.Subscribe("room", "video", model.Peer{}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	reader, err := sub.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	await(ctx, t, "the publisher to be stopped", func() bool {
		return server.origin.Stats().Paused.Load() == 1 && publisher.origin.Stats().Paused.Load() == 1
	})
	if held, _ := server.origin.CacheBytes(); (held-256)/(1<<20+128) != 3 || held >= 4<<20 {
		t.Errorf("the relay holds %d bytes, want 3 frames of 1 MiB and less than 4 MiB", held)
	}
	publisher.conn.Close(0, "")
}
