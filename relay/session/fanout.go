package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
)

// Sender sends the groups of one session, each on a stream of its own. Any
// goroutine may use it.
type Sender struct {
	counters *Counters
	out      Meter
	stall    *Stall
}

// NewSender returns the sender of one session. It counts in counters, and shows
// stall what the peer takes; nil watches nothing.
func NewSender(counters *Counters, stall *Stall) *Sender {
	if stall == nil {
		stall = NewStall(-1, nil)
	}
	return &Sender{counters: counters, out: counters.Out.Meter(), stall: stall}
}

// A Form says how a group is put on the wire. The zero Form writes it as it is stored.
type Form struct {
	// Header stands in front of the first frame.
	Header []byte
	// Head appends a frame's head to b, instead of the stored one; nil keeps that.
	Head func(b []byte, f model.Frame) []byte
	// FirstOnly is true where Head is for the first frame alone: the stored heads
	// fit from the second frame on.
	FirstOnly bool
	// Begun, if set, is called before the first byte is written.
	Begun func()
	// Pacer bounds the rate; nil: nothing does.
	Pacer *Pacer
}

// Send writes the group of r to stream in the given form, and ends the stream: FIN
// when the group ended cleanly, otherwise a reset with the reason. r is closed in
// any case.
//
// When r is cut the stream is reset, even while a write is blocked. When ctx is
// done the stream is reset: with [CodeCancelled] where its cause is
// [model.ErrCancelled], else with [CodeSessionClosed].
//
// The error is nil after a clean end and otherwise says why the group was cut short.
func (s *Sender) Send(ctx context.Context, stream transport.SendStream, r *model.Reader, form Form) error {
	s.out.Groups.Add(1)
	g := &groupSender{Sender: s, ctx: ctx, reader: r, form: form, stream: stream, header: len(form.Header)}
	// Nothing else wakes a blocked Write.
	keepContext := context.AfterFunc(ctx, g.reset)
	keepReader := r.AfterCut(g.reset)
	err := g.send(UntilStopped(stream))
	keepReader()
	keepContext()
	if err == io.EOF {
		err = stream.Close()
	} else {
		err = g.cutShort(ctx, err)
	}
	r.Close()
	return err
}

// groupSender is one group on its way to one stream.
type groupSender struct {
	*Sender
	ctx    context.Context // what Send was given
	reader *model.Reader
	form   Form
	stream transport.SendStream
	header int // bytes of the header that are still to be written
	frames int // of the reader's, those that are counted
}

var errStopped = fmt.Errorf("the peer stopped the stream: %w", model.ErrCancelled)

// UntilStopped returns a context that ends when the peer wants no more of a stream,
// the stream was reset, or the connection ended. It costs no goroutine.
func UntilStopped(stream transport.SendStream) context.Context { return untilStopped{stream} }

type untilStopped struct{ stream transport.SendStream }

func (u untilStopped) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (u untilStopped) Done() <-chan struct{}                   { return u.stream.Stopped() }
func (u untilStopped) Value(any) any                           { return nil }

func (u untilStopped) Err() error {
	select {
	case <-u.stream.Stopped():
		return errStopped
	default:
		return nil
	}
}

// reset ends a stream whose group is not at its end: the reader was cut, or else
// nobody wants it.
func (g *groupSender) reset() {
	code := CodeCancelled
	if err := g.reader.Err(); err != nil {
		code = StreamCode(err)
	} else if cause := context.Cause(g.ctx); cause != nil && !errors.Is(cause, model.ErrCancelled) {
		code = CodeSessionClosed
	}
	g.stream.Reset(code)
}

// cutShort ends the stream of a group that could not be sent whole, counts it, and
// returns why that is: err itself may only follow from it.
func (g *groupSender) cutShort(ctx context.Context, err error) error {
	_, ended := errors.AsType[*transport.StreamError](err)
	cut := g.reader.Err()
	switch {
	case cut != nil:
		err = cut
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case ended:
		err = errStopped
	}
	if errors.Is(err, model.ErrExpired) {
		g.counters.ExpiredBytes.Add(g.reader.Unread())
	}
	g.counters.Resets.Add(err)
	if cut != nil || ctx.Err() != nil || errors.Is(err, errStopped) {
		g.reset()
	} else {
		g.stream.Reset(StreamCode(err))
	}
	return err
}

// send writes the group. It returns io.EOF when all of it was written.
func (g *groupSender) send(ctx context.Context) error {
	if g.form.Head != nil {
		return g.sendReframed(ctx)
	}
	for {
		p, err := g.reader.Next(ctx)
		if err != nil {
			return g.ending(err)
		}
		if err := g.write(g.takeHeader(), p); err != nil {
			return err
		}
	}
}

// sendReframed writes the group with heads of the form.
func (g *groupSender) sendReframed(ctx context.Context) error {
	var head [64]byte
	for {
		f, err := g.reader.NextFrame(ctx)
		if err != nil {
			return g.ending(err)
		}
		h := g.form.Head(append(head[:0], g.takeHeader()...), f)
		if err := g.sendFrame(ctx, h); err != nil {
			return err
		}
		if g.form.FirstOnly {
			g.form.Head = nil
			return g.send(ctx)
		}
	}
}

// sendFrame writes one frame: what has arrived of it goes out together with its head.
func (g *groupSender) sendFrame(ctx context.Context, head []byte) error {
	for {
		p, err := g.reader.Payload(ctx)
		switch {
		case err == io.EOF && head == nil:
			return nil
		case err == io.EOF: // an empty frame
			return g.put(head, 0)
		case err != nil:
			return err
		}
		if err := g.writeGathered(head, p); err != nil {
			return err
		}
		head = nil
	}
}

// takeHeader returns the header the first time it is called.
func (g *groupSender) takeHeader() []byte {
	h := g.form.Header
	g.form.Header = nil
	return h
}

// ending writes the header of a group without frames.
func (g *groupSender) ending(err error) error {
	h := g.takeHeader()
	if err != io.EOF || h == nil {
		return err
	}
	if err := g.put(h, 0); err != nil {
		return err
	}
	return io.EOF
}

const (
	// packet is what fits one packet: a transport copies that little anyway.
	packet = 1200
	// gatherMost is the largest write that is put together in a pooled buffer.
	// For more bytes a head may be a write of its own.
	gatherMost = 64 << 10
)

// gatherBuffers are for writes that are put together, by size: a write that waits
// for credit keeps its buffer, and a small one must not keep a large one.
var gatherBuffers = [...]struct {
	size int
	pool sync.Pool
}{{size: packet}, {size: 8 << 10}, {size: gatherMost}}

// write writes head and then p, which belongs to the group and is not copied but
// for what goes into one packet with the head.
func (g *groupSender) write(head, p []byte) error {
	if len(head) > 0 {
		n := min(len(p), max(0, packet-len(head)))
		if err := g.writeGathered(head, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	if len(p) == 0 {
		return nil
	}
	return g.put(p, len(p))
}

// writeGathered writes head and p at once where they are small enough.
func (g *groupSender) writeGathered(head, p []byte) error {
	total := len(head) + len(p)
	if len(head) == 0 || total > gatherMost {
		return g.write(head, p)
	}
	i := 0
	for gatherBuffers[i].size < total {
		i++
	}
	pool := &gatherBuffers[i].pool
	buf, _ := pool.Get().(*[]byte)
	if buf == nil {
		buf = new(make([]byte, 0, gatherBuffers[i].size))
	}
	err := g.put(append(append((*buf)[:0], head...), p...), len(p))
	pool.Put(buf)
	return err
}

// put writes p to the stream, the last bytes of which are the reader's, and counts.
func (g *groupSender) put(p []byte, ofReader int) error {
	if g.form.Begun != nil {
		g.form.Begun()
		g.form.Begun = nil
	}
	if g.form.Pacer != nil {
		if err := g.form.Pacer.Wait(UntilStopped(g.stream), len(p)); err != nil {
			return err
		}
	}
	g.stall.begin()
	n, err := g.stream.Write(p)
	g.stall.end(n)
	g.reader.Taken(max(0, n-len(p)+ofReader))
	header := min(n, g.header)
	g.header -= header
	g.out.Bytes.Add(int64(n - header))
	if frames := g.reader.Frames(); frames > g.frames {
		g.out.Frames.Add(int64(frames - g.frames))
		g.frames = frames
	}
	return err
}
