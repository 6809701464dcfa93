package load

import (
	"context"
	"slices"
	"sync"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// flushConn knows when the relay has everything, so that a publisher can leave
// then: closing a connection drops what is on its way.
type flushConn struct {
	transport.Conn

	mu         sync.Mutex             // guards what follows
	subscribed func()                 // is told of each subscription that runs; nil: nobody is
	running    bool                   // one does
	sent       []transport.SendStream // groups that were sent whole
	watched    []*watchedStream       // Subscribe streams of the relay
}

// onSubscribe has f called for each subscription that runs, and at once where one does.
func (c *flushConn) onSubscribe(f func()) {
	c.mu.Lock()
	c.subscribed = f
	running := c.running
	c.mu.Unlock()
	if running {
		f()
	}
}

// runs notes that a subscription runs.
func (c *flushConn) runs() {
	c.mu.Lock()
	c.running = true
	f := c.subscribed
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

// OpenSendStream implements transport.Conn.
func (c *flushConn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	stream, err := c.Conn.OpenSendStream(ctx)
	if err != nil {
		return nil, err
	}
	return &sentStream{stream, c}, nil
}

// AcceptStream implements transport.Conn.
func (c *flushConn) AcceptStream(ctx context.Context) (transport.Stream, error) {
	stream, err := c.Conn.AcceptStream(ctx)
	if err != nil {
		return nil, err
	}
	return &watchedStream{Stream: stream, conn: c, over: make(chan struct{})}, nil
}

// flush waits until the relay has ended each of its subscriptions and has all
// groups that were sent.
func (c *flushConn) flush(ctx context.Context) {
	c.mu.Lock()
	watched := slices.Clone(c.watched)
	c.mu.Unlock()
	for _, stream := range watched {
		wait(ctx, stream.over)
	}
	c.mu.Lock()
	sent := slices.Clone(c.sent)
	c.mu.Unlock()
	for _, stream := range sent {
		wait(ctx, stream.Stopped())
	}
}

func wait(ctx context.Context, over <-chan struct{}) {
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// isOver says whether a channel was closed.
func isOver(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// sentStream is a group's stream.
type sentStream struct {
	transport.SendStream
	conn *flushConn
}

// Close implements transport.SendStream.
func (s *sentStream) Close() error {
	err := s.SendStream.Close()
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = slices.DeleteFunc(c.sent, func(s transport.SendStream) bool { return isOver(s.Stopped()) })
	c.sent = append(c.sent, s.SendStream)
	return err
}

// watchedStream is a stream that the relay opened.
type watchedStream struct {
	transport.Stream
	conn *flushConn
	head []byte        // the stream's first bytes, until its first message is whole; of the reading goroutine
	kind streamKind    // of the reading goroutine
	over chan struct{} // closed when the relay has ended its half
	once sync.Once
}

// streamKind is what a watchedStream is known to be.
type streamKind int

const (
	kindUnknown    streamKind = iota
	kindOther                 // no Subscribe stream
	kindSubscribe             // one whose SUBSCRIBE is not whole yet
	kindSubscribed            // one whose SUBSCRIBE was read
)

// Read implements transport.ReceiveStream.
func (s *watchedStream) Read(p []byte) (int, error) {
	if s.kind == kindSubscribed {
		s.conn.runs() // the session waits for what comes after SUBSCRIBE: it has done what that asks
	}
	n, err := s.Stream.Read(p)
	if s.kind == kindUnknown || s.kind == kindSubscribe {
		s.learn(p[:n])
	}
	if err != nil {
		s.once.Do(func() { close(s.over) })
	}
	return n, err
}

// learn looks at the stream's first bytes: its type, and then SUBSCRIBE.
func (s *watchedStream) learn(b []byte) {
	if s.head = append(s.head, b...); len(s.head) == 0 {
		return
	}
	if s.kind == kindUnknown {
		if s.head[0] != byte(lite.BidiSubscribe) {
			s.kind, s.head = kindOther, nil
			return
		}
		s.kind = kindSubscribe
		s.conn.watch(s)
	}
	size, n := wire.ParseVarint(s.head[1:])
	if n > 0 && uint64(len(s.head)-1-n) >= size {
		s.kind, s.head = kindSubscribed, nil
	}
}

func (c *flushConn) watch(s *watchedStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = slices.DeleteFunc(c.watched, func(s *watchedStream) bool { return isOver(s.over) })
	c.watched = append(c.watched, s)
}
