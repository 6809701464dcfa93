package model

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// twin is one of several publishers of the same content: which groups there are and
// what they hold follows from the time alone. A group begins every 500 ms and has a
// frame every 100 ms.
type twin struct {
	ctx   context.Context
	lost  context.CancelFunc
	tasks sync.WaitGroup
	route *Announcement
}

const twinGroup, twinFrames = 500 * time.Millisecond, 5

func (m *mesh) twin(i int, path Path) *twin {
	p := &twin{}
	p.ctx, p.lost = context.WithCancel(m.t.Context())
	p.route = m.nodes[i].o.Announce(Route{Path: path, Hops: []uint64{uint64(7 + i)}, Epoch: epoch1, Source: p})
	return p
}

func (p *twin) Pull(q *Producer) {
	if p.ctx.Err() != nil {
		q.Fail(ErrSourceGone)
		return
	}
	p.tasks.Go(func() {
		advance(3 * time.Millisecond)
		q.Accept(anyInfo)
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		first := uint64(time.Now().UnixNano()) / uint64(twinGroup)
		if prefs := q.Preferences(); prefs.HasStart {
			first = prefs.Start
		}
		for seq := first; ; seq++ {
			select {
			case <-time.After(time.Until(twinTime(seq, 0))):
			case <-q.Done():
				return
			case <-ctx.Done():
				q.Fail(ErrSourceGone)
				return
			}
			p.tasks.Go(func() { p.group(q, seq) })
		}
	})
}

// group sends one group.
func (p *twin) group(q *Producer, seq uint64) {
	w, err := q.Group(seq, Window{})
	if err != nil {
		return
	}
	for i := range twinFrames {
		select {
		case <-time.After(time.Until(twinTime(seq, i))):
		case <-p.ctx.Done():
			w.Abort(ErrSourceGone)
			return
		}
		if err := w.WriteFrame(p.ctx, head(1), 0, []byte{byte(i)}); err != nil {
			w.Abort(err)
			return
		}
	}
	_ = w.Finish()
}

func twinTime(seq uint64, frame int) time.Time {
	return time.Unix(0, int64(seq)*int64(twinGroup)+int64(frame)*int64(twinGroup/twinFrames))
}

// kill loses the publisher without a word.
func (p *twin) kill() {
	p.lost()
	p.route.Lose()
	p.tasks.Wait()
}

// watchTwin reads every group from its arrival on until ctx ends and returns what came of each.
func (m *mesh) watchTwin(ctx context.Context, i int, path Path) (got map[uint64]int, err error) {
	got = make(map[uint64]int)
	var mu sync.Mutex
	var tasks sync.WaitGroup
	sub, err := m.nodes[i].o.Subscribe(path, "video", Peer{}, Options{MaxLatency: time.Hour})
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	for {
		r, err := sub.Next(ctx)
		if err != nil {
			tasks.Wait()
			if ctx.Err() != nil {
				err = nil
			}
			return got, err
		}
		tasks.Go(func() {
			defer r.Close()
			frames := 0
			for {
				b, err := r.Next(ctx)
				if err != nil {
					mu.Lock()
					if got[r.Sequence()] = frames; err != io.EOF {
						got[r.Sequence()] = -frames
					}
					mu.Unlock()
					return
				}
				r.Taken(len(b))
				frames += len(b) / 6
			}
		})
	}
}

// Of two publishers of one content, at two relays, either may be lost at any moment,
// also while what runs moves from the one to the other: viewers everywhere get every
// group whole.
func TestEitherOfTwoPublishersMayBeLostAtAnyMoment(t *testing.T) {
	for _, first := range []bool{true, false} {
		for after := 20 * time.Millisecond; after < 4*time.Second; after += 37 * time.Millisecond {
			t.Run(fmt.Sprintf("the first: %v, after %v", first, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { loseATwin(t, first, after) })
			})
		}
	}
}

func loseATwin(t *testing.T, first bool, after time.Duration) {
	m := newMesh(t, 3, uint64(after))
	for _, pair := range shapes()["full mesh of 3"] {
		m.join(pair)
	}
	settle()
	zero := m.twin(0, "room")
	settle()
	ctx, cancel := context.WithTimeout(t.Context(), after+20*time.Second)
	defer cancel()
	type view struct {
		got map[uint64]int
		err error
	}
	views := make([]view, 6)
	var tasks sync.WaitGroup
	for i := range views {
		tasks.Go(func() { views[i].got, views[i].err = m.watchTwin(ctx, i%3, "room") })
	}
	advance(200 * time.Millisecond)
	one := m.twin(1, "room")
	advance(after)
	lost, left := zero, one
	if !first {
		lost, left = one, zero
	}
	lost.kill()
	end := uint64(time.Now().Add(19*time.Second).UnixNano()) / uint64(twinGroup)
	begin := uint64(time.Now().Add(-after).UnixNano())/uint64(twinGroup) + 1
	tasks.Wait()
	for i, v := range views {
		if v.err != nil {
			t.Errorf("viewer %d at node %d was sent away: %v", i, i%3, v.err)
		}
		var wrong []string
		for seq := begin; seq < end; seq++ {
			if v.got[seq] != twinFrames {
				wrong = append(wrong, fmt.Sprintf("%d:%d", seq-begin, v.got[seq]))
			}
		}
		if wrong != nil {
			t.Errorf("viewer %d at node %d got of %d groups these not whole: %v", i, i%3, end-begin, wrong)
		}
	}
	left.kill()
	m.close()
}
