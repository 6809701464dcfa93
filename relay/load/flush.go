package load

import (
	"context"
	"slices"
	"sync"

	"github.com/moqrelay/operator/relay/transport"
)

// flushConn remembers the streams that were ended, so that a publisher can leave
// when the relay has everything: closing a connection drops what is on its way.
type flushConn struct {
	transport.Conn
	mu    sync.Mutex
	ended []transport.SendStream // guarded by mu
}

// OpenSendStream implements transport.Conn.
func (c *flushConn) OpenSendStream(ctx context.Context) (transport.SendStream, error) {
	stream, err := c.Conn.OpenSendStream(ctx)
	if err != nil {
		return nil, err
	}
	return &flushStream{stream, c}, nil
}

func (c *flushConn) add(stream transport.SendStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(slices.DeleteFunc(c.ended, func(s transport.SendStream) bool {
		select {
		case <-s.Stopped():
			return true
		default:
			return false
		}
	}), stream)
}

// flush waits until the peer has all that was sent on ended streams.
func (c *flushConn) flush(ctx context.Context) {
	c.mu.Lock()
	ended := slices.Clone(c.ended)
	c.mu.Unlock()
	for _, stream := range ended {
		select {
		case <-stream.Stopped():
		case <-ctx.Done():
			return
		}
	}
}

type flushStream struct {
	transport.SendStream
	conn *flushConn
}

// Close implements transport.SendStream.
func (s *flushStream) Close() error {
	err := s.SendStream.Close()
	s.conn.add(s.SendStream)
	return err
}
