package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"testing"
)

// The first four are the samples of RFC 9000, appendix A.1.
var varintRows = []struct {
	hex string
	v   uint64
}{
	{"c2197c5eff14e88c", 151288809941952652},
	{"9d7f3e7d", 494878333},
	{"7bbd", 15293},
	{"25", 37},
	{"00", 0},
	{"3f", 63},
	{"4040", 64},
	{"7fff", 16383},
	{"80004000", 16384},
	{"bfffffff", 1<<30 - 1},
	{"c000000040000000", 1 << 30},
	{"ffffffffffffffff", MaxVarint},
}

func TestAVarintHasTheseBytes(t *testing.T) {
	for _, r := range varintRows {
		b, _ := hex.DecodeString(r.hex)
		if got := AppendVarint([]byte("x"), r.v); !bytes.Equal(got[1:], b) {
			t.Errorf("AppendVarint(%d) = %x, want %s", r.v, got[1:], r.hex)
		}
		if got := VarintLen(r.v); got != len(b) {
			t.Errorf("VarintLen(%d) = %d, want %d", r.v, got, len(b))
		}
		wantVarint(t, b, r.v)
	}
}

func TestALongerFormOfAVarintIsAccepted(t *testing.T) {
	for text, want := range map[string]uint64{
		"4025": 37, "80000025": 37, "c000000000000025": 37, "c000000000000000": 0, "80003fff": 16383,
	} {
		b, _ := hex.DecodeString(text)
		wantVarint(t, b, want)
	}
}

// wantVarint reads b in both ways, whole, with bytes behind it, and cut short.
func wantVarint(t *testing.T, b []byte, want uint64) {
	t.Helper()
	longer := append(bytes.Clone(b), 0xff)
	if got, n := ParseVarint(longer); got != want || n != len(b) {
		t.Errorf("ParseVarint(%x) = %d, %d, want %d, %d", longer, got, n, want, len(b))
	}
	r := bytes.NewReader(longer)
	if got, err := ReadVarint(r); got != want || err != nil || r.Len() != 1 {
		t.Errorf("ReadVarint(%x) = %d, %v with %d bytes left, want %d with 1 left", longer, got, err, r.Len(), want)
	}
	for n := range b {
		if got, used := ParseVarint(b[:n]); got != 0 || used != 0 {
			t.Errorf("ParseVarint(%x) = %d, %d, want to be asked for more", b[:n], got, used)
		}
		wantErr := io.ErrUnexpectedEOF
		if n == 0 {
			wantErr = io.EOF
		}
		if _, err := ReadVarint(bytes.NewReader(b[:n])); err != wantErr {
			t.Errorf("ReadVarint(%x): %v, want %v", b[:n], err, wantErr)
		}
	}
}

func TestANumberOver62BitsPanicsInAppendVarint(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("AppendVarint(2^62) returned")
		}
	}()
	AppendVarint(nil, 1<<62)
}

func TestZigzagKeepsSmallMagnitudesSmall(t *testing.T) {
	for d, u := range map[int64]uint64{
		0: 0, -1: 1, 1: 2, -2: 3, 2: 4, 1000: 2000, -13: 25,
		1<<61 - 1: MaxVarint - 1, -1 << 61: MaxVarint,
		1<<63 - 1: 1<<64 - 2, -1 << 63: 1<<64 - 1,
	} {
		if got := Zigzag(d); got != u {
			t.Errorf("Zigzag(%d) = %d, want %d", d, got, u)
		}
		if got := Unzigzag(u); got != d {
			t.Errorf("Unzigzag(%d) = %d, want %d", u, got, d)
		}
	}
}

func TestVarintsAllocateNothing(t *testing.T) {
	buf := make([]byte, 0, MaxVarintLen)
	for _, r := range varintRows {
		if n := testing.AllocsPerRun(100, func() { buf = AppendVarint(buf[:0], r.v) }); n != 0 {
			t.Errorf("AppendVarint(%d): %v allocations, want 0", r.v, n)
		}
		if n := testing.AllocsPerRun(100, func() { ParseVarint(buf) }); n != 0 {
			t.Errorf("ParseVarint(%x): %v allocations, want 0", buf, n)
		}
	}
}

func BenchmarkVarint(b *testing.B) {
	buf := make([]byte, 0, MaxVarintLen)
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range varintRows {
			buf = AppendVarint(buf[:0], r.v)
			if v, _ := ParseVarint(buf); v != r.v {
				b.Fatal(v)
			}
		}
	}
}

func FuzzVarint(f *testing.F) {
	for _, r := range varintRows {
		b, _ := hex.DecodeString(r.hex)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, n := ParseVarint(b)
		read, err := ReadVarint(bytes.NewReader(b))
		if (n == 0) != (err != nil) || read != v && err == nil {
			t.Fatalf("%x: parsed %d, %d, read %d, %v", b, v, n, read, err)
		}
		if n == 0 {
			if len(b) >= MaxVarintLen || len(b) == 0 && !errors.Is(err, io.EOF) {
				t.Fatalf("%x: asked for more, %v", b, err)
			}
			return
		}
		again := AppendVarint(nil, v)
		if back, m := ParseVarint(again); back != v || m != len(again) || m > n {
			t.Fatalf("%x is %d, which becomes %x", b[:n], v, again)
		}
	})
}
