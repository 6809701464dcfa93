package load

import (
	"math"
	"time"
)

// A Frame is one frame that is published.
type Frame struct {
	Place
	// Last is true for the last frame of its group.
	Last bool
	// Due is when it is to be sent; zero: at once.
	Due time.Time
	// Made is when it says that it was made; zero: when it is sent.
	Made time.Time
}

// Content is what a publisher sends. One goroutine calls it.
type Content interface {
	// Next returns the next frame, and false when there are no more.
	Next() (Frame, bool)
	// Payload makes the payload of the frame that Next returned last; made is when
	// it says that it was made. It is copied by the caller.
	Payload(made time.Time) []byte
}

// Checked is Content whose payloads prove themselves.
type Checked struct {
	// Groups is how many groups there are, 0: no end. Frames is how many each has,
	// at least 1.
	Groups, Frames int
	// Sizes are those of the payloads.
	Sizes Sizes
	// Keyframe is the size of each group's first frame in bytes; 0: as the others.
	Keyframe int
	// Rate is frames per second; 0: as fast as the relay takes them.
	Rate float64
	// Since, if set, is when group 0 began or will begin: groups and payloads then
	// follow from the time of day alone, and two publishers with the same options
	// send the same. The first group is the next to begin. It needs a Rate.
	Since time.Time

	started time.Time
	first   int // group that began at started
	next    int // frame since then
	current Frame
	buffer  []byte
}

// Next implements Content.
func (c *Checked) Next() (Frame, bool) {
	if c.Groups > 0 && c.next == c.Groups*c.Frames {
		return Frame{}, false
	}
	if c.next == 0 {
		c.begin(time.Now())
	}
	n := c.next
	c.next++
	c.current = Frame{Place: Place{uint64(c.first + n/c.Frames), uint32(n % c.Frames)}, Last: n%c.Frames == c.Frames-1}
	if c.Rate > 0 {
		c.current.Due = c.started.Add(c.lasts(n))
	}
	if !c.Since.IsZero() {
		c.current.Due = c.Since.Add(c.lasts(c.first*c.Frames + n))
		c.current.Made = c.current.Due
	}
	return c.current, true
}

// lasts is how long so many frames take.
func (c *Checked) lasts(frames int) time.Duration {
	return time.Duration(float64(frames) / c.Rate * float64(time.Second))
}

// begin says which group is the first, and when it begins.
func (c *Checked) begin(now time.Time) {
	c.started = now
	if since := now.Sub(c.Since); !c.Since.IsZero() && since > 0 {
		c.first = int(math.Ceil(since.Seconds() * c.Rate / float64(c.Frames)))
	}
}

// sizeCycle is after how many frames the sizes of an endless track come again.
const sizeCycle = 1000

// Payload implements Content.
func (c *Checked) Payload(made time.Time) []byte {
	n, count := c.first*c.Frames+c.next-1, c.Groups*c.Frames
	if count == 0 || !c.Since.IsZero() {
		n, count = n%sizeCycle, sizeCycle
	}
	size := c.Sizes.At(n, count)
	if c.Keyframe > 0 && c.current.Frame == 0 {
		size = c.Keyframe
	}
	c.buffer = AppendPayload(c.buffer[:0], c.current.Place, size, made)
	return c.buffer
}

// TickFormat is the text of a clock's frame: RFC 3339 with milliseconds, in UTC.
const TickFormat = "2006-01-02T15:04:05.000Z"

// Clock is Content that tells the time: each second is a group, whose number is
// the second since 1970, so that a clock that was restarted goes on. Each frame
// is the time in [TickFormat] at which it is due, so that two clocks tell the same.
type Clock struct {
	// Rate is frames in each second, at least 1.
	Rate int
	// Ticks ends the clock after so many frames; 0: never.
	Ticks int

	first   int64 // group of the first frame
	next    int
	current Frame
}

// Next implements Content.
func (c *Clock) Next() (Frame, bool) {
	if c.Ticks > 0 && c.next == c.Ticks {
		return Frame{}, false
	}
	if c.next == 0 {
		c.first = time.Now().Unix() + 1 // the first whole second to come
	}
	second, tick := c.first+int64(c.next/c.Rate), c.next%c.Rate
	c.next++
	due := time.Unix(second, 0).Add(time.Second * time.Duration(tick) / time.Duration(c.Rate))
	c.current = Frame{Place: Place{uint64(second), uint32(tick)}, Last: tick == c.Rate-1, Due: due, Made: due}
	return c.current, true
}

// Payload implements Content.
func (c *Clock) Payload(made time.Time) []byte { return made.UTC().AppendFormat(nil, TickFormat) }

// Bounds of what is published.
const (
	// MaxFrames is the most frames of a group.
	MaxFrames = 1 << 20
	// MaxRate is the most frames per second.
	MaxRate = 1_000_000
)
