package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/model"
)

// ViewOptions say what is watched and when that is enough. Target, Broadcast and
// Track are required.
type ViewOptions struct {
	// Target is the relay.
	Target Target
	// Broadcast is the path below the target's root, Track the track's name.
	Broadcast, Track string
	// MaxLatency is how stale a group that is not the latest may be before it is
	// skipped; 0: the latest group only.
	MaxLatency time.Duration
	// Frames ends the view well after so many; 0: at the end of the track.
	Frames int
	// Duration ends the view well after this time, if a frame came; 0: no end.
	Duration time.Duration
	// Lossy accepts groups that are skipped or cut short.
	Lossy bool
	// Print, if set, takes every frame as text, with its latency, instead of
	// checking payloads.
	Print io.Writer
	// Progress shows how it goes; nil: nobody is told.
	Progress *Progress
	// OnFrame, if set, is told of each whole frame, by one caller at a time. The
	// payload is valid during the call.
	OnFrame func(p Place, payload []byte)
	// Log gets what the session has to say; nil discards it.
	Log *slog.Logger
	// Reconnect makes a subscription that is reset, and a session that is lost,
	// begin again, and follows a relay's GOAWAY: the next session watches before
	// the old one ends. It goes on behind the last whole group, so the publisher's
	// numbers must do so too.
	Reconnect bool
}

// A Report is what a view came to.
type Report struct {
	// Frames and Bytes are what arrived whole and correct, each frame once.
	Frames, Bytes uint64
	// Groups is how many groups arrived to their end.
	Groups uint64
	// First is the lowest group of which a frame came, Last the highest that began.
	First, Last uint64
	// Cut is how many groups ended early, Missing how many never came between the
	// first and the last that did.
	Cut, Missing uint64
	// Gaps is how many runs of missing groups there are, LongestGap how many groups
	// the longest of them has.
	Gaps, LongestGap uint64
	// Resets is how many subscriptions ended before their time, Reconnects how many
	// sessions were lost, Moves how many were left because of a GOAWAY.
	Resets, Reconnects, Moves int
	// Stall is the longest time without a new frame, once there was one, and
	// StallGroup the group that ended it, or the highest where none did.
	Stall      time.Duration
	StallGroup uint64
	// Corrupt is how many frames were wrong, Fault the first fault in them.
	Corrupt uint64
	Fault   error
	// Ended is true when the publisher ended the track.
	Ended bool
}

// Line is the report in one line for programs: "summary" and then figures, as
// `moq-load sub --help` explains them.
func (r *Report) Line() string {
	return fmt.Sprintf("summary frames=%d bytes=%d groups=%d cut=%d missing=%d gaps=%d longest_gap=%d corrupt=%d "+
		"resets=%d reconnects=%d moves=%d longest_stall_ms=%d stall_group=%d first=%d last=%d ended=%v",
		r.Frames, r.Bytes, r.Groups, r.Cut, r.Missing, r.Gaps, r.LongestGap, r.Corrupt,
		r.Resets, r.Reconnects, r.Moves, r.Stall.Milliseconds(), r.StallGroup, r.First, r.Last, r.Ended)
}

// View watches a track until it is enough. It returns an error when it cannot
// watch, when a byte is wrong or missing, or when the track ends before
// [ViewOptions.Frames]. That ctx is done is no error once watching has begun.
func View(ctx context.Context, o ViewOptions) (Report, error) {
	path, err := model.ParsePath(o.Broadcast)
	if err != nil {
		return Report{}, fmt.Errorf("broadcast %q: %w", o.Broadcast, err)
	}
	v := &viewer{o: o, path: path, stop: func() {}, groups: make(map[uint64]*seen)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v.cancel = cancel

	first := v.place()
	if first.joined, err = join(ctx, &v.tasks, o.Target, first.config()); err != nil {
		return Report{}, err
	}
	o.Progress.connected(first.conn)
	if o.Duration > 0 {
		timer := time.AfterFunc(o.Duration, func() { cancel(errEnough) })
		defer timer.Stop()
	}
	err = v.run(ctx, first)
	cause := context.Cause(ctx)
	cancel(errDone)
	v.tasks.Wait()
	v.stop()
	return v.verdict(err, cause)
}

// errEnough ends a view that has seen what it was to see.
var errEnough = errors.New("enough")

// viewer is one view.
type viewer struct {
	o      ViewOptions
	path   model.Path
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // sessions, and what watches on them

	mu     sync.Mutex // guards what follows, and the calls of OnFrame
	report Report
	began  time.Time        // when watching did
	stop   func()           // ends what it shows
	latest time.Time        // of the newest frame
	groups map[uint64]*seen // those that began and were not judged
	lowest uint64           // of those
	top    uint64           // one above the highest
	absent uint64           // missing ones of the run that was judged last
}

// seen is what came of a group. It may be read twice, when a subscription was reset.
type seen struct {
	next    uint32 // frame that is to come
	readers int
	whole   bool // it came to its end
	cut     bool // it ended early
}

// run watches until the track ends or ctx is done, on the first place and on those
// that take over.
func (v *viewer) run(ctx context.Context, at *place) error {
	over := v.begin(at)
	for {
		var next *place
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case uri := <-v.goaway(at):
			v.o.Progress.Say("%v is going away; connecting again", at.conn.Info().Remote)
			next, err = v.takeOver(ctx, at, uri, &v.report.Moves)
		case err = <-over:
			if err == io.EOF || !v.o.Reconnect || ctx.Err() != nil {
				return err
			}
			v.o.Progress.Say("%v; connecting again", err)
			if at.unanswered { // the lost session was the reason
				v.reset(err, -1)
			}
			next, err = v.takeOver(ctx, nil, "", &v.report.Reconnects)
		}
		if err != nil {
			return err
		}
		at, over = next, v.begin(next)
	}
}

// goaway is what tells of a GOAWAY that is followed.
func (v *viewer) goaway(at *place) <-chan string {
	if !v.o.Reconnect {
		return nil
	}
	return at.goaway
}

// begin watches at a place; how that ended comes on the channel.
func (v *viewer) begin(at *place) <-chan error {
	over := make(chan error, 1)
	v.tasks.Go(func() { over <- at.follow() })
	return over
}

// takeOver connects again and counts it.
func (v *viewer) takeOver(ctx context.Context, before *place, uri string, count *int) (*place, error) {
	v.mu.Lock()
	*count++
	v.mu.Unlock()
	next := v.place()
	next.before = before
	var err error
	next.joined, err = rejoin(ctx, &v.tasks, v.o.Target, uri, next.config(), v.o.Progress)
	return next, err
}

// reset counts a subscription that ended before its time, or takes that back.
func (v *viewer) reset(err error, count int) {
	v.mu.Lock()
	v.report.Resets += count
	v.mu.Unlock()
	if count > 0 {
		v.o.Progress.Say("reset: %v; asking again", err)
	}
}

// watching notes that there is something to watch.
func (v *viewer) watching() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.began.IsZero() {
		return
	}
	v.began = time.Now()
	v.o.Progress.Say("watching %q %q", v.path, v.o.Track)
	v.stop = v.o.Progress.start()
}

// naming adds what was watched to an error.
func (v *viewer) naming(err error) error {
	return fmt.Errorf("track %q of broadcast %q: %w", v.o.Track, v.path, err)
}

// resume is the first group that is wanted of a new subscription: the oldest of
// the newest ones that is not whole and that nobody reads.
func (v *viewer) resume() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := max(v.lowest, v.top-min(v.top, underWay)); s < v.top; s++ {
		if g := v.groups[s]; g == nil || !g.whole && g.readers == 0 {
			return s
		}
	}
	return v.top
}

// start notes that a group is being read.
func (v *viewer) start(sequence uint64) *seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.groups) == 0 {
		v.lowest = sequence
	}
	g := v.groups[sequence]
	if g == nil {
		g = &seen{}
		v.groups[sequence] = g
	}
	g.readers++
	v.lowest = min(v.lowest, sequence)
	v.top = max(v.top, sequence+1)
	if len(v.groups) > 2*rememberedGroups {
		v.judgeLocked(v.top-min(v.top, rememberedGroups), v.top)
	}
	return g
}

// rememberedGroups is how many groups a late one may be behind the latest.
const rememberedGroups = 4096

// judgeLocked counts the groups below floor and forgets them; one at or above sure
// that never began is not missing. The caller holds mu.
func (v *viewer) judgeLocked(floor, sure uint64) {
	r := &v.report
	for ; v.lowest < floor; v.lowest++ {
		g := v.groups[v.lowest]
		switch {
		case g == nil && v.lowest >= sure:
		case g == nil:
			r.Missing++
			if v.absent++; v.absent == 1 {
				r.Gaps++
			}
			r.LongestGap = max(r.LongestGap, v.absent)
		default:
			v.absent = 0
			if g.cut {
				r.Cut++
			}
		}
		delete(v.groups, v.lowest)
	}
}

// end notes how the reading of a group ended; left is true where that was our doing.
func (v *viewer) end(g *seen, err error, left bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	g.readers--
	switch {
	case err == io.EOF && !g.whole:
		v.report.Groups++
		g.whole, g.cut = true, false
	case err != io.EOF && !left && !g.whole && g.readers == 0:
		g.cut = true
	}
}

// frame judges one frame and counts it, the first time it comes.
func (v *viewer) frame(g *seen, p Place, f model.Frame, payload []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.Frame < g.next || v.o.Frames > 0 && v.report.Frames >= uint64(v.o.Frames) {
		return
	}
	if v.o.Print != nil {
		v.printLocked(p, f, payload)
	} else if !v.checkLocked(p, payload) {
		return
	}
	g.next = p.Frame + 1
	if v.report.Frames == 0 || p.Group < v.report.First {
		v.report.First = p.Group
	}
	v.stallLocked(time.Now(), p.Group)
	v.report.Frames++
	v.report.Bytes += uint64(len(payload))
	v.o.Progress.frame(len(payload))
	if v.o.OnFrame != nil {
		v.o.OnFrame(p, payload)
	}
	if v.report.Frames == uint64(v.o.Frames) {
		v.cancel(errEnough)
	}
}

// stallLocked measures how long no new frame came; the caller holds mu.
func (v *viewer) stallLocked(now time.Time, group uint64) {
	if stall := now.Sub(v.latest); !v.latest.IsZero() && stall > v.report.Stall {
		v.report.Stall, v.report.StallGroup = stall, group
	}
	v.latest = now
}

// checkLocked checks a payload; the caller holds mu.
func (v *viewer) checkLocked(p Place, payload []byte) bool {
	made, err := CheckPayload(payload, p)
	if err != nil {
		v.report.Corrupt++
		if v.report.Fault == nil {
			v.report.Fault = err
			v.o.Progress.Say("%v", err)
		}
		return false
	}
	v.late(made)
	return true
}

// late counts the latency of what was made at a time. What was made before we
// came says nothing about the way.
func (v *viewer) late(made time.Time) (latency time.Duration, live bool) {
	if made.IsZero() || made.Before(v.began) {
		return time.Since(made), false
	}
	latency = time.Since(made)
	v.o.Progress.late(latency)
	return latency, true
}

// printLocked shows a frame; the caller holds mu.
func (v *viewer) printLocked(p Place, f model.Frame, payload []byte) {
	text := strings.ToValidUTF8(string(payload[:min(len(payload), 200)]), "�")
	made, err := time.Parse(TickFormat, text)
	if err != nil {
		fmt.Fprintf(v.o.Print, "%v  %d bytes at %d  %q\n", p, len(payload), f.Timestamp, text)
		return
	}
	latency, live := v.late(made)
	note := ""
	if !live {
		note = " (from before we came)"
	}
	fmt.Fprintf(v.o.Print, "%s  latency %s%s\n", text, millis(latency), note)
}

// underWay is how many of the newest groups may still be on their way when a view
// or a subscription ends before its track does.
const underWay = 8

// verdict is what View returns. err is why run ended, cause what ended its context.
func (v *viewer) verdict(err, cause error) (Report, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := &v.report
	r.Ended = err == io.EOF
	sure := v.top // below it a group that is missing will not come any more
	if !r.Ended {
		sure -= min(sure, underWay)
	}
	if v.top > 0 {
		r.Last = v.top - 1
	}
	if !r.Ended {
		v.stallLocked(time.Now(), r.Last)
	}
	v.judgeLocked(v.top, sure)
	switch {
	case r.Corrupt > 0:
		return *r, fmt.Errorf("%d of %d frames are wrong, the first: %w", r.Corrupt, r.Corrupt+r.Frames, r.Fault)
	case !v.o.Lossy && r.Missing+r.Cut > 0:
		return *r, fmt.Errorf("bytes are missing: %d groups never came, %d were cut short", r.Missing, r.Cut)
	case r.Ended && v.o.Frames > 0 && r.Frames < uint64(v.o.Frames):
		return *r, fmt.Errorf("the track ended after %d of %d frames", r.Frames, v.o.Frames)
	case cause == errEnough && r.Frames == 0:
		return *r, fmt.Errorf("no frame came within %v", v.o.Duration)
	case v.began.IsZero() && errors.Is(cause, context.Canceled):
		return *r, fmt.Errorf("nothing was watched: broadcast %q was not announced", v.path)
	case r.Ended, cause == errEnough, errors.Is(cause, context.Canceled):
		return *r, nil
	case cause != nil:
		return *r, cause
	}
	return *r, err
}
