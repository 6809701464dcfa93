package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session/lite"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// A screen is one broadcast with its track, and which of its frames count.
type screen struct {
	broadcast string
	perGroup  int

	sent       atomic.Uint64 // frames that were published
	first, end atomic.Uint64 // frames of the track, counted from 0, that count; all below first do not
}

// number is the place of a frame in its track.
func (s *screen) number(p Place) uint64 { return p.Group*uint64(s.perGroup) + uint64(p.Frame) }

// counts reports whether a frame counts.
func (s *screen) counts(p Place) bool {
	n := s.number(p)
	return n >= s.first.Load() && n < s.end.Load()
}

// A seat is one viewer of a crowd.
type seat struct {
	target     Target
	screen     *screen
	maxLatency time.Duration
	stalled    bool // takes one frame and then nothing more
	checks     bool // every byte

	there chan struct{} // closed with the first frame
	once  sync.Once

	mu      sync.Mutex // guards what follows
	latency histogram
	counted uint64 // frames
	bytes   uint64
	last    time.Time     // of the latest frame
	stall   time.Duration // longest time between two that counted
	fault   error         // the first wrong byte
	corrupt uint64
}

// watch sits until ctx is done; a session that ends before is an error.
func (s *seat) watch(ctx context.Context) error {
	path, err := model.ParsePath(s.screen.broadcast)
	if err != nil {
		return fmt.Errorf("broadcast %q: %w", s.screen.broadcast, err)
	}
	l, err := s.target.resolve(ctx)
	if err != nil {
		return err
	}
	conn, version, err := l.dial(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	origin := model.NewOrigin(model.Config{})
	tap := newTap(conn, version, s)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer conn.Close(uint64(wire.SessionNoError), "")
	tasks.Go(func() { tap.run(ctx) })
	tasks.Go(func() {
		cfg := lite.Config{Origin: origin, Role: wire.RoleSubscriber, RequestPath: l.requestPath(conn)}
		err := lite.Serve(ctx, tap, version, cfg)
		if err == nil {
			err = errGone
		}
		cancel(err)
	})
	if err := s.subscribe(ctx, origin, path); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// subscribe asks for the track as soon as its broadcast is announced, and waits
// for the end of the subscription.
func (s *seat) subscribe(ctx context.Context, origin *model.Origin, path model.Path) error {
	v := &viewer{o: ViewOptions{Track: fanoutTrack}, path: path}
	if err := await(ctx, origin, path, nil); err != nil {
		return err
	}
	sub, err := origin.Subscribe(path, fanoutTrack, model.Peer{}, model.Options{MaxLatency: s.maxLatency})
	if err != nil {
		return v.naming(err)
	}
	defer sub.Close()
	if _, err := sub.Info(ctx); err != nil {
		return v.naming(err)
	}
	_, err = sub.Next(ctx) // there is no group: the tap has them all
	if err == nil {
		err = errors.New("the session has seen a group that is not its own")
	}
	return v.naming(err)
}

// took counts a frame.
func (s *seat) took(p Place, size int, made, now time.Time) {
	s.once.Do(func() { close(s.there) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.screen.counts(p) {
		s.last = now
		return
	}
	s.counted++
	s.bytes += uint64(size)
	s.latency.add(now.Sub(made))
	s.stallLocked(now)
}

// stallLocked measures the time since the frame before; the caller holds mu.
func (s *seat) stallLocked(now time.Time) {
	if !s.last.IsZero() {
		s.stall = max(s.stall, now.Sub(s.last))
	}
	s.last = now
}

// wrong notes a fault in what came.
func (s *seat) wrong(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.corrupt++
	if s.fault == nil {
		s.fault = err
	}
}

// taken is how many frames counted.
func (s *seat) taken() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted
}

// reset forgets what was counted.
func (s *seat) reset() histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.latency
	s.latency, s.counted, s.bytes, s.stall = histogram{}, 0, 0, 0
	return h
}
