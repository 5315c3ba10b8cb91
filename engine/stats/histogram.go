package stats

import (
	"math/bits"
	"time"
)

// Buckets is the number of buckets of a Histogram.
const Buckets = 1 + (maxExp-minExp)*subBuckets + 1

const (
	minExp     = 9  // 512 ns, the lower bound of bucket 1
	maxExp     = 40 // about 1100 s, the lower bound of the last bucket
	subLog     = 4
	subBuckets = 1 << subLog
)

// Histogram counts latencies in log-linear buckets: 16 per octave of nanoseconds, so that a bucket is at most 1/16 of
// its lower bound wide. Bucket 0 counts latencies below 512 ns, the last one those of 2^40 ns and more. The history's
// histograms have the same buckets. The zero value is empty.
type Histogram [Buckets]uint64

// Bucket returns the index of the bucket that counts d. A negative d counts as 0.
func Bucket(d time.Duration) int {
	if d < 1<<minExp {
		return 0
	}
	e := bits.Len64(uint64(d)) - 1
	if e >= maxExp {
		return Buckets - 1
	}
	return 1 + (e-minExp)*subBuckets + int(d>>(e-subLog))&(subBuckets-1)
}

// LowerBound returns the smallest latency that bucket i counts. i must be in [0, Buckets).
func LowerBound(i int) time.Duration {
	switch i {
	case 0:
		return 0
	case Buckets - 1:
		return 1 << maxExp
	}
	e := minExp + (i-1)/subBuckets
	return time.Duration((subBuckets + (i-1)%subBuckets) << (e - subLog))
}

// Count returns the number of latencies.
func (h *Histogram) Count() uint64 {
	n := uint64(0)
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile returns the latency that a share q (0 to 1) of the latencies does not exceed, as the middle of its bucket.
// It returns 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	rank := min(max(uint64(q*float64(total)+0.999999), 1), total)
	seen := uint64(0)
	for i, c := range h {
		if seen += c; seen >= rank {
			if i == Buckets-1 {
				return LowerBound(i)
			}
			return (LowerBound(i) + LowerBound(i+1)) / 2
		}
	}
	return LowerBound(Buckets - 1)
}
