package model

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowSource accepts after a while and counts its requests.
type slowSource struct {
	mu            sync.Mutex
	running, most int
	pulls         int
	tasks         sync.WaitGroup
}

func (s *slowSource) Pull(p *Producer) {
	s.mu.Lock()
	s.pulls++
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	s.tasks.Go(func() {
		p.Accept(anyInfo)
		<-p.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	})
}

func TestManyThatComeAndGoMakeOneUpstreamRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		source := &slowSource{}
		a := o.Announce(Route{Path: "room", Source: source})
		var viewers sync.WaitGroup
		for i := range 50 {
			viewers.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range 40 {
					sub, err := o.Subscribe("room", "video", Peer{}, Options{Priority: uint8(random.Uint32())})
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := sub.Info(t.Context()); err != nil {
						t.Error(err)
					}
					advance(time.Duration(random.IntN(3)) * 20 * time.Millisecond)
					sub.Close()
					// Right at the end of the delay, a little before, or long after it.
					advance([]time.Duration{0, 999 * time.Millisecond, time.Second, time.Second + time.Nanosecond, 3 * time.Second}[random.IntN(5)])
				}
			})
		}
		viewers.Wait()
		advance(2 * time.Second)
		source.tasks.Wait()
		if source.most > 2 { // one that has just been told to end, and its successor
			t.Errorf("up to %d requests ran at a time, want one beside one that ends", source.most)
		}
		if source.pulls < 1 || source.pulls > 200 {
			t.Errorf("2,000 visits of 50 viewers made %d requests", source.pulls)
		}
		a.Withdraw()
		stats := o.Stats()
		if n := stats.Tracks.Load() + stats.Subscriptions.Load() + int64(len(o.tracks)+len(o.parked)+len(o.shelves)); n != 0 {
			t.Errorf("%d tracks, subscriptions and shelves are left", n)
		}
	})
}

// Everything at once: viewers, fetches, publishers that vanish, return, renumber.
// Whatever comes, each request has an answer and nothing is left.
func TestPublishersThatComeAndGoLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		var tasks sync.WaitGroup
		stop := make(chan struct{})
		for i := range 4 {
			tasks.Go(func() { churnPublisher(t, o, stop, uint64(i)) })
		}
		var viewers sync.WaitGroup
		for i := range 12 {
			viewers.Go(func() { churnViewer(t, o, uint64(i)) })
		}
		viewers.Wait()
		close(stop)
		tasks.Wait()
		withdrawAll(o)
		advance(time.Minute)
		o.sweep(time.Now())
		stats := o.Stats()
		if n := stats.Tracks.Load() + stats.Subscriptions.Load() + stats.Routes.Load() + stats.Broadcasts.Load() + stats.CachedGroups.Load(); n != 0 {
			t.Errorf("tracks %d, subscriptions %d, routes %d, paths %d, groups %d are left", stats.Tracks.Load(),
				stats.Subscriptions.Load(), stats.Routes.Load(), stats.Broadcasts.Load(), stats.CachedGroups.Load())
		}
		if n := len(o.tracks) + len(o.parked) + len(o.shelves) + len(o.contents); n != 0 {
			t.Errorf("%d entries are left in the origin's books", n)
		}
		wantHeld(t, o, 0)
	})
}

// churnSource is one session of a publisher.
type churnSource struct {
	ctx   context.Context
	first uint64
	gone  chan struct{}
	mu    sync.Mutex // a session that is gone starts nothing
	tasks sync.WaitGroup
}

// start runs f unless the session is gone.
func (s *churnSource) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gone:
		return false
	default:
	}
	s.tasks.Go(f)
	return true
}

func (s *churnSource) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gone)
}

func (s *churnSource) Pull(p *Producer) {
	started := s.start(func() {
		p.Accept(anyInfo)
		for seq := s.first; ; seq++ {
			if w, err := p.Group(seq, Window{}); err == nil {
				_ = w.WriteFrame(s.ctx, head(1), int64(seq), []byte{byte(seq)})
				_ = w.Finish()
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-p.Done():
				return
			case <-s.gone:
				p.Fail(ErrSourceGone)
				return
			}
		}
	})
	if !started {
		p.Fail(ErrSourceGone)
	}
}

func (s *churnSource) Fetch(r *GroupRequest) {
	started := s.start(func() {
		if r.Sequence()%3 == 0 {
			r.Fail(ErrNotFound)
			return
		}
		w, err := r.Begin(Window{})
		if err != nil {
			return
		}
		_ = w.WriteFrame(s.ctx, head(1), 0, []byte{byte(r.Sequence())})
		_ = w.Finish()
	})
	if !started {
		r.Fail(ErrSourceGone)
	}
}

func churnPublisher(t *testing.T, o *Origin, stop <-chan struct{}, id uint64) {
	random := rand.New(rand.NewPCG(7, id))
	for {
		s := &churnSource{ctx: t.Context(), first: uint64(random.IntN(50)), gone: make(chan struct{})}
		route := Route{Path: "room", Hops: []uint64{1 + id/2}, Source: s, HopIdentity: id%2 == 0}
		a := o.Announce(route)
		over := false
		select {
		case <-time.After(time.Duration(random.IntN(300)) * time.Millisecond):
		case <-stop:
			over = true
		}
		lose := a.Lose
		if random.IntN(3) == 0 {
			lose = a.Withdraw
		}
		if random.IntN(2) == 0 {
			lose()
			s.end()
		} else {
			s.end()
			advance(time.Duration(random.IntN(3)) * time.Millisecond)
			lose()
		}
		s.tasks.Wait()
		if over {
			return
		}
		advance(time.Duration(random.IntN(400)) * time.Millisecond)
	}
}

func churnViewer(t *testing.T, o *Origin, id uint64) {
	random := rand.New(rand.NewPCG(8, id))
	for range 60 {
		if random.IntN(3) == 0 {
			f, err := o.Fetch("room", "video", Peer{}, FetchOptions{Group: uint64(random.IntN(60)), Latest: random.IntN(4) == 0})
			if err == nil {
				if r, err := f.Reader(t.Context()); err == nil {
					_, _ = readAll(t, r)
					r.Close()
				}
				f.Close()
			}
		}
		sub, err := o.Subscribe("room", "video", Peer{}, Options{MaxLatency: time.Duration(random.IntN(2)) * time.Second})
		if err != nil {
			advance(50 * time.Millisecond)
			continue
		}
		for range random.IntN(20) {
			r, err := sub.Next(t.Context())
			if err != nil {
				break
			}
			_, _ = readAll(t, r)
			r.Close()
		}
		sub.Close()
	}
}
