package store

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsCoverEveryValueOnce(t *testing.T) {
	var next uint64
	for i := range NumBuckets {
		low, high := BucketBounds(i)
		if low != next || high <= low {
			t.Fatalf("BucketBounds(%d) = [%d, %d), want it to begin at %d", i, low, high, next)
		}
		for _, v := range []uint64{low, low + (high-low)/2, high - 1} {
			if got := BucketIndex(v); got != i {
				t.Errorf("BucketIndex(%d) = %d, want %d: [%d, %d)", v, got, i, low, high)
			}
		}
		next = high
	}
	if next != math.MaxUint64 || BucketIndex(math.MaxUint64) != NumBuckets-1 {
		t.Errorf("the buckets end at %d, and 2^64-1 is in bucket %d", next, BucketIndex(math.MaxUint64))
	}
	if NumBuckets != 498 {
		t.Errorf("NumBuckets = %d; the layout is a stored format and must stay 498", NumBuckets)
	}
}

// randomLatency draws from 1 µs to 1000 s, evenly over the logarithm.
func randomLatency(r *rand.Rand) time.Duration {
	return time.Duration(1e3 * math.Pow(10, 9*r.Float64()))
}

func TestQuantileIsWithinTheErrorBound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		n := 1 + r.IntN(500)
		var h Histogram
		vals := make([]time.Duration, n)
		for i := range vals {
			vals[i] = randomLatency(r)
			h.Record(vals[i])
		}
		slices.Sort(vals)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1, r.Float64()} {
			want := vals[min(max(int(math.Ceil(q*float64(n))), 1), n)-1]
			got := h.Quantile(q)
			if math.Abs(float64(got-want)) > MaxRelativeError*float64(want)+1 {
				t.Fatalf("round %d: Quantile(%v) of %d latencies = %v, want %v within %.1f %%", round, q, n, got, want,
					100*MaxRelativeError)
			}
		}
	}
}

func TestQuantileEdges(t *testing.T) {
	var empty, zero, huge Histogram
	zero.Record(-time.Second)
	huge.Record(math.MaxInt64)
	for _, tt := range []struct {
		name string
		h    *Histogram
		q    float64
		want time.Duration
	}{
		{"empty", &empty, 0.5, 0},
		{"a negative latency counts as zero", &zero, 0.5, 256},
		{"above the range", &huge, 0.5, 1 << 40},
		{"q below 0", &huge, -1, 1 << 40},
		{"q above 1", &huge, 2, 1 << 40},
		{"q is NaN", &huge, math.NaN(), 1 << 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.h.Quantile(tt.q); got != tt.want {
				t.Errorf("Quantile(%v) = %v, want %v", tt.q, got, tt.want)
			}
		})
	}
}

func TestMergeEqualsRecordingTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		var a, b, both Histogram
		for range r.IntN(300) {
			d := randomLatency(r)
			both.Record(d)
			if r.IntN(2) == 0 {
				a.Record(d)
			} else {
				b.Record(d)
			}
		}
		ab, _ := a.MarshalBinary()
		bb, _ := b.MarshalBinary()
		want, _ := both.MarshalBinary()
		if got := mergeBlobs(ab, bb); !bytes.Equal(got, want) {
			t.Fatalf("merging %x and %x = %x, want %x", ab, bb, got, want)
		}
		a.Merge(&b)
		if a != both {
			t.Fatalf("Merge gives other counts than recording together")
		}
	}
}

func TestMergeSaturates(t *testing.T) {
	var a, b Histogram
	a.Add(5, math.MaxUint64-1)
	b.Add(7, 10)
	a.Merge(&b)
	if a.Count() != math.MaxUint64 || a.counts[7] != 1 {
		t.Errorf("Count = %d, count 7 = %d; want it to stop at 2^64-1", a.Count(), a.counts[7])
	}
	a.Add(-1, 1)
	a.Add(NumBuckets, 1) // ignored, no panic
}

func TestDecodeHistogramRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []byte
	}{
		{"unknown format", []byte{2, 0, 1}},
		{"no bucket", []byte{1}},
		{"no count", []byte{1, 0}},
		{"count of zero", []byte{1, 0, 0}},
		{"bucket past the end", []byte{1, 0xf2, 0x03, 1}},
		{"second bucket past the end", []byte{1, 0xf1, 0x03, 1, 0, 1}},
		{"skip that wraps", []byte{1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1}},
		{"number cut off", []byte{1, 0x80}},
		{"number too long", bytes.Repeat([]byte{0x80}, 12)},
		{"not the shortest form", []byte{1, 0x80, 0x00, 1}},
		{"counts above 2^64-1", []byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h Histogram
			h.Record(time.Second)
			if err := h.UnmarshalBinary(tt.in); err == nil || h.Count() != 0 {
				t.Errorf("UnmarshalBinary(%x) = %v with %d latencies, want an error and none", tt.in, err, h.Count())
			}
			good := []byte{1, 0, 1}
			if got := mergeBlobs(tt.in, good); !bytes.Equal(got, good) {
				t.Errorf("mergeBlobs(bad, good) = %x, want the good one", got)
			}
			if got := mergeBlobs(good, tt.in); !bytes.Equal(got, good) {
				t.Errorf("mergeBlobs(good, bad) = %x, want the good one", got)
			}
		})
	}
}

func FuzzHistogram(f *testing.F) {
	var h Histogram
	f.Add([]byte(nil))
	for i := range 40 {
		h.Record(time.Duration(i*i*i) * time.Microsecond)
		b, _ := h.MarshalBinary()
		f.Add(b)
	}
	f.Add([]byte{1, 0xf1, 0x03, 1})
	f.Add([]byte{1, 0x80, 0x00, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Histogram
		if err := h.UnmarshalBinary(b); err != nil {
			return
		}
		again, _ := h.MarshalBinary()
		if !bytes.Equal(again, b) {
			t.Fatalf("%x decodes but encodes again as %x", b, again)
		}
		var sum uint64
		for i := range NumBuckets {
			sum += h.counts[i]
		}
		if sum != h.Count() {
			t.Fatalf("%x: Count = %d, the buckets add up to %d", b, h.Count(), sum)
		}
	})
}
