package perf

import (
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	var h Histogram
	for i := 1; i <= 1000; i++ {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{{0.5, 500 * time.Microsecond}, {0.9, 900 * time.Microsecond}, {0.99, 990 * time.Microsecond}} {
		got := h.Quantile(tt.q)
		if diff := (got - tt.want).Abs(); diff > tt.want/100 {
			t.Errorf("Quantile(%v) = %v, want %v within 1 %%", tt.q, got, tt.want)
		}
	}
	if h.Max() != time.Millisecond || h.Count() != 1000 {
		t.Errorf("max %v, n %d; want 1ms, 1000", h.Max(), h.Count())
	}
}

func TestHistogramBucketsAreOrdered(t *testing.T) {
	for _, ns := range []uint64{0, 1, 127, 128, 255, 256, 257, 511, 512, 1000, 123456, 1 << 40} {
		i := bucket(ns)
		if lo, hi := uint64(lowest(i)), uint64(lowest(i+1)); ns < lo || ns >= hi {
			t.Errorf("bucket(%d) = %d, which holds [%d, %d)", ns, i, lo, hi)
		}
	}
}
