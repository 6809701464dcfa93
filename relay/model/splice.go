package model

import (
	"errors"
	"fmt"
	"time"
)

// errSplice ends a group that another source goes on with differently.
var errSplice = errors.New("another source has this group otherwise")

// A group whose source is lost in its midst waits for another one of the same epoch
// to go on with it: its readers see nothing but a pause. The other source sends the
// group from its first frame, and what is there is passed over.

// overlap is what of a group is there already and comes again.
type overlap struct {
	frames  uint64 // whole frames
	partial bool   // and one in part:
	bytes   int64  // so much of its payload
	left    int64  // what is to be passed over of the frame that comes
	scratch []byte
}

// orphan leaves the group to another source. It reports false where the group ends
// with its own: nothing proves that another one has the same, or nobody is there.
func (t *track) orphan(w *GroupWriter) bool {
	g := w.group
	t.mu.Lock()
	defer t.mu.Unlock()
	p := g.from
	if p == nil || !p.exact || g.missed || g.ended.Load() || t.stopped || len(t.subs) == 0 || t.groups[g.sequence] != g {
		return false
	}
	g.orphan = w
	t.orphaned.broadcast()
	time.AfterFunc(t.origin.cfg.Linger, func() { t.bury(g, p) })
	return true
}

// desert leaves the open groups of a source that is lost to another one, or ends
// them where nothing proves that another one has the same.
func (p *Producer) desert(open []*group, err error) {
	for _, g := range open {
		if p.exact && p.lost {
			time.AfterFunc(p.track.origin.cfg.Linger, func() { p.track.bury(g, p) })
		} else {
			g.end(err)
		}
	}
}

// bury ends a group that no other source went on with in time.
func (t *track) bury(g *group, p *Producer) {
	t.mu.Lock()
	left := g.from == p
	t.mu.Unlock()
	if left {
		g.end(ErrSourceGone)
	}
}

// deserted reports whether the group's source is lost and nobody has gone on with it.
func (g *group) deserted() bool {
	return !g.ended.Load() && g.from != nil && g.from.exact && g.from.lost
}

// desertedLocked returns the lowest group that waits for another source.
func (t *track) desertedLocked() (lowest uint64, any bool) {
	for sequence, g := range t.groups {
		if g.deserted() && (!any || sequence < lowest) {
			lowest, any = sequence, true
		}
	}
	return lowest, any
}

// lateGroups is how many numbers are looked at for groups that a lost source had
// still to bring: streams overtake each other by a few.
const lateGroups = 16

// missingLocked is where another source has to begin that goes on for one that is
// lost: with the lowest group that was cut short, or that has not come while a later
// one has, but no later than below.
func (t *track) missingLocked(below uint64) uint64 {
	if lowest, any := t.desertedLocked(); any {
		below = min(below, lowest)
	}
	first := t.highest
	for sequence := range t.seen {
		first = min(first, sequence)
	}
	for sequence := max(first, t.highest-min(t.highest, lateGroups)); sequence < below; sequence++ {
		if _, seen := t.seen[sequence]; !seen {
			return sequence
		}
	}
	return below
}

// inheritsLocked reports whether p may go on with a group whose source is lost.
func (t *track) inheritsLocked(p *Producer, sequence uint64) bool {
	g := t.groups[sequence]
	return g != nil && g.deserted() && p.exact && t.servesLocked(p, sequence)
}

// noticeTime is how long a group that comes from another source waits for the writer
// of the one that is lost to notice.
const noticeTime = time.Second

// awaitOrphan waits until a group that p may go on with has been left by its writer,
// which its session may be about to tell.
func (t *track) awaitOrphan(p *Producer, sequence uint64) {
	late := time.NewTimer(noticeTime)
	defer late.Stop()
	for {
		left := t.orphaned.wait()
		t.mu.Lock()
		done := !t.inheritsLocked(p, sequence) || t.groups[sequence].orphan != nil
		t.mu.Unlock()
		if done {
			return
		}
		select {
		case <-left:
		case <-p.done:
			return
		case <-late.C:
			return
		}
	}
}

// inheritLocked lets p go on with a group that waits for it; nil where there is none.
func (t *track) inheritLocked(p *Producer, sequence uint64, window Window) *GroupWriter {
	if !t.inheritsLocked(p, sequence) {
		return nil
	}
	g := t.groups[sequence]
	before := g.orphan
	if before == nil { // it is too late for its writer to leave it
		g.missed = true
		return nil
	}
	g.orphan, g.from = nil, p
	w := *before
	w.window, w.over = window, &overlap{frames: g.begun.Load()}
	if w.left > 0 {
		w.over.frames--
		w.over.partial, w.over.bytes = true, w.size-w.left
	}
	if w.walked == nil {
		w.walked = g.firstBlock()
	}
	return &w
}

// fillLocked asks the source that serves the track for groups below a number that it
// was not asked for, or was refused, because another one had begun them: that one is
// lost.
func (t *track) fillLocked(below uint64, then *aftermath) {
	p := t.producer
	if p == nil || !p.exact {
		return
	}
	lowest := below
	if unasked := min(below, p.from); t.missingLocked(unasked) < unasked {
		lowest = t.missingLocked(unasked)
	}
	if deserted, any := t.desertedLocked(); any {
		lowest = min(lowest, deserted)
	}
	if lowest >= below {
		return
	}
	f := t.produceLocked(p.route)
	f.from, f.until, f.left, f.fills = lowest, below, time.Now(), true
	t.leaving = append(t.leaving, f)
	f.finish = time.AfterFunc(leaveTime, f.finished)
	then.pulls = append(then.pulls, f)
}

// begin passes a frame of so many bytes over, in whole or in part. It reports false
// where nothing more is there.
func (s *overlap) begin(w *GroupWriter, size int64) (again bool, err error) {
	switch {
	case s.left > 0:
		return true, errFrameOpen
	case s.frames > 0:
		s.frames--
		s.left = size
	case s.partial && size != w.size:
		err := fmt.Errorf("a frame of %d bytes instead of %d: %w", size, w.size, errSplice)
		w.Abort(err)
		return true, err
	case s.partial:
		s.partial = false
		s.left = s.bytes
	default:
		return false, nil
	}
	return true, nil
}

// buffer returns room for what is passed over; nil where nothing more is.
func (s *overlap) buffer() []byte {
	if s.left == 0 {
		return nil
	}
	if s.scratch == nil {
		s.scratch = make([]byte, 4<<10)
	}
	return s.scratch[:min(s.left, int64(len(s.scratch)))]
}

// missing reports whether less has come than is there.
func (s *overlap) missing() bool { return s.frames > 0 || s.partial || s.left > 0 }
