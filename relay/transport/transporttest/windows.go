package transporttest

import (
	"io"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

func testWindows(t *testing.T, newPair NewPair) {
	for _, stream := range []int64{64 << 10, 1 << 20} {
		o := roomy()
		o.Windows = transport.Windows{Stream: stream, Connection: 4 * stream}
		t.Run(sized("a stream that is not read stops its peer at exactly", stream), func(t *testing.T) {
			bothWays(t, newPair, o, testStreamWindow)
		})
		t.Run(sized("streams share the connection's window of 4 times", stream), func(t *testing.T) {
			p := connect(t, newPair, o)
			testConnectionWindow(p, func(s transport.ReceiveStream) { p.drain(s, stream-p.Overhead.StreamBytes) })
		})
		t.Run(sized("a stop gives the credit of unread bytes back,", stream), func(t *testing.T) {
			testConnectionWindow(connect(t, newPair, o), func(s transport.ReceiveStream) { s.Stop(1) })
		})
	}
	t.Run("a reset gives the credit of unread bytes back", func(t *testing.T) {
		o := roomy()
		p := connect(t, newPair, o)
		for range 16 { // four times the connection's window
			ours := p.open(p.Client)
			p.write(ours, pattern(int(o.Windows.Stream-p.Overhead.StreamBytes-p.Overhead.ConnectionBytes)))
			theirs := p.accept(p.Server)
			p.wantRead(theirs, pattern(1))
			ours.Reset(1)
			err := readAll(theirs)
			wantStreamError(t, err, 1, true)
		}
	})
}

func sized(text string, n int64) string {
	if n == 1<<20 {
		return text + " 1 MiB"
	}
	return text + " 64 KiB"
}

// testStreamWindow: the whole window is taken without a read, then not one byte
// more, however long other streams go on; a read lets the rest through.
func testStreamWindow(p *peers, from, to transport.Conn) {
	window := int(to.Windows().Stream - p.Overhead.StreamBytes)
	ours := p.open(from)
	p.write(ours, pattern(window))
	theirs := p.accept(to)
	write := start(func() (int, error) { return ours.Write(pattern(window)) })
	p.carry(from, to, 8*window)
	p.carry(to, from, window)
	ours.Reset(2)
	if r := p.result("Write", write); r.n != 0 {
		p.t.Errorf("%d bytes went past a window of %d that nobody read, want 0", r.n, window)
	}
	err := readAll(theirs)
	wantStreamError(p.t, err, 2, true)

	ours = p.open(from)
	p.write(ours, pattern(window))
	write = start(func() (int, error) { return ours.Write(pattern(window)) })
	theirs = p.accept(to)
	p.wantRead(theirs, pattern(window))
	p.wantRead(theirs, pattern(window))
	if r := p.result("Write", write); r.n != window || r.err != nil {
		p.t.Errorf("after the read Write returned %d, %v, want %d", r.n, r.err, window)
	}
}

// testConnectionWindow stalls four streams at their windows, which is all of the
// connection's, finds a fifth one stuck, frees one and finds it going.
func testConnectionWindow(p *peers, free func(transport.ReceiveStream)) {
	window := p.Server.Windows().Stream - p.Overhead.StreamBytes
	var stalled []transport.ReceiveStream
	for i := range 4 {
		size := window
		if i == 3 {
			size -= p.Overhead.ConnectionBytes
		}
		ours := p.open(p.Client)
		p.write(ours, pattern(int(size)))
		stalled = append(stalled, p.accept(p.Server))
	}

	fifth := p.open(p.Client)
	write := start(func() (int, error) { return fifth.Write(pattern(64 << 10)) })
	p.carry(p.Server, p.Client, int(window))
	fifth.Reset(2)
	most := p.Overhead.ConnectionBytes + p.Overhead.LateBytes
	if r := p.result("Write", write); int64(r.n) > most {
		p.t.Errorf("%d bytes went past the connection's window, want at most %d", r.n, most)
	}

	free(stalled[0])
	sixth := p.open(p.Client)
	p.write(sixth, append([]byte{marker}, pattern(32<<10)...))
	p.closeSend(sixth)
	theirs := p.acceptMarked(p.Server)
	p.wantRead(theirs, pattern(32<<10))
	p.wantEOF(theirs)
}

// carry sends n bytes on a stream of its own: the transport is alive.
func (p *peers) carry(from, to transport.Conn, n int) {
	p.t.Helper()
	ours, theirs := p.stream(from, to)
	write := start(func() (int, error) { return ours.Write(pattern(n)) })
	p.wantRead(theirs, pattern(n))
	if r := p.result("Write", write); r.err != nil {
		p.t.Fatalf("carry %d bytes: %v", n, r.err)
	}
	p.closeSend(ours)
	p.closeSend(theirs)
	p.wantEOF(theirs)
	p.wantEOF(ours)
}

// drain reads n bytes.
func (p *peers) drain(s transport.ReceiveStream, n int64) {
	p.t.Helper()
	p.wantRead(s, pattern(int(n)))
}

// marker is a first byte that no pattern has.
const marker = 0xfe

// acceptMarked accepts streams until one begins with the marker; those before it
// were reset by the test and may show that or their own bytes.
func (p *peers) acceptMarked(c transport.Conn) transport.ReceiveStream {
	p.t.Helper()
	for {
		s := p.accept(c)
		first := make([]byte, 1)
		if _, err := io.ReadFull(s, first); err == nil && first[0] == marker {
			return s
		}
	}
}

// readAll reads and drops until the stream ends.
func readAll(s transport.ReceiveStream) (err error) {
	b := make([]byte, 32<<10)
	for err == nil {
		_, err = s.Read(b)
	}
	return err
}
