//go:build linux

package model

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The benches of this file do the work of the public model's group benches, in
// their shapes: docs/benchmarks tells which is which. hack/bench runs them and
// prints the published figures beside ours. ns/op is one whole iteration: a group
// read to its end, a burst read by all, a paced frame taken by all.

var (
	benchFrames  = []int{4, 5, 32, 33, 512, 2048, 8192}
	benchPayload = make([]byte, 64)
	benchPlain   = head(64)
	benchSink    int
)

// benchHead is the stored head of a frame of 64 bytes: a timestamp delta of 0, and
// with properties one of four bytes.
func benchHead(properties bool) []byte {
	if properties {
		return append([]byte{0x9a, 0x7a, 0xbb, 0xcc}, head(64)[1:]...)
	}
	return head(64)
}

// benchFilled returns a finished group of so many frames.
func benchFilled(b *testing.B, o *Origin, frames int, window Window, properties bool) *group {
	b.Helper()
	_, p := benchTrack(b, o)
	w, err := p.Group(0, window)
	if err != nil {
		b.Fatal(err)
	}
	before := benchHead(properties)
	for i := range frames {
		if err := w.WriteFrame(b.Context(), before, int64(i), benchPayload); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	return w.group
}

// benchTrack returns a track that somebody wants.
func benchTrack(b *testing.B, o *Origin) (*Subscription, *Producer) {
	b.Helper()
	source := newPublisher()
	o.Announce(Route{Path: "room", Source: source})
	sub, err := o.Subscribe("room", "video", Peer{}, Options{Passive: true})
	if err != nil {
		b.Fatal(err)
	}
	p := <-source.pulled
	p.Accept(anyInfo)
	return sub, p
}

// benchReader attaches a fresh reader.
func benchReader(b *testing.B, g *group) *Reader {
	b.Helper()
	r := newReader(g, nil)
	if err := g.attach(r, 0); err != nil {
		b.Fatal(err)
	}
	return r
}

// rewind makes a reader as good as fresh. The work of that is measured too.
func (r *Reader) rewind() {
	g := r.group
	r.chunk, r.block, r.frame, r.whole, r.rest = g.head, g.index, 0, 0, 0
	r.pos.Store(0)
}

// readSingle takes a group frame by frame.
func readSingle(b *testing.B, r *Reader) (bytes int) {
	ctx := b.Context()
	for {
		if _, err := r.NextFrame(ctx); err != nil {
			return bytes
		}
		for r.rest > 0 {
			p, err := r.Payload(ctx)
			if err != nil {
				b.Fatal(err)
			}
			bytes += len(p)
			r.Taken(len(p))
		}
	}
}

// readBatches takes a group by batches of frames.
func readBatches(b *testing.B, r *Reader, batch []frameBytes) (bytes int) {
	ctx := b.Context()
	for {
		n, err := r.nextFrames(ctx, batch)
		if err != nil {
			return bytes
		}
		for _, f := range batch[:n] {
			bytes += len(f.payload)
		}
	}
}

// frameBytes is a frame and its payload, in the log where it is in one chunk.
type frameBytes struct {
	Frame
	payload []byte
}

// nextFrames gives as many whole frames as there are, up to len(batch). Sessions
// have no use for it: they send runs of stored frames, see readStored.
func (r *Reader) nextFrames(ctx context.Context, batch []frameBytes) (n int, err error) {
	if _, err := r.entry(ctx, r.frame); err != nil {
		return 0, err
	}
	whole, begun := r.group.written.Load(), r.group.begun.Load()
	for n < len(batch) && r.frame < begun {
		f, err := r.find(r.frame)
		if err != nil || f.end > whole {
			break
		}
		p, err := r.slice(f.payload, f.end)
		if err != nil {
			return n, err
		}
		for from := f.payload + int64(len(p)); from < f.end; { // across chunks
			q, err := r.slice(from, f.end)
			if err != nil {
				return n, err
			}
			p = append(p, q...)
			from += int64(len(q))
		}
		batch[n] = frameBytes{Frame{Timestamp: f.timestamp, Size: f.end - f.payload}, p}
		r.frame, n = r.frame+1, n+1
		r.rest = 0
		if n == len(batch) || r.frame == begun {
			r.move(f.end)
		}
	}
	return n, nil
}

// readStored takes a group as it is stored, as a session does that sends it on.
func readStored(b *testing.B, r *Reader) (bytes int) {
	ctx := b.Context()
	for {
		p, err := r.Next(ctx)
		if err != nil {
			return bytes
		}
		bytes += len(p)
		r.Taken(len(p))
	}
}

func BenchmarkGroupReadFrames(b *testing.B) {
	for _, batch := range []int{1, 4, 8, 32, 128} {
		name := fmt.Sprintf("batch%d", batch)
		if batch == 1 {
			name = "single"
		}
		for _, frames := range benchFrames {
			b.Run(fmt.Sprintf("%s/%d", name, frames), func(b *testing.B) {
				r := benchReader(b, benchFilled(b, NewOrigin(Config{}), frames, Window{Bytes: 16 << 20}, false))
				views := make([]frameBytes, batch)
				report := measureCPU(b)
				for b.Loop() {
					r.rewind()
					if batch == 1 {
						benchSink = readSingle(b, r)
					} else {
						benchSink = readBatches(b, r, views)
					}
				}
				report()
				wantRead(b, 64*frames)
			})
		}
	}
}

func BenchmarkGroupRelayFrames(b *testing.B) {
	for _, properties := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "properties"}[properties]
		for _, frames := range []int{4, 512, 8192} {
			for _, n := range []int{1, 8, 64} {
				b.Run(fmt.Sprintf("%s/%d/%d", name, frames, n), func(b *testing.B) {
					g := benchFilled(b, NewOrigin(Config{}), frames, Window{Bytes: 16 << 20}, properties)
					readers := make([]*Reader, n)
					for i := range readers {
						readers[i] = benchReader(b, g)
					}
					report := measureCPU(b)
					for b.Loop() {
						for _, r := range readers {
							r.rewind()
							benchSink = readStored(b, r)
						}
					}
					report()
					wantRead(b, frames*(64+len(benchHead(properties))))
				})
			}
		}
	}
}

// measureCPU reports the CPU time of the process for each iteration beside the
// clock's: on a machine that does other work too they differ by much.
func measureCPU(b *testing.B) (report func()) {
	b.Helper()
	since := cpuTime(b, processClock)
	return func() { b.ReportMetric(float64(cpuTime(b, processClock)-since)/float64(b.N), "cpu-ns/op") }
}

// Clocks of Linux that count CPU time.
const (
	processClock = 2
	threadClock  = 3
)

func cpuTime(b *testing.B, clock uintptr) int64 {
	b.Helper()
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		b.Fatal(errno)
	}
	return t.Nano()
}

func wantRead(b *testing.B, want int) {
	b.Helper()
	if benchSink != want {
		b.Fatalf("the last reader got %d bytes, want %d", benchSink, want)
	}
}

// One frame of 64 bytes through the paced writer, then taken by each reader.
func BenchmarkGroupPaced(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, p := benchTrack(b, NewOrigin(Config{}))
			w, err := p.Group(0, Window{Bytes: 1 << 20})
			if err != nil {
				b.Fatal(err)
			}
			readers := make([]*Reader, n)
			for i := range readers {
				readers[i] = benchReader(b, w.group)
			}
			before := benchHead(false)
			report := measureCPU(b)
			for b.Loop() {
				if err := w.WriteFrame(b.Context(), before, 0, benchPayload); err != nil {
					b.Fatal(err)
				}
				for _, r := range readers {
					s, err := r.Next(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					r.Taken(len(s))
				}
			}
			report()
		})
	}
}

// A group of tiny frames written and read, without a window and with one, in turn:
// the two differ in nothing else. pacing-% is the median of what each pair differs
// by in CPU time of the thread.
func BenchmarkGroupPacing(b *testing.B) {
	for _, frames := range []int{512, 2048, 8192} {
		b.Run(fmt.Sprint(frames), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			_, p := benchTrack(b, NewOrigin(Config{Cache: CacheConfig{MaxBytes: 64 << 20}}))
			var differences []float64
			sequence := uint64(0)
			for b.Loop() {
				for range 8 { // a median of few is none
					var cost [2]float64
					for i := range cost {
						side := (i + int(sequence/2)) % 2 // each is the first in every other pair
						cost[side] = writeAndRead(b, p, sequence, Window{Bytes: int64(side) << 20}, frames)
						sequence++
					}
					differences = append(differences, 100*(cost[1]/cost[0]-1))
				}
			}
			slices.Sort(differences)
			b.ReportMetric(differences[len(differences)/2], "pacing-%")
		})
	}
}

// writeAndRead passes one group to one reader and returns the nanoseconds of CPU that took.
func writeAndRead(b *testing.B, p *Producer, sequence uint64, window Window, frames int) float64 {
	since := cpuTime(b, threadClock)
	w, err := p.Group(sequence, window)
	if err != nil {
		b.Fatal(err)
	}
	r := benchReader(b, w.group)
	for i := range frames {
		if err := w.WriteFrame(b.Context(), benchPlain, int64(i), benchPayload); err != nil {
			b.Fatal(err)
		}
		s, err := r.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		r.Taken(len(s))
	}
	if err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	r.Close()
	return float64(cpuTime(b, threadClock) - since)
}

// A burst of frames, and the time until readers on so many goroutines have all of
// it. "subscribed" means that each burst is a group of its own which the reader
// gets from its subscription.
func BenchmarkGroupContended(b *testing.B) {
	for _, burst := range []int{1, 8} {
		for _, threads := range []int{1, 4, 16} {
			for _, n := range []int{16, 256, 1024} {
				shape := fmt.Sprintf("burst_%d/threads_%d/%d", burst, threads, n)
				b.Run("plain/"+shape, func(b *testing.B) { contendPlain(b, burst, threads, n) })
				b.Run("subscribed/"+shape, func(b *testing.B) { contendSubscribed(b, burst, threads, n) })
			}
		}
	}
}

func contendPlain(b *testing.B, burst, threads, n int) {
	_, p := benchTrack(b, NewOrigin(Config{}))
	w, err := p.Group(0, Window{Bytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	before := benchHead(false)
	want := int64(burst * (64 + len(before)))
	c := newContest(b, threads, func(int) func(context.Context) error {
		readers := make([]*Reader, n/threads+min(1, n%threads))
		for i := range readers {
			readers[i] = benchReader(b, w.group)
		}
		return func(ctx context.Context) error {
			for _, r := range readers {
				if err := takeBytes(ctx, r, want); err != nil {
					return err
				}
			}
			return nil
		}
	})
	report := measureCPU(b)
	for b.Loop() {
		c.start()
		for range burst {
			if err := w.WriteFrame(b.Context(), before, 0, benchPayload); err != nil {
				b.Fatal(err)
			}
		}
		c.wait()
	}
	report()
	c.stop()
}

func contendSubscribed(b *testing.B, burst, threads, n int) {
	o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: 64 << 20}})
	_, p := benchTrack(b, o)
	before := benchHead(false)
	want := int64(burst * (64 + len(before)))
	c := newContest(b, threads, func(int) func(context.Context) error {
		subs := make([]*Subscription, n/threads+min(1, n%threads))
		for i := range subs {
			var err error
			if subs[i], err = o.Subscribe("room", "video", Peer{}, Options{MaxLatency: time.Hour}); err != nil {
				b.Fatal(err)
			}
		}
		return func(ctx context.Context) error {
			for _, sub := range subs {
				r, err := sub.Next(ctx)
				if err != nil {
					return err
				}
				err = takeBytes(ctx, r, want)
				r.Close()
				if err != nil {
					return err
				}
			}
			return nil
		}
	})
	sequence := uint64(0)
	report := measureCPU(b)
	for b.Loop() {
		c.start()
		w, err := p.Group(sequence, Window{Bytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		sequence++
		for range burst {
			if err := w.WriteFrame(b.Context(), before, 0, benchPayload); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			b.Fatal(err)
		}
		c.wait()
	}
	report()
	c.stop()
}

// takeBytes takes so many bytes of a group.
func takeBytes(ctx context.Context, r *Reader, want int64) error {
	for want > 0 {
		s, err := r.Next(ctx)
		if err != nil {
			return err
		}
		s = s[:min(int64(len(s)), want)]
		r.Taken(len(s))
		want -= int64(len(s))
	}
	return nil
}

// contest is readers on goroutines that take round after round.
type contest struct {
	b      *testing.B
	round  []chan struct{}
	taken  sync.WaitGroup
	ended  sync.WaitGroup
	cancel context.CancelFunc
}

// newContest starts the goroutines. make runs on each before the first round and
// returns what takes one round.
func newContest(b *testing.B, threads int, setUp func(thread int) func(context.Context) error) *contest {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	c := &contest{b: b, cancel: cancel}
	for i := range threads {
		begin := make(chan struct{}, 1)
		c.round = append(c.round, begin)
		take := setUp(i)
		c.ended.Go(func() {
			for range begin {
				if err := take(ctx); err != nil && err != io.EOF {
					b.Error(err)
				}
				c.taken.Done()
			}
		})
	}
	return c
}

func (c *contest) start() {
	c.taken.Add(len(c.round))
	for _, begin := range c.round {
		begin <- struct{}{}
	}
}

func (c *contest) wait() { c.taken.Wait() }

func (c *contest) stop() {
	for _, begin := range c.round {
		close(begin)
	}
	c.ended.Wait()
	c.cancel()
}
