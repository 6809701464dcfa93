package load

import (
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"
	"time"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// streamOf is a stream that has these bytes.
type streamOf struct {
	transport.ReceiveStream
	from io.Reader
}

func (s streamOf) Read(p []byte) (int, error) { return s.from.Read(p) }

// newSeat is a seat at a screen of 30 frames in each group, all of which count.
func newSeat() *seat {
	s := &screen{perGroup: 30}
	s.end.Store(math.MaxUint64)
	return &seat{screen: s, there: make(chan struct{})}
}

// groupStream is a group's stream, behind its type, with frames of these sizes.
func groupStream(t *testing.T, group uint64, sizes ...int) []byte {
	t.Helper()
	b, err := (&lite.Group{Sequence: group}).Append(nil, lite.Lite06)
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range sizes {
		if b, err = (lite.FrameHead{Timestamp: int64(i), Size: uint64(size)}).Append(b, lite.Lite06, int64(max(i-1, 0))); err != nil {
			t.Fatal(err)
		}
		b = AppendPayload(b, Place{group, uint32(i)}, size, time.Now())
	}
	return b
}

// watch has a seat read a stream.
func watch(t *testing.T, s *seat, from io.Reader) {
	t.Helper()
	in := tapReader{from: streamOf{from: from}, buf: new([tapBuffer]byte)}
	s.readGroup(t.Context(), &in, lite.Lite06)
}

func TestASeatCountsWholeFramesHoweverTheStreamIsCut(t *testing.T) {
	for _, checks := range []bool{false, true} {
		for name, cut := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
		} {
			s := newSeat()
			s.checks = checks
			stream := groupStream(t, 7, 44, 8192, 100_000, 45)
			watch(t, s, cut(&sliceReader{stream}))
			if s.fault != nil || s.counted != 4 || s.bytes != 108_281 || s.latency.total != 4 {
				t.Errorf("%s, checks %v: %d frames, %d bytes, %v; want 4 and 108281", name, checks, s.counted, s.bytes, s.fault)
			}
		}
	}
}

// sliceReader gives out its bytes and then io.EOF.
type sliceReader struct{ b []byte }

func (r *sliceReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.b)
	r.b = r.b[n:]
	return n, nil
}

func TestAFrameThatIsCutShortDoesNotCount(t *testing.T) {
	stream := groupStream(t, 0, 8192, 8192)
	for _, length := range []int{len(stream) - 1, len(stream) - 8000, len(stream) - 8193} {
		s := newSeat()
		watch(t, s, &sliceReader{stream[:length]})
		if s.counted != 1 || s.fault != nil {
			t.Errorf("of %d bytes %d frames counted, with %v; want 1", length, s.counted, s.fault)
		}
	}
}

func TestAPayloadOfAnotherPlaceIsAFault(t *testing.T) {
	stream := groupStream(t, 3, 100)
	head, err := (&lite.Group{Sequence: 3}).Append(nil, lite.Lite06)
	if err != nil {
		t.Fatal(err)
	}
	other, err := (&lite.Group{Sequence: 4}).Append(nil, lite.Lite06)
	if err != nil {
		t.Fatal(err)
	}
	s := newSeat()
	watch(t, s, &sliceReader{append(other, stream[len(head):]...)})
	if !errors.Is(s.fault, ErrCorrupt) || s.counted != 0 {
		t.Errorf("%d frames counted, fault %v", s.counted, s.fault)
	}
}

func TestOnlyTheFirstSeatLooksAtEveryByte(t *testing.T) {
	stream := groupStream(t, 3, 100)
	stream[len(stream)-1] ^= 1
	for _, checks := range []bool{true, false} {
		s := newSeat()
		s.checks = checks
		watch(t, s, &sliceReader{stream})
		if (s.fault != nil) != checks {
			t.Errorf("checks %v: fault %v", checks, s.fault)
		}
	}
}

func TestFramesOutsideTheMeasuredOnesDoNotCount(t *testing.T) {
	s := newSeat()
	s.screen.first.Store(31)
	s.screen.end.Store(33)
	watch(t, s, &sliceReader{groupStream(t, 1, 50, 50, 50, 50)}) // frames 30 to 33 of the track
	if s.counted != 2 || s.bytes != 100 {
		t.Errorf("%d frames, %d bytes counted; want 2 and 100", s.counted, s.bytes)
	}
}

func TestTheLongestStallIsBetweenFramesThatCount(t *testing.T) {
	s := newSeat()
	s.screen.first.Store(1)
	at := func(frame uint32, seconds float64) {
		s.took(Place{0, frame}, 50, noon, noon.Add(time.Duration(seconds*float64(time.Second))))
	}
	at(0, 5) // before the measured ones: the time up to it does not count
	at(1, 6)
	at(2, 8.5)
	at(3, 9)
	if s.stall != 2500*time.Millisecond {
		t.Errorf("longest stall %v, want 2.5s", s.stall)
	}
	var r FanoutReport
	if err := r.add(s, 4, noon.Add(15*time.Second)); err != nil {
		t.Fatal(err)
	}
	if r.Stall != 6000 {
		t.Errorf("with a frame missing at the end the longest stall is %v ms, want 6000", r.Stall)
	}
}

func FuzzASeatReadsAnyStream(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{4, 0, 0, 0, 0, 0, 50})
	f.Add(AppendPayload([]byte{3, 0, 1, 0, 0, 44}, Place{1, 0}, 44, noon))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newSeat()
		watch(t, s, &sliceReader{b})
		if s.bytes > uint64(len(b)) {
			t.Errorf("%d bytes counted of a stream of %d", s.bytes, len(b))
		}
	})
}
