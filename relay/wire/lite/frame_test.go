package lite

import (
	"bytes"
	"errors"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

func TestAFrameHeadHasTheseBytes(t *testing.T) {
	for _, c := range []struct {
		v        Version
		previous int64
		head     FrameHead
		hex      string
	}{
		{Lite03, 7, FrameHead{Size: 5}, `05`},
		{Lite04, 0, FrameHead{Size: 70}, `4046`},
		{Lite05, 0, FrameHead{1000, 3}, `47d0 03`},              // +1000 is 2000
		{Lite05, 1000, FrameHead{1033, 1}, `4042 01`},           // +33 is 66
		{Lite06, 1033, FrameHead{1020, 1}, `19 01`},             // -13 is 25
		{Lite06, 1020, FrameHead{1020, 0}, `00 00`},             // no change, no bytes
		{Lite06, 0, FrameHead{-1, 2}, `01 02`},                  // before the start
		{Lite06wip, 3000, FrameHead{0, 16384}, `576f 80004000`}, // -3000 is 5999
		{Lite06, 0, FrameHead{MaxTimestamp, wire.MaxVarint}, `fffffffffffffffe ffffffffffffffff`},
		{Lite06, 0, FrameHead{MinTimestamp, 0}, `ffffffffffffffff 00`},
		{Lite06, MinTimestamp, FrameHead{-1, 0}, `fffffffffffffffe 00`},
	} {
		b := unhex(c.hex)
		got, err := c.head.Append([]byte("x"), c.v, c.previous)
		if err != nil || !bytes.Equal(got[1:], b) {
			t.Errorf("%s: %+v after %d: %x, %v, want %s", c.v, c.head, c.previous, got, err, c.hex)
		}
		if len(b) > MaxFrameHead {
			t.Errorf("%s: %d bytes, want at most MaxFrameHead", c.v, len(b))
		}
		for n := range b {
			if h, used, err := ParseFrameHead(b[:n], c.v, c.previous); used != 0 || err != nil || h != (FrameHead{}) {
				t.Errorf("%s: %d of %d bytes: %+v, %d, %v, want to be asked for more", c.v, n, len(b), h, used, err)
			}
		}
		h, used, err := ParseFrameHead(append(b, "payload"...), c.v, c.previous)
		if err != nil || used != len(b) || h != c.head {
			t.Errorf("%s: parsed %+v, %d, %v, want %+v, %d", c.v, h, used, err, c.head, len(b))
		}
	}
}

func TestATimestampOutOfRangeIsNeitherWrittenNorRead(t *testing.T) {
	for _, c := range []struct {
		previous, timestamp int64
	}{
		{0, MaxTimestamp + 1},
		{0, MinTimestamp - 1},
		{0, 1<<63 - 1},
		{MinTimestamp, 0},      // the difference is 2^61
		{1, MinTimestamp},      // the difference is -2^61-1
		{1<<63 - 1, 1<<63 - 1}, // the difference is 0
	} {
		b, err := FrameHead{Timestamp: c.timestamp}.Append(nil, Lite06, c.previous)
		if !errors.Is(err, wire.ErrTooLong) || b != nil {
			t.Errorf("%d after %d: %x, %v, want too long", c.timestamp, c.previous, b, err)
		}
	}
	if _, err := (FrameHead{Size: 1 << 62}).Append(nil, Lite06, 0); !errors.Is(err, wire.ErrTooLong) {
		t.Errorf("size 2^62: %v, want too long", err)
	}
	for previous, hex := range map[int64]string{
		1:            `fffffffffffffffe 00`, // 1 + 2^61-1
		MaxTimestamp: `02 00`,
		-1:           `ffffffffffffffff 00`, // -1 - 2^61
		MinTimestamp: `01 00`,
	} {
		if h, _, err := ParseFrameHead(unhex(hex), Lite06, previous); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s after %d: %+v, %v, want malformed", hex, previous, h, err)
		}
	}
}

func TestAFrameHeadAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, MaxFrameHead)
	for _, v := range everyVersion {
		head := FrameHead{Timestamp: 1 << 40, Size: 300 << 10}
		if n := testing.AllocsPerRun(100, func() { buf, _ = head.Append(buf[:0], v, 5) }); n != 0 {
			t.Errorf("%s: Append: %v allocations, want 0", v, n)
		}
		if n := testing.AllocsPerRun(100, func() { head, _, _ = ParseFrameHead(buf, v, 5) }); n != 0 {
			t.Errorf("%s: ParseFrameHead: %v allocations, want 0", v, n)
		}
	}
}

func BenchmarkFrameHead(b *testing.B) {
	buf := make([]byte, 0, MaxFrameHead)
	head := FrameHead{Timestamp: 90000, Size: 8 << 10}
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = head.Append(buf[:0], Lite06, 87000)
		head, _, _ = ParseFrameHead(buf, Lite06, 87000)
	}
}

func FuzzParseFrameHead(f *testing.F) {
	for _, hex := range []string{`47d0 03`, `19 01`, `00 00`, `fffffffffffffffe ffffffffffffffff`, `05`, `80`} {
		for _, v := range everyVersion {
			f.Add(uint8(v), int64(0), unhex(hex))
		}
	}
	f.Fuzz(func(t *testing.T, version uint8, previous int64, b []byte) {
		v := everyVersion[int(version)%len(everyVersion)]
		if !inRange(previous) {
			return
		}
		h, n, err := ParseFrameHead(b, v, previous)
		if err == nil && n == 0 && len(b) >= MaxFrameHead {
			t.Fatalf("%x asks for more than MaxFrameHead", b)
		}
		if err != nil || n == 0 {
			return
		}
		again, err := h.Append(nil, v, previous)
		if err != nil || len(again) > MaxFrameHead {
			t.Fatalf("%x reads as %+v, which becomes %x, %v", b[:n], h, again, err)
		}
		if h2, _, err := ParseFrameHead(again, v, previous); err != nil || h2 != h {
			t.Fatalf("%+v becomes %x and that %+v, %v", h, again, h2, err)
		}
	})
}
