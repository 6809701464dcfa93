package model

import (
	"testing"
	"time"
)

func TestAHistogramCountsEachDurationInAllBucketsThatReachIt(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{-time.Second, 500 * time.Microsecond, 501 * time.Microsecond, 3 * time.Second, time.Minute} {
		h.Observe(d)
	}
	s := h.Snapshot()
	if s.Count != 5 || s.Sum != 63*time.Second+1001*time.Microsecond {
		t.Errorf("%d observations of %v in all, want 5 of 1m3.001001s", s.Count, s.Sum)
	}
	want := map[time.Duration]uint64{500 * time.Microsecond: 2, time.Millisecond: 3, 2500 * time.Millisecond: 3, 5 * time.Second: 4, 10 * time.Second: 4}
	for _, b := range s.Buckets {
		if n, ok := want[b.UpTo]; ok && n != b.Count {
			t.Errorf("%d observations up to %v, want %d", b.Count, b.UpTo, n)
		}
	}
}
