package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"nereid/engine/infer"
)

const minute = infer.Stamp(time.Minute)

func TestWindowBuckets(t *testing.T) {
	lastChunk, lastI, last := 0, -1, -1.0
	for us := uint64(0); us < 1<<33; us += 1 + us/300 {
		chunk, i := bucketUs(time.Duration(us) * time.Microsecond)
		if chunk < lastChunk || chunk == lastChunk && i < lastI || chunk >= windowChunks {
			t.Fatalf("%d us is in bucket %d/%d, after %d/%d", us, chunk, i, lastChunk, lastI)
		}
		middle := middleUs(chunk, i)
		if middle < last {
			t.Fatalf("the middle of bucket %d/%d is %v, that of the one before %v", chunk, i, middle, last)
		}
		if off := math.Abs(middle - float64(us)); us < linearUs && off != 0 || us < 1<<32 && off > float64(us)/100 {
			t.Fatalf("%d us is counted as %v", us, middle)
		}
		lastChunk, lastI, last = chunk, i, middle
	}
	if c, i := bucketUs(-1); c != 0 || i != 0 {
		t.Errorf("a negative latency is in bucket %d/%d", c, i)
	}
	if c, i := bucketUs(math.MaxInt64); c != windowChunks-1 || i != subOctave-1 {
		t.Errorf("the longest latency is in bucket %d/%d", c, i)
	}
}

// For all latencies, a quantile is within 1 % of the latency at the exact rank.
func TestWindowQuantiles(t *testing.T) {
	shares := []float64{0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		var w window
		all := make([]float64, 1+r.IntN(3000))
		spread := 1 + 10*r.Float64()
		for i := range all {
			us := math.Floor(math.Exp(r.NormFloat64()*spread/3 + spread))
			all[i] = min(us, 1<<31)
			w.observe(minute, time.Duration(all[i])*time.Microsecond)
		}
		slices.Sort(all)
		for i, got := range w.quantiles(minute, shares, nil) {
			want := all[max(int(math.Ceil(shares[i]*float64(len(all))))-1, 0)]
			if math.Abs(got-want) > want/100 {
				t.Errorf("seed %d: quantile %v of %d latencies is %v, want %v", seed, shares[i], len(all), got, want)
			}
		}
	}
}

func TestWindowForgetsAfterAMinute(t *testing.T) {
	var w window
	half := func(at infer.Stamp) float64 { return w.quantiles(at, []float64{0.5}, nil)[0] }
	if !math.IsNaN(half(minute)) {
		t.Error("the quantile of nothing is a number")
	}
	w.observe(minute, 100*time.Microsecond)
	if got := half(minute + infer.Stamp(47*time.Second)); got != 100 {
		t.Errorf("after 47 s the quantile is %v, want 100", got)
	}
	w.observe(minute+infer.Stamp(47*time.Second), 90*time.Microsecond)
	if got := half(minute + infer.Stamp(61*time.Second)); got != 90 {
		t.Errorf("after 61 s the quantile is %v, want 90: the first is too old", got)
	}
	if got := half(10 * minute); !math.IsNaN(got) {
		t.Errorf("after minutes of rest the quantile is %v, want none", got)
	}
	if w.total.Count != 2 || w.total.Ns != 190_000 {
		t.Errorf("all are %d of %d ns; what is forgotten must stay in count and sum", w.total.Count, w.total.Ns)
	}
	// A slow request may have an earlier timestamp than one that was counted before.
	w.observe(9*minute, 5*time.Microsecond)
	if got := half(10 * minute); got != 5 {
		t.Errorf("a latency with an older stamp is counted as %v, want 5", got)
	}
}

// A window allocates nothing when its latencies stay in the same octaves.
func TestAllocationsOfWindow(t *testing.T) {
	var w window
	at := minute
	step := func() {
		for us := time.Duration(1); us < 5000; us *= 2 {
			w.observe(at, us*time.Microsecond)
		}
		at += infer.Stamp(time.Second)
	}
	for range 70 {
		step()
	}
	if n := testing.AllocsPerRun(200, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
