package quic

import (
	"io"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

func TestStatsHaveRoundTripsBitrateAndPackets(t *testing.T) {
	s := newServer(t, nil)
	native, nativeServer := s.connect(t)
	web, webServer := s.connectWeb(t, "/")
	for _, pair := range [][2]transport.Conn{{native, nativeServer}, {web, webServer}} {
		echo(t, pair[0], pair[1])
		for _, c := range pair {
			st := c.Stats()
			if st.RTT <= 0 || st.Bitrate <= 0 || st.PacketsSent == 0 || st.PacketsReceived == 0 || st.BytesSent < 1200 {
				t.Errorf("%s: %+v, want figures of a connection that has moved bytes", c.Info().Kind, st)
			}
			if allocs := leastAllocs(func() { c.Stats() }); allocs != 0 {
				t.Errorf("%s: %v allocations per Stats, want 0", c.Info().Kind, allocs)
			}
		}
	}
}

func TestBitrateIsTheWindowPerRoundTrip(t *testing.T) {
	for _, row := range []struct {
		window uint64
		rtt    time.Duration
		want   int64
	}{
		{0, time.Second, 0}, {1000, 0, 0}, {1000, time.Second, 8000}, {40_960, 100 * time.Millisecond, 3_276_800},
	} {
		if got := bitrate(row.window, row.rtt); got != row.want {
			t.Errorf("%d bytes per %v: %d bit/s, want %d", row.window, row.rtt, got, row.want)
		}
	}
}

// A head that went alone would cost a packet for each stream.
func TestAHeadAndWhatFitsBesideItGoInOneWrite(t *testing.T) {
	for _, row := range []struct{ size, with, rest int }{
		{1, 4, 0}, {1000, 1003, 0}, {1100, 1103, 0}, {1101, 1103, 1}, {8192, 1103, 7092},
	} {
		r := &headRecorder{}
		s := &sendStream{str: r, conn: &nativeConn{}, head: []byte{0x40, 0x54, 0}}
		if n, err := s.Write(make([]byte, row.size)); n != row.size || err != nil {
			t.Errorf("Write of %d bytes: %d, %v", row.size, n, err)
		}
		if r.tried != row.with || r.written != row.rest || r.boundaries != 1 {
			t.Errorf("%d bytes: %d went with the head and %d after it, %d boundaries; want %d, %d and 1",
				row.size, r.tried, r.written, r.boundaries, row.with, row.rest)
		}
	}
}

// TestWithoutCreditTheHeadIsNotMadeReliable: the library would promise a final size
// beyond the peer's limit.
func TestWithoutCreditTheHeadIsNotMadeReliable(t *testing.T) {
	r := &headRecorder{full: true}
	s := &sendStream{str: r, conn: &nativeConn{}, head: []byte{0x40, 0x54, 0}}
	if n, err := s.Write(make([]byte, 50)); n != 50 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	if r.written != 53 || r.boundaries != 0 {
		t.Errorf("%d bytes were written with %d boundaries, want 53 and 0", r.written, r.boundaries)
	}
}

// headRecorder is a library's stream that counts bytes by the way they came.
type headRecorder struct {
	quicSend
	full                       bool
	tried, written, boundaries int
}

func (r *headRecorder) TryWriteAll(b []byte) error {
	if r.full {
		return io.ErrShortWrite
	}
	r.tried += len(b)
	return nil
}
func (r *headRecorder) Write(b []byte) (int, error) { r.written += len(b); return len(b), nil }
func (r *headRecorder) SetReliableBoundary()        { r.boundaries++ }
