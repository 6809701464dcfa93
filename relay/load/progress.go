package load

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// Progress counts what a client sends or receives, and tells a person each
// second. All methods may be called on nil, which tells nobody.
type Progress struct {
	// Out is where the lines go.
	Out io.Writer
	// Quiet leaves out the line of each second.
	Quiet bool

	mu      sync.Mutex // guards what follows, and Out
	began   time.Time
	frames  uint64
	bytes   uint64
	latency histogram
	last    struct { // at the line before
		at    time.Time
		bytes uint64
	}
}

// Say tells one line.
func (p *Progress) Say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.Out, format+"\n", args...)
}

func (p *Progress) connected(conn transport.Conn) {
	i := conn.Info()
	p.Say("connected to %v over %s, %s", i.Remote, i.Kind, i.Protocol)
}

// start begins to tell; call what it returns to end that.
func (p *Progress) start() (stop func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	p.began = time.Now()
	p.last.at, p.last.bytes = p.began, p.bytes
	p.mu.Unlock()
	if p.Quiet {
		return func() {}
	}
	ticker := time.NewTicker(time.Second)
	over := make(chan struct{})
	var task sync.WaitGroup
	task.Go(func() {
		for {
			select {
			case <-ticker.C:
				p.tick()
			case <-over:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(over)
		task.Wait()
	}
}

// frame counts one frame.
func (p *Progress) frame(size int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frames++
	p.bytes += uint64(size)
}

func (p *Progress) late(d time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency.add(d)
}

func (p *Progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	rate := bitrate(p.bytes-p.last.bytes, now.Sub(p.last.at))
	p.last.at, p.last.bytes = now, p.bytes
	fmt.Fprintf(p.Out, "%6.1f s  %s  %s now\n", now.Sub(p.began).Seconds(), p.countsLocked(), rate)
}

// Summary is what was counted, in one line.
func (p *Progress) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		return "0 frames: nothing was watched or published yet"
	}
	lasted := time.Since(p.began)
	return fmt.Sprintf("%s in %.1f s, %s", p.countsLocked(), lasted.Seconds(), bitrate(p.bytes, lasted))
}

// countsLocked has the figures since the start; the caller holds mu.
func (p *Progress) countsLocked() string {
	text := fmt.Sprintf("%d frames, %d bytes", p.frames, p.bytes)
	if l := &p.latency; l.total > 0 {
		text += fmt.Sprintf(", latency p50 %s p99 %s max %s", millis(l.quantile(0.5)), millis(l.quantile(0.99)), millis(l.most))
	}
	return text
}

// millis writes a duration in milliseconds.
func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// bitrate is bytes over a time, in a unit that is easy to read.
func bitrate(bytes uint64, over time.Duration) string {
	if over <= 0 {
		return "0 kbit/s"
	}
	bits := float64(bytes) * 8 / over.Seconds()
	switch {
	case bits >= 1e9:
		return fmt.Sprintf("%.2f Gbit/s", bits/1e9)
	case bits >= 1e6:
		return fmt.Sprintf("%.1f Mbit/s", bits/1e6)
	}
	return fmt.Sprintf("%.1f kbit/s", bits/1e3)
}
