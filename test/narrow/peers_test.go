//go:build narrow

package narrow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/model"
	session "github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// track is what one track of a plan is made of.
type track struct {
	Name     string
	Groups   int
	Frames   int           // of a group
	Size     int           // of a frame
	Every    time.Duration // between the starts of groups
	Spread   bool          // the frames of a group over that time, instead of at once
	First    int           // frames of group 0, if not Frames
	Priority uint8
	Latency  time.Duration // the viewer's
}

// frames is how many frames a group has.
func (tr track) frames(group int) int {
	if group == 0 && tr.First > 0 {
		return tr.First
	}
	return tr.Frames
}

// plan is what a publisher publishes below "cam" and a viewer watches.
type plan struct {
	Transport transport.Kind
	Tracks    []track
}

// outcome is what a viewer got of one track.
type outcome struct {
	Whole   int   // groups
	Cut     int   // groups that ended early
	Skipped int   // groups that never came
	Order   []int // the whole ones, in the order of their last bytes
	Bytes   int64
}

// role is the environment variable that makes the test binary a peer on a host;
// its value is the plan.
const role, planOf = "MOQNARROW_ROLE", "MOQNARROW_PLAN"

// play runs this process as a peer.
func play(name string) error {
	var p plan
	if err := json.Unmarshal([]byte(os.Getenv(planOf)), &p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if name == "publisher" {
		return publish(ctx, p)
	}
	seen, err := watch(ctx, p)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

// source publishes the tracks of a plan when they are asked for.
type source struct {
	ctx  context.Context
	plan plan
}

// Pull implements [model.Source].
func (s *source) Pull(p *model.Producer) {
	for _, tr := range s.plan.Tracks {
		if tr.Name == p.Track() {
			p.Accept(model.Info{MaxAge: time.Minute, Timescale: 1000})
			go func() {
				if err := tr.produce(s.ctx, p); err != nil {
					p.Fail(err)
				}
			}()
			return
		}
	}
	p.Fail(model.ErrNotFound)
}

// produce publishes a track and ends it.
func (tr track) produce(ctx context.Context, p *model.Producer) error {
	start := time.Now()
	var open sync.WaitGroup
	for g := range tr.Groups {
		begin := time.Duration(g) * tr.Every
		if err := until(ctx, start.Add(begin)); err != nil {
			return err
		}
		w, err := p.Group(uint64(g), model.Window{})
		if err != nil {
			return err
		}
		open.Go(func() {
			for f := range tr.frames(g) {
				at := begin
				if tr.Spread {
					at += tr.Every * time.Duration(f) / time.Duration(tr.Frames)
				}
				if until(ctx, start.Add(at)) != nil || tr.frame(ctx, w, g, f, at) != nil {
					w.Abort(model.ErrCancelled)
					return
				}
			}
			_ = w.Finish()
		})
	}
	p.Finish(uint64(tr.Groups))
	open.Wait()
	p.Close()
	return nil
}

// frame writes one frame, which says whose it is.
func (tr track) frame(ctx context.Context, w *model.GroupWriter, group, frame int, at time.Duration) error {
	last := int64(0)
	if frame > 0 {
		last = -1
	}
	head := lite.FrameHead{Timestamp: at.Milliseconds(), Size: uint64(tr.Size)}
	if last < 0 {
		last = at.Milliseconds()
		if tr.Spread {
			last -= (tr.Every / time.Duration(tr.Frames)).Milliseconds()
		}
	}
	b, err := head.Append(nil, lite.Lite06, last)
	if err != nil {
		return err
	}
	return w.WriteFrame(ctx, b, head.Timestamp, tr.payload(group, frame))
}

// payload is the frame's content: its place, over and over.
func (tr track) payload(group, frame int) []byte {
	text := fmt.Appendf(nil, "%s %d %d;", tr.Name, group, frame)
	return bytes.Repeat(text, tr.Size/len(text)+1)[:tr.Size]
}

func until(ctx context.Context, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// publish serves a plan from the relay's own host until it is killed.
func publish(ctx context.Context, p plan) error {
	conn, err := dial(ctx, transport.QUIC, relayAddress+":"+relayPort)
	if err != nil {
		return err
	}
	origin := model.NewOrigin(model.Config{})
	origin.Announce(model.Route{Path: "cam", Source: &source{ctx, p}})
	return session.Serve(ctx, conn, lite.Lite06, session.Config{Origin: origin, Role: lite.RolePublisher})
}

// watch watches all tracks of a plan to their ends, from the other side of the link.
func watch(ctx context.Context, p plan) (map[string]*outcome, error) {
	address := relayAddress + ":" + relayPort
	if p.Transport != transport.WebSocket {
		w, near, err := newWire(ctx, address)
		if err != nil {
			return nil, err
		}
		address = near
		defer func() { fmt.Fprintf(os.Stderr, "%d of %d datagrams to the viewer were lost\n", w.lost, w.seen) }()
	}
	conn, err := dial(ctx, p.Transport, address)
	if err != nil {
		return nil, err
	}
	origin := model.NewOrigin(model.Config{})
	ended := make(chan error, 1)
	go func() {
		ended <- session.Serve(ctx, conn, lite.Lite06, session.Config{Origin: origin, Role: lite.RoleSubscriber})
	}()
	if err := seePath(ctx, origin); err != nil {
		return nil, errors.Join(err, conn.Err())
	}
	seen := make(map[string]*outcome)
	var tracks sync.WaitGroup
	var mu sync.Mutex
	for _, tr := range p.Tracks {
		sub, err := origin.Subscribe("cam", tr.Name, model.Peer{}, model.Options{
			Priority: tr.Priority, MaxLatency: tr.Latency, Start: model.Start{Mode: model.StartFloor},
		})
		if err != nil {
			return nil, err
		}
		o := &outcome{}
		seen[tr.Name] = o
		tracks.Go(func() { o.follow(ctx, &mu, tr, sub) })
	}
	tracks.Wait()
	conn.Close(0, "")
	return seen, nil
}

// seePath waits until the broadcast is announced.
func seePath(ctx context.Context, origin *model.Origin) error {
	w := origin.Watch("cam", model.Peer{})
	defer w.Close()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			return nil
		}
	}
}

// follow reads all groups of a track.
func (o *outcome) follow(ctx context.Context, mu *sync.Mutex, tr track, sub *model.Subscription) {
	defer sub.Close()
	var groups sync.WaitGroup
	came := 0
	for {
		r, err := sub.Next(ctx)
		if err != nil {
			break
		}
		came++
		groups.Go(func() {
			defer r.Close()
			n, err := tr.read(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			o.Bytes += n
			if err == nil {
				o.Whole++
				o.Order = append(o.Order, int(r.Sequence()))
			} else {
				o.Cut++
			}
		})
	}
	groups.Wait()
	o.Skipped = tr.Groups - came
}

// read reads a group, which must be what was published.
func (tr track) read(ctx context.Context, r *model.Reader) (n int64, err error) {
	for f := 0; ; f++ {
		if _, err := r.NextFrame(ctx); err == io.EOF && f == tr.frames(int(r.Sequence())) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		var payload []byte
		for {
			p, err := r.Payload(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				return n, err
			}
			payload = append(payload, p...)
			n += int64(len(p))
			r.Taken(len(p))
		}
		if !bytes.Equal(payload, tr.payload(int(r.Sequence()), f)) {
			panic(fmt.Sprintf("track %s group %d frame %d: another payload than was published", tr.Name, r.Sequence(), f))
		}
	}
}

// dial connects to the relay at address.
func dial(ctx context.Context, kind transport.Kind, address string) (transport.Conn, error) {
	tokens := []string{lite.Lite06.String()}
	hash, err := certificate(ctx) // also where it is not needed: then the relay is there
	if err != nil {
		return nil, err
	}
	if kind == transport.WebSocket {
		return qmux.Dial(ctx, "ws://"+address+"/", &qmux.Config{Protocols: tokens, Drafts: []qmux.Draft{qmux.Draft02}})
	}
	cfg := quic.DialConfig{Protocols: tokens, TLS: &tls.Config{ServerName: relayAddress}, CertificateHashes: [][sha256.Size]byte{hash}}
	if kind == transport.WebTransport {
		return quic.DialWebTransport(ctx, "https://"+address+"/", cfg)
	}
	return quic.Dial(ctx, address, cfg)
}

// certificate fetches the hash of the relay's certificate, once the relay is there.
func certificate(ctx context.Context) (hash [sha256.Size]byte, err error) {
	for {
		var answer *http.Response
		answer, err = http.Get("http://" + relayAddress + ":" + relayPort + "/certificate.sha256")
		if err == nil {
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				return hash, err
			}
			raw, err := hex.DecodeString(string(bytes.TrimSpace(text)))
			copy(hash[:], raw)
			return hash, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return hash, err
		}
	}
}
