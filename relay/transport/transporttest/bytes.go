package transporttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

func testBytes(t *testing.T, newPair NewPair) {
	t.Run("8 MiB arrive exactly, both ways at once, in writes of all sizes", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		data := pattern(8 << 20)
		ours, theirs := p.stream(p.Client, p.Server)
		var all sync.WaitGroup
		for _, s := range []transport.Stream{ours, theirs} {
			all.Go(func() { writePieces(p, s, data) })
			all.Go(func() { wantHash(p, s, data) })
		}
		all.Wait()
	})
	t.Run("write keeps no byte of its slice after it returned", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			ours, theirs := p.sendStream(from, to)
			var all sync.WaitGroup
			all.Go(func() { wantHash(p, theirs, bytes.Repeat(pattern(3000), 500)) })
			buf := make([]byte, 3000)
			for range 500 {
				copy(buf, pattern(3000))
				p.write(ours, buf)
				clear(buf) // what a kept reference would send
			}
			p.closeSend(ours)
			all.Wait()
		})
	})
	t.Run("one slice is written to eight streams at once and never changed", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		shared := pattern(2 << 20)
		before := sha256.Sum256(shared)
		var all sync.WaitGroup
		for range 8 {
			ours, theirs := p.sendStream(p.Server, p.Client)
			all.Go(func() {
				if n, err := ours.Write(shared); n != len(shared) || err != nil {
					t.Errorf("Write: %d, %v", n, err)
				}
				_ = ours.Close()
			})
			all.Go(func() { wantHash(p, theirs, shared) })
		}
		all.Wait()
		if after := sha256.Sum256(shared); after != before {
			t.Error("the shared slice was changed")
		}
	})
	t.Run("200 streams opened at once from each end carry their own bytes", func(t *testing.T) {
		p := connect(t, newPair, roomy()) // 128 at a time
		var all sync.WaitGroup
		for _, c := range []transport.Conn{p.Client, p.Server} {
			for i := range 200 {
				all.Go(func() { callEcho(p, c, i) })
			}
			all.Go(func() { serveEcho(p, c, 200) })
		}
		all.Wait()
	})
}

// writePieces writes data in pieces of 1 byte to 100 KB and ends the stream.
func writePieces(p *peers, s transport.SendStream, data []byte) {
	for i := 0; len(data) > 0; i++ {
		n := min([]int{1, 64, 1452, 1453, 8192, 100_000}[i%6], len(data))
		if m, err := s.Write(data[:n]); m != n || err != nil {
			p.t.Errorf("Write of %d bytes: %d, %v", n, m, err)
			return
		}
		data = data[n:]
	}
	if err := s.Close(); err != nil {
		p.t.Errorf("Close: %v", err)
	}
}

// wantHash reads a stream to its end and compares.
func wantHash(p *peers, s transport.ReceiveStream, want []byte) {
	h := sha256.New()
	n, err := io.Copy(h, s)
	if err != nil || n != int64(len(want)) {
		p.t.Errorf("read %d of %d bytes: %v", n, len(want), err)
		return
	}
	if [32]byte(h.Sum(nil)) != sha256.Sum256(want) {
		p.t.Errorf("the %d bytes read are not those written", n)
	}
}

// callEcho sends a number and 5 KB of it, and wants the same back.
func callEcho(p *peers, c transport.Conn, i int) {
	s, err := c.OpenStream(p.ctx)
	if err != nil {
		p.t.Errorf("stream %d: open: %v", i, err)
		return
	}
	want := bytes.Repeat(binary.BigEndian.AppendUint32(nil, uint32(i)), 1250)
	if err := exchange(s, want); err != nil {
		p.t.Errorf("stream %d: %v", i, err)
	}
}

func exchange(s transport.Stream, want []byte) error {
	if _, err := s.Write(want); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	got, err := io.ReadAll(s)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes came back that are not the %d sent", len(got), len(want))
	}
	return nil
}

func serveEcho(p *peers, c transport.Conn, n int) {
	var all sync.WaitGroup
	defer all.Wait()
	for range n {
		s, err := c.AcceptStream(p.ctx)
		if err != nil {
			p.t.Errorf("AcceptStream: %v", err)
			return
		}
		all.Go(func() {
			if _, err := io.Copy(s, s); err != nil {
				p.t.Errorf("echo: %v", err)
			}
			_ = s.Close()
		})
	}
}
