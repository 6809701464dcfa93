package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
)

// headBuffer is the size of the buffer that frame heads are read through. Small
// frames come through it too; the payload of others does not.
const headBuffer = 4 << 10

var headBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, headBuffer) }}

// OpenBuffer returns a pooled reader of 4 KiB over in. Give it back with
// [CloseBuffer] when nothing more is read.
func OpenBuffer(in io.Reader) *bufio.Reader {
	b := headBuffers.Get().(*bufio.Reader)
	b.Reset(in)
	return b
}

// CloseBuffer gives a reader of [OpenBuffer] back.
func CloseBuffer(b *bufio.Reader) {
	b.Reset(nil)
	headBuffers.Put(b)
}

// Head is what stands in front of one frame.
type Head struct {
	// Stored is the head in the model's form. It is valid until the next head is read.
	Stored []byte
	// Timestamp is absolute, in units of the track's timescale.
	Timestamp int64
	// Size is the payload's length in bytes.
	Size int64
}

// Heads reads the heads of a group's frames.
type Heads interface {
	// Next reads the next head and nothing behind it. It returns io.EOF itself
	// when the stream ended cleanly before it.
	Next(in *bufio.Reader) (Head, error)
}

// Ingest reads frames from stream into group until the stream ends, and ends the
// group with it: it finishes the group after the peer's FIN and aborts it
// otherwise. in is the buffer over stream, with the group's header already read.
// When the group wants no more bytes, or ctx is done, the stream is stopped; when
// the peer resets it, a pause ends at once. ctx is the session's: a group that it
// cuts short has lost its source. What comes is counted in m.
//
// It returns nil when the group was finished, and else what it was aborted with.
func Ingest(ctx context.Context, stream transport.ReceiveStream, in *bufio.Reader, group *model.GroupWriter, heads Heads, m Meter) error {
	m.Groups.Add(1)
	paused, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	var helper sync.WaitGroup
	helper.Go(func() {
		select {
		case <-group.Done():
			stream.Stop(StreamCode(group.Err()))
		case <-ctx.Done():
			stream.Stop(CodeCancelled)
		case <-stream.Aborted():
			cancel(errAborted)
		case <-over:
		}
	})
	i := ingester{in: in, group: group, heads: heads, meter: m}
	err := i.frames(paused)
	i.count()
	close(over)
	helper.Wait()
	if err == nil {
		return group.Finish()
	}
	if err == errAborted {
		if _, err = io.Copy(io.Discard, stream); err == nil { // nothing is left but the code
			err = io.ErrUnexpectedEOF
		}
		err = ingestError(err)
	}
	if ended := group.Err(); ended != nil {
		err = ended // the stream's error only follows from it
	} else if ctx.Err() != nil {
		err = model.ErrSourceGone
	}
	group.Abort(err)
	stream.Stop(StreamCode(err))
	return err
}

// errAborted ends a pause: the peer has reset the stream.
var errAborted = errors.New("the peer has reset the stream")

// ingester reads one group.
type ingester struct {
	in    *bufio.Reader
	group *model.GroupWriter
	heads Heads

	meter Meter
	bytes int64 // read and not counted yet
	whole int64 // frames, likewise
}

// frames reads frames until a clean end.
func (i *ingester) frames(ctx context.Context) error {
	for {
		if i.in.Buffered() == 0 { // it may have to wait now
			i.count()
		}
		head, err := i.heads.Next(i.in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return ingestError(err)
		}
		if err := i.group.BeginFrame(ctx, head.Stored, head.Timestamp, head.Size); err != nil {
			return err
		}
		i.bytes += int64(len(head.Stored))
		if err := i.payload(ctx, head.Size); err != nil {
			return err
		}
		i.whole++
	}
}

// payload reads the payload of the frame that has begun.
func (i *ingester) payload(ctx context.Context, left int64) error {
	for left > 0 {
		room, err := i.group.Buffer(ctx)
		if err != nil {
			return err
		}
		n, err := i.in.Read(room[:min(int64(len(room)), left)])
		i.group.Commit(n)
		i.bytes += int64(n)
		left -= int64(n)
		if err == io.EOF && left > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF {
			return ingestError(err)
		}
	}
	return nil
}

// count adds what was read to the session's traffic.
func (i *ingester) count() {
	if i.bytes > 0 {
		i.meter.Bytes.Add(i.bytes)
		i.meter.Frames.Add(i.whole)
		i.bytes, i.whole = 0, 0
	}
}

// ingestError turns the end of a stream into the end of its group: the peer's
// code travels on, and what is no fault of the stream is the connection's end.
func ingestError(err error) error {
	reset, ok := errors.AsType[*transport.StreamError](err)
	switch {
	case errors.Is(err, model.ErrSourceGone):
		return err
	case ok && reset.Remote:
		return &model.AbortError{Code: reset.Code}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", ErrWrongSize, err)
	case ok, errors.Is(err, ErrMalformed):
		return err
	}
	return fmt.Errorf("%w: %w", model.ErrSourceGone, err)
}
