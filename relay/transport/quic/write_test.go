package quic

import (
	"io"
	"runtime"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

// TestAWriteAllocatesFarLessThanItsBytes shows that the caller's slice goes to
// quic-go as it is: a copy for each write would allocate 256 KiB each. What is
// counted is the whole process, both ends, packets and acknowledgements.
func TestAWriteAllocatesFarLessThanItsBytes(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties pools")
	}
	for name, connect := range map[string]func(*testing.T, *server) (client, server transport.Conn){
		"quic":         func(t *testing.T, s *server) (client, server transport.Conn) { return s.connect(t) },
		"webtransport": func(t *testing.T, s *server) (client, server transport.Conn) { return s.connectWeb(t, "/") },
	} {
		t.Run(name, func(t *testing.T) {
			client, server := connect(t, newServer(t, nil))
			send, err := server.OpenSendStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			chunk := make([]byte, 256<<10)
			write := func() {
				if n, err := send.Write(chunk); n != len(chunk) || err != nil {
					t.Fatalf("Write: %d, %v", n, err)
				}
			}
			write()
			receive, err := client.AcceptReceiveStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{receive}, make([]byte, 64<<10))
				done <- err
			}()
			for range 20 { // fill the library's pools
				write()
			}
			const writes = 100
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range writes {
				write()
			}
			runtime.ReadMemStats(&after)
			perWrite := (after.TotalAlloc - before.TotalAlloc) / writes
			t.Logf("%d bytes in %d allocations per write of %d", perWrite, (after.Mallocs-before.Mallocs)/writes, len(chunk))
			if limit := uint64(len(chunk) / 4); perWrite > limit {
				t.Errorf("%d bytes allocated per write of %d, want at most %d", perWrite, len(chunk), limit)
			}
			_ = send.Close()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// leastAllocs is how many allocations a call of f makes: the least of several measures,
// since the collector or another goroutine may allocate in between.
func leastAllocs(f func()) float64 {
	least := testing.AllocsPerRun(100, f)
	for range 10 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(100, f))
	}
	return least
}

// recorder is a library's stream that remembers where the last slice was.
type recorder struct {
	quicSend
	first *byte
}

func (r *recorder) Write(p []byte) (int, error) { r.first = &p[0]; return len(p), nil }
func (r *recorder) SetPriority(int8, bool)      {}

func TestAWriteHandsTheLibraryTheVerySliceAndAllocatesNothing(t *testing.T) {
	r := &recorder{}
	s := &sendStream{str: r, conn: &nativeConn{}}
	s.headed.Store(true)
	chunk := make([]byte, 64<<10)
	if n, err := s.Write(chunk[100:]); n != len(chunk)-100 || err != nil || r.first != &chunk[100] {
		t.Errorf("Write: %d, %v, at %p; want %d at %p", n, err, r.first, len(chunk)-100, &chunk[100])
	}
	if allocs := leastAllocs(func() { _, _ = s.Write(chunk) }); allocs != 0 {
		t.Errorf("%v allocations per Write, want 0", allocs)
	}
	urgency := uint8(0)
	if allocs := leastAllocs(func() {
		urgency++
		s.SetPriority(transport.Priority{Urgency: urgency % 8})
	}); allocs != 0 {
		t.Errorf("%v allocations per SetPriority, want 0", allocs)
	}
}
