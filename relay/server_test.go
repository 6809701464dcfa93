package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// failsafe bounds waits that only a bug makes long. It is far more than any of them takes
// on an idle machine: with the race detector, beside other work, a minute was not enough.
const failsafe = 4 * time.Minute

// running is a server on loopback that ends with the test.
type running struct {
	*Server
	addresses Addresses
	hash      [sha256.Size]byte
	ended     chan error
	stop      context.CancelFunc
}

func newServer(t *testing.T, change func(*config.Config)) *running {
	t.Helper()
	cfg := config.Development()
	cfg.Listen, cfg.Status.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Log.Level = config.LevelWarn
	if change != nil {
		change(&cfg)
	}
	loaded, err := config.Load(config.Source{Base: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	return runServer(t, Options{Loaded: loaded, Log: t.Output()})
}

func runServer(t *testing.T, o Options) *running {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Server: s, ended: make(chan error, 1)}
	if r.addresses, err = s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { r.ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		r.stop()
		if err := r.wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	if text, ok := s.certificates.hash(); ok {
		raw, _ := hex.DecodeString(text)
		copy(r.hash[:], raw)
	}
	return r
}

// wait returns what Run returned.
func (r *running) wait() error {
	err := <-r.ended
	r.ended <- err
	return err
}

// dial connects as a client that speaks one version.
func (r *running) dial(t *testing.T, kind transport.Kind, version wire.Version) transport.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	pinned := quic.DialConfig{Protocols: []string{version.String()}, CertificateHashes: [][sha256.Size]byte{r.hash}}
	for {
		var conn transport.Conn
		var err error
		switch kind {
		case transport.QUIC:
			conn, err = quic.Dial(ctx, r.addresses.UDP, pinned)
		case transport.WebTransport:
			conn, err = quic.DialWebTransport(ctx, "https://"+r.addresses.UDP+"/", pinned)
		default:
			conn, err = qmux.Dial(ctx, "ws://"+r.addresses.TCP+"/", &qmux.Config{Protocols: []string{version.String()}})
		}
		switch {
		case err == nil:
			return conn
		case ctx.Err() == nil && strings.Contains(err.Error(), "handshake did not complete in time"): // a machine with too much to do
		default:
			t.Fatalf("%s %s: %v", kind, version, err)
		}
	}
}

// client is a peer of a relay with an origin of its own.
type client struct {
	origin  *model.Origin
	session *lite.Session
	conn    transport.Conn
	ended   chan error
}

func newClient(t *testing.T, conn transport.Conn, role wire.Role) *client {
	t.Helper()
	return joinOrigin(t, conn, model.NewOrigin(model.Config{}), role)
}

// joinOrigin runs a client session on an origin that may have others.
func joinOrigin(t *testing.T, conn transport.Conn, origin *model.Origin, role wire.Role) *client {
	t.Helper()
	version, err := wire.ParseVersion(conn.Info().Protocol)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{origin: origin, conn: conn, ended: make(chan error, 1)}
	c.session = lite.New(conn, version, lite.Config{Origin: origin, Role: role})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { c.ended <- c.session.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-c.ended
	})
	return c
}

// studio is a publisher of one track: the test writes its groups.
type studio struct {
	ctx   context.Context // outlives the test's own, whose end comes before the clients'
	info  model.Info
	tasks sync.WaitGroup
	write func(ctx context.Context, p *model.Producer) error
	fail  chan error
}

// newStudio announces path; write is called for the upstream request, once.
func newStudio(t *testing.T, o *model.Origin, path model.Path, write func(context.Context, *model.Producer) error) *studio {
	t.Helper()
	s := &studio{ctx: context.WithoutCancel(t.Context()), info: model.Info{Timescale: 1000, MaxAge: 30 * time.Second}, write: write, fail: make(chan error, 16)}
	o.Announce(model.Route{Path: path, Source: s})
	t.Cleanup(s.tasks.Wait)
	return s
}

func (s *studio) Pull(p *model.Producer) {
	p.Accept(s.info)
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, failsafe)
		defer cancel()
		stop := context.AfterFunc(ctx, func() { p.Fail(ctx.Err()) })
		defer stop()
		if err := s.write(ctx, p); err != nil {
			s.fail <- err
			p.Fail(err)
		}
	})
}

// writeFrame writes one frame with a head as moq-lite-06 has it.
func writeFrame(ctx context.Context, w *model.GroupWriter, payload []byte) error {
	head, err := wire.FrameHead{Size: uint64(len(payload))}.Append(nil, wire.Lite06, 0)
	if err != nil {
		return err
	}
	return w.WriteFrame(ctx, head, 0, payload)
}

// awaitRoute waits until a path is announced.
func awaitRoute(t *testing.T, o *model.Origin, path model.Path) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	w := o.Watch(path, model.Peer{})
	defer w.Close()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("waiting for %q: %v", path, err)
		}
		if len(changes) > 0 {
			return
		}
	}
}

// watch subscribes to a track and returns all payloads of all groups, by group.
func watch(ctx context.Context, o *model.Origin, path model.Path, track string) (map[uint64][][]byte, error) {
	sub, err := o.Subscribe(path, track, model.Peer{}, model.Options{MaxLatency: 30 * time.Second, Start: model.Start{Mode: model.StartFloor}})
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	out := make(map[uint64][][]byte)
	for {
		r, err := sub.Next(ctx)
		if err != nil {
			return out, err
		}
		frames, err := readFrames(ctx, r)
		r.Close()
		if err != nil {
			return out, fmt.Errorf("group %d: %w", r.Sequence(), err)
		}
		out[r.Sequence()] = frames
	}
}

func readFrames(ctx context.Context, r *model.Reader) ([][]byte, error) {
	var frames [][]byte
	for {
		f, err := r.NextFrame(ctx)
		if isEOF(err) {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		payload := make([]byte, 0, f.Size)
		for {
			b, err := r.Payload(ctx)
			if isEOF(err) {
				break
			}
			if err != nil {
				return frames, err
			}
			payload = append(payload, b...)
			r.Taken(len(b))
		}
		frames = append(frames, payload)
	}
}

// pattern is a payload of n bytes that no other seed has.
func pattern(n int, seed byte) []byte {
	return bytes.Repeat([]byte{seed, seed ^ 0x55, seed + 3}, n/3+1)[:n]
}

func dialStatus(t *testing.T, r *running) string {
	t.Helper()
	if _, _, err := net.SplitHostPort(r.addresses.Status); err != nil {
		t.Fatalf("status port: %v", err)
	}
	return "http://" + r.addresses.Status
}
