package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// sample is a body of one field of each kind.
var sample = []byte{
	0x44, 0x01, // number 1025
	0xc8,                // priority 200, a raw byte
	0x03, 'c', 'a', 'm', // name "cam"
	0x02, 0xff, 0x00, // blob
	'r', 'e', 's', 't',
}

func TestReaderTakesABodyApartFieldByField(t *testing.T) {
	r := NewReader(sample)
	got := fmt.Sprintln(r.Varint("number"), r.Byte("priority"), r.String("name", 3), r.Bytes("blob", 2), r.Len(), string(r.Rest()), r.Len())
	if want := "1025 200 cam [255 0] 4 rest 0\n"; got != want || r.Close() != nil {
		t.Errorf("read %s, %v, want %s", got, r.Close(), want)
	}
}

func TestReaderAndWriterAreTwins(t *testing.T) {
	w := NewWriter([]byte("before"))
	w.Varint("number", 1025)
	w.Byte(200)
	w.String("name", "cam", 3)
	w.Bytes("blob", []byte{0xff, 0}, 2)
	w.Raw([]byte("rest"))
	if b, err := w.Close(); err != nil || string(b) != "before"+string(sample) {
		t.Errorf("wrote %x, %v, want %x behind \"before\"", b, err, sample)
	}
}

func TestReaderNamesTheFieldThatIsCutShort(t *testing.T) {
	for n, want := range map[int]string{
		0: "number", 1: "number", 2: "priority", 3: "name", 4: "name", 6: "name", 7: "blob", 8: "blob", 9: "blob",
	} {
		r := NewReader(sample[:n])
		r.Varint("number")
		r.Byte("priority")
		r.String("name", 3)
		r.Bytes("blob", 2)
		r.Byte("more")
		err := r.Close()
		if !errors.Is(err, ErrTruncated) || !errors.Is(err, ErrMalformed) || errors.Is(err, ErrLeftover) {
			t.Errorf("%d bytes: %v, want truncated", n, err)
		}
		if got := fmt.Sprint(err); got != want+": truncated" {
			t.Errorf("%d bytes: %q, want %q", n, got, want+": truncated")
		}
	}
}

func TestReaderKeepsItsFirstFailure(t *testing.T) {
	r := NewReader([]byte{0x02, 0xc3, 0x28, 7, 7})
	if s := r.String("name", 10); s != "" {
		t.Errorf("a string that is not UTF-8 reads as %q, want nothing", s)
	}
	if v, b := r.Varint("later"), r.Byte("last"); v != 0 || b != 0 || r.Len() != 0 {
		t.Errorf("after a failure: %d, %d, %d bytes left, want zeros", v, b, r.Len())
	}
	r.Fail("own rule", ErrTooLong)
	if got, want := fmt.Sprint(r.Close()), "name: malformed: not UTF-8"; got != want {
		t.Errorf("Close: %q, want %q", got, want)
	}
}

func TestReaderRefusesLongStringsAndLeftovers(t *testing.T) {
	r := NewReader([]byte("\x05hello"))
	r.String("name", 4)
	err := r.Close()
	if got, want := fmt.Sprint(err), "name: too long: 5 bytes, limit 4"; got != want || !errors.Is(err, ErrTooLong) || errors.Is(err, ErrMalformed) {
		t.Errorf("over the limit: %q, want %q", got, want)
	}
	r = NewReader([]byte{1, 2, 3})
	r.Byte("one")
	err = r.Close()
	if got, want := fmt.Sprint(err), "bytes left over: 2"; got != want || !errors.Is(err, ErrLeftover) || !errors.Is(err, ErrMalformed) {
		t.Errorf("leftovers: %q, want %q", got, want)
	}
}

func TestALengthBeyondTheBodyAllocatesNothingForIt(t *testing.T) {
	body := append(AppendVarint(nil, MaxVarint), "abc"...)
	before := allocated()
	r := NewReader(body)
	name := r.String("name", 1<<40)
	err := r.Close()
	if got := allocated() - before; got > 4096 {
		t.Errorf("allocated %d bytes, want at most 4096 for reader and error", got)
	}
	if !errors.Is(err, ErrTruncated) || name != "" {
		t.Errorf("read %q, %v, want truncated", name, err)
	}
}

func TestBytesAreAPartOfTheInputThatCannotGrowIntoTheNext(t *testing.T) {
	in := []byte{2, 'a', 'b', 'c'}
	p := NewReader(in).Bytes("blob", 9)
	if &p[0] != &in[1] {
		t.Error("Bytes copied, want a part of the input")
	}
	_ = append(p, 'X')
	if in[3] != 'c' {
		t.Error("appending to the field wrote into the next one")
	}
}

func TestWriterKeepsItsFirstFailureAndWritesNothing(t *testing.T) {
	for want, write := range map[string]func(*Writer){
		"a: too long: 4611686018427387904 is over 2^62-1": func(w *Writer) { w.Varint("a", 1<<62) },
		"a: too long: 3 bytes, limit 2":                   func(w *Writer) { w.String("a", "abc", 2) },
		"a: too long: 4 bytes, limit 3":                   func(w *Writer) { w.Bytes("a", []byte("abcd"), 3) },
		"a: malformed: not UTF-8":                         func(w *Writer) { w.String("a", "\xff", 2) },
	} {
		w := NewWriter([]byte("before"))
		w.Byte(1)
		write(w)
		w.Varint("b", 1<<63)
		b, err := w.Close()
		if fmt.Sprint(err) != want || string(b) != "before" {
			t.Errorf("Close: %q, %v, want %q and the bytes from before", b, err, want)
		}
	}
}

func TestPrefixPutsALengthOfAnySizeInFront(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 16383, 16384, 70000} {
		body := bytes.Repeat([]byte{'x'}, n)
		w := NewWriter([]byte("before"))
		mark := w.Mark()
		w.Raw(body)
		w.Prefix(mark)
		b, err := w.Close()
		want := append(AppendVarint([]byte("before"), uint64(n)), body...)
		if err != nil || !bytes.Equal(b, want) {
			t.Errorf("%d bytes: %.20x…, %v, want %.20x…", n, b, err, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(sample, 10)
	f.Add(AppendVarint(nil, MaxVarint), 0)
	f.Add([]byte("\x05hello"), 4)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		limit = max(limit, 0)
		r := NewReader(b)
		number, priority := r.Varint("number"), r.Byte("priority")
		name, blob, rest := r.String("name", limit), r.Bytes("blob", limit), r.Rest()
		if r.Close() != nil {
			if len(rest) != 0 {
				t.Fatalf("%d bytes left after %v", len(rest), r.Close())
			}
			return
		}
		if len(name) > limit || len(blob) > limit || !strings.HasSuffix(string(b), string(rest)) {
			t.Fatalf("name %q, blob %x over %d, or rest %x not the end", name, blob, limit, rest)
		}
		w := NewWriter(nil)
		w.Varint("number", number)
		w.Byte(priority)
		w.String("name", name, limit)
		w.Bytes("blob", blob, limit)
		w.Raw(rest)
		if again, err := w.Close(); err != nil || len(again) > len(b) {
			t.Fatalf("%x was read, but is written as %x, %v", b, again, err)
		}
	})
}
