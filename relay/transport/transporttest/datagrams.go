package transporttest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

func testDatagrams(t *testing.T, newPair NewPair) {
	if connect(t, newPair, roomy()).Client.MaxDatagram() == 0 {
		testNoDatagrams(t, newPair)
		return
	}
	t.Run("a datagram of any size up to the largest arrives whole", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			for _, size := range []int{1, 100, from.MaxDatagram()} {
				want := pattern(size)
				want[0] = byte(size%250 + 1)
				p.sendUntilReceived(from, to, want)
			}
		})
	})
	t.Run("a byte too much is an error that says how much fits", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		most := p.Client.MaxDatagram()
		err := p.Client.SendDatagram(pattern(64 << 10))
		// The path may have been found to carry more since.
		if e, ok := errors.AsType[*transport.DatagramTooLargeError](err); !ok || e.Max < most || e.Max > p.Client.MaxDatagram() {
			t.Errorf("a datagram of 64 KiB: %v, want a DatagramTooLargeError with %d", err, most)
		}
		p.sendUntilReceived(p.Client, p.Server, pattern(most))
	})
	t.Run("what was sent is not kept", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		want := pattern(500)
		sent := bytes.Clone(want)
		for range 20 {
			copy(sent, want)
			if err := p.Server.SendDatagram(sent); err != nil {
				t.Fatal(err)
			}
			clear(sent)
		}
		p.sendUntilReceived(p.Server, p.Client, want) // any of the 20, or this one
	})
	t.Run("streams and datagrams do not disturb each other", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		for range 200 { // more than any queue holds, and nobody receives
			if err := p.Server.SendDatagram(pattern(1000)); err != nil {
				t.Fatal(err)
			}
		}
		p.carry(p.Server, p.Client, 2<<20)
		p.sendUntilReceived(p.Server, p.Client, pattern(1000))
	})
	t.Run("a context ends the wait for a datagram", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(p.ctx)
		receive := start(func() (int, error) { _, err := p.Server.ReceiveDatagram(ctx); return 0, err })
		cancel(cause)
		if r := p.result("ReceiveDatagram", receive); !errors.Is(r.err, cause) {
			t.Errorf("ReceiveDatagram returned %v, want the context's cause %v", r.err, cause)
		}
	})
	t.Run("the connection's end ends it too", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			ours := start(func() (int, error) { _, err := from.ReceiveDatagram(p.ctx); return 0, err })
			theirs := start(func() (int, error) { _, err := to.ReceiveDatagram(p.ctx); return 0, err })
			want := transport.CloseError{Code: 0x39, Reason: "over"}
			from.Close(want.Code, want.Reason)
			wantCloseError(p.t, p.result("ReceiveDatagram", ours).err, want)
			wantCloseError(p.t, from.SendDatagram([]byte{1}), want)
			want.Remote = true
			wantCloseError(p.t, p.result("ReceiveDatagram", theirs).err, want)
			wantCloseError(p.t, to.SendDatagram([]byte{1}), want)
		})
	})
}

func testNoDatagrams(t *testing.T, newPair NewPair) {
	t.Run("are refused at once at both ends", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		for _, c := range []transport.Conn{p.Client, p.Server} {
			if n := c.MaxDatagram(); n != 0 {
				t.Errorf("MaxDatagram is %d, want 0", n)
			}
			if err := c.SendDatagram([]byte{1}); !errors.Is(err, transport.ErrNoDatagrams) {
				t.Errorf("SendDatagram: %v, want ErrNoDatagrams", err)
			}
			if b, err := c.ReceiveDatagram(p.ctx); b != nil || !errors.Is(err, transport.ErrNoDatagrams) {
				t.Errorf("ReceiveDatagram: %x, %v, want ErrNoDatagrams", b, err)
			}
		}
		p.carry(p.Client, p.Server, 1000)
	})
}

// sendUntilReceived sends a datagram again and again until it has come: one may be lost.
func (p *peers) sendUntilReceived(from, to transport.Conn, want []byte) {
	p.t.Helper()
	received := start(func() (int, error) {
		for {
			got, err := to.ReceiveDatagram(p.ctx)
			if err != nil || bytes.Equal(got, want) {
				return len(got), err
			}
		}
	})
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if err := from.SendDatagram(want); err != nil {
			p.t.Fatalf("SendDatagram of %d bytes: %v", len(want), err)
		}
		select {
		case r := <-received:
			if r.err != nil {
				p.t.Fatalf("ReceiveDatagram: %v", r.err)
			}
			return
		case <-again.C:
		}
	}
}
