package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
)

func TestEveryErrorOfTheModelHasItsCode(t *testing.T) {
	rows := []struct {
		err  error
		code uint64
	}{
		{model.ErrUnroutable, 0x36},
		{model.ErrNotFound, 0x33},
		{model.ErrUpstreamTimeout, 0x31},
		{model.ErrSourceGone, 0x3},
		{model.ErrLagged, 0x5},
		{model.ErrExpired, 0x34},
		{model.ErrEvicted, 0x35},
		{model.ErrFrameTooLarge, 0x38},
		{model.ErrNoCapacity, 0x30},
		{model.ErrDuplicate, 0x1},
		{model.ErrClosed, 0x1},
		{model.ErrCancelled, 0x1},
		{ErrGoingAway, 0x4},
		{ErrLimit, 0x30},
		{ErrMalformed, 0x12},
		{ErrWrongSize, 0x37},
		{&model.AbortError{Code: 0x4d}, 0x4d},
		{context.Canceled, 0x1},
		{errors.New("another"), 0x0},
	}
	for _, row := range rows {
		if got := StreamCode(fmt.Errorf("wrapped: %w", row.err)); got != row.code {
			t.Errorf("%v has code %#x, want %#x", row.err, got, row.code)
		}
	}
}

func TestTheWindowIsTheSmallerOfWhatIsGranted(t *testing.T) {
	rows := []struct {
		granted transport.Windows
		ceiling int64
		bytes   int64
		reserve int64
		guarded bool
	}{
		{transport.Windows{Stream: 1 << 20, Connection: 4 << 20}, 16 << 20, 1 << 20, 1 << 20, true},
		{transport.Windows{Stream: 8 << 20, Connection: 4 << 20}, 16 << 20, 4 << 20, 4 << 20, true},
		{transport.Windows{Stream: 32 << 20, Connection: 64 << 20}, 16 << 20, 16 << 20, 32 << 20, true},
		{transport.Windows{Stream: 1 << 20}, 16 << 20, 1 << 20, 0, false},
		{transport.Windows{}, 16 << 20, 0, 0, false},
	}
	for _, row := range rows {
		_, conn := transport.Pipe(transport.PipeConfig{Server: transport.PipeGrant{Windows: row.granted}})
		w := CapWindow(NewWindow(conn), row.ceiling)
		if w.Bytes != row.bytes || w.Reserve != row.reserve || (w.Credit != nil) != row.guarded {
			t.Errorf("%+v gives %+v, want %d bytes, %d reserved, guarded %v", row.granted, w, row.bytes, row.reserve, row.guarded)
		}
	}
}

// track is a track with one subscriber.
type track struct {
	*model.Producer
	sub *model.Subscription
}

func (t *track) Pull(p *model.Producer) {
	t.Producer = p
	p.Accept(model.Info{Timescale: 1000, MaxAge: time.Minute})
}

func newTrack(t *testing.T, o model.Options) *track {
	t.Helper()
	origin := model.NewOrigin(model.Config{ID: 1})
	tr := &track{}
	origin.Announce(model.Route{Path: "cam", Source: tr})
	var err error
	if tr.sub, err = origin.Subscribe("cam", "video", model.Peer{}, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.sub.Close()
		advance(time.Minute) // of the bubble's time: timers of the model
	})
	return tr
}

// group publishes a group of frames without closing it; one without frames is
// given to nobody before it has ended, so that one is closed.
func (tr *track) group(t *testing.T, seq uint64, sizes ...int) (*model.GroupWriter, *model.Reader) {
	t.Helper()
	g, err := tr.Group(seq, model.Window{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range sizes {
		if err := g.WriteFrame(t.Context(), []byte{0, 0x80, byte(n >> 16), byte(n >> 8), byte(n)}, 0, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if len(sizes) == 0 {
		if err := g.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := tr.sub.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g, r
}

// recorder is a stream that notes the sizes of writes, and takes all of them.
type recorder struct {
	transport.SendStream
	stopped chan struct{}

	mu     sync.Mutex
	writes []int
	ended  string
}

func newRecorder() *recorder { return &recorder{stopped: make(chan struct{})} }

func newMeter() Meter { return new(Traffic).Meter() }

func newSender() *Sender { return NewSender(&Counters{}, nil) }

func (s *recorder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, len(p))
	return len(p), nil
}

func (s *recorder) end(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == "" {
		s.ended = how
		close(s.stopped)
	}
}

func (s *recorder) Close() error {
	s.end("fin")
	return nil
}

func (s *recorder) Reset(code uint64)        { s.end(fmt.Sprintf("reset %#x", code)) }
func (s *recorder) Stopped() <-chan struct{} { return s.stopped }

func TestAHeaderGoesInOnePacketWithWhatFits(t *testing.T) {
	header := []byte{1, 2, 3}
	head := func(b []byte, f model.Frame) []byte { return append(b, 9, 9) }
	rows := []struct {
		name  string
		form  Form
		sizes []int
		first int // bytes of the first write; 0: as the group's chunks have it
		total int
	}{
		{"small frame", Form{Header: header}, []int{1000}, 3 + 5 + 1000, 1008},
		{"8 KiB", Form{Header: header}, []int{8192}, 1200, 3 + 5 + 8192},
		{"own heads", Form{Header: header, Head: head}, []int{8192, 10}, 0, 3 + 2 + 8192 + 2 + 10},
		{"own heads and an empty frame", Form{Header: header, Head: head}, []int{0, 10}, 3 + 2, 3 + 2 + 2 + 10},
		{"own first head", Form{Header: header, Head: head, FirstOnly: true}, []int{10, 20, 30}, 3 + 2 + 10, 3 + 2 + 10 + 5 + 20 + 5 + 30},
		{"no frame", Form{Header: header}, nil, 3, 3},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrack(t, model.Options{})
				g, r := tr.group(t, 0, row.sizes...)
				if err := g.Finish(); err != nil {
					t.Fatal(err)
				}
				c := newRecorder()
				begun := 0
				row.form.Begun = func() { begun++ }
				counters := &Counters{}
				if err := NewSender(counters, nil).Send(t.Context(), c, r, row.form); err != nil {
					t.Fatal(err)
				}
				out := &counters.Out
				if b, f, g := out.Bytes.Load(), out.Frames.Load(), out.Groups.Load(); b != int64(row.total-3) || f != int64(len(row.sizes)) || g != 1 {
					t.Errorf("%d bytes, %d frames and %d groups are counted, want %d, %d and 1", b, f, g, row.total-3, len(row.sizes))
				}
				if total(c.writes) != row.total || row.first != 0 && c.writes[0] != row.first {
					t.Errorf("writes are %v, want %d bytes, %d of them first", c.writes, row.total, row.first)
				}
				if c.ended != "fin" || begun != 1 {
					t.Errorf("ended with %q, begun %d times", c.ended, begun)
				}
			})
		})
	}
}

func total(ns []int) (sum int) {
	for _, n := range ns {
		sum += n
	}
	return sum
}

func TestLargeFramesWithOwnHeadsAreWrittenFromTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrack(t, model.Options{})
		g, r := tr.group(t, 0, 200_000)
		if err := g.Finish(); err != nil {
			t.Fatal(err)
		}
		c := newRecorder()
		form := Form{Header: []byte{1}, Head: func(b []byte, f model.Frame) []byte { return append(b, 2) }}
		if err := newSender().Send(t.Context(), c, r, form); err != nil {
			t.Fatal(err)
		}
		if got := total(c.writes); got != 200_002 {
			t.Fatalf("%d bytes were written, want 200,002: %v", got, c.writes)
		}
	})
}

func TestAGroupThatIsCutEndsItsStreamWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrack(t, model.Options{})
		_, r := tr.group(t, 0, 10)
		c := newRecorder()
		var err error
		var task sync.WaitGroup
		task.Go(func() { err = newSender().Send(t.Context(), c, r, Form{Header: []byte{1}}) })
		synctest.Wait()
		_, newer := tr.group(t, 1, 10)
		defer newer.Close()
		task.Wait()
		if !errors.Is(err, model.ErrExpired) {
			t.Fatalf("it ends with %v, want %v", err, model.ErrExpired)
		}
		if c.ended != "reset 0x34" {
			t.Fatalf("the stream ends with %q", c.ended)
		}
	})
}

// plain reads frames of a length byte and as many bytes.
type plain struct{}

func (plain) Next(in *bufio.Reader) (Head, error) {
	n, err := in.ReadByte()
	if err != nil {
		return Head{}, err
	}
	return Head{Stored: []byte{0, n}, Size: int64(n)}, nil
}

// ingest runs Ingest on a stream of a pipe and returns the sending half.
func ingest(t *testing.T, tr *track, seq uint64, result *error) (transport.SendStream, *sync.WaitGroup) {
	t.Helper()
	c, s := transport.Pipe(transport.PipeConfig{})
	t.Cleanup(func() { c.Close(0, "") })
	out, err := c.OpenSendStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte{2, 'a', 'b', 3, 'c'}); err != nil {
		t.Fatal(err)
	}
	in, err := s.AcceptReceiveStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g, err := tr.Group(seq, model.Window{})
	if err != nil {
		t.Fatal(err)
	}
	task := &sync.WaitGroup{}
	task.Go(func() {
		b := OpenBuffer(in)
		defer CloseBuffer(b)
		*result = Ingest(t.Context(), in, b, g, plain{}, newMeter())
	})
	synctest.Wait()
	return out, task
}

func TestIngestEndsTheGroupAsItsStreamEnds(t *testing.T) {
	rows := []struct {
		name string
		end  func(transport.SendStream)
		want error
		code uint64
	}{
		{"FIN", func(s transport.SendStream) { _, _ = s.Write([]byte("de")); _ = s.Close() }, io.EOF, 0},
		{"FIN inside a frame", func(s transport.SendStream) { _ = s.Close() }, ErrWrongSize, 0x37},
		{"reset", func(s transport.SendStream) { s.Reset(0x41) }, &model.AbortError{}, 0x41},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrack(t, model.Options{})
				var err error
				out, task := ingest(t, tr, 0, &err)
				r, e := tr.sub.Next(t.Context())
				if e != nil {
					t.Fatal(e)
				}
				defer r.Close()
				row.end(out)
				task.Wait()
				if (err == nil) != (row.want == io.EOF) {
					t.Fatalf("ingest ends with %v", err)
				}
				got, err := readGroup(t, r)
				if want := "\x00\x02ab\x00\x03c"; got[:len(want)] != want {
					t.Errorf("the reader got %q, want %q first", got, want)
				}
				if row.want == io.EOF && err != io.EOF || row.want != io.EOF && StreamCode(err) != row.code {
					t.Errorf("the reader's end is %v, want %v", err, row.want)
				}
			})
		})
	}
}

func TestAResetEndsAPauseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrack(t, model.Options{})
		c, s := transport.Pipe(transport.PipeConfig{})
		defer c.Close(0, "")
		out, err := c.OpenSendStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // 2 bytes of head, 100 of payload, charged with 128 more
			if _, err := out.Write(append([]byte{100}, make([]byte, 100)...)); err != nil {
				t.Fatal(err)
			}
		}
		in, err := s.AcceptReceiveStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g, err := tr.Group(0, model.Window{Bytes: 500})
		if err != nil {
			t.Fatal(err)
		}
		traffic := new(Traffic)
		var task sync.WaitGroup
		task.Go(func() { err = Ingest(t.Context(), in, bufio.NewReaderSize(in, 32), g, plain{}, traffic.Meter()) })
		synctest.Wait()
		if n := traffic.Bytes.Load(); n != 2*102 || traffic.Frames.Load() != 2 {
			t.Errorf("before the reset %d bytes and %d frames are counted, want 204 and 2", n, traffic.Frames.Load())
		}
		out.Reset(0x41)
		task.Wait()
		if abort, ok := errors.AsType[*model.AbortError](err); !ok || abort.Code != 0x41 {
			t.Fatalf("ingest ends with %v, want the publisher's code 0x41", err)
		}
		r, err := tr.sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := readGroup(t, r); len(got) != 204 || StreamCode(err) != 0x41 {
			t.Fatalf("the reader got %d bytes and then %v, want both frames and 0x41", len(got), err)
		}
	})
}

// readGroup takes all that a reader gives, and returns how it ended.
func readGroup(t *testing.T, r *model.Reader) (got string, err error) {
	t.Helper()
	for {
		p, err := r.Next(t.Context())
		if err != nil {
			return got, err
		}
		got += string(p)
		r.Taken(len(p))
	}
}

func TestIngestStopsTheStreamOfAGroupThatNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrack(t, model.Options{})
		var err error
		out, task := ingest(t, tr, 0, &err)
		r, e := tr.sub.Next(t.Context())
		if e != nil {
			t.Fatal(e)
		}
		r.Close() // the only reader leaves
		_, newer := tr.group(t, 1, 10)
		defer newer.Close()
		task.Wait()
		if !errors.Is(err, model.ErrExpired) {
			t.Fatalf("ingest ends with %v, want %v", err, model.ErrExpired)
		}
		<-out.Stopped()
		_, err = out.Write([]byte{0})
		if stop, ok := errors.AsType[*transport.StreamError](err); !ok || stop.Code != 0x34 {
			t.Fatalf("the stream ends with %v, want code 0x34", err)
		}
	})
}

// advance lets so much of a synctest bubble's time pass.
func advance(d time.Duration) { <-time.After(d) }
