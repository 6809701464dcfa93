//go:build mesh

package mesh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/model"
	session "github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/quic"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// client is a session with a relay.
type client struct {
	origin *model.Origin
	conn   transport.Conn
	source model.Source // the relay, for what it does not announce
	ended  chan struct{}
	cancel context.CancelFunc
}

// join connects to the relay at an address.
func join(ctx context.Context, address string, hash [sha256.Size]byte, version lite.Version, role lite.Role) (*client, error) {
	dialling, done := context.WithTimeout(ctx, failsafe)
	defer done()
	conn, err := quic.Dial(dialling, address+":4443", quic.DialConfig{
		Settings: quic.Settings{IdleTimeout: 30 * time.Second}, Protocols: []string{version.String()},
		CertificateHashes: [][sha256.Size]byte{hash},
	})
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, origin: model.NewOrigin(model.Config{}), ended: make(chan struct{})}
	s := session.New(conn, version, session.Config{Origin: c.origin, Role: role})
	c.source = s
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = c.origin.Run(ctx) })
	tasks.Go(func() { _ = s.Run(ctx) })
	go func() {
		tasks.Wait()
		close(c.ended)
	}()
	return c, nil
}

// leave ends the session with a code and waits until nothing of it is left here.
func (c *client) leave(code lite.SessionCode) {
	c.conn.Close(uint64(code), "")
	c.cancel()
	<-c.ended
}

// await waits until a path is announced, or is not any more.
func (c *client) await(ctx context.Context, path model.Path, there bool) error {
	w := c.origin.Watch(path, model.Peer{})
	defer w.Close()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, change := range changes {
			if there && change.Kind != model.Ended {
				return nil
			}
		}
		if !there && len(c.origin.RoutesUnder(path)) == 0 {
			return nil
		}
	}
}

// every is the time between the groups of a studio, and payload what one of them has.
const every = 100 * time.Millisecond

func payload(group uint64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "group %d;", group), 50)
}

// studio publishes the track "video": groups of one frame, numbered by the clock, so
// that the content is the same wherever it comes from.
type studio struct {
	ctx   context.Context
	asked atomic.Int64
}

// Pull implements [model.Source].
func (s *studio) Pull(p *model.Producer) {
	s.asked.Add(1)
	if p.Track() != "video" {
		p.Fail(model.ErrNotFound)
		return
	}
	p.Accept(model.Info{MaxAge: 2 * time.Second, Timescale: 1000})
	go func() {
		for tick := time.NewTicker(every); ; {
			select {
			case <-tick.C:
			case <-s.ctx.Done():
				tick.Stop()
				return
			}
			if err := write(s.ctx, p, uint64(time.Now().UnixMilli()/every.Milliseconds())); err != nil && !errors.Is(err, model.ErrDuplicate) {
				tick.Stop()
				return
			}
		}
	}()
}

// write writes one group.
func write(ctx context.Context, p *model.Producer, group uint64) error {
	w, err := p.Group(group, model.Window{})
	if err != nil {
		return err
	}
	body := payload(group)
	head, err := lite.FrameHead{Size: uint64(len(body))}.Append(nil, lite.Lite06, 0)
	if err != nil {
		return err
	}
	if err := w.WriteFrame(ctx, head, 0, body); err != nil {
		return err
	}
	return w.Finish()
}

// publish publishes a path at a relay, with an epoch where the version has them.
func publish(ctx context.Context, address string, hash [sha256.Size]byte, version lite.Version, path model.Path) (*client, *model.Announcement, error) {
	c, err := join(ctx, address, hash, version, lite.RolePublisher)
	if err != nil {
		return nil, nil, err
	}
	return c, c.origin.Announce(model.Route{Path: path, Source: &studio{ctx: context.WithoutCancel(ctx)}}), nil
}

// The environment of a publisher that is a process of its own, to be killed.
const roleOf, addressOf, hashOf, pathOf = "MOQMESH_ROLE", "MOQMESH_ADDRESS", "MOQMESH_HASH", "MOQMESH_PATH"

// play is that process.
func play() error {
	var hash [sha256.Size]byte
	raw, err := hex.DecodeString(os.Getenv(hashOf))
	if err != nil {
		return err
	}
	copy(hash[:], raw)
	c, _, err := publish(context.Background(), os.Getenv(addressOf), hash, lite.Lite06, model.Path(os.Getenv(pathOf)))
	if err != nil {
		return err
	}
	<-c.ended
	return c.conn.Err()
}

// doomed starts a publisher as a process of its own.
func (m *mesh) doomed(i int, path model.Path) *exec.Cmd {
	m.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleOf+"=publisher", addressOf+"="+m.relays[i].at, hashOf+"="+hex.EncodeToString(m.hash[:]), pathOf+"="+string(path))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// viewer watches one track at one relay for as long as the test goes, and asks again
// when its subscription ends.
type viewer struct {
	*client
	t      *testing.T
	path   model.Path
	last   atomic.Uint64 // the newest group
	resets atomic.Int64
	tasks  sync.WaitGroup
}

// view begins to watch.
func (m *mesh) view(i int, path model.Path, version lite.Version) *viewer {
	m.t.Helper()
	c, err := join(m.ctx, m.relays[i].at, m.hash, version, lite.RoleSubscriber)
	if err != nil {
		m.t.Fatalf("a viewer at relay %d: %v", i, err)
	}
	v := &viewer{client: c, t: m.t, path: path}
	ctx, cancel := context.WithCancel(m.ctx)
	v.tasks.Go(func() {
		for ctx.Err() == nil && v.await(ctx, path, true) == nil {
			v.watch(ctx)
			if ctx.Err() == nil {
				v.resets.Add(1)
			}
			select {
			case <-time.After(every):
			case <-ctx.Done():
			}
		}
	})
	leave := v.cancel
	v.cancel = func() { cancel(); leave(); v.tasks.Wait() }
	return v
}

// watch reads one subscription to its end.
func (v *viewer) watch(ctx context.Context) {
	sub, err := v.origin.Subscribe(v.path, "video", model.Peer{}, model.Options{MaxLatency: 2 * time.Second})
	if err != nil {
		return
	}
	defer sub.Close()
	for {
		r, err := sub.Next(ctx)
		if err != nil {
			return
		}
		body, err := readGroup(ctx, r)
		r.Close()
		if err != nil {
			continue // cut short
		}
		if !bytes.Equal(body, payload(r.Sequence())) {
			v.t.Errorf("group %d of %q has other bytes", r.Sequence(), v.path)
		}
		v.last.Store(max(v.last.Load(), r.Sequence()))
	}
}

// readGroup returns all bytes of a group.
func readGroup(ctx context.Context, r *model.Reader) (body []byte, err error) {
	for {
		if _, err := r.NextFrame(ctx); err == io.EOF {
			return body, nil
		} else if err != nil {
			return body, err
		}
		for {
			p, err := r.Payload(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				return body, err
			}
			body = append(body, p...)
			r.Taken(len(p))
		}
	}
}
