package load

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session/lite"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// place is one session of a view. Each has an origin of its own: what one relay
// says is no news of what the other has.
type place struct {
	*joined
	viewer *viewer
	origin *model.Origin
	before *place        // the one that this takes over from; nil: none
	until  atomic.Uint64 // one above the first group that its successor has; 0: it has none
	// unanswered is true from a reset until the track was there again; of follow,
	// and of who has its end.
	unanswered bool
}

func (v *viewer) place() *place { return &place{viewer: v, origin: model.NewOrigin(model.Config{})} }

// config is that of the session.
func (p *place) config() lite.Config {
	return lite.Config{Origin: p.origin, Role: wire.RoleSubscriber, Log: p.viewer.o.Log}
}

// firstRetry is how long a view waits before it asks again, the first time.
const firstRetry = 10 * time.Millisecond

// follow watches until the track or the session ends, or another place has taken
// over. A subscription that ends before its time is asked for again, where that is
// wanted.
func (p *place) follow() error {
	v := p.viewer
	var running sync.WaitGroup
	running.Go(func() { _ = p.origin.Run(p.ctx) })
	defer running.Wait()
	defer p.leave(errDone)
	for wait := firstRetry; ; wait = min(2*wait, lastPatience) {
		groups, err := p.watch()
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		if err == io.EOF || err == nil || !v.o.Reconnect {
			return err
		}
		if groups > 0 {
			wait = firstRetry
		}
		v.reset(err, 1)
		p.unanswered = true
		if cause := pause(p.ctx, wait); cause != nil {
			return cause
		}
	}
}

// watch reads what one subscription gives, and returns how many groups that were.
// The error is nil when another place has taken over.
func (p *place) watch() (groups int, err error) {
	v := p.viewer
	if err := await(p.ctx, p.origin, v.path, v.o.Progress); err != nil {
		return 0, err
	}
	sub, err := p.origin.Subscribe(v.path, v.o.Track, model.Peer{}, model.Options{
		MaxLatency: v.o.MaxLatency, Start: model.Start{Mode: model.StartFloor, Group: v.resume()},
	})
	if err != nil {
		return 0, v.naming(err)
	}
	defer sub.Close()
	if _, err := sub.Info(p.ctx); err != nil {
		return 0, v.naming(err)
	}
	p.unanswered = false
	v.watching()
	var reading sync.WaitGroup
	defer reading.Wait()
	for ; ; groups++ {
		r, err := sub.Next(p.ctx)
		if err == io.EOF {
			return groups, io.EOF
		}
		if err != nil {
			return groups, v.naming(err)
		}
		if p.replaced(r.Sequence()) {
			r.Close()
			reading.Wait()
			return groups, nil
		}
		g := v.start(r.Sequence())
		reading.Go(func() { p.read(g, r) })
	}
}

// replaced reports whether the next place has this group, and tells the one before
// that this one does.
func (p *place) replaced(sequence uint64) bool {
	if p.before != nil {
		p.before.until.CompareAndSwap(0, sequence+1)
	}
	until := p.until.Load()
	return until > 0 && sequence+1 >= until
}

// await waits until a broadcast is announced.
func await(ctx context.Context, origin *model.Origin, path model.Path, tell *Progress) error {
	w := origin.Watch(path, model.Peer{})
	defer w.Close()
	said := time.AfterFunc(2*time.Second, func() { tell.Say("waiting until %q is announced", path) })
	defer said.Stop()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.Path == path && c.Kind != model.Ended {
				return nil
			}
		}
	}
}

// read takes one group to its end.
func (p *place) read(g *seen, r *model.Reader) {
	defer r.Close()
	var payload []byte
	for index := uint32(r.First()); ; index++ {
		f, err := r.NextFrame(p.ctx)
		if err == nil {
			payload, err = readPayload(p.ctx, r, payload[:0])
		}
		if err != nil {
			p.viewer.end(g, err, p.ctx.Err() != nil)
			return
		}
		p.viewer.frame(g, Place{r.Sequence(), index}, f, payload)
	}
}

func readPayload(ctx context.Context, r *model.Reader, payload []byte) ([]byte, error) {
	for {
		p, err := r.Payload(ctx)
		if err == io.EOF {
			return payload, nil
		}
		if err != nil {
			return payload, err
		}
		payload = append(payload, p...)
		r.Taken(len(p))
	}
}
