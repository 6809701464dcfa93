package load

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSizesCoverBothEndsAndMixGroups(t *testing.T) {
	s := Sizes{Min: 1, Max: 300 << 10}
	least, most, sum := 1<<30, 0, 0
	for n := range 200 {
		size := s.At(n, 200)
		least, most, sum = min(least, size), max(most, size), sum+size
	}
	if least != 1 || most != 300<<10 || sum != 4_993_485 {
		t.Errorf("sizes from %d to %d, %d in all; want 1 to 307200, 4993485 in all", least, most, sum)
	}
	if first := s.At(0, 200); first != 1 {
		t.Errorf("first frame of %d bytes, want 1", first)
	}
	if only := (Sizes{Min: 7, Max: 9}).At(0, 1); only != 9 {
		t.Errorf("the only frame has %d bytes, want 9", only)
	}
	if next := s.At(1, 200); next != 103 {
		t.Errorf("second frame of %d bytes, want 103", next)
	}
}

func TestSizesAreReadFromText(t *testing.T) {
	for _, row := range []struct {
		text      string
		low, high int
		shown     string
	}{
		{"1200", 1200, 1200, "1200"},
		{"1..300Ki", 1, 307200, "1..300Ki"},
		{"1Ki..1Mi", 1024, 1 << 20, "1Ki..1Mi"},
		{"32Mi", 32 << 20, 32 << 20, "32Mi"},
	} {
		var s Sizes
		if err := s.Set(row.text); err != nil || s != (Sizes{row.low, row.high}) || s.String() != row.shown {
			t.Errorf("%q: %v %v, shown as %q", row.text, s, err, s.String())
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "5..4", "1..33Mi", "1.."} {
		if err := new(Sizes).Set(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// take returns the next frame and what is left of the second until it is due.
func take(t *testing.T, c Content) (Frame, time.Time) {
	t.Helper()
	f, ok := c.Next()
	if !ok {
		t.Fatal("no more frames")
	}
	return f, f.Due
}

func TestCheckedContentCountsGroupsAndFramesAndKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Checked{Groups: 2, Frames: 2, Sizes: Sizes{Min: 50, Max: 50}, Rate: 4}
		began := time.Now()
		for n, want := range []Frame{
			{Place: Place{0, 0}}, {Place: Place{0, 1}, Last: true}, {Place: Place{1, 0}}, {Place: Place{1, 1}, Last: true},
		} {
			got, due := take(t, c)
			if got.Place != want.Place || got.Last != want.Last {
				t.Errorf("frame %d is %+v, want %+v", n, got, want)
			}
			if after := due.Sub(began); after != time.Duration(n)*250*time.Millisecond {
				t.Errorf("frame %d is due after %v, want %d × 250 ms", n, after, n)
			}
			if _, err := CheckPayload(c.Payload(time.Now()), want.Place); err != nil {
				t.Error(err)
			}
		}
		if _, ok := c.Next(); ok {
			t.Error("there is a fifth frame")
		}
	})
}

func TestAClocksGroupsAreSecondsAndItsFramesTellTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(300 * time.Millisecond) // of fake time, which begins at a whole second
		c := &Clock{Rate: 2, Ticks: 3}
		second := time.Now().Unix() + 1
		for n, want := range []struct {
			group uint64
			frame uint32
			ms    int64
		}{{uint64(second), 0, 0}, {uint64(second), 1, 500}, {uint64(second) + 1, 0, 1000}} {
			f, due := take(t, c)
			if f.Group != want.group || f.Frame != want.frame || due.UnixMilli() != second*1000+want.ms {
				t.Errorf("tick %d: %v at %v", n, f.Place, due)
			}
		}
		if _, ok := c.Next(); ok {
			t.Error("there is a fourth tick")
		}
	})
	if got := string((&Clock{}).Payload(noon)); got != "2025-11-30T12:00:00.123Z" {
		t.Errorf("a tick is %q", got)
	}
}

func TestQuantilesAreWithinTheirBucket(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Error("the median of nothing is not 0")
	}
	for ms := 1; ms <= 100; ms++ {
		h.add(time.Duration(ms) * time.Millisecond)
	}
	h.add(-time.Second)
	for _, row := range []struct {
		share     float64
		low, high time.Duration
	}{{0, 0, 0}, {0.5, 50 * time.Millisecond, 54 * time.Millisecond}, {0.99, 99 * time.Millisecond, 100 * time.Millisecond}, {1, 100 * time.Millisecond, 100 * time.Millisecond}} {
		if got := h.quantile(row.share); got < row.low || got > row.high {
			t.Errorf("quantile %v is %v, want %v to %v", row.share, got, row.low, row.high)
		}
	}
}

func TestEveryValueIsInTheBucketWhoseBoundsHoldIt(t *testing.T) {
	for v := uint64(0); v < 1<<40; v = v*9/8 + 1 {
		b := bucketOf(v)
		if lowest(b) > v || lowest(b+1) <= v {
			t.Fatalf("%d is in bucket %d, from %d to %d", v, b, lowest(b), lowest(b+1))
		}
	}
}
