//go:build bench

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// room is one relay, its publisher and its viewers.
type room struct {
	relay *process
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup

	sent  atomic.Int64 // frames
	taken atomic.Int64 // frames, of all viewers together
}

// join runs a client session until the room ends.
func (r *room) join(origin *model.Origin, role wire.Role) error {
	conn, err := quic.Dial(r.ctx, r.relay.udp, quic.DialConfig{
		Protocols: []string{wire.Lite06.String()}, CertificateHashes: [][sha256.Size]byte{r.relay.hash},
	})
	if err != nil {
		return err
	}
	r.tasks.Go(func() { _ = lite.Serve(r.ctx, conn, wire.Lite06, lite.Config{Origin: origin, Role: role}) })
	return nil
}

// load is what the publisher writes.
type load struct {
	size, perGroup int
	rate           int // frames each second
}

// publish announces the track and writes it while somebody wants it.
func (r *room) publish(l load) error {
	origin := model.NewOrigin(model.Config{})
	origin.Announce(model.Route{Path: "room", Source: &publisher{r, l}})
	return r.join(origin, wire.RolePublisher)
}

type publisher struct {
	room *room
	load load
}

// Pull implements [model.Source].
func (s *publisher) Pull(p *model.Producer) {
	p.Accept(model.Info{Timescale: 1000, MaxAge: time.Second})
	s.room.tasks.Go(func() {
		if err := s.write(p); err != nil {
			p.Fail(err)
		}
	})
}

func (s *publisher) write(p *model.Producer) error {
	payload := make([]byte, s.load.size)
	tick := time.NewTicker(time.Second / time.Duration(s.load.rate))
	defer tick.Stop()
	began := time.Now()
	for group := uint64(0); ; group++ {
		w, err := p.Group(group, model.Window{})
		if err != nil {
			return err
		}
		last := int64(0)
		for range s.load.perGroup {
			select {
			case <-tick.C:
			case <-p.Done():
				w.Abort(model.ErrCancelled)
				return nil
			}
			now := time.Since(began).Milliseconds()
			head, err := wire.FrameHead{Timestamp: now, Size: uint64(len(payload))}.Append(nil, wire.Lite06, last)
			if err != nil {
				return err
			}
			last = now
			if err := w.WriteFrame(s.room.ctx, head, now, payload); err != nil {
				return err
			}
			s.room.sent.Add(1)
		}
		if err := w.Finish(); err != nil {
			return err
		}
	}
}

// view joins a viewer; one that is stalled takes nothing after its first frame.
func (r *room) view(stalled bool, there *sync.WaitGroup) error {
	origin := model.NewOrigin(model.Config{})
	if err := r.join(origin, wire.RoleSubscriber); err != nil {
		return err
	}
	there.Add(1)
	r.tasks.Go(func() {
		arrive := sync.OnceFunc(there.Done)
		defer arrive()
		if err := r.watch(origin, stalled, arrive); err != nil && r.ctx.Err() == nil {
			fmt.Println("viewer:", err)
		}
	})
	return nil
}

// watch reads groups at once, as a player with a jitter buffer of ten seconds does.
func (r *room) watch(origin *model.Origin, stalled bool, arrive func()) error {
	w := origin.Watch("room", model.Peer{})
	defer w.Close()
	for {
		changes, err := w.Next(r.ctx)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			break
		}
	}
	sub, err := origin.Subscribe("room", "video", model.Peer{}, model.Options{MaxLatency: 10 * time.Second})
	if err != nil {
		return err
	}
	defer sub.Close()
	var groups sync.WaitGroup
	defer groups.Wait()
	for {
		g, err := sub.Next(r.ctx)
		if err != nil {
			return err
		}
		groups.Go(func() { r.read(g, stalled, arrive) })
	}
}

func (r *room) read(g *model.Reader, stalled bool, arrive func()) {
	defer g.Close()
	for {
		if _, err := g.NextFrame(r.ctx); err != nil {
			return
		}
		arrive()
		if stalled {
			<-r.ctx.Done()
			return
		}
		if err := r.take(g); err != nil {
			return
		}
		r.taken.Add(1)
	}
}

// take takes one payload.
func (r *room) take(g *model.Reader) error {
	for {
		b, err := g.Payload(r.ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		g.Taken(len(b))
	}
}
