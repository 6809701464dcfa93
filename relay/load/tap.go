package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// tapConn keeps the group streams of a viewer from its session and has them read
// here, so that the viewers of a crowd cost their machine little: nothing is
// stored, and most of a payload is not looked at. The session has everything else.
type tapConn struct {
	transport.Conn
	version lite.Version
	seat    *seat
	others  chan transport.ReceiveStream // for the session
	tasks   sync.WaitGroup               // run and one for each stream
}

func newTap(conn transport.Conn, version lite.Version, s *seat) *tapConn {
	return &tapConn{Conn: conn, version: version, seat: s, others: make(chan transport.ReceiveStream)}
}

// run sorts streams until the connection ends or ctx is done. It waits for all of them.
func (c *tapConn) run(ctx context.Context) {
	defer c.tasks.Wait()
	for {
		st, err := c.Conn.AcceptReceiveStream(ctx)
		if err != nil {
			return
		}
		c.tasks.Go(func() { c.sort(ctx, st) })
	}
}

// AcceptReceiveStream implements transport.Conn.
func (c *tapConn) AcceptReceiveStream(ctx context.Context) (transport.ReceiveStream, error) {
	select {
	case st := <-c.others:
		return st, nil
	case <-c.Done():
		return nil, c.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// sort reads a stream to its end where it is a group, and gives it on else.
func (c *tapConn) sort(ctx context.Context, st transport.ReceiveStream) {
	in := tapReader{from: st, buf: buffers.Get().(*[tapBuffer]byte)}
	defer buffers.Put(in.buf)
	head, err := in.peek(1)
	if err != nil {
		return
	}
	if head[0] == byte(lite.UniGroup) {
		in.skip(1)
		c.seat.readGroup(ctx, &in, c.version)
		return
	}
	select {
	case c.others <- &replayed{ReceiveStream: st, head: append([]byte(nil), in.unread()...)}:
	case <-c.Done():
	case <-ctx.Done():
	}
}

// replayed is a stream whose first bytes were read already.
type replayed struct {
	transport.ReceiveStream
	head []byte // of the reading goroutine
}

// Read implements transport.ReceiveStream.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	return r.ReceiveStream.Read(p)
}

// tapBuffer is how much of a stream is read at once, in bytes.
const tapBuffer = 16 << 10

var buffers = sync.Pool{New: func() any { return new([tapBuffer]byte) }}

// tapReader reads a stream through a buffer that it has borrowed.
type tapReader struct {
	from  transport.ReceiveStream
	buf   *[tapBuffer]byte
	first int // of the bytes that were read and not used
	end   int
}

func (r *tapReader) unread() []byte { return r.buf[r.first:r.end] }

// peek returns at least n bytes, at most tapBuffer, and uses none. Fewer come
// with the error that the stream ended with.
func (r *tapReader) peek(n int) ([]byte, error) {
	for r.end-r.first < n {
		if r.first > 0 {
			r.end = copy(r.buf[:], r.unread())
			r.first = 0
		}
		more, err := r.from.Read(r.buf[r.end:])
		r.end += more
		if err != nil && r.end-r.first < n {
			return r.unread(), err
		}
	}
	return r.unread(), nil
}

// skip uses n bytes that were peeked.
func (r *tapReader) skip(n int) { r.first += n }

// discard uses n bytes, whether they were read or not.
func (r *tapReader) discard(n int) error {
	for {
		have := min(n, r.end-r.first)
		r.first += have
		if n -= have; n == 0 {
			return nil
		}
		if _, err := r.peek(1); err != nil {
			return err
		}
	}
}

// parse gives f what was read, and more and more of the stream, until f uses some.
func (r *tapReader) parse(f func(b []byte) (used int, err error)) error {
	for want := 1; ; {
		b, err := r.peek(want)
		if err != nil {
			return err
		}
		n, err := f(b)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if n > 0 {
			r.skip(n)
			return nil
		}
		want = len(b) + 1
	}
}

// errTrickle says that a stream ended inside a frame.
var errTrickle = errors.New("the stream ended inside a frame")

// readGroup reads a group's stream, behind its type, to its end.
func (s *seat) readGroup(ctx context.Context, in *tapReader, v lite.Version) {
	var head lite.Group
	err := in.parse(func(b []byte) (n int, err error) {
		head, n, err = lite.ParseGroup(b, v)
		return n, err
	})
	if err == nil {
		err = s.readFrames(ctx, in, v, head)
	}
	if errors.Is(err, ErrCorrupt) {
		s.wrong(err)
	}
}

// readFrames reads the frames of a group, until FIN, a reset or the connection's end.
func (s *seat) readFrames(ctx context.Context, in *tapReader, v lite.Version, group lite.Group) error {
	place := Place{Group: group.Sequence, Frame: uint32(group.FrameStart)}
	for before := int64(0); ; place.Frame++ {
		var head lite.FrameHead
		err := in.parse(func(b []byte) (n int, err error) {
			head, n, err = lite.ParseFrameHead(b, v, before)
			return n, err
		})
		if err == nil {
			before = head.Timestamp
			err = s.readFrame(in, place, int(head.Size))
		}
		if err != nil {
			return err
		}
		if s.stalled {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
}

// readFrame reads one payload and counts it.
func (s *seat) readFrame(in *tapReader, p Place, size int) error {
	made, err := s.payload(in, p, size)
	if err != nil {
		return err
	}
	s.took(p, size, made, time.Now())
	return nil
}

// payload reads a payload: all of it is checked at the first seat, the head that
// says what it is at every one.
func (s *seat) payload(in *tapReader, p Place, size int) (made time.Time, err error) {
	if size < HeadBytes || size > MaxFrame {
		return made, corrupt(p, "it has %d bytes; %d to %d are expected", size, HeadBytes, MaxFrame)
	}
	b, err := in.peek(HeadBytes)
	if err != nil {
		return made, errTrickle
	}
	if s.checks {
		return s.wholePayload(in, p, size)
	}
	made, err = checkHead(b[:HeadBytes], p, size)
	if err != nil {
		return made, err
	}
	return made, in.discard(size)
}

func (s *seat) wholePayload(in *tapReader, p Place, size int) (time.Time, error) {
	payload := make([]byte, 0, size)
	for len(payload) < size {
		b, err := in.peek(1)
		if err != nil {
			return time.Time{}, errTrickle
		}
		b = b[:min(len(b), size-len(payload))]
		payload = append(payload, b...)
		in.skip(len(b))
	}
	return CheckPayload(payload, p)
}

// checkHead checks what a payload's head says: its place, its size, not its hash.
func checkHead(head []byte, p Place, size int) (made time.Time, err error) {
	place := Place{binary.BigEndian.Uint64(head[8:]), binary.BigEndian.Uint32(head[16:])}
	if string(head[:4]) != magic || binary.BigEndian.Uint32(head[4:]) != uint32(size) || place != p {
		return made, corrupt(p, "its %d bytes begin with %x", size, head[:28])
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(head[20:]))), nil
}
