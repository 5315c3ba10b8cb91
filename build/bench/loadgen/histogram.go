package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most 1/128 of their value wide. The zero value is empty.
type histogram struct {
	counts [64 * 128]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration
}

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

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// quantile returns the duration below which the fraction q of all lies, within 1/128; 0 for an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.n))
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen > rank {
			return min((lowest(i)+lowest(i+1))/2, h.max)
		}
	}
	return h.max
}
