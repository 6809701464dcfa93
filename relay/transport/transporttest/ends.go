package transporttest

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

func testConnectionEnds(t *testing.T, newPair NewPair) {
	t.Run("a close tells the peer its code and reason", func(t *testing.T) {
		for _, want := range []transport.CloseError{
			{Code: 0, Reason: ""},
			{Code: 1, Reason: "bye"},
			{Code: 0x39, Reason: "grüß Gott"},
			{Code: 64 + 4321, Reason: `"quoted"`},
		} {
			bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
				p.stream(from, to)
				from.Close(want.Code, want.Reason)
				p.wantEnd(from, want)
				want.Remote = true
				p.wantEnd(to, want)
				want.Remote = false
			})
		}
	})
	t.Run("a reason is cut at 1024 bytes", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		p.Client.Close(2, strings.Repeat("x", 1023)+"ü and so on")
		p.wantEnd(p.Server, transport.CloseError{Code: 2, Reason: strings.Repeat("x", 1023), Remote: true})
	})
	t.Run("only the first close counts", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		p.Client.Close(1, "first")
		p.Client.Close(2, "second")
		p.wantEnd(p.Client, transport.CloseError{Code: 1, Reason: "first"})
		p.wantEnd(p.Server, transport.CloseError{Code: 1, Reason: "first", Remote: true})
		p.Server.Close(3, "third")
		p.wantEnd(p.Server, transport.CloseError{Code: 1, Reason: "first", Remote: true})
	})
	t.Run("blocked and later calls return the end", func(t *testing.T) {
		o := roomy()
		o.MaxStreams = 4
		bothWays(t, newPair, o, testBlockedCalls)
	})
	t.Run("a lost carrier is an error and no close", func(t *testing.T) {
		o := roomy()
		o.Lossy = true
		p := connect(t, newPair, o)
		if p.Lose == nil {
			t.Skip("the transport cannot lose its carrier")
		}
		ours, theirs := p.stream(p.Client, p.Server)
		p.Lose()
		for _, c := range []transport.Conn{p.Client, p.Server} {
			p.wait("Done after the carrier was lost", c.Done())
			wantLost(t, c.Err())
		}
		for _, s := range []transport.Stream{ours, theirs} {
			_, err := s.Read(make([]byte, 1))
			wantLost(t, err)
		}
	})
}

// testBlockedCalls blocks every kind of call at both ends, closes one end, and
// wants its close from all of them.
func testBlockedCalls(p *peers, from, to transport.Conn) {
	ours, theirs := p.stream(from, to)
	var blocked []<-chan result
	block := func(call func() (int, error)) { blocked = append(blocked, start(call)) }
	calls := func(c transport.Conn, s transport.Stream) {
		block(func() (int, error) { return s.Read(make([]byte, 1)) })
		block(func() (int, error) { return s.Write(pattern(16 << 20)) })
		block(func() (int, error) { _, err := c.AcceptStream(p.ctx); return 0, err })
		block(func() (int, error) { _, err := c.AcceptReceiveStream(p.ctx); return 0, err })
		block(func() (int, error) { return 0, openUntilError(p, c) })
	}
	local := transport.CloseError{Code: 0x39, Reason: "over"}
	remote := transport.CloseError{Code: 0x39, Reason: "over", Remote: true}

	calls(from, ours)
	first := len(blocked)
	block(func() (int, error) { _, err := to.AcceptReceiveStream(p.ctx); return 0, err })
	block(func() (int, error) { return 0, openUntilError(p, to) })
	from.Close(local.Code, local.Reason)
	for i, done := range blocked {
		want := local
		if i >= first {
			want = remote
		}
		wantCloseError(p.t, p.result("blocked call", done).err, want)
	}
	p.wantEnd(from, local)
	p.wantEnd(to, remote)
	for _, s := range []transport.Stream{ours, theirs} {
		want := local
		if s == theirs {
			want = remote
		}
		_, err := s.Write([]byte("late"))
		wantCloseError(p.t, err, want)
		_, err = s.Read(make([]byte, 1))
		wantCloseError(p.t, err, want)
	}
}

func openUntilError(p *peers, c transport.Conn) error {
	for {
		if _, err := c.OpenSendStream(p.ctx); err != nil {
			return err
		}
	}
}

func (p *peers) wantEnd(c transport.Conn, want transport.CloseError) {
	p.t.Helper()
	p.wait("Done after a close", c.Done())
	wantCloseError(p.t, c.Err(), want)
	_, err := c.OpenStream(p.ctx)
	wantCloseError(p.t, err, want)
	_, err = c.AcceptStream(p.ctx)
	wantCloseError(p.t, err, want)
}

func wantLost(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error after the carrier was lost")
	}
	if got, ok := errors.AsType[*transport.CloseError](err); ok {
		t.Fatalf("the lost carrier shows as %v, want an error that is no close", got)
	}
	if errors.Is(err, io.EOF) {
		t.Fatalf("the lost carrier shows as %v, which reads as the clean end of a stream", err)
	}
}
