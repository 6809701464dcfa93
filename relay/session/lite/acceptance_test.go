package lite

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

const (
	bigFrame  = 64 << 10
	bigFrames = 1024 // 64 MiB
)

// parkedConn is a connection whose group streams take nothing until they are
// let go: the peer has attached and does not read.
type parkedConn struct {
	transport.Conn
	parked atomic.Bool
	resume chan struct{}
}

func (c *parkedConn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	st, err := c.Conn.OpenSendStream(ctx)
	if err != nil || !c.parked.Load() {
		return st, err
	}
	return &parkedStream{st, c.resume}, nil
}

type parkedStream struct {
	transport.SendStream
	resume chan struct{}
}

func (s *parkedStream) Write(p []byte) (int, error) {
	select {
	case <-s.resume:
	case <-s.Stopped():
	}
	return s.SendStream.Write(p)
}

// bigPublisher writes one group of 64 MiB through its own window of 16 MiB.
type bigPublisher struct{ written atomic.Int64 }

func (p *bigPublisher) publish(ctx context.Context, prod *model.Producer) {
	g, err := prod.Group(0, model.Window{Bytes: 16 << 20})
	if err != nil {
		prod.Fail(err)
		return
	}
	payload := make([]byte, bigFrame)
	for i := range int64(bigFrames) {
		fill(payload, i)
		delta := int64(1)
		head, _ := lite.FrameHead{Timestamp: i + 1, Size: bigFrame}.Append(nil, lite.Lite06, i+1-delta)
		if err := g.WriteFrame(ctx, head, i+1, payload); err != nil {
			g.Abort(err)
			return
		}
		p.written.Add(1)
	}
	if g.Finish() == nil {
		prod.Finish(1)
		prod.Close()
	}
}

// fill writes the payload of frame i: no two places are alike.
func fill(p []byte, i int64) {
	var b [8]byte
	for j := 0; j < len(p); j += 8 {
		binary.BigEndian.PutUint64(b[:], uint64(i)<<32^uint64(j))
		copy(p[j:], b[:])
	}
}

// wantBig reads the whole track and checks each byte.
func wantBig(ctx context.Context, sub *model.Subscription) error {
	r, err := sub.Next(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	want := make([]byte, bigFrame)
	for i := range int64(bigFrames) {
		f, err := r.NextFrame(ctx)
		if err != nil || f.Size != bigFrame {
			return fmt.Errorf("frame %d: %+v, %w", i, f, err)
		}
		fill(want, i)
		for at := 0; ; {
			p, err := r.Payload(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("frame %d: %w", i, err)
			}
			if string(p) != string(want[at:at+len(p)]) {
				return fmt.Errorf("frame %d differs between bytes %d and %d", i, at, at+len(p))
			}
			at += len(p)
			r.Taken(len(p))
		}
	}
	if _, err := r.NextFrame(ctx); err != io.EOF {
		return fmt.Errorf("the group ends with %w, want a clean end", err)
	}
	_, err = sub.Next(ctx)
	if err != io.EOF {
		return fmt.Errorf("the track ends with %w, want a clean end", err)
	}
	return nil
}

// join runs a session pair; the server's group streams are parked.
func (b *bench) joinParked(v lite.Version, client, server Config) *parkedConn {
	grant := transport.PipeGrant{Windows: windows}
	c, s := transport.Pipe(transport.PipeConfig{Protocol: v.String(), Client: grant, Server: grant})
	parked := &parkedConn{Conn: s, resume: make(chan struct{})}
	b.run(c, v, client)
	b.run(parked, v, server)
	return parked
}

func TestAParkedViewerHoldsFifteenFramesOfOneRelay(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		publisher, relay, viewer := newOrigin(11), newOrigin(10), newOrigin(12)
		b.connect(v, Config{Origin: publisher, Role: lite.RolePublisher}, Config{Origin: relay}, transport.PipeConfig{})
		parked := b.joinParked(v, Config{Origin: viewer, Role: lite.RoleSubscriber}, Config{Origin: relay})
		big := &bigPublisher{}
		b.announce(publisher, "cam", model.Info{Timescale: 1000, MaxAge: time.Minute}, big.publish)
		b.mustSee(viewer, "cam")
		parked.parked.Store(true)
		sub, err := viewer.Subscribe("cam", "video", model.Peer{}, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		advance(10 * time.Second)
		synctest.Wait()
		wantHeld(t, "relay", relay, 15, 1<<20)
		if n := big.written.Load(); n == 0 || n > 290 {
			t.Errorf("the publisher wrote %d frames, want at most 290: 15, 16 under way, 255 of its own", n)
		}
		close(parked.resume)
		if err := wantBig(b.ctx, sub); err != nil {
			t.Fatal(err)
		}
	}, bigVersions()...)
}

// bigVersions are those that 64 MiB are moved for.
func bigVersions() []lite.Version {
	if raceOn {
		return []lite.Version{lite.Lite06}
	}
	return versions
}

// wantHeld checks what an origin holds: frames of 64 KiB and no more than most bytes.
func wantHeld(t *testing.T, name string, o *model.Origin, frames, most int64) {
	t.Helper()
	held, _ := o.CacheBytes()
	if n := held / (bigFrame + 128); n != frames && frames > 0 {
		t.Errorf("%s holds %d frames (%d bytes), want %d", name, n, held, frames)
	}
	if held > most {
		t.Errorf("%s holds %d bytes, want at most %d", name, held, most)
	}
	t.Logf("%s holds %d bytes, %d frames", name, held, held/(bigFrame+128))
}

func TestAParkedViewerBehindTwoRelaysHoldsBoth(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		b := newBench(t)
		defer b.end()
		publisher, relayA, relayB, viewer := newOrigin(11), newOrigin(10), newOrigin(9), newOrigin(12)
		b.connect(v, Config{Origin: publisher, Role: lite.RolePublisher}, Config{Origin: relayA}, transport.PipeConfig{})
		b.connect(v, Config{Origin: relayB}, Config{Origin: relayA}, transport.PipeConfig{})
		parked := b.joinParked(v, Config{Origin: viewer, Role: lite.RoleSubscriber}, Config{Origin: relayB})
		big := &bigPublisher{}
		b.announce(publisher, "cam", model.Info{Timescale: 1000, MaxAge: time.Minute}, big.publish)
		b.mustSee(viewer, "cam")
		parked.parked.Store(true)
		sub, err := viewer.Subscribe("cam", "video", model.Peer{}, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		advance(10 * time.Second)
		synctest.Wait()
		wantHeld(t, "relay B", relayB, 15, 1<<20)
		wantHeld(t, "relay A", relayA, 0, 3_700_000)
		n := big.written.Load()
		if n == 0 || n > 340 {
			t.Errorf("the publisher wrote %d frames, want at most 340", n)
		}
		t.Logf("the publisher wrote %d frames", n)
		close(parked.resume)
		if err := wantBig(b.ctx, sub); err != nil {
			t.Fatal(err)
		}
	}, bigVersions()...)
}

// sinkConn is a connection whose group streams take everything at once and note
// where it was.
type sinkConn struct {
	transport.Conn
	setup atomic.Bool
	mu    sync.Mutex
	large []unsafe.Pointer // of writes of more than a packet
	bytes atomic.Int64
}

func (c *sinkConn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	if !c.setup.Swap(true) {
		return c.Conn.OpenSendStream(ctx) // SETUP
	}
	return &sinkStream{c: c, stopped: make(chan struct{})}, nil
}

type sinkStream struct {
	c       *sinkConn
	once    sync.Once
	stopped chan struct{}
}

func (s *sinkStream) Write(p []byte) (int, error) {
	if len(p) > 1200 {
		s.c.mu.Lock()
		if len(s.c.large) < cap(s.c.large) {
			s.c.large = append(s.c.large, unsafe.Pointer(unsafe.SliceData(p)))
		}
		s.c.mu.Unlock()
	}
	s.c.bytes.Add(int64(len(p)))
	return len(p), nil
}
func (s *sinkStream) Close() error                   { return nil }
func (s *sinkStream) Reset(uint64)                   { s.once.Do(func() { close(s.stopped) }) }
func (s *sinkStream) SetPriority(transport.Priority) {}
func (s *sinkStream) Stopped() <-chan struct{}       { return s.stopped }

// room is 100 viewers of one track, all of one version.
type room struct {
	b       *bench
	relay   *model.Origin
	sinks   []*sinkConn
	clients []transport.Conn
	group   *model.GroupWriter
	local   *model.Reader
	prod    *model.Producer
}

const (
	roomViewers = 100
	roomFrame   = 8 << 10
)

// newRoom makes the viewers and waits until all of them are attached to group 0.
func newRoom(t *testing.T, b *bench, v lite.Version) *room {
	t.Helper()
	r := &room{b: b, relay: newOrigin(relayID)}
	producers := make(chan *model.Producer, 1)
	b.announce(r.relay, "cam", model.Info{Timescale: 1000, MaxAge: time.Minute}, func(ctx context.Context, p *model.Producer) {
		producers <- p
		<-ctx.Done()
	})
	sub, err := r.relay.Subscribe("cam", "video", model.Peer{}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.prod = <-producers
	if r.group, err = r.prod.Group(0, model.Window{}); err != nil {
		t.Fatal(err)
	}
	r.write(t, 0) // a group is given when it has a frame
	if r.local, err = sub.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range roomViewers {
		r.join(t, v)
	}
	r.drain(t, 1)
	return r
}

// join adds a viewer that asks by bytes.
func (r *room) join(t *testing.T, v lite.Version) {
	t.Helper()
	c, s := transport.Pipe(transport.PipeConfig{Protocol: v.String(), HasURI: true})
	sink := &sinkConn{Conn: s, large: make([]unsafe.Pointer, 0, 4096)}
	sink.setup.Store(!v.HasSetup())
	r.sinks, r.clients = append(r.sinks, sink), append(r.clients, c)
	r.b.run(sink, v, Config{Origin: r.relay, Role: lite.RolePublisher})
	if v.HasSetup() {
		st, err := c.OpenSendStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p, _ := parseBytes("01 | 01 00")
		_, _ = st.Write(p)
		_ = st.Close()
	}
	st, err := c.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := parseBytes(subscribeTo(v, "00"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write(p); err != nil {
		t.Fatal(err)
	}
}

// write publishes one frame of 8 KiB.
func (r *room) write(t *testing.T, i int64) {
	t.Helper()
	if err := r.group.WriteFrame(r.b.ctx, []byte{2, 0x60, 0}, i, make8K); err != nil {
		t.Fatal(err)
	}
}

var make8K = make([]byte, roomFrame)

// drain waits until every viewer has taken so many frames.
func (r *room) drain(t *testing.T, frames int64) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, s := range r.sinks {
		for s.bytes.Load() < frames*roomFrame {
			if time.Now().After(deadline) {
				t.Fatalf("a viewer has %d bytes, want %d", s.bytes.Load(), frames*roomFrame)
			}
			runtime.Gosched()
		}
	}
}

// span returns where the frames lie that a local reader is given.
func (r *room) spans(t *testing.T, frames int64) (out [][2]uintptr) {
	t.Helper()
	for total := int64(0); total < frames*roomFrame; {
		p, err := r.local.Next(r.b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		from := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
		out = append(out, [2]uintptr{from, from + uintptr(len(p))})
		total += int64(len(p))
		r.local.Taken(len(p))
	}
	return out
}

func TestEveryViewersWriteIsOfTheSharedChunk(t *testing.T) {
	for _, v := range []lite.Version{lite.Lite05, lite.Lite06wip, lite.Lite06} {
		t.Run(v.String(), func(t *testing.T) {
			b := newBench(t)
			defer b.stop()
			r := newRoom(t, b, v)
			for i := range int64(99) {
				r.write(t, i+1)
			}
			r.drain(t, 100)
			spans := r.spans(t, 100)
			writes := 0
			for n, s := range r.sinks {
				s.mu.Lock()
				for _, p := range s.large {
					if !within2(spans, uintptr(p)) {
						t.Errorf("viewer %d: a write at %p is of no shared chunk", n, p)
					}
					writes++
				}
				s.mu.Unlock()
			}
			if writes < roomViewers {
				t.Errorf("%d writes were seen, want at least one for each viewer", writes)
			}
		})
	}
}

func TestAViewerCostsFiveGoroutinesAndTwoForAnnouncements(t *testing.T) {
	for _, v := range versions {
		t.Run(v.String(), func(t *testing.T) {
			b := newBench(t)
			defer b.stop()
			before := runtime.NumGoroutine()
			r := newRoom(t, b, v)
			// The sessions of the room do not hear announcements: one less than a relay's.
			wantGoroutines(t, before+5*roomViewers+5)
			for _, c := range r.clients {
				st, err := c.OpenStream(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				p, _ := parseBytes(request(v))
				if _, err := st.Write(p); err != nil {
					t.Fatal(err)
				}
			}
			each := 7
			if !v.HasSubscribeEnd() {
				each = 8 // one more notes a peer that leaves while something is to be retracted
			}
			wantGoroutines(t, before+each*roomViewers+5)
		})
	}
}

// wantGoroutines waits until no more than most goroutines run.
func wantGoroutines(t *testing.T, most int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > most {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines run, want at most %d", runtime.NumGoroutine(), most)
		}
		runtime.Gosched()
	}
}

func within2(spans [][2]uintptr, p uintptr) bool {
	for _, s := range spans {
		if s[0] <= p && p < s[1] {
			return true
		}
	}
	return false
}

func TestAFrameCostsAViewerLittleOfTheHeap(t *testing.T) {
	if raceOn {
		t.Skip("a pool forgets on purpose when races are looked for")
	}
	for _, v := range versions {
		t.Run(v.String(), func(t *testing.T) {
			b := newBench(t)
			defer b.stop()
			r := newRoom(t, b, v)
			const frames = 300
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range int64(frames) {
				r.write(t, i+1)
				r.drain(t, i+2)
			}
			runtime.ReadMemStats(&after)
			const deliveries = frames * roomViewers
			objects := float64(after.Mallocs-before.Mallocs) / deliveries
			bytes := float64(after.TotalAlloc-before.TotalAlloc-frames*roomFrame) / deliveries
			t.Logf("%.3f allocations and %.1f bytes for each frame and viewer, of 8192 bytes of payload", objects, bytes)
			if objects > 0.1 {
				t.Errorf("%.3f allocations for each frame and viewer, want at most 0.1", objects)
			}
			if bytes > 400 {
				t.Errorf("%.1f bytes allocated for each frame and viewer, want at most 400", bytes)
			}
		})
	}
}

// stop is end for tests in real time.
func (b *bench) stop() {
	b.cancel()
	b.tasks.Wait()
}
