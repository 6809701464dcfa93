package transporttest

import (
	"context"
	"errors"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

func testLimits(t *testing.T, newPair NewPair) {
	o := roomy()
	o.MaxStreams = 8
	t.Run("open waits at the peer's limit of bidirectional streams", func(t *testing.T) {
		bothWays(t, newPair, o, func(p *peers, from, to transport.Conn) {
			limit := o.MaxStreams
			if from == p.Client {
				limit -= p.Overhead.Streams
			}
			var ours, theirs transport.Stream
			for range limit {
				ours, theirs = p.stream(from, to)
			}
			open := func(ctx context.Context) error { _, err := from.OpenStream(ctx); return err }
			p.wantLimit(from, to, open, func() {
				p.closeSend(ours)
				p.closeSend(theirs)
				p.wantEOF(ours)
				p.wantEOF(theirs)
			})
		})
	})
	t.Run("open waits at the peer's limit of unidirectional streams", func(t *testing.T) {
		bothWays(t, newPair, o, func(p *peers, from, to transport.Conn) {
			limit := o.MaxStreams - p.Overhead.SendStreams
			var ours transport.SendStream
			var theirs transport.ReceiveStream
			for range limit {
				ours, theirs = p.sendStream(from, to)
			}
			open := func(ctx context.Context) error { _, err := from.OpenSendStream(ctx); return err }
			p.wantLimit(from, to, open, func() {
				p.closeSend(ours)
				p.wantEOF(theirs)
			})
		})
	})
	t.Run("a stream that was stopped or reset leaves its slot", func(t *testing.T) {
		p := connect(t, newPair, o)
		for i := range 5 * o.MaxStreams {
			ours, theirs := p.sendStream(p.Client, p.Server)
			if i%2 == 0 {
				theirs.Stop(1)
				_, err := ours.Write([]byte("x"))
				for err == nil { // until the stop has arrived
					_, err = ours.Write([]byte("x"))
				}
				continue
			}
			ours.Reset(1)
			_, err := theirs.Read(make([]byte, 1))
			wantStreamError(t, err, 1, true)
		}
	})
}

// wantLimit finds open waiting: its context's end is what it returns. Then free
// leaves one slot, and one stream more can be opened.
func (p *peers) wantLimit(from, to transport.Conn, open func(context.Context) error, free func()) {
	p.t.Helper()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(p.ctx)
	waiting := start(func() (int, error) { return 0, open(ctx) })
	p.carry(to, from, 64<<10) // time enough for a wrong grant to arrive
	select {
	case r := <-waiting:
		p.t.Fatalf("open at the limit returned %v, want it to wait", r.err)
	default:
	}
	cancel(cause)
	if r := p.result("open at the limit", waiting); !errors.Is(r.err, cause) {
		p.t.Fatalf("open at the limit returned %v, want the context's cause", r.err)
	}
	freed := start(func() (int, error) { return 0, open(p.ctx) })
	free()
	if r := p.result("open after a slot came free", freed); r.err != nil {
		p.t.Fatalf("open after a slot came free: %v", r.err)
	}
}
