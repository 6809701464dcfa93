package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session/lite"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// PublishOptions say what is published and where. Targets, Broadcast, Track and
// Content are required.
type PublishOptions struct {
	// Targets are the relays; the same track goes to all.
	Targets []Target
	// Broadcast is the path below the root of each target, Track the track's name.
	Broadcast, Track string
	// Content is what is sent.
	Content Content
	// MaxLatency is how long groups that are not the latest stay available.
	MaxLatency time.Duration
	// Wait makes the first frame wait for a subscriber.
	Wait bool
	// HoldAfter are counts of frames after which a pause is made, until a line can
	// be read from Release. After the last frame the track does not end before that.
	HoldAfter []int
	// Release is where a line is read from to end a pause.
	Release io.Reader
	// Linger is how long relays may take to fetch the rest when all is sent, at most.
	Linger time.Duration
	// Progress shows how it goes; nil: nobody is told.
	Progress *Progress
	// OnFrame, if set, is told of each frame. The payload is valid during the call.
	OnFrame func(p Place, payload []byte)
	// Log gets what the sessions have to say; nil discards it.
	Log *slog.Logger
	// Epoch names the content for relays that speak moq-lite-07-wip: publishers of
	// the same epoch send the same groups. Zero: none.
	Epoch Epoch
	// Reconnect makes a session that is lost begin again, and follows a relay's
	// GOAWAY: the next session begins before the old one ends.
	Reconnect bool
}

// timescale of published tracks: microseconds since 1970.
const timescale = 1_000_000

// aheadMost is how far a publisher runs ahead of the fastest relay in a group.
const aheadMost = 4 << 20

// Publish sends the content and returns when it was all sent and fetched by the
// relays that want it, or ctx is done, which is no error. A relay that cannot be
// reached at first is one, and without [PublishOptions.Reconnect] one that is lost.
func Publish(ctx context.Context, o PublishOptions) error {
	path, err := model.ParsePath(o.Broadcast)
	if err != nil {
		return fmt.Errorf("broadcast %q: %w", o.Broadcast, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	origin := model.NewOrigin(model.Config{Cache: model.CacheConfig{MaxAge: max(o.MaxLatency, time.Second)}})
	p := &publisher{o: o, origin: origin, subscribed: make(chan struct{}), sessions: make([]*joined, len(o.Targets))}
	p.sawSubscriber = sync.OnceFunc(func() { close(p.subscribed) })
	announcement := origin.Announce(model.Route{Path: path, Source: p, Epoch: o.Epoch})
	defer announcement.Withdraw()

	defer p.tasks.Wait()
	defer cancel(errDone)
	p.tasks.Go(func() { _ = origin.Run(ctx) })
	for i, target := range o.Targets {
		j, err := join(ctx, &p.tasks, target, p.config())
		if err != nil {
			return err
		}
		if err := p.use(i, j); err != nil {
			return err
		}
		o.Progress.connected(j.conn)
		p.tasks.Go(func() { cancel(p.stay(ctx, i, target)) })
	}
	stop := o.Progress.start()
	defer stop()
	if err = p.run(ctx); err == nil {
		p.leave(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// config is that of each session.
func (p *publisher) config() lite.Config {
	return lite.Config{Origin: p.origin, Role: wire.RolePublisher, Log: p.o.Log}
}

// use makes a session the one of a target. It fails where the version has no
// epochs and there is one: the relay would take the content for another.
func (p *publisher) use(i int, j *joined) error {
	j.conn.onSubscribe(p.sawSubscriber)
	version, err := wire.ParseVersion(j.conn.Info().Protocol)
	if err != nil {
		return err
	}
	if p.o.Epoch != (Epoch{}) && !version.HasEpochs() {
		return fmt.Errorf("an epoch needs %v and the relay chose %v: name the former in its `protocols`", wire.Lite07wip, version)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[i] = j
	return nil
}

// session is that of a target.
func (p *publisher) session(i int) *joined {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[i]
}

// stay keeps a target connected, one session after the other, and returns why it
// does not any more.
func (p *publisher) stay(ctx context.Context, i int, target Target) error {
	for {
		j := p.session(i)
		goaway := j.goaway
		if !p.o.Reconnect {
			goaway = nil
		}
		var uri string
		select {
		case <-j.ctx.Done():
			if err := context.Cause(j.ctx); !p.o.Reconnect || ctx.Err() != nil {
				return err
			}
			p.o.Progress.Say("%v; connecting again", context.Cause(j.ctx))
		case uri = <-goaway:
			p.o.Progress.Say("%v is going away; connecting again", j.conn.Info().Remote)
		}
		next, err := rejoin(ctx, &p.tasks, target, uri, p.config(), p.o.Progress)
		if err != nil {
			return err
		}
		if err := p.use(i, next); err != nil {
			return err
		}
		p.tasks.Go(j.retire)
	}
}

// publisher is the source of one track.
type publisher struct {
	o             PublishOptions
	origin        *model.Origin
	tasks         sync.WaitGroup // sessions, and what keeps them
	subscribed    chan struct{}  // closed when a relay has subscribed
	sawSubscriber func()         // closes it

	mu       sync.Mutex      // guards what follows
	sessions []*joined       // one for each target, the newest
	request  *model.Producer // the one that groups go to; nil: nobody asks
	finished bool
	end      uint64 // of the track, when finished
}

// Pull implements model.Source.
func (p *publisher) Pull(request *model.Producer) {
	if request.Track() != p.o.Track {
		request.Fail(model.ErrNotFound)
		return
	}
	request.Accept(model.Info{MaxAge: p.o.MaxLatency, Timescale: timescale})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request = request
	if p.finished {
		request.Finish(p.end)
		request.Close()
	}
}

func (p *publisher) asked() *model.Producer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.request
}

// awaitSubscriber waits until a relay has subscribed: that a track is asked for is
// not enough, since a relay asks for its properties first.
func (p *publisher) awaitSubscriber(ctx context.Context) error {
	p.o.Progress.Say("waiting for a subscriber")
	select {
	case <-p.subscribed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run sends all frames and waits until they were fetched.
func (p *publisher) run(ctx context.Context) error {
	if p.o.Wait {
		if err := p.awaitSubscriber(ctx); err != nil {
			return err
		}
	}
	var out outGroup
	var next uint64
	for sent := 0; ; sent++ {
		if slices.Contains(p.o.HoldAfter, sent) {
			if err := p.hold(ctx); err != nil {
				return err
			}
		}
		f, ok := p.o.Content.Next()
		if !ok {
			break
		}
		if err := until(ctx, f.Due); err != nil {
			return err
		}
		if f.Frame == 0 {
			out = outGroup{writer: p.begin(f.Group)}
		}
		if err := p.send(ctx, &out, f); err != nil {
			return err
		}
		next = f.Group + 1
	}
	if out.writer != nil {
		_ = out.writer.Finish() // a group that the content left open
	}
	p.finish(next)
	return nil
}

// until waits for a time of day.
func until(ctx context.Context, due time.Time) error {
	wait := time.Until(due)
	if due.IsZero() || wait <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hold waits for a line from Release.
func (p *publisher) hold(ctx context.Context) error {
	p.o.Progress.Say("holding until there is a line on standard input")
	released := make(chan struct{})
	// Not waited for when ctx ends first: a read of standard input cannot be ended.
	go func() {
		defer close(released)
		var b [1]byte
		for {
			if _, err := p.o.Release.Read(b[:]); err != nil || b[0] == '\n' {
				return
			}
		}
	}()
	select {
	case <-released:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin opens a group where somebody wants the track, and returns nil else.
func (p *publisher) begin(sequence uint64) *model.GroupWriter {
	request := p.asked()
	if request == nil {
		return nil
	}
	group, err := request.Group(sequence, model.Window{Bytes: aheadMost})
	if err != nil {
		return nil
	}
	return group
}

// outGroup is a group on its way out.
type outGroup struct {
	writer   *model.GroupWriter // nil: nobody wants it, or no more of it
	previous int64              // timestamp of the frame before
}

// send writes one frame.
func (p *publisher) send(ctx context.Context, out *outGroup, f Frame) error {
	now := f.Made
	if now.IsZero() {
		now = time.Now()
	}
	payload := p.o.Content.Payload(now)
	p.o.Progress.frame(len(payload))
	if p.o.OnFrame != nil {
		p.o.OnFrame(f.Place, payload)
	}
	if out.writer == nil {
		return context.Cause(ctx)
	}
	err := out.write(ctx, now.UnixMicro(), payload)
	switch {
	case ctx.Err() != nil:
		out.writer.Abort(context.Cause(ctx))
		return context.Cause(ctx)
	case errors.Is(err, model.ErrNoCapacity), errors.Is(err, model.ErrFrameTooLarge):
		return fmt.Errorf("%v: %w", f.Place, err)
	case err != nil:
		out.writer = nil // nobody wants more of it
	case f.Last:
		return out.writer.Finish()
	}
	return nil
}

// write appends a frame in the form that groups are stored in: that of moq-lite-06.
func (g *outGroup) write(ctx context.Context, timestamp int64, payload []byte) error {
	head, err := wire.FrameHead{Timestamp: timestamp, Size: uint64(len(payload))}.Append(nil, wire.Lite06, g.previous)
	if err != nil {
		return err
	}
	g.previous = timestamp
	return g.writer.WriteFrame(ctx, head, timestamp, payload)
}

// finish says where the track ends.
func (p *publisher) finish(end uint64) {
	p.mu.Lock()
	p.finished, p.end = true, end
	request := p.request
	p.mu.Unlock()
	if request != nil {
		request.Finish(end)
		request.Close()
	}
}

// leave waits until every relay has what it asked for.
func (p *publisher) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Linger)
	defer cancel()
	for i := range p.o.Targets {
		p.session(i).conn.flush(ctx)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		p.o.Progress.Say("leaving, though a relay has not fetched the rest within %v", p.o.Linger)
	}
}
