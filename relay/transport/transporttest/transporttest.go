package transporttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// Options are what a test needs of a pair. Both ends grant the same.
type Options struct {
	// Windows in bytes, both positive, fixed for the pair's life.
	Windows transport.Windows
	// MaxStreams is how many streams of each kind the other end may have open, positive.
	MaxStreams int64
	// Lossy says that the test will call Lose. The pair's ends should then be
	// quick to find a silent carrier lost; all others must be patient, since the
	// machine may be busy.
	Lossy bool
}

// Pair is the two ends of one connection.
type Pair struct {
	Client, Server transport.Conn
	// Lose breaks the carrier under the connection without a word to either
	// end, and both ends find out in the end; nil if the transport cannot.
	Lose func()
	// Overhead is what the transport takes of the windows and limits for itself.
	Overhead Overhead
}

// Overhead is what a transport itself uses of the credit that its two ends
// grant, so that the suite can ask for exact figures. All zero for QUIC.
type Overhead struct {
	// StreamBytes is exactly how many bytes of each stream's window go to its own header.
	StreamBytes int64
	// ConnectionBytes is at most how many bytes of the connection's window are taken by control streams.
	ConnectionBytes int64
	// LateBytes is at most how many bytes a Write has taken that get their credit
	// later: a stream that is written to next may get it instead.
	LateBytes int64
	// Streams is exactly how many of the bidirectional streams that the server
	// grants the client's transport keeps open.
	Streams int64
	// SendStreams is exactly how many of the unidirectional streams that its
	// peer grants each end's transport keeps open.
	SendStreams int64
}

// NewPair makes a connected pair and ends what it started with t.Cleanup.
type NewPair func(t *testing.T, o Options) Pair

// failsafe ends a test that hangs. It is no measure of anything.
const failsafe = 4 * time.Minute

// Run runs the whole suite against one transport.
func Run(t *testing.T, newPair NewPair) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, NewPair)
	}{
		{"info", testInfo},
		{"streams", testStreams},
		{"halves", testHalves},
		{"edges", testEdges},
		{"codes", testStreamCodes},
		{"blocked calls", testBlockedStreams},
		{"after the end", testAfterTheEnd},
		{"connection ends", testConnectionEnds},
		{"windows", testWindows},
		{"limits", testLimits},
		{"bytes", testBytes},
		{"priorities", testPriorities},
		{"datagrams", testDatagrams},
		{"aborted", testAborted},
		{"statistics", testStats},
		{"every goroutine of a connection is gone after its end", testGoroutines},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, newPair) })
	}
}

// peers is a pair inside one test.
type peers struct {
	Pair
	t   *testing.T
	ctx context.Context
}

// roomy are options under which nothing is in the way.
func roomy() Options {
	return Options{Windows: transport.Windows{Stream: 1 << 20, Connection: 4 << 20}, MaxStreams: 128}
}

func connect(t *testing.T, newPair NewPair, o Options) *peers {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), failsafe, errors.New("failsafe"))
	p := &peers{Pair: newPair(t, o), t: t, ctx: ctx}
	watchdog := time.AfterFunc(failsafe, func() {
		p.Client.Close(0, "failsafe: the test hung")
		p.Server.Close(0, "failsafe: the test hung")
	})
	t.Cleanup(func() {
		watchdog.Stop()
		cancel()
		p.Client.Close(0, "end of test")
		p.Server.Close(0, "end of test")
	})
	return p
}

// direction is one way to use a pair: who opens, who accepts.
type direction struct {
	name     string
	from, to func(p *peers) transport.Conn
}

var directions = []direction{
	{"client to server", (*peers).client, (*peers).server},
	{"server to client", (*peers).server, (*peers).client},
}

func (p *peers) client() transport.Conn { return p.Client }
func (p *peers) server() transport.Conn { return p.Server }

// bothWays runs a test once with each end as the opener.
func bothWays(t *testing.T, newPair NewPair, o Options, test func(p *peers, from, to transport.Conn)) {
	t.Helper()
	for _, d := range directions {
		t.Run(d.name, func(t *testing.T) {
			p := connect(t, newPair, o)
			test(p, d.from(p), d.to(p))
		})
	}
}

// stream opens a bidirectional stream whose first byte has been read by the acceptor.
func (p *peers) stream(from, to transport.Conn) (ours, theirs transport.Stream) {
	p.t.Helper()
	ours, err := from.OpenStream(p.ctx)
	if err != nil {
		p.t.Fatalf("OpenStream: %v", err)
	}
	p.write(ours, []byte{'!'})
	theirs, err = to.AcceptStream(p.ctx)
	if err != nil {
		p.t.Fatalf("AcceptStream: %v", err)
	}
	p.wantRead(theirs, []byte{'!'})
	return ours, theirs
}

// sendStream opens a unidirectional stream whose first byte has been read by the acceptor.
func (p *peers) sendStream(from, to transport.Conn) (transport.SendStream, transport.ReceiveStream) {
	p.t.Helper()
	ours := p.open(from)
	p.write(ours, []byte{'!'})
	theirs := p.accept(to)
	p.wantRead(theirs, []byte{'!'})
	return ours, theirs
}

func (p *peers) open(c transport.Conn) transport.SendStream {
	p.t.Helper()
	s, err := c.OpenSendStream(p.ctx)
	if err != nil {
		p.t.Fatalf("OpenSendStream: %v", err)
	}
	return s
}

func (p *peers) accept(c transport.Conn) transport.ReceiveStream {
	p.t.Helper()
	s, err := c.AcceptReceiveStream(p.ctx)
	if err != nil {
		p.t.Fatalf("AcceptReceiveStream: %v", err)
	}
	return s
}

func (p *peers) write(s io.Writer, b []byte) {
	p.t.Helper()
	if n, err := s.Write(b); n != len(b) || err != nil {
		p.t.Fatalf("Write of %d bytes: %d, %v", len(b), n, err)
	}
}

func (p *peers) closeSend(s transport.SendStream) {
	p.t.Helper()
	if err := s.Close(); err != nil {
		p.t.Fatalf("Close: %v", err)
	}
}

// wantRead reads exactly want.
func (p *peers) wantRead(s io.Reader, want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(s, got); err != nil {
		p.t.Fatalf("read %d of %d bytes: %v", n, len(want), err)
	}
	if !bytes.Equal(got, want) {
		p.t.Fatalf("read %d bytes that differ from those written", len(got))
	}
}

// wantEOF reads the end of a stream without further bytes.
func (p *peers) wantEOF(s io.Reader) {
	p.t.Helper()
	if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		p.t.Fatalf("Read at the end: %d, %v, want 0, EOF", n, err)
	}
}

func wantStreamError(t *testing.T, err error, code uint64, remote bool) {
	t.Helper()
	got, ok := errors.AsType[*transport.StreamError](err)
	if !ok {
		t.Fatalf("error is %T %v, want a StreamError with code %#x", err, err, code)
	}
	if got.Code != code || got.Remote != remote {
		t.Fatalf("stream error has code %#x, remote %v; want %#x, %v", got.Code, got.Remote, code, remote)
	}
}

func wantCloseError(t *testing.T, err error, want transport.CloseError) {
	t.Helper()
	got, ok := errors.AsType[*transport.CloseError](err)
	if !ok {
		t.Fatalf("error is %T %v, want a CloseError with code %#x", err, err, want.Code)
	}
	if *got != want {
		t.Fatalf("close error is %+v, want %+v", *got, want)
	}
}

// wait waits for a channel to be closed.
func (p *peers) wait(what string, ch <-chan struct{}) {
	p.t.Helper()
	select {
	case <-ch:
	case <-p.ctx.Done():
		p.t.Fatalf("%s: not within the failsafe of %v", what, failsafe)
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// result is what one blocked call returned.
type result struct {
	n   int
	err error
}

// start runs a call that is expected to block and returns where its result will come.
func start(call func() (int, error)) <-chan result {
	done := make(chan result, 1)
	go func() {
		n, err := call()
		done <- result{n, err}
	}()
	return done
}

func (p *peers) result(what string, done <-chan result) result {
	p.t.Helper()
	select {
	case r := <-done:
		return r
	case <-p.ctx.Done():
		p.t.Fatalf("%s: no result within the failsafe of %v", what, failsafe)
		return result{}
	}
}

// pattern is n bytes that repeat with no period of a power of two.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}
