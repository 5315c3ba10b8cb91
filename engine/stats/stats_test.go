package stats

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
)

func TestBucketsCoverEveryLatency(t *testing.T) {
	for i := range Buckets {
		low := LowerBound(i)
		if got := Bucket(low); got != i {
			t.Fatalf("Bucket(LowerBound(%d)) = %d", i, got)
		}
		if i > 0 && Bucket(low-1) != i-1 {
			t.Fatalf("Bucket(%v-1) = %d, want %d", low, Bucket(low-1), i-1)
		}
	}
	if Bucket(-time.Second) != 0 || Bucket(1<<62) != Buckets-1 {
		t.Error("the ends do not take what is beyond them")
	}
}

func TestQuantileIsWithinItsError(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var h Histogram
		var all []time.Duration
		for range 1 + rng.IntN(500) {
			d := time.Duration(1000 + rng.ExpFloat64()*float64(time.Millisecond))
			h[Bucket(d)]++
			all = append(all, d)
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.5, 0.95, 0.99, 1} {
			rank := max(int(q*float64(len(all))+0.999999), 1)
			want, got := all[rank-1], h.Quantile(q)
			if diff := max(got-want, want-got); float64(diff) > 0.04*float64(want)+1 {
				t.Fatalf("Quantile(%v) of %d latencies = %v, want %v within 4 %%", q, len(all), got, want)
			}
		}
		if h.Count() != uint64(len(all)) {
			t.Fatalf("Count = %d, want %d", h.Count(), len(all))
		}
	}
	if q := new(Histogram).Quantile(0.5); q != 0 {
		t.Errorf("Quantile of nothing = %v, want 0", q)
	}
}

// finish counts a request whose stamps are 1 ms apart, as part of b (nil: it never ran).
func finish(v *Version, b *infer.Batch, rows int, err error) {
	r := infer.New()
	defer r.Release()
	const ms = infer.Stamp(time.Millisecond)
	at := infer.Now()
	r.Times = infer.Times{Arrived: at, Queued: at + ms, Taken: at + 2*ms, Input: at + 3*ms, Output: at + 5*ms, Finished: at + 6*ms}
	r.BatchSize, r.Batch = rows, b
	v.Finished(r, &infer.Response{Err: err, Final: true}, ReasonOf(err, b != nil))
}

func TestWhatHappenedIsCountedOnce(t *testing.T) {
	v := NewRegistry().Version("m", 3)
	b := &infer.Batch{Rows: 3}
	finish(v, b, 1, nil)
	finish(v, b, 2, nil)
	finish(v, b, 1, errors.New("backend"))
	finish(v, nil, 1, status.New(status.Unavailable, "queue full"))
	finish(v, nil, 1, status.New(status.Cancelled, "gone"))
	finish(v, nil, 1, status.New(status.InvalidArg, "bad"))
	b.Output, b.Ended = infer.Now(), infer.Now()
	v.Executed(b)
	v.Executed(&infer.Batch{Rows: 9}) // no success: not counted
	var s Snapshot
	v.Snapshot(&s)
	if s.Model != "m" || s.Version != 3 || s.Inferences != 3 || s.Executions != 1 {
		t.Errorf("snapshot = %+v, want 3 rows in 1 execution", s)
	}
	if s.Success.Count != 2 || s.Success.Ns != 12e6 || s.Fail.Count != 4 || s.Queue.Ns != 2e6 || s.Input.Ns != 2e6 || s.Infer.Ns != 4e6 || s.Output.Ns != 2e6 {
		t.Errorf("times = %+v %+v %+v %+v %+v %+v", s.Success, s.Fail, s.Queue, s.Input, s.Infer, s.Output)
	}
	if s.Failures != [NumReasons]uint64{Other: 1, BackendFailure: 1, Canceled: 1, Rejected: 1} {
		t.Errorf("failures = %v, want one of each reason", s.Failures)
	}
	if len(s.Batches) != 1 || s.Batches[0].Size != 3 || s.Batches[0].Infer.Count != 1 || s.Batches[0].Infer.Ns != 2e6 {
		t.Errorf("batches = %+v, want one of 3 rows", s.Batches)
	}
	if s.Latency.Count() != 2 || s.LastInference.IsZero() {
		t.Errorf("latencies %d, last inference %v", s.Latency.Count(), s.LastInference)
	}
}

func TestBatchesAreOrderedBySize(t *testing.T) {
	v := NewRegistry().Version("m", 1)
	for _, rows := range []int{5, 1, 9, 5, 2} {
		finish(v, &infer.Batch{Rows: rows}, rows, nil)
	}
	var s Snapshot
	v.Snapshot(&s)
	var sizes []uint64
	for _, b := range s.Batches {
		sizes = append(sizes, b.Size)
	}
	if !slices.Equal(sizes, []uint64{1, 2, 5, 9}) {
		t.Errorf("sizes = %v, want them ascending and once", sizes)
	}
}

func TestRegistryKeepsNumbersUntilUnload(t *testing.T) {
	g := NewRegistry()
	finish(g.Version("m", 1), nil, 1, nil)
	again := g.Version("m", 1) // a reload
	g.Version("a", 2)
	s := g.Snapshots(nil)
	if len(s) != 2 || s[0].Model != "a" || s[1].Success.Count != 1 {
		t.Fatalf("snapshots = %+v, want a and m in order, m with its count", s)
	}
	epoch := s[1].Epoch
	g.Remove("m", 1)
	finish(again, nil, 1, nil) // a late one of the old epoch is not the new one's
	g.Version("m", 1)
	s = g.Snapshots(s)
	if s[1].Success.Count != 0 || s[1].Epoch == epoch {
		t.Errorf("after unload and load: %+v, want zeros and a new epoch", s[1])
	}
}

func TestSnapshotsAreConsistentUnderLoad(t *testing.T) {
	v := NewRegistry().Version("m", 1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 500 {
				finish(v, &infer.Batch{Rows: 2}, 2, nil)
			}
		}()
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var s Snapshot
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		v.Snapshot(&s)
		if s.Inferences != 2*s.Success.Count || s.Executions != s.Success.Count || s.Latency.Count() != s.Success.Count {
			t.Fatalf("torn snapshot: %d rows, %d executions, %d latencies, %d successes", s.Inferences, s.Executions, s.Latency.Count(), s.Success.Count)
		}
	}
	if s.Success.Count != 2000 {
		t.Errorf("%d successes, want 2000", s.Success.Count)
	}
}
