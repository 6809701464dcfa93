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
	"github.com/moqrelay/operator/relay/session/lite"
	wire "github.com/moqrelay/operator/relay/wire/lite"
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
}

// A Report is what a view came to.
type Report struct {
	// Frames and Bytes are what arrived whole and correct.
	Frames, Bytes uint64
	// Groups is how many groups arrived to their end.
	Groups uint64
	// Cut is how many groups ended early, Missing how many never came between the
	// first and the last that did.
	Cut, Missing uint64
	// Corrupt is how many frames were wrong, First the first fault in them.
	Corrupt uint64
	First   error
	// Ended is true when the publisher ended the track.
	Ended bool
}

// View watches a track until it is enough. It returns an error when it cannot
// watch, when a byte is wrong or missing, or when the track ends before
// [ViewOptions.Frames]. That ctx is done is no error once watching has begun.
func View(ctx context.Context, o ViewOptions) (Report, error) {
	path, err := model.ParsePath(o.Broadcast)
	if err != nil {
		return Report{}, fmt.Errorf("broadcast %q: %w", o.Broadcast, err)
	}
	origin := model.NewOrigin(model.Config{})
	v := &viewer{o: o, origin: origin, path: path, groups: make(map[uint64]struct{})}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v.cancel = cancel

	s, conn, err := connect(ctx, o.Target, lite.Config{Origin: origin, Role: wire.RoleSubscriber, Log: o.Log})
	if err != nil {
		return Report{}, err
	}
	o.Progress.connected(conn)
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = origin.Run(ctx) })
	tasks.Go(func() { cancel(lost(conn, s.Run(ctx))) })
	if o.Duration > 0 {
		timer := time.AfterFunc(o.Duration, func() { cancel(errEnough) })
		defer timer.Stop()
	}
	err = v.run(ctx)
	cause := context.Cause(ctx)
	cancel(errDone)
	tasks.Wait()
	return v.verdict(err, cause)
}

// errEnough ends a view that has seen what it was to see.
var errEnough = errors.New("enough")

// viewer is one view.
type viewer struct {
	o      ViewOptions
	origin *model.Origin
	path   model.Path
	cancel context.CancelCauseFunc
	joined time.Time

	mu     sync.Mutex // guards what follows, and the calls of OnFrame
	report Report
	groups map[uint64]struct{} // those that began
	lowest uint64
	top    uint64 // one above the highest
}

// run watches until the track ends or ctx is done.
func (v *viewer) run(ctx context.Context) error {
	if err := v.await(ctx); err != nil {
		return err
	}
	sub, err := v.origin.Subscribe(v.path, v.o.Track, model.Peer{}, model.Options{
		MaxLatency: v.o.MaxLatency, Start: model.Start{Mode: model.StartFloor},
	})
	if err != nil {
		return v.naming(err)
	}
	defer sub.Close()
	if _, err := sub.Info(ctx); err != nil {
		return v.naming(err)
	}
	v.joined = time.Now()
	v.o.Progress.Say("watching %q %q", v.path, v.o.Track)
	stop := v.o.Progress.start()
	defer stop()
	var reading sync.WaitGroup
	defer reading.Wait()
	for {
		r, err := sub.Next(ctx)
		if err == io.EOF {
			reading.Wait()
			return io.EOF
		}
		if err != nil {
			return v.naming(err)
		}
		v.began(r.Sequence())
		reading.Go(func() { v.read(ctx, r) })
	}
}

// naming adds what was watched to an error.
func (v *viewer) naming(err error) error {
	return fmt.Errorf("track %q of broadcast %q: %w", v.o.Track, v.path, err)
}

// await waits until the broadcast is announced.
func (v *viewer) await(ctx context.Context) error {
	w := v.origin.Watch(v.path, model.Peer{})
	defer w.Close()
	said := time.AfterFunc(2*time.Second, func() { v.o.Progress.Say("waiting until %q is announced", v.path) })
	defer said.Stop()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.Path == v.path && c.Kind != model.Ended {
				return nil
			}
		}
	}
}

func (v *viewer) began(sequence uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.groups) == 0 {
		v.lowest = sequence
	}
	v.groups[sequence] = struct{}{}
	v.lowest = min(v.lowest, sequence)
	v.top = max(v.top, sequence+1)
	if len(v.groups) > 2*rememberedGroups {
		v.forgetLocked()
	}
}

// rememberedGroups is how many groups a late one may be behind the latest.
const rememberedGroups = 4096

// forgetLocked counts what is missing among the older groups and drops them; the
// caller holds mu.
func (v *viewer) forgetLocked() {
	floor := v.top - min(v.top, rememberedGroups)
	for ; v.lowest < floor; v.lowest++ {
		if _, ok := v.groups[v.lowest]; !ok {
			v.report.Missing++
		}
		delete(v.groups, v.lowest)
	}
}

// read takes one group to its end.
func (v *viewer) read(ctx context.Context, r *model.Reader) {
	defer r.Close()
	var payload []byte
	for index := uint32(r.First()); ; index++ {
		f, err := r.NextFrame(ctx)
		if err == nil {
			payload, err = readPayload(ctx, r, payload[:0])
		}
		if err != nil {
			v.groupEnded(ctx, err)
			return
		}
		v.frame(Place{r.Sequence(), index}, f, payload)
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

func (v *viewer) groupEnded(ctx context.Context, err error) {
	if err != io.EOF && ctx.Err() != nil {
		return // we left
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == io.EOF {
		v.report.Groups++
	} else {
		v.report.Cut++
	}
}

// frame judges one frame and counts it.
func (v *viewer) frame(p Place, f model.Frame, payload []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.o.Frames > 0 && v.report.Frames >= uint64(v.o.Frames) {
		return
	}
	if v.o.Print != nil {
		v.printLocked(p, f, payload)
	} else if !v.checkLocked(p, payload) {
		return
	}
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

// checkLocked checks a payload; the caller holds mu.
func (v *viewer) checkLocked(p Place, payload []byte) bool {
	made, err := CheckPayload(payload, p)
	if err != nil {
		v.report.Corrupt++
		if v.report.First == nil {
			v.report.First = err
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
	if made.IsZero() || made.Before(v.joined) {
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
// ends before its track does.
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
	for s := v.lowest; s < sure; s++ {
		if _, ok := v.groups[s]; !ok {
			r.Missing++
		}
	}
	switch {
	case r.Corrupt > 0:
		return *r, fmt.Errorf("%d of %d frames are wrong, the first: %w", r.Corrupt, r.Corrupt+r.Frames, r.First)
	case !v.o.Lossy && r.Missing+r.Cut > 0:
		return *r, fmt.Errorf("bytes are missing: %d groups never came, %d were cut short", r.Missing, r.Cut)
	case r.Ended && v.o.Frames > 0 && r.Frames < uint64(v.o.Frames):
		return *r, fmt.Errorf("the track ended after %d of %d frames", r.Frames, v.o.Frames)
	case cause == errEnough && r.Frames == 0:
		return *r, fmt.Errorf("no frame came within %v", v.o.Duration)
	case v.joined.IsZero() && errors.Is(cause, context.Canceled):
		return *r, fmt.Errorf("nothing was watched: broadcast %q was not announced", v.path)
	case r.Ended, cause == errEnough, errors.Is(cause, context.Canceled):
		return *r, nil
	case cause != nil:
		return *r, cause
	}
	return *r, err
}
