package wire_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// leadingOnes are numbers and their bytes: the edges of every length.
var leadingOnes = []struct {
	v   uint64
	hex string
}{
	{0, "00"},
	{200 - 73, "7f"},
	{128, "8080"},
	{200, "80c8"},
	{0x1234, "9234"},
	{1<<14 - 1, "bfff"},
	{1 << 14, "c04000"},
	{1<<21 - 1, "dfffff"},
	{1 << 21, "e0200000"},
	{1<<28 - 1, "efffffff"},
	{1 << 28, "f010000000"},
	{1<<35 - 1, "f7ffffffff"},
	{1 << 35, "f80800000000"},
	{1<<42 - 1, "fbffffffffff"},
	{1 << 42, "fe00040000000000"}, // not in 7 bytes
	{1<<49 - 1, "fe01ffffffffffff"},
	{1<<56 - 1, "feffffffffffffff"},
	{1 << 56, "ff0100000000000000"},
	{math.MaxUint64, "ffffffffffffffffff"},
}

func TestLeadingOnesWritesTheBytesAndReadsThemBack(t *testing.T) {
	for _, row := range leadingOnes {
		want, err := hex.DecodeString(row.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got := wire.LeadingOnes.Append([]byte{7}, row.v); !bytes.Equal(got, append([]byte{7}, want...)) {
			t.Errorf("%#x is written as %x, want 07%s", row.v, got, row.hex)
		}
		if got := wire.LeadingOnes.Len(row.v); got != len(want) {
			t.Errorf("%#x takes %d bytes, want %d", row.v, got, len(want))
		}
		for cut := range len(want) {
			if v, n := wire.LeadingOnes.Parse(want[:cut]); n != 0 {
				t.Errorf("%x: %d bytes are read as %#x", want, cut, v)
			}
		}
		if v, n := wire.LeadingOnes.Parse(append(want, 0xee)); v != row.v || n != len(want) {
			t.Errorf("%x is read as %#x of %d bytes, want %#x of %d", want, v, n, row.v, len(want))
		}
	}
}

func TestLeadingOnesReadsLongerFormsThanNeeded(t *testing.T) {
	for text, want := range map[string]uint64{
		"8001":               1,
		"fc000000000001":     1, // the form of 7 bytes, which nobody writes
		"fe00000000000001":   1,
		"ff0000000000000001": 1,
	} {
		b, _ := hex.DecodeString(text)
		if v, n := wire.LeadingOnes.Parse(b); v != want || n != len(b) {
			t.Errorf("%s is read as %d of %d bytes, want %d of %d", text, v, n, want, len(b))
		}
	}
}

func FuzzForms(f *testing.F) {
	for _, row := range leadingOnes {
		b, _ := hex.DecodeString(row.hex)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, form := range []wire.Form{wire.QUIC, wire.LeadingOnes} {
			v, n := form.Parse(b)
			if n == 0 {
				continue
			}
			again := form.Append(nil, v)
			if len(again) > n && n != 7 || len(again) != form.Len(v) { // 7 bytes are read, never written
				t.Fatalf("form %d: %x is %d; written again it is %x", form, b[:n], v, again)
			}
			if w, m := form.Parse(again); w != v || m != len(again) {
				t.Fatalf("form %d: %x is read back as %d", form, again, w)
			}
		}
	})
}
