package transporttest

import (
	"context"
	"errors"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

func testInfo(t *testing.T, newPair NewPair) {
	p := connect(t, newPair, roomy())
	c, s := p.Client.Info(), p.Server.Info()
	if !c.Client || s.Client {
		t.Errorf("Client is %v at the client and %v at the server, want true and false", c.Client, s.Client)
	}
	if c.Kind != s.Kind || c.Kind == "" {
		t.Errorf("kinds are %q and %q, want one name", c.Kind, s.Kind)
	}
	if c.Protocol != s.Protocol || c.Protocol == "" {
		t.Errorf("protocols are %q and %q, want one token", c.Protocol, s.Protocol)
	}
	if c.HasURI != s.HasURI || c.Path != s.Path {
		t.Errorf("client has URI %v path %q, server %v %q, want the same", c.HasURI, c.Path, s.HasURI, s.Path)
	}
	for _, i := range []transport.Info{c, s} {
		if i.Local == nil || i.Remote == nil {
			t.Errorf("addresses are %v and %v, want both", i.Local, i.Remote)
		}
	}
	want := roomy().Windows
	if p.Client.Windows() != want || p.Server.Windows() != want {
		t.Errorf("windows are %+v and %+v, want %+v", p.Client.Windows(), p.Server.Windows(), want)
	}
	if p.Client.Err() != nil || p.Server.Err() != nil || isClosed(p.Client.Done()) || isClosed(p.Server.Done()) {
		t.Errorf("a fresh connection says that it has ended: %v, %v", p.Client.Err(), p.Server.Err())
	}
}

func testStreams(t *testing.T, newPair NewPair) {
	t.Run("a bidirectional stream carries bytes both ways", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			ours, theirs := p.stream(from, to)
			p.write(ours, []byte("question"))
			p.wantRead(theirs, []byte("question"))
			p.write(theirs, []byte("answer"))
			p.wantRead(ours, []byte("answer"))
		})
	})
	t.Run("a unidirectional stream carries bytes and its end", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			ours, theirs := p.sendStream(from, to)
			p.write(ours, []byte("all"))
			p.closeSend(ours)
			p.wantRead(theirs, []byte("all"))
			p.wantEOF(theirs)
			p.wantEOF(theirs)
		})
	})
	t.Run("an empty stream shows its end", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			p.closeSend(p.open(from))
			p.wantEOF(p.accept(to))
		})
	})
}

func testHalves(t *testing.T, newPair NewPair) {
	t.Run("each half of a stream ends on its own", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			ours, theirs := p.stream(from, to)
			p.closeSend(ours)
			p.wantEOF(theirs)
			p.write(theirs, []byte("still open"))
			p.wantRead(ours, []byte("still open"))
			theirs.Reset(9)
			_, err := ours.Read(make([]byte, 1))
			wantStreamError(p.t, err, 9, true)
		})
	})
	t.Run("a reset half leaves the other one open", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			ours, theirs := p.stream(from, to)
			ours.Reset(9)
			_, err := theirs.Read(make([]byte, 1))
			wantStreamError(p.t, err, 9, true)
			p.write(theirs, []byte("still open"))
			p.closeSend(theirs)
			p.wantRead(ours, []byte("still open"))
			p.wantEOF(ours)
		})
	})
}

func testEdges(t *testing.T, newPair NewPair) {
	t.Run("a write of no bytes sends nothing and fails only on an ended stream", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		ours, theirs := p.sendStream(p.Client, p.Server)
		p.write(ours, nil)
		p.write(ours, []byte("x"))
		p.write(ours, []byte{})
		p.closeSend(ours)
		p.wantRead(theirs, []byte("x"))
		p.wantEOF(theirs)
		if n, err := ours.Write([]byte("late")); n != 0 || err == nil {
			t.Errorf("Write after Close: %d, %v, want 0 and an error", n, err)
		}
	})
	t.Run("a context ends the wait for the peer's streams", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(p.ctx)
		bidi := start(func() (int, error) { _, err := p.Server.AcceptStream(ctx); return 0, err })
		uni := start(func() (int, error) { _, err := p.Server.AcceptReceiveStream(ctx); return 0, err })
		cancel(cause)
		for _, done := range []<-chan result{bidi, uni} {
			if r := p.result("Accept", done); !errors.Is(r.err, cause) {
				t.Errorf("Accept returned %v, want the context's cause %v", r.err, cause)
			}
		}
		p.stream(p.Client, p.Server) // the connection is as good as before
	})
}

// streamCodes are codes at the edges of what the carriers and protocols use:
// none, the smallest, one in use, and application codes from 64 on.
var streamCodes = []uint64{0, 1, 0x1d, 0x1e, 0x39, 64, 64 + 4321}

func testStreamCodes(t *testing.T, newPair NewPair) {
	t.Run("a reset shows its code to both ends", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			for _, code := range streamCodes {
				ours, theirs := p.sendStream(from, to)
				ours.Reset(code)
				_, err := theirs.Read(make([]byte, 1))
				wantStreamError(p.t, err, code, true)
				_, err = ours.Write([]byte("late"))
				wantStreamError(p.t, err, code, false)
			}
		})
	})
	t.Run("a stop shows its code to both ends", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			for _, code := range streamCodes {
				ours, theirs := p.sendStream(from, to)
				theirs.Stop(code)
				_, err := theirs.Read(make([]byte, 1))
				wantStreamError(p.t, err, code, false)
				p.wait("Stopped after the peer's Stop", ours.Stopped())
				_, err = ours.Write([]byte("late"))
				wantStreamError(p.t, err, code, true)
			}
		})
	})
}

func testBlockedStreams(t *testing.T, newPair NewPair) {
	t.Run("a blocked write returns when its stream is reset", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		ours, theirs := p.sendStream(p.Client, p.Server)
		write := start(func() (int, error) { return ours.Write(pattern(4 << 20)) })
		p.wantRead(theirs, pattern(1000)) // it is under way
		ours.Reset(7)
		r := p.result("Write", write)
		wantStreamError(t, r.err, 7, false)
		if r.n < 1000 || r.n > 2<<20 {
			t.Errorf("the write took %d bytes, want at least the 1000 read and less than a window more", r.n)
		}
	})
	t.Run("a blocked write returns when the peer stops it", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		ours, theirs := p.sendStream(p.Client, p.Server)
		write := start(func() (int, error) { return ours.Write(pattern(4 << 20)) })
		p.wantRead(theirs, pattern(1000))
		theirs.Stop(7)
		wantStreamError(t, p.result("Write", write).err, 7, true)
	})
	t.Run("a blocked read returns when its own side stops it", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		_, theirs := p.sendStream(p.Client, p.Server)
		read := start(func() (int, error) { return theirs.Read(make([]byte, 1)) })
		theirs.Stop(7)
		wantStreamError(t, p.result("Read", read).err, 7, false)
	})
	t.Run("reset and write at once do no harm", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		for range 50 {
			ours, theirs := p.sendStream(p.Client, p.Server)
			write := start(func() (int, error) { return ours.Write(pattern(64 << 10)) })
			ours.Reset(3)
			if r := p.result("Write", write); r.err != nil {
				wantStreamError(t, r.err, 3, false)
			}
			theirs.Stop(3)
		}
		p.stream(p.Client, p.Server)
	})
}

func testAfterTheEnd(t *testing.T, newPair NewPair) {
	t.Run("a reset after close loses no byte", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			for range 20 {
				ours := p.open(from)
				p.write(ours, pattern(50_000))
				p.closeSend(ours)
				ours.Reset(5)
				theirs := p.accept(to)
				p.wantRead(theirs, pattern(50_000))
				p.wantEOF(theirs)
			}
		})
	})
	t.Run("a stop after the end was read changes nothing", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		ours, theirs := p.sendStream(p.Client, p.Server)
		p.closeSend(ours)
		p.wantEOF(theirs)
		theirs.Stop(5)
		p.wantEOF(theirs)
	})
	t.Run("stopped is open on a healthy stream and closed by a reset or an end", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		healthy, _ := p.sendStream(p.Client, p.Server)
		reset, _ := p.sendStream(p.Client, p.Server)
		ended, theirs := p.sendStream(p.Client, p.Server)
		reset.Reset(1)
		p.wait("Stopped after Reset", reset.Stopped())
		p.closeSend(ended)
		p.wantEOF(theirs)
		p.wait("Stopped after Close and all read", ended.Stopped())
		if isClosed(healthy.Stopped()) {
			t.Error("Stopped is closed on a healthy stream")
		}
		p.Server.Close(0, "")
		p.wait("Stopped after the connection's end", healthy.Stopped())
	})
}
