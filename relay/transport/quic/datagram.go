package quic

import (
	"context"
	"errors"

	"github.com/quic-go/quic-go"

	"github.com/moqrelay/operator/relay/transport"
)

// oversized is more than any UDP payload. The library tells what would fit only
// as the answer to what does not; it looks at the size alone.
var oversized [1 << 16]byte

// datagrams are those of one connection, for one user.
type datagrams struct {
	conn    *quic.Conn
	enabled bool // by both ends
	head    int  // bytes that go in front of each
	send    func([]byte) error
	receive func(context.Context) ([]byte, error)
	ended   func(err error) error // waits for the connection's end, which err is
}

// hasDatagrams says whether both ends want them.
func hasDatagrams(conn *quic.Conn) bool {
	supports := conn.ConnectionState().SupportsDatagrams
	return supports.Local && supports.Remote
}

// MaxDatagram implements [transport.Conn].
func (d *datagrams) MaxDatagram() int {
	if !d.enabled {
		return 0
	}
	return d.fits(d.conn.SendDatagram(oversized[:]))
}

// fits is how much would have fitted where err says that it was too much, else 0.
func (d *datagrams) fits(err error) int {
	e, ok := errors.AsType[*quic.DatagramTooLargeError](err)
	if !ok {
		return 0 // the connection has ended
	}
	return max(0, int(e.MaxDatagramPayloadSize)-d.head)
}

// SendDatagram implements [transport.Conn].
func (d *datagrams) SendDatagram(p []byte) error {
	if !d.enabled {
		return transport.ErrNoDatagrams
	}
	err := d.send(p)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*quic.DatagramTooLargeError](err); ok {
		return &transport.DatagramTooLargeError{Max: d.fits(err)}
	}
	return d.ended(err)
}

// ReceiveDatagram implements [transport.Conn].
func (d *datagrams) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	if !d.enabled {
		return nil, transport.ErrNoDatagrams
	}
	p, err := d.receive(ctx)
	switch {
	case err == nil:
		return p, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, d.ended(err)
}
