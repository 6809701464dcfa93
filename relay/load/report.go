package load

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/moqrelay/operator/relay/config"
)

// A FanoutReport is what [Fanout] has measured. Its JSON form is what is kept of
// a run: times are milliseconds, everything else is in the unit that a name says.
type FanoutReport struct {
	// Transport and the rest of this block are what was asked for.
	Transport     string  `json:"transport"`
	Publishers    int     `json:"publishers"`
	Viewers       int     `json:"viewers"`
	Stalled       int     `json:"stalled"`
	FrameBytes    int     `json:"frameBytes"`
	KeyframeBytes int     `json:"keyframeBytes"`
	Rate          float64 `json:"framesPerSecond"`

	// Seconds is how long the measured frames took to be published.
	Seconds float64 `json:"seconds"`
	// PublisherRate is frames per second that each publisher got rid of.
	PublisherRate float64 `json:"publisherFramesPerSecond"`
	// Frames is how many of Expected came, DeliveredPercent their share, Bytes
	// their payload.
	Frames           uint64  `json:"frames"`
	Expected         uint64  `json:"expectedFrames"`
	DeliveredPercent float64 `json:"deliveredPercent"`
	Bytes            uint64  `json:"deliveredBytes"`
	// Lost is how many sessions ended before their time.
	Lost int `json:"lostSessions"`
	// Latency is from the publisher's write to the last byte at the viewer; Stall
	// the longest time that a viewer was without a new frame.
	Latency Latencies `json:"latency"`
	Stall   float64   `json:"longestStallMs"`
	// Bystander is what a small track beside the crowd has seen; nil: there was none.
	Bystander *Bystander `json:"bystander,omitempty"`
	// Relays is how many relays each frame went through, the viewers' included; 0: one.
	Relays int `json:"relays,omitempty"`
	// Relay is nil where its process was not known. Clients are this process:
	// publishers and viewers together.
	Relay   *RelayUsage `json:"relay,omitempty"`
	Clients ClientUsage `json:"clients"`
	// Others is how many processors were busy with neither of them meanwhile.
	Others float64 `json:"othersProcessors"`
	// LoadAverage is the machine's before the run, CPUs how many this process
	// could use.
	LoadAverage float64 `json:"loadAverageBefore"`
	CPUs        int     `json:"cpus"`

	latency histogram
}

// Latencies are quantiles, in milliseconds.
type Latencies struct {
	P50 float64 `json:"p50Ms"`
	P99 float64 `json:"p99Ms"`
	Max float64 `json:"maxMs"`
}

// Bystander is the latency of a track that has nothing to do with the crowd,
// before it came and while it was there.
type Bystander struct {
	Idle Latencies `json:"idle"`
	Busy Latencies `json:"busy"`
}

// RelayUsage is what the relay's process has used.
type RelayUsage struct {
	// CPUSeconds is its processor time while the measured frames were published,
	// CPUPerGB the same for each 10^9 bytes of payload delivered. Of several relays it
	// is that of all; CPUBehind is the part of those before the viewers'.
	CPUSeconds float64 `json:"cpuSeconds"`
	CPUBehind  float64 `json:"cpuSecondsBehind,omitempty"`
	CPUPerGB   float64 `json:"cpuSecondsPerGB"`
	// BaseBytes is its resident memory with one viewer for each track and full
	// history, PeakBytes the most it had since its start, PerViewer their
	// difference for each further viewer.
	BaseBytes int64   `json:"baseBytes"`
	PeakBytes int64   `json:"peakBytes"`
	PerViewer float64 `json:"bytesPerViewer"`
	// Drops are datagrams that the kernel had no room for since the crowd came.
	Drops uint64 `json:"kernelDrops"`
	// Goroutines are those that each further viewer has brought, Allocations and
	// AllocatedBytes what each delivered frame has cost; 0 where the relay does not
	// tell.
	Goroutines     float64 `json:"goroutinesPerViewer,omitempty"`
	Allocations    float64 `json:"allocationsPerFrame,omitempty"`
	AllocatedBytes float64 `json:"allocatedBytesPerFrame,omitempty"`

	// LiveHeap and Stacks are bytes that each further viewer needs when garbage is
	// collected; 0 where that was not asked for.
	LiveHeap float64 `json:"liveHeapPerViewer,omitempty"`
	Stacks   float64 `json:"stacksPerViewer,omitempty"`

	base                use
	live                live    // at the base
	mallocs, mallocated float64 // while the measured frames were published
}

// ClientUsage is what publishers and viewers have used while frames were measured.
type ClientUsage struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	Drops      uint64  `json:"kernelDrops"`
}

func latencies(h *histogram) Latencies {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Latencies{ms(h.quantile(0.5)), ms(h.quantile(0.99)), ms(h.most)}
}

func (r *FanoutReport) loadBefore() {
	r.LoadAverage, r.CPUs = loadAverage(), runtime.GOMAXPROCS(0)
}

// window notes what was used while the frames were published.
func (r *FanoutReport) window(o FanoutOptions, before, after use, lasted time.Duration) {
	r.Transport = string(o.Target.kind())
	r.Publishers, r.Viewers, r.Stalled = o.Publishers, max(o.Viewers, o.Publishers), o.Stalled
	r.FrameBytes, r.KeyframeBytes, r.Rate = o.Size, o.Keyframe, o.Rate
	r.Seconds = lasted.Seconds()
	r.Clients = ClientUsage{(after.clients.cpu - before.clients.cpu).Seconds(), after.clients.drops - before.clients.drops}
	behind := after.behind.cpu - before.behind.cpu
	ours := after.clients.cpu - before.clients.cpu + after.relay.cpu - before.relay.cpu + behind
	r.Others = max(0, (after.machine-before.machine-ours).Seconds()/r.Seconds)
	u := r.Relay
	if u == nil {
		return
	}
	if len(o.Behind) > 0 {
		r.Relays, u.CPUBehind = 1+len(o.Behind), behind.Seconds()
	}
	u.CPUSeconds = (after.relay.cpu - before.relay.cpu).Seconds() + u.CPUBehind
	u.PeakBytes = after.relay.peak
	u.Drops = after.relay.drops - u.base.relay.drops + after.behind.drops - u.base.behind.drops
	u.mallocs = after.vitals.mallocs - before.vitals.mallocs
	u.mallocated = after.vitals.mallocBytes - before.vitals.mallocBytes
	if added := r.added(); added > 0 {
		u.PerViewer = float64(u.PeakBytes-u.BaseBytes) / added
		u.Goroutines = (after.vitals.goroutines - u.base.vitals.goroutines) / added
	}
}

// lives notes what is live with the crowd.
func (r *FanoutReport) lives(now live) {
	if added := r.added(); added > 0 {
		r.Relay.LiveHeap = (now.heap - r.Relay.live.heap) / added
		r.Relay.Stacks = (now.stacks - r.Relay.live.stacks) / added
	}
}

// added is how many viewers came after the relay's base was measured.
func (r *FanoutReport) added() float64 { return float64(r.Viewers + r.Stalled - r.Publishers) }

// add adds one viewer, that should have had so many frames. A wrong byte is an error.
func (r *FanoutReport) add(s *seat, frames uint64, ended time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted < frames {
		s.stallLocked(ended)
	}
	r.Frames += s.counted
	r.Bytes += s.bytes
	r.Stall = max(r.Stall, float64(s.stall.Microseconds())/1000)
	r.latency.merge(&s.latency)
	return s.fault
}

// finish computes what follows from the sums.
func (r *FanoutReport) finish(expected uint64) {
	r.Expected = expected
	if expected > 0 {
		r.DeliveredPercent = 100 * float64(r.Frames) / float64(expected)
	}
	r.Latency = latencies(&r.latency)
	if r.Seconds > 0 {
		r.PublisherRate = float64(expected) / float64(r.Viewers) / r.Seconds
	}
	if u := r.Relay; u != nil && r.Frames > 0 {
		u.CPUPerGB = u.CPUSeconds / float64(r.Bytes) * 1e9
		u.Allocations = u.mallocs / float64(r.Frames)
		u.AllocatedBytes = u.mallocated / float64(r.Frames)
	}
}

// WriteTo writes the report for a person.
func (r *FanoutReport) WriteTo(w io.Writer) (int64, error) {
	var n int64
	line := func(name, format string, args ...any) {
		m, _ := fmt.Fprintf(w, "%-12s"+format+"\n", append([]any{name}, args...)...)
		n += int64(m)
	}
	crowd := fmt.Sprintf("%d viewers, %d publishers", r.Viewers, r.Publishers)
	if r.Stalled > 0 {
		crowd += fmt.Sprintf(" and %d that take nothing", r.Stalled)
	}
	shape := fmt.Sprintf("%v at %g/s", config.Bytes(r.FrameBytes), r.Rate)
	if r.KeyframeBytes > 0 {
		shape += fmt.Sprintf(", each group beginning with %v", config.Bytes(r.KeyframeBytes))
	}
	line("crowd", "%s over %s: %s", crowd, r.Transport, shape)
	line("delivered", "%.2f %%: %d of %d frames; %d sessions lost", r.DeliveredPercent, r.Frames, r.Expected, r.Lost)
	line("latency", "p50 %.1f ms, p99 %.1f ms, max %.1f ms; longest stall %.0f ms", r.Latency.P50, r.Latency.P99, r.Latency.Max, r.Stall)
	line("publisher", "%.1f of %g frames/s", r.PublisherRate, r.Rate)
	r.writeUsage(line)
	if b := r.Bystander; b != nil {
		line("bystander", "p99 %.1f ms idle, %.1f ms busy; p50 %.1f ms idle, %.1f ms busy", b.Idle.P99, b.Busy.P99, b.Idle.P50, b.Busy.P50)
	}
	line("machine", "load average %.2f before, %.2f processors busy with other work meanwhile; the clients had %d", r.LoadAverage, r.Others, r.CPUs)
	return n, nil
}

func (r *FanoutReport) writeUsage(line func(name, format string, args ...any)) {
	drops := "relay unknown"
	if u := r.Relay; u != nil {
		line("relay", "%.1f CPU s per GB, %.2f processors busy", u.CPUPerGB, u.CPUSeconds/r.Seconds)
		if r.Relays > 1 {
			line("", "that is of %d relays in a chain; %.2f of %.2f CPU s before the viewers'; memory is of the viewers'", r.Relays, u.CPUBehind, u.CPUSeconds)
		}
		line("memory", "%.1f MiB at peak, %.1f MiB before the crowd: %.0f KiB for each viewer", mib(u.PeakBytes), mib(u.BaseBytes), u.PerViewer/1024)
		if u.Goroutines > 0 {
			line("", "%.1f goroutines for each viewer, %.2f allocations of %.0f bytes for each frame delivered", u.Goroutines, u.Allocations, u.AllocatedBytes)
		}
		if u.LiveHeap != 0 {
			line("", "%.0f KiB of heap live and %.0f KiB of stacks for each viewer", u.LiveHeap/1024, u.Stacks/1024)
		}
		drops = fmt.Sprintf("relay %d", u.Drops)
	} else {
		line("relay", "not measured: name its process with --relay-pid, or have it started by --start")
	}
	line("drops", "of the kernel: %s, clients %d", drops, r.Clients.Drops)
	line("clients", "%.2f processors busy", r.Clients.CPUSeconds/r.Seconds)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
