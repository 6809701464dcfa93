package session

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
)

const (
	// gatherMost is the largest write that is put together in a pooled buffer.
	// For more bytes a head may be a write of its own.
	gatherMost = 64 << 10
	// packet is what fits one packet: a transport copies that little anyway.
	packet = 1200
)

var gatherBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, gatherMost)
	return &b
}}

// A Form says how a group is put on the wire. The zero Form writes it as it is stored.
type Form struct {
	// Header stands in front of the first frame.
	Header []byte
	// Head appends a frame's head to b, instead of the stored one; nil keeps that.
	Head func(b []byte, f model.Frame) []byte
	// FirstOnly is true where Head is for the first frame alone: the stored heads
	// fit from the second frame on.
	FirstOnly bool
}

// SendGroup opens a stream on conn, writes the group of r to it in the given
// form, and ends it: FIN when the group ended cleanly, otherwise a reset with
// the reason. r is closed in any case. opened is called once, as soon as there is
// a stream or there will be none.
//
// When r is cut the stream is reset, even while a write is blocked; while the
// stream waits for the peer's credit it is then never opened. When ctx is done
// the stream is reset with [CodeCancelled].
//
// The error is nil after a clean end and otherwise says why the group was cut short.
func SendGroup(ctx context.Context, conn transport.Conn, r *model.Reader, form Form, opened func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &groupSender{reader: r, form: form, opened: make(chan struct{})}
	var helper sync.WaitGroup
	over := make(chan struct{})
	helper.Go(func() { g.guard(ctx, cancel, over) })

	stream, err := conn.OpenSendStream(ctx)
	opened()
	if err == nil {
		g.stream = stream
		close(g.opened)
		err = g.send(ctx)
	}
	close(over)
	helper.Wait()
	if cut := r.Err(); cut != nil && err != io.EOF {
		err = cut
	}
	if stream != nil {
		err = g.end(ctx, err)
	}
	r.Close()
	cancel(nil)
	return err
}

// groupSender is one group on its way to one stream.
type groupSender struct {
	reader *model.Reader
	form   Form
	opened chan struct{}        // closed when stream is set
	stream transport.SendStream // set once
}

var errStopped = errors.New("the peer stopped the stream")

// guard ends what is blocked when nobody wants the group any more.
func (g *groupSender) guard(ctx context.Context, cancel context.CancelCauseFunc, over <-chan struct{}) {
	select {
	case <-g.opened:
	case <-ctx.Done():
	case <-g.reader.Cut():
		cancel(g.reader.Err()) // the stream need not be opened
	case <-over:
		return
	}
	select {
	case <-g.opened: // perhaps in spite of it
	case <-over:
		return
	}
	select {
	case <-g.reader.Cut():
	case <-ctx.Done():
	case <-g.stream.Stopped():
		cancel(errStopped)
		return
	case <-over:
		return
	}
	g.stream.Reset(g.cutCode())
}

// cutCode says why a stream is reset whose group is not at its end: the reader
// was cut, or else nobody wants it.
func (g *groupSender) cutCode() uint64 {
	if err := g.reader.Err(); err != nil {
		return StreamCode(err)
	}
	return CodeCancelled
}

// end closes or resets the stream after err.
func (g *groupSender) end(ctx context.Context, err error) error {
	if err == io.EOF {
		return g.stream.Close()
	}
	_, failed := errors.AsType[*transport.StreamError](err)
	if failed || ctx.Err() != nil || g.reader.Err() != nil {
		g.stream.Reset(g.cutCode())
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
			_, err = g.stream.Write(head)
			return err
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
	if _, err := g.stream.Write(h); err != nil {
		return err
	}
	return io.EOF
}

// write writes head and then p, which belongs to the group and is not copied
// unless both fit one packet.
func (g *groupSender) write(head, p []byte) error {
	if len(head) > 0 && len(head)+len(p) <= packet {
		return g.writeGathered(head, p)
	}
	if len(head) > 0 {
		if _, err := g.stream.Write(head); err != nil {
			return err
		}
	}
	n, err := g.stream.Write(p)
	g.reader.Taken(n)
	return err
}

// writeGathered writes head and p at once where they are small enough.
func (g *groupSender) writeGathered(head, p []byte) error {
	if len(head) == 0 || len(head)+len(p) > gatherMost {
		return g.write(head, p)
	}
	buf := gatherBuffers.Get().(*[]byte)
	n, err := g.stream.Write(append(append((*buf)[:0], head...), p...))
	gatherBuffers.Put(buf)
	g.reader.Taken(max(0, n-len(head)))
	return err
}
