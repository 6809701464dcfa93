package transporttest

import (
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

func testAborted(t *testing.T, newPair NewPair) {
	t.Run("a reset shows though nobody reads and bytes are left", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			for _, unread := range []int{0, 1, 5000} {
				ours, theirs := p.sendStream(from, to)
				aborted := theirs.Aborted()
				p.write(ours, pattern(unread))
				if isClosed(aborted) {
					p.t.Fatal("Aborted is closed on a healthy stream")
				}
				ours.Reset(7)
				p.wait("Aborted", aborted)
				wantStreamError(p.t, readAll(theirs), 7, true)
			}
		})
	})
	t.Run("a reset shows on a bidirectional stream, either half", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			ours, theirs := p.stream(from, to)
			ours.Reset(7)
			p.wait("Aborted at the acceptor", theirs.Aborted())
			p.write(theirs, []byte("still open"))
			if isClosed(ours.Aborted()) {
				p.t.Error("Aborted is closed on the half that goes on")
			}
			theirs.Reset(8)
			p.wait("Aborted at the opener", ours.Aborted())
			wantStreamError(p.t, readAll(ours), 8, true)
		})
	})
	t.Run("one who asks late hears of it too", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		ours, theirs := p.sendStream(p.Client, p.Server)
		ours.Reset(7)
		wantStreamError(t, readAll(theirs), 7, true)
		p.wait("Aborted after the reset was read", theirs.Aborted())
	})
	t.Run("a blocked Read and Aborted both hear of it", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		ours, theirs := p.sendStream(p.Server, p.Client)
		aborted := theirs.Aborted()
		read := start(func() (int, error) { return theirs.Read(make([]byte, 1)) })
		ours.Reset(7)
		wantStreamError(t, p.result("Read", read).err, 7, true)
		p.wait("Aborted", aborted)
	})
	t.Run("a reset while another reads is never missed", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		for i := range 50 {
			ours, theirs := p.sendStream(p.Server, p.Client)
			aborted := theirs.Aborted()
			write := start(func() (int, error) { return ours.Write(pattern(100_000)) })
			p.wantRead(theirs, pattern(1000*i)) // and stops somewhere
			ours.Reset(7)
			p.wait("Aborted", aborted)
			p.result("Write", write)
			theirs.Stop(7)
		}
	})
	t.Run("an end is no reset", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			ours, theirs := p.sendStream(from, to)
			aborted := theirs.Aborted()
			p.write(ours, pattern(5000))
			p.closeSend(ours)
			p.wantRead(theirs, pattern(5000))
			p.wantEOF(theirs)
			if isClosed(aborted) {
				p.t.Error("Aborted is closed by the stream's end")
			}
			p.carry(from, to, 1000)
			if isClosed(aborted) {
				p.t.Error("Aborted is closed after the stream's end")
			}
		})
	})
}
