package lite

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

var everyVersion = []Version{Lite03, Lite04, Lite05, Lite06wip, Lite06, Lite07wip}

// A message is what all structs of this package are.
type message interface {
	Append(b []byte, v Version) ([]byte, error)
}

// A row is one message and its bytes, read like the draft's figure: a field a
// line, its name behind it.
type row struct {
	v   Version
	msg message
	hex string
}

// unhex turns commented hex into bytes.
func unhex(text string) []byte {
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		panic(err)
	}
	return b
}

// A reading takes one whole message off a stream.
type reading func(s *wire.StreamReader, v Version) (message, error)

// untyped is the reading of a message without a type.
func untyped[M message](decode func([]byte, Version) (M, error)) reading {
	return func(s *wire.StreamReader, v Version) (message, error) {
		body, err := s.Message()
		if err != nil {
			return nil, err
		}
		return decode(body, v)
	}
}

// readRow reads the message at the start of b and returns the bytes behind it.
func readRow(read reading, b []byte, v Version) (message, []byte, error) {
	rest := bytes.NewReader(b)
	m, err := read(v.Reader(rest, 0), v)
	left, _ := io.ReadAll(rest)
	return m, left, err
}

// A layout says where the length of a row is.
type layout bool

const (
	lengthFirst layout = false
	typeFirst   layout = true
)

// split cuts a row into what is in front of its length, and its body.
func (l layout) split(b []byte, form wire.Form) (front, body []byte) {
	n := 0
	if l == typeFirst {
		_, n = form.Parse(b)
	}
	_, length := form.Parse(b[n:])
	return b[:n:n], b[n+length:]
}

// join is the inverse of split, with any length.
func join(front []byte, length uint64, body []byte) []byte {
	return append(wire.AppendVarint(front[:len(front):len(front)], length), body...)
}

// checkRows holds every row to all that must be true of a codec.
func checkRows(t *testing.T, rows []row, layout func(Version) layout, read reading) {
	t.Helper()
	for i, r := range rows {
		t.Run(fmt.Sprintf("%d/%s", i, r.v), func(t *testing.T) {
			b := unhex(r.hex)
			checkEncoding(t, r, b)
			checkDecoding(t, r, b, read)
			checkTruncation(t, r, b, read)
			front, body := layout(r.v).split(b, r.v.Form())
			checkBodyLength(t, r.v, front, body, read)
			checkBombs(t, r.v, front, body, read)
		})
	}
}

func always(l layout) func(Version) layout { return func(Version) layout { return l } }

func checkEncoding(t *testing.T, r row, want []byte) {
	t.Helper()
	got, err := r.msg.Append([]byte("before"), r.v)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	if want := "before" + string(want); string(got) != want {
		t.Errorf("Append wrote\n%x, want\n%x", got, want)
	}
}

func checkDecoding(t *testing.T, r row, b []byte, read reading) {
	t.Helper()
	got, left, err := readRow(read, append(b[:len(b):len(b)], "behind"...), r.v)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if !reflect.DeepEqual(got, r.msg) {
		t.Errorf("decoded %+v, want %+v", got, r.msg)
	}
	if string(left) != "behind" {
		t.Errorf("the stream stands before %q, want %q", left, "behind")
	}
}

// checkTruncation cuts the stream inside the message.
func checkTruncation(t *testing.T, r row, b []byte, read reading) {
	t.Helper()
	if _, _, err := readRow(read, nil, r.v); err != io.EOF {
		t.Errorf("no byte: %v, want io.EOF", err)
	}
	for n := 1; n < len(b); n++ {
		if _, _, err := readRow(read, b[:n], r.v); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: %v, want an unexpected EOF", n, len(b), err)
		}
	}
}

// checkBodyLength makes the body shorter and longer than its fields, with a
// length that fits.
func checkBodyLength(t *testing.T, v Version, front, body []byte, read reading) {
	t.Helper()
	for n := range body {
		_, _, err := readRow(read, join(front, uint64(n), body[:n]), v)
		if !errors.Is(err, wire.ErrTruncated) || !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("body of %d instead of %d bytes: %v, want truncated", n, len(body), err)
		}
	}
	longer := append(body[:len(body):len(body)], 0)
	if _, _, err := readRow(read, join(front, uint64(len(longer)), longer), v); !errors.Is(err, wire.ErrLeftover) {
		t.Errorf("one byte more in the body: %v, want bytes left over", err)
	}
}

// checkBombs puts the largest number there is in place of the message's length,
// then in place of each byte of the body: strings, counts and parameter lengths
// among them. Nothing may be allocated for what did not come.
func checkBombs(t *testing.T, v Version, front, body []byte, read reading) {
	t.Helper()
	before := allocated()
	if _, _, err := readRow(read, join(front, wire.MaxVarint, body), v); !errors.Is(err, wire.ErrTooLong) {
		t.Errorf("declared length 2^62-1: %v, want too long", err)
	}
	for n := range body {
		bomb := wire.AppendVarint(body[:n:n], wire.MaxVarint)
		bomb = append(bomb, body[n+1:]...)
		readRow(read, join(front, uint64(len(bomb)), bomb), v)
	}
	// Each try takes a reader, a buffer of the body's size and an error, and
	// ReadAll's 512 bytes.
	if got, most := allocated()-before, uint64(len(body)+1)*4096; got > most {
		t.Errorf("%d lengths of 2^62-1 allocated %d bytes, want at most %d", len(body)+1, got, most)
	}
}

// allocated returns the bytes allocated since the start of the program.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// fuzzRows seeds f with the type and body of every row and holds decode to this:
// what can be decoded can be encoded, and is then decoded to the same.
func fuzzRows(f *testing.F, rows []row, layout func(Version) layout, decode func(typ uint64, body []byte, v Version) (message, error)) {
	f.Helper()
	for _, r := range rows {
		front, body := layout(r.v).split(unhex(r.hex), r.v.Form())
		typ, _ := r.v.Form().Parse(front)
		f.Add(uint8(r.v), typ, body)
	}
	f.Fuzz(func(t *testing.T, version uint8, typ uint64, body []byte) {
		v := everyVersion[int(version)%len(everyVersion)]
		m, err := decode(typ, body, v)
		if err != nil {
			return
		}
		b, err := m.Append(nil, v)
		if err != nil {
			t.Fatalf("%s decodes to %+v, which does not encode: %v", v, m, err)
		}
		front, body := layout(v).split(b, v.Form())
		typ, _ = v.Form().Parse(front)
		again, err := decode(typ, body, v)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%s: %+v became %+v, %v", v, m, again, err)
		}
	})
}

// ignoringType fits a Decode function of an untyped message to fuzzRows.
func ignoringType[M message](decode func([]byte, Version) (M, error)) func(uint64, []byte, Version) (message, error) {
	return func(_ uint64, body []byte, v Version) (message, error) { return decode(body, v) }
}

// wantEncodeError checks that m cannot be written and that nothing was.
func wantEncodeError(t *testing.T, m message, v Version, want error) {
	t.Helper()
	b, err := m.Append([]byte("before"), v)
	if !errors.Is(err, want) {
		t.Errorf("%s: Append of %+v: %v, want %v", v, m, err, want)
	}
	if string(b) != "before" {
		t.Errorf("%s: Append failed and returned %q, want %q", v, b, "before")
	}
}

func TestAMessageThatAVersionLacksIsNeitherWrittenNorRead(t *testing.T) {
	for _, c := range []struct {
		msg   message
		since Version
		read  func([]byte, Version) error
	}{
		{&Setup{}, Lite05, func(b []byte, v Version) error { _, err := DecodeSetup(b, v); return err }},
		{&AnnounceOK{}, Lite05, func(b []byte, v Version) error { _, err := DecodeAnnounceOK(b, v); return err }},
		{&SubscribeEnd{}, Lite05, nil}, // its number is that of DROP before
		{&Track{}, Lite05, func(b []byte, v Version) error { _, err := DecodeTrack(b, v); return err }},
		{&TrackInfo{Timescale: 1}, Lite05, func(b []byte, v Version) error { _, err := DecodeTrackInfo(b, v); return err }},
		{&Goaway{}, Lite04, func(b []byte, v Version) error { _, err := DecodeGoaway(b, v); return err }},
		{&Datagram{}, Lite05, func(b []byte, v Version) error { _, err := DecodeDatagram(b, v); return err }},
		{&Announce{Kind: AnnounceUpdate}, Lite05, nil}, // a malformed status, see the announcement tests
	} {
		for _, v := range everyVersion {
			if v >= c.since {
				if _, err := c.msg.Append(nil, v); err != nil {
					t.Errorf("%s has %T, but Append: %v", v, c.msg, err)
				}
				continue
			}
			wantEncodeError(t, c.msg, v, ErrVersion)
			if c.read == nil {
				continue
			}
			if err := c.read([]byte{0, 0, 0, 0}, v); !errors.Is(err, ErrVersion) {
				t.Errorf("%s: decoding a %T: %v, want %v", v, c.msg, err, ErrVersion)
			}
		}
	}
}

func TestAnErrorNamesMessageAndField(t *testing.T) {
	_, err := DecodeSubscribe([]byte{0x00, 0x05, 'r', 'o', 'o'}, Lite06)
	if got, want := fmt.Sprint(err), "SUBSCRIBE: broadcast: truncated"; got != want {
		t.Errorf("decoding: %q, want %q", got, want)
	}
	_, err = (&Probe{Bitrate: 1 << 62}).Append(nil, Lite06)
	if got, want := fmt.Sprint(err), "PROBE: bitrate: too long: 4611686018427387904 is over 2^62-1"; got != want {
		t.Errorf("encoding: %q, want %q", got, want)
	}
	_, err = (&Setup{}).Append(nil, Lite04)
	if got, want := fmt.Sprint(err), "SETUP: moq-lite-04: not in this version"; got != want {
		t.Errorf("wrong version: %q, want %q", got, want)
	}
}

func TestTheLargestOptionalIsOneBelowTheLargestVarint(t *testing.T) {
	m := &SubscribeUpdate{Preferences{GroupEnd: Some(wire.MaxVarint - 1)}}
	want := unhex(`
		0d                // length 13
		00                // priority
		00                // max age
		00                // group start: no floor
		ffffffffffffffff  // group end 2^62-2, plus 1
		00 00             // frame start, frame end absent`)
	if got, err := m.Append(nil, Lite06); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Append: %x, %v, want %x", got, err, want)
	}
	for _, value := range []uint64{wire.MaxVarint, 1<<64 - 1} {
		wantEncodeError(t, &SubscribeUpdate{Preferences{GroupEnd: Some(value)}}, Lite06, wire.ErrTooLong)
	}
}
