package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"time"
)

// FanoutOptions say what a crowd watches. Target, Viewers, Size, Rate and Duration
// are required.
type FanoutOptions struct {
	// Target is the relay, that of the viewers where there are several. Entry is that
	// of the publishers; without a URL the same.
	Target, Entry Target
	// Publishers is how many broadcasts there are, each with one track and a
	// session of its own; the viewers are dealt out to them. 0: one.
	Publishers int
	// Viewers is how many take everything, each in a session of its own.
	Viewers int
	// Stalled is how many more take one frame and then nothing.
	Stalled int
	// Size is that of each frame in bytes, at least [HeadBytes], and Keyframe that
	// of each group's first; 0: as the others.
	Size, Keyframe int
	// Rate is frames per second of each track. A group is one second of them.
	Rate float64
	// MaxLatency is how stale a group may be before a viewer does without it; 0: 10 s.
	MaxLatency time.Duration
	// History is how long the relay may keep groups that are not the latest; 0: 5 s.
	History time.Duration
	// Idle is how long the bystander is watched before the crowd comes; 0: there
	// is no bystander.
	Idle time.Duration
	// Duration is how long the crowd is measured once all of it is there.
	Duration time.Duration
	// Drain is how long the last frames may take at the end; 0: 10 s.
	Drain time.Duration
	// PID is the relay's process on this machine; 0: it is not measured.
	PID int
	// Behind are the processes of the other relays that the media goes through.
	Behind []int
	// Status is HOST:PORT of the relay's status port, which is asked for goroutines
	// and allocations; empty: they are not known.
	Status string
	// Profiles are files for what the relay's /debug/pprof says of the measured time,
	// by their names there, such as "mutex", or "profile" for processor time. They
	// need Status, and a relay that serves them.
	Profiles map[string]string
	// Live has the relay collect its garbage before the crowd comes and behind the
	// measured time, to tell what is live for each viewer. It needs Status, and a
	// relay that serves profiles.
	Live bool
	// Progress is told what is being done; nil: nobody is.
	Progress *Progress

	settle time.Duration // until the relay's base is measured; 0: History and a second
}

func (o FanoutOptions) withDefaults() FanoutOptions {
	o.Publishers = max(o.Publishers, 1)
	if o.Entry.URL == "" {
		o.Entry = o.Target
	}
	if o.MaxLatency <= 0 {
		o.MaxLatency = 10 * time.Second
	}
	if o.History <= 0 {
		o.History = 5 * time.Second
	}
	if o.settle <= 0 {
		o.settle = o.History + time.Second
	}
	if o.Drain <= 0 {
		o.Drain = 10 * time.Second
	}
	return o
}

// perGroup is how many frames a group has.
func (o FanoutOptions) perGroup() int { return max(int(math.Round(o.Rate)), 1) }

const (
	fanoutTrack     = "video"
	bystanderFrame  = 200 // bytes
	bystanderRate   = 50
	joinsAtOnce     = 32
	joinTimeout     = time.Minute // of a few viewers
	joinTimeoutEach = 100 * time.Millisecond
	publisherFactor = 3 // a publisher that is slowed down more than this ends the run
)

// Fanout has a crowd watch and measures what it gets and what that costs the
// relay. It returns an error when somebody cannot publish or watch; that frames
// are late or missing is in the report.
func Fanout(ctx context.Context, o FanoutOptions) (FanoutReport, error) {
	o = o.withDefaults()
	f := &fanout{o: o, joining: make(chan struct{}, joinsAtOnce)}
	ctx, f.cancel = context.WithCancelCause(ctx)
	defer f.tasks.Wait()
	defer f.cancel(errDone)
	f.report.loadBefore()
	if err := f.run(ctx); err != nil {
		return f.report, err
	}
	return f.report, nil
}

// fanout is one run.
type fanout struct {
	o       FanoutOptions
	cancel  context.CancelCauseFunc
	tasks   sync.WaitGroup // publishers and seats
	joining chan struct{}  // places of those that are connecting
	report  FanoutReport

	bystander *seat
	screens   []*screen
	seats     []*seat // viewers, then stalled ones

	mu   sync.Mutex // guards what follows
	lost int        // sessions that ended before their time
	why  error      // of the first of them
}

func (f *fanout) run(ctx context.Context) error {
	if err := f.bystanders(ctx); err != nil {
		return err
	}
	if err := f.base(ctx); err != nil {
		return err
	}
	if err := f.fill(ctx); err != nil {
		return err
	}
	return f.measure(ctx)
}

// bystanders begins a small track that has nothing to do with the crowd, and sees
// how late it is while the relay has nothing else to do.
func (f *fanout) bystanders(ctx context.Context) error {
	if f.o.Idle <= 0 {
		return nil
	}
	f.o.Progress.Say("a bystander watches the idle relay for %v", f.o.Idle)
	aside := f.show(ctx, "bystander", &Checked{
		Frames: bystanderRate, Rate: bystanderRate, Sizes: Sizes{Min: bystanderFrame, Max: bystanderFrame},
	})
	f.bystander = f.seat(aside)
	f.sit(ctx, "the bystander", f.bystander)
	if err := f.awaitAll(ctx, []*seat{f.bystander}); err != nil {
		return err
	}
	f.bystander.reset()
	if err := pause(ctx, f.o.Idle); err != nil {
		return err
	}
	idle := f.bystander.reset()
	f.report.Bystander = &Bystander{Idle: latencies(&idle)}
	return nil
}

// show publishes a track until the run is over.
func (f *fanout) show(ctx context.Context, name string, content *Checked) *screen {
	s := &screen{broadcast: name, perGroup: content.Frames}
	s.end.Store(math.MaxUint64)
	f.tasks.Go(func() {
		err := Publish(ctx, PublishOptions{
			Targets: []Target{f.o.Entry}, Broadcast: name, Track: fanoutTrack, Content: content,
			MaxLatency: f.o.History, OnFrame: func(Place, []byte) { s.sent.Add(1) },
		})
		if err != nil {
			f.cancel(fmt.Errorf("publisher of %q: %w", name, err))
		}
	})
	return s
}

func (f *fanout) seat(s *screen) *seat {
	return &seat{target: f.o.Target, screen: s, maxLatency: f.o.MaxLatency, there: make(chan struct{})}
}

// sit has a seat watch until the run is over.
func (f *fanout) sit(ctx context.Context, name string, s *seat) {
	f.tasks.Go(func() {
		select {
		case f.joining <- struct{}{}:
		case <-ctx.Done():
			return
		}
		arrived := sync.OnceFunc(func() { <-f.joining })
		defer arrived()
		f.tasks.Go(func() { wait(ctx, s.there); arrived() })
		err := s.watch(ctx)
		switch {
		case ctx.Err() != nil:
		case !isOver(s.there):
			f.cancel(fmt.Errorf("%s: %w", name, err))
		default:
			f.lose(fmt.Errorf("%s: %w", name, err))
		}
	})
}

func (f *fanout) lose(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost++
	if f.why == nil {
		f.why = err
		f.o.Progress.Say("a viewer was lost: %v", err)
	}
}

// awaitAll waits until every seat has had a frame.
func (f *fanout) awaitAll(ctx context.Context, seats []*seat) error {
	timeout := joinTimeout + time.Duration(len(seats))*joinTimeoutEach
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	for i, s := range seats {
		select {
		case <-s.there:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("only %d of %d viewers had a frame of %q within %v: the relay or this machine is overloaded; try fewer viewers or a lower rate",
				i, len(seats), s.screen.broadcast, timeout)
		}
	}
	return nil
}

// base begins the tracks, with one viewer each, and measures the relay when its
// history is as long as it gets: what the tracks cost is not what viewers cost.
func (f *fanout) base(ctx context.Context) error {
	o := &f.o
	for i := range o.Publishers {
		s := f.show(ctx, fmt.Sprintf("room/%d", i), &Checked{
			Frames: o.perGroup(), Rate: o.Rate, Sizes: Sizes{Min: o.Size, Max: o.Size}, Keyframe: o.Keyframe,
		})
		first := f.seat(s)
		first.checks = true
		f.screens, f.seats = append(f.screens, s), append(f.seats, first)
		f.sit(ctx, fmt.Sprintf("first viewer of %q", s.broadcast), first)
	}
	if err := f.awaitAll(ctx, f.seats); err != nil {
		return err
	}
	if err := pause(ctx, o.settle); err != nil {
		return err
	}
	u, err := f.used(ctx)
	if err == nil && o.PID != 0 {
		f.report.Relay = &RelayUsage{BaseBytes: u.relay.rss, base: u}
		if o.Live {
			f.report.Relay.live, err = liveOf(ctx, o.Status)
		}
	}
	return err
}

// fill has the rest of the crowd come.
func (f *fanout) fill(ctx context.Context) error {
	total := max(f.o.Viewers, f.o.Publishers) + f.o.Stalled
	f.o.Progress.Say("%d viewers come", total)
	for i := len(f.seats); i < total; i++ {
		s := f.seat(f.screens[i%len(f.screens)])
		s.stalled = i >= total-f.o.Stalled
		f.seats = append(f.seats, s)
		f.sit(ctx, fmt.Sprintf("viewer %d of %d", i+1, total), s)
	}
	return f.awaitAll(ctx, f.seats)
}

// measure counts Duration's frames, from the next group on.
func (f *fanout) measure(ctx context.Context) error {
	frames := uint64(math.Ceil(f.o.Rate * f.o.Duration.Seconds()))
	for _, s := range f.screens {
		first := (s.sent.Load()/uint64(s.perGroup) + 1) * uint64(s.perGroup)
		s.end.Store(first + frames)
		s.first.Store(first)
	}
	for _, s := range f.seats {
		s.reset()
	}
	f.o.Progress.Say("measuring for %v", f.o.Duration)
	if err := f.awaitSent(ctx, func(s *screen) uint64 { return s.first.Load() }); err != nil {
		return err
	}
	if f.bystander != nil {
		f.bystander.reset()
	}
	profiled := f.profile(ctx)
	began := time.Now()
	before, err := f.used(ctx)
	if err != nil {
		return err
	}
	if err := f.awaitSent(ctx, func(s *screen) uint64 { return s.end.Load() }); err != nil {
		return err
	}
	after, err := f.used(ctx)
	if err != nil {
		return err
	}
	f.report.window(f.o, before, after, time.Since(began))
	if f.bystander != nil {
		busy := f.bystander.reset()
		f.report.Bystander.Busy = latencies(&busy)
	}
	if f.o.Live && f.report.Relay != nil {
		now, err := liveOf(ctx, f.o.Status)
		if err != nil {
			return err
		}
		f.report.lives(now)
	}
	return errors.Join(f.count(ctx, frames), profiled())
}

// profile begins to take profiles; what it returns waits for them.
func (f *fanout) profile(ctx context.Context) (wait func() error) {
	taken := make(chan error, len(f.o.Profiles))
	for kind, file := range f.o.Profiles {
		f.tasks.Go(func() { taken <- profile(ctx, f.o.Status, kind, f.o.Duration, file) })
	}
	return func() (all error) {
		for range f.o.Profiles {
			all = errors.Join(all, <-taken)
		}
		return all
	}
}

// use is what was used up to some time.
type use struct {
	relay, clients usage
	behind         usage // of the other relays, together
	vitals         vitals
	machine        time.Duration
}

// used asks about the relay, where it is known, and this process.
func (f *fanout) used(ctx context.Context) (u use, err error) {
	if runtime.GOOS != "linux" && f.o.PID == 0 {
		return u, nil
	}
	if f.o.PID != 0 {
		if u.relay, err = usageOf(f.o.PID); err != nil {
			return u, err
		}
	}
	for _, pid := range f.o.Behind {
		other, err := usageOf(pid)
		if err != nil {
			return u, err
		}
		u.behind.cpu += other.cpu
		u.behind.drops += other.drops
	}
	if f.o.Status != "" {
		if u.vitals, err = vitalsOf(ctx, f.o.Status); err != nil {
			return u, err
		}
	}
	u.machine = Busy()
	u.clients, err = usageOf(os.Getpid())
	return u, err
}

// awaitSent waits until every publisher has sent so many frames. One that a relay
// holds back too much is an error: what comes of it says nothing about the rate.
func (f *fanout) awaitSent(ctx context.Context, frames func(*screen) uint64) error {
	limit := time.NewTimer(publisherFactor*f.o.Duration + time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, s := range f.screens {
		for s.sent.Load() < frames(s) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-limit.C:
				return fmt.Errorf("the publisher of %q could send only %d of %d frames in time: the relay holds it back; try fewer viewers or a lower rate",
					s.broadcast, s.sent.Load(), frames(s))
			}
		}
	}
	return nil
}

// count waits for the last frames and adds up what came.
func (f *fanout) count(ctx context.Context, frames uint64) error {
	takers := f.seats[:len(f.seats)-f.o.Stalled]
	expected := frames * uint64(len(takers))
	limit := time.NewTimer(f.o.Drain)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over && sum(takers) < expected; {
		select {
		case <-tick.C:
		case <-limit.C:
			over = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ended := time.Now()
	f.mu.Lock()
	f.report.Lost = f.lost
	f.mu.Unlock()
	var fault error
	for _, s := range takers {
		fault = errors.Join(fault, f.report.add(s, frames, ended))
	}
	f.report.finish(expected)
	return fault
}

func sum(seats []*seat) (frames uint64) {
	for _, s := range seats {
		frames += s.taken()
	}
	return frames
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) error {
	return until(ctx, time.Now().Add(d))
}
