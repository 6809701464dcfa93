package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAStreamReaderNeverReadsPastItsMessage(t *testing.T) {
	// two messages of 3 and 600 bytes, then payload that someone else reads
	long := strings.Repeat("b", 600)
	in := "\x02" + "\x03abc" + "\x42\x58" + long + "payload"
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"all at once":     func(r io.Reader) io.Reader { return r },
		"byte by byte":    iotest.OneByteReader,
		"by halves":       iotest.HalfReader,
		"error with data": iotest.DataErrReader,
	} {
		stream := wrap(strings.NewReader(in))
		s := NewStreamReader(stream, 0)
		typ, err := s.Varint("stream type")
		if typ != 2 || err != nil {
			t.Errorf("%s: stream type %d, %v, want 2", name, typ, err)
		}
		for _, want := range []string{"abc", long} {
			body, err := s.Message()
			if err != nil || string(body) != want {
				t.Errorf("%s: message %.10q, %v, want %.10q", name, body, err, want)
			}
		}
		if rest, err := io.ReadAll(stream); err != nil || string(rest) != "payload" {
			t.Errorf("%s: behind the messages %q, %v, want \"payload\"", name, rest, err)
		}
	}
}

func TestACleanEndIsToldFromAnEndInside(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "EOF",
		"\x40":             "message type: unexpected EOF",
		"\x07":             "message length: unexpected EOF",
		"\x07\x80\x00":     "message length: unexpected EOF",
		"\x07\x03":         "message body: unexpected EOF",
		"\x07\x03ab":       "message body: unexpected EOF",
		"\x40\x07\x40\x03": "message body: unexpected EOF",
	} {
		_, _, err := NewStreamReader(strings.NewReader(in), 0).Typed()
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if in != "" && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v, want an unexpected EOF", in, err)
		}
	}
	typ, body, err := NewStreamReader(strings.NewReader("\x07\x00"), 0).Typed()
	if typ != 7 || len(body) != 0 || err != nil {
		t.Errorf("an empty message: %d, %q, %v, want 7 and nothing", typ, body, err)
	}
}

// The error of a reset stream must come out, wherever it strikes.
func TestAStreamsOwnErrorIsPassedOn(t *testing.T) {
	reset := errors.New("reset with code 1")
	for n := range 4 {
		stream := io.MultiReader(strings.NewReader("\x02\x02a"[:n]), iotest.ErrReader(reset))
		if _, _, err := NewStreamReader(stream, 0).Typed(); !errors.Is(err, reset) {
			t.Errorf("after %d bytes: %v, want %v", n, err, reset)
		}
	}
}

func TestALengthOverTheLimitIsRefusedBeforeTheBodyIsRead(t *testing.T) {
	for _, c := range []struct {
		length uint64
		limit  int
		fails  bool
	}{
		{65536, 0, false},
		{65537, 0, true},
		{65535, 65535, false},
		{65536, 65535, true},
		{MaxVarint, 0, true},
	} {
		in := AppendVarint(nil, c.length)
		body := strings.NewReader(strings.Repeat("x", 70000))
		s := NewStreamReader(io.MultiReader(bytes.NewReader(in), body), c.limit)
		got, err := s.Message()
		if errors.Is(err, ErrTooLong) != c.fails {
			t.Errorf("length %d, limit %d: %v, want too long: %v", c.length, c.limit, err, c.fails)
		}
		if c.fails && body.Len() != 70000 || !c.fails && uint64(len(got)) != c.length {
			t.Errorf("length %d, limit %d: %d bytes returned, %d left", c.length, c.limit, len(got), body.Len())
		}
	}
}

// allocated returns the bytes allocated since the start of the program.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// A limit may be large; what is held is bounded by what has arrived.
func TestMemoryGrowsWithTheBytesThatArrive(t *testing.T) {
	const limit = 1 << 40
	for _, arrived := range []int{0, 100, 10_000, 1_000_000} {
		in := AppendVarint(nil, limit)
		in = append(in, make([]byte, arrived)...)
		s := NewStreamReader(bytes.NewReader(in), limit)
		before := allocated()
		_, err := s.Message()
		grown := allocated() - before
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes arrived: %v, want an unexpected EOF", arrived, err)
		}
		// Doubling: buffers of 512, 1,024, … up to twice what came, in sum four times.
		if most := uint64(4*arrived + 8192); grown > most {
			t.Errorf("%d bytes arrived of 2^40: allocated %d, want at most %d", arrived, grown, most)
		}
	}
}

func TestABufferIsReusedWhenSmallAndLetGoWhenLarge(t *testing.T) {
	small := append(AppendVarint(nil, 500), make([]byte, 500)...)
	stream := bytes.NewReader(nil)
	s := NewStreamReader(stream, 0)
	allocs := testing.AllocsPerRun(100, func() {
		stream.Reset(small)
		if _, err := s.Message(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("a message of 500 bytes took %v allocations, want 0", allocs)
	}
	stream.Reset(append(AppendVarint(nil, 60000), make([]byte, 60000)...))
	if _, err := s.Message(); err != nil || cap(s.body) < 60000 {
		t.Fatalf("a message of 60,000 bytes: %v", err)
	}
	if _, err := s.Message(); err != io.EOF || s.body != nil {
		t.Errorf("while waiting for the next message: %v, holding %d bytes, want io.EOF and none", err, cap(s.body))
	}
}

func TestEndTellsAFinFromMoreBytes(t *testing.T) {
	if err := NewStreamReader(strings.NewReader(""), 0).End(); err != nil {
		t.Errorf("after the FIN: %v", err)
	}
	if err := NewStreamReader(strings.NewReader("x"), 0).End(); !errors.Is(err, ErrLeftover) {
		t.Errorf("with a byte more: %v, want %v", err, ErrLeftover)
	}
	reset := errors.New("reset")
	if err := NewStreamReader(iotest.ErrReader(reset), 0).End(); !errors.Is(err, reset) {
		t.Errorf("after a reset: %v, want %v", err, reset)
	}
}

func TestMessageAsksForMoreUntilTheBodyIsThere(t *testing.T) {
	in := []byte("\x40\x03abcd")
	for n := range 5 {
		if body, used, err := QUIC.Message(in[:n], 3); body != nil || used != 0 || err != nil {
			t.Errorf("%d bytes: %q, %d, %v, want to be asked for more", n, body, used, err)
		}
	}
	body, used, err := QUIC.Message(in, 3)
	if string(body) != "abc" || used != 5 || err != nil || &body[0] != &in[2] {
		t.Errorf("%q, %d, %v, want abc and 5, without a copy", body, used, err)
	}
	if _, used, err := QUIC.Message(in[:2], 2); !errors.Is(err, ErrTooLong) || used != 0 {
		t.Errorf("over the limit: %d, %v, want too long at once", used, err)
	}
	if body, used, err := QUIC.Message([]byte{0}, 0); len(body) != 0 || used != 1 || err != nil {
		t.Errorf("an empty message: %q, %d, %v, want nothing and 1", body, used, err)
	}
}

// Reading from a stream and parsing a slice give the same messages.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("\x03abc\x00\x40\x01x"), 64)
	f.Add(AppendVarint(nil, MaxVarint), 1<<30)
	f.Add([]byte("\x05abc"), 4)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit = max(limit, 1)
		stream := bytes.NewReader(in)
		s := NewStreamReader(iotest.HalfReader(stream), limit)
		rest := in
		for {
			body, err := s.Message()
			parsed, n, parseErr := QUIC.Message(rest, limit)
			if err != nil {
				if n != 0 || errors.Is(err, ErrTooLong) != (parseErr != nil) {
					t.Fatalf("read %v, parsed %q, %d, %v", err, parsed, n, parseErr)
				}
				return
			}
			rest = rest[n:]
			if !bytes.Equal(body, parsed) || stream.Len() != len(rest) {
				t.Fatalf("read %q, parsed %q; %d and %d bytes left", body, parsed, stream.Len(), len(rest))
			}
		}
	})
}

func TestALostConnectionIsNoCleanEnd(t *testing.T) {
	lost := fmt.Errorf("carrier lost: %w", io.EOF)
	for name, read := range map[string]func(*StreamReader) error{
		"Varint":  func(s *StreamReader) error { _, err := s.Varint("type"); return err },
		"Message": func(s *StreamReader) error { _, err := s.Message(); return err },
		"Typed":   func(s *StreamReader) error { _, _, err := s.Typed(); return err },
		"End":     (*StreamReader).End,
	} {
		if err := read(NewStreamReader(iotest.ErrReader(lost), 0)); err == nil || err == io.EOF {
			t.Errorf("%s: %v, want the loss and no clean end", name, err)
		}
	}
}
