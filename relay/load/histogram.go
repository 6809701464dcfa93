package load

import (
	"math/bits"
	"time"
)

// subBuckets is into how many parts each power of two is cut: a value is known
// to about 6 %.
const subBuckets = 16

// histogram counts durations from 1 microsecond to centuries in fixed memory.
// The zero value is empty.
type histogram struct {
	counts [64 * subBuckets]uint64
	total  uint64
	most   time.Duration
}

// add counts a duration; a negative one, of clocks that disagree, as 0.
func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d.Microseconds()))]++
	h.total++
	h.most = max(h.most, d)
}

// merge adds what another has counted.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.most = max(h.most, other.most)
}

func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - 5 // leaves 16 to 31
	return (shift+1)*subBuckets + int(v>>shift) - subBuckets
}

// lowest is the least value of a bucket, the inverse of bucketOf.
func lowest(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	shift := bucket/subBuckets - 1
	return uint64(bucket%subBuckets+subBuckets) << shift
}

// quantile is the duration that a share of all, 0 to 1, does not exceed; 0 of none.
func (h *histogram) quantile(share float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(share * float64(h.total-1))
	for bucket, n := range h.counts {
		if rank < n {
			return min(time.Duration(lowest(bucket+1)-1)*time.Microsecond, h.most)
		}
		rank -= n
	}
	return h.most
}
