package perf

import (
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations in buckets whose width is at most 1/128 of their value. The zero value is empty.
type Histogram struct {
	counts [64 * 128]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration

	squares float64 // the sum of their squares, in ns²
}

// bucket returns the bucket of a duration.
func bucket(ns uint64) int {
	if ns < 256 {
		return int(ns)
	}
	shift := bits.Len64(ns) - 8 // leaves 8 bits, the first of them set
	return (shift+1)*128 + int(ns>>shift)&127
}

// lowest returns the smallest duration of bucket i.
func lowest(i int) time.Duration {
	if i < 256 {
		return time.Duration(i)
	}
	shift := i/128 - 1
	return time.Duration(uint64(128+i%128) << shift)
}

// Add counts a duration; one below 0 counts as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.n++
	h.sum += d
	h.squares += float64(d) * float64(d)
	h.max = max(h.max, d)
}

// Merge adds the durations of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.squares += o.squares
	h.max = max(h.max, o.max)
}

// Quantile returns the duration below which the fraction q of all durations lies, within 1/128; 0 for an empty
// histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.n))
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen > rank {
			return min((lowest(i)+lowest(i+1))/2, h.max)
		}
	}
	return h.max
}

// Count is the number of durations.
func (h *Histogram) Count() uint64 { return h.n }

// Mean is the exact average; 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Max is the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Deviation is the standard deviation.
func (h *Histogram) Deviation() time.Duration {
	if h.n < 2 {
		return 0
	}
	mean := float64(h.sum) / float64(h.n)
	return time.Duration(math.Sqrt(max(0, h.squares/float64(h.n)-mean*mean)))
}
