package stats

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// served does what a model does with its requests, as far as it affects the statistics.
type served struct {
	v      *Version
	reason Reason
}

func (s *served) Finished(r *infer.Request, resp *infer.Response) {
	if r.Batch == nil {
		s.v.Left(1)
	}
	s.v.Finished(r, resp, s.reason)
}

// run counts requests with the given rows in one batch; fail selects those that fail.
func (s *served) run(fail func(i int) error, rows ...int) {
	b := infer.NewBatch()
	var all []*infer.Request
	for _, n := range rows {
		r := infer.NewDetached()
		r.BatchSize, r.Times.Arrived, r.Times.Queued = n, infer.Now(), infer.Now()
		r.Observe(s)
		s.v.Admitted()
		b.Requests, b.Rows = append(b.Requests, r), b.Rows+n
		all = append(all, r)
	}
	s.v.Left(len(rows))
	b.Begin()
	b.MarkInput()
	b.MarkOutput()
	for i, r := range all {
		resp := r.NewResponse()
		resp.Final = true
		if fail != nil {
			resp.Err = fail(i)
		}
		_ = r.Respond(resp)
	}
	b.Ended = infer.Now()
	s.v.Executed(b)
	b.End()
	for _, r := range all {
		r.Release()
	}
}

// checkSums checks that the counters of a snapshot agree with each other.
func checkSums(t *testing.T, s *Snapshot) {
	t.Helper()
	executions, failures := uint64(0), uint64(0)
	for i, b := range s.Batches {
		if b.Input.Count != b.Infer.Count || b.Input.Count != b.Output.Count {
			t.Errorf("batch size %d: counts %d, %d, %d differ", b.Size, b.Input.Count, b.Infer.Count, b.Output.Count)
		}
		if i > 0 && s.Batches[i-1].Size >= b.Size {
			t.Errorf("batch sizes %d and %d are not ascending", s.Batches[i-1].Size, b.Size)
		}
		executions += b.Infer.Count
	}
	for _, n := range s.Failures {
		failures += n
	}
	if executions != s.Executions || failures != s.Fail.Count || s.Latency.Count() != s.Success.Count ||
		s.Queue.Count != s.Infer.Count || s.Input.Count != s.Output.Count || s.Inferences < s.Infer.Count {
		t.Errorf("counters do not add up: %d executions in batches, %d failures by reason, %d latencies: %+v",
			executions, failures, s.Latency.Count(), s.Counters)
	}
}

func TestCountersAddUp_B063(t *testing.T) {
	no := status.New(status.Internal, "no")
	for _, tt := range []struct {
		name                                  string
		do                                    func(s *served)
		success, fail, inferences, executions uint64
		sizes                                 []uint64
	}{
		{"one row", func(s *served) { s.run(nil, 1) }, 1, 0, 1, 1, []uint64{1}},
		{"a batch", func(s *served) { s.run(nil, 1, 3, 2) }, 3, 0, 6, 1, []uint64{6}},
		{"batches of two sizes", func(s *served) { s.run(nil, 4); s.run(nil, 1, 1); s.run(nil, 4) }, 4, 0, 10, 3,
			[]uint64{2, 4}},
		{"a batch with one bad member", func(s *served) {
			s.run(func(i int) error {
				if i == 0 {
					return no
				}
				return nil
			}, 1, 1)
		}, 1, 1, 1, 1, []uint64{2}},
		{"a batch that fails", func(s *served) { s.run(func(int) error { return no }, 1, 1) }, 0, 2, 0, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &served{v: NewRegistry(Detail{}).Version("m", 1), reason: BackendFailure}
			tt.do(s)
			var got Snapshot
			s.v.Snapshot(&got)
			checkSums(t, &got)
			var sizes []uint64
			for _, b := range got.Batches {
				sizes = append(sizes, b.Size)
			}
			if got.Success.Count != tt.success || got.Fail.Count != tt.fail || got.Inferences != tt.inferences ||
				got.Executions != tt.executions || !slices.Equal(sizes, tt.sizes) || got.Pending != 0 {
				t.Errorf("%+v with batch sizes %v; want %+v", got.Counters, sizes, tt)
			}
		})
	}
}

// Snapshots during requests are consistent, and their numbers never decrease.
func TestSnapshotsAreConsistentUnderLoad(t *testing.T) {
	g := NewRegistry(Detail{})
	s := &served{v: g.Version("m", 1), reason: BackendFailure}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 500 {
				s.run(func(i int) error {
					if (n+i)%5 == 0 {
						return errors.New("no")
					}
					return nil
				}, 1+w, 1+n%3)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var all []Snapshot
	last := Counters{}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		all = g.Snapshots(all)
		checkSums(t, &all[0])
		if now := &all[0]; now.Success.Count < last.Success.Count || now.Fail.Count < last.Fail.Count ||
			now.Executions < last.Executions {
			t.Errorf("counters fell: %+v after %+v", now.Counters, last)
		}
		last = all[0].Counters
	}
	if n := last.Success.Count + last.Fail.Count; n != 4*500*2 || all[0].Pending != 0 {
		t.Errorf("%d requests are counted and %d pending, want all of %d and 0", n, all[0].Pending, 4*500*2)
	}
}

// A snapshot is a copy: later requests do not change it.
func TestSnapshotIsACopy(t *testing.T) {
	s := &served{v: NewRegistry(Detail{}).Version("m", 1)}
	s.run(nil, 1)
	var first, second Snapshot
	s.v.Snapshot(&first)
	s.run(nil, 1)
	s.v.Snapshot(&second)
	if first.Batches[0].Infer.Count != 1 || second.Batches[0].Infer.Count != 2 || first.Success.Count != 1 {
		t.Errorf("first %+v, second %+v; want 1 and 2", first.Batches, second.Batches)
	}
}

func TestRegistryEpochs(t *testing.T) {
	g := NewRegistry(Detail{})
	first := g.Version("m", 1)
	if g.Version("m", 1) != first {
		t.Error("a reload gets other statistics")
	}
	var before, after Snapshot
	first.Snapshot(&before)
	g.Remove("m", 1)
	if n := len(g.Snapshots(nil)); n != 0 {
		t.Errorf("%d versions after Remove, want 0", n)
	}
	g.Version("m", 1).Snapshot(&after)
	if before.Epoch == after.Epoch {
		t.Errorf("epoch %d before and after an unload; want another", after.Epoch)
	}
	for _, name := range []string{"b", "a"} {
		for _, v := range []int64{2, 1} {
			g.Version(name, v)
		}
	}
	all := g.Snapshots(make([]Snapshot, 9))
	if len(all) != 5 || all[0].Model != "a" || all[0].Version != 1 || all[3].Model != "b" || all[3].Version != 2 ||
		all[4].Model != "m" {
		t.Errorf("snapshots %+v, want a, b and m by version", all)
	}
}

func TestReasonOf(t *testing.T) {
	for _, tt := range []struct {
		err      error
		executed bool
		want     Reason
	}{
		{status.New(status.Cancelled, ""), false, Canceled},
		{status.New(status.Cancelled, ""), true, Canceled},
		{status.New(status.Unavailable, ""), false, Rejected},
		{status.New(status.Unavailable, ""), true, BackendFailure},
		{status.New(status.Internal, ""), true, BackendFailure},
		{errors.New("any"), true, BackendFailure},
		{status.New(status.InvalidArg, ""), false, Other},
	} {
		if got := ReasonOf(tt.err, tt.executed); got != tt.want {
			t.Errorf("ReasonOf(%v, %v) = %v, want %v", status.CodeOf(tt.err), tt.executed, got, tt.want)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	for i := range Buckets {
		if low := LowerBound(i); Bucket(low) != i {
			t.Errorf("Bucket(LowerBound(%d) = %v) = %d", i, low, Bucket(low))
		}
		if i > 0 && Bucket(LowerBound(i)-1) != i-1 {
			t.Errorf("Bucket(%v) = %d, want %d", LowerBound(i)-1, Bucket(LowerBound(i)-1), i-1)
		}
	}
	if Bucket(-1) != 0 || Bucket(1<<62) != Buckets-1 {
		t.Errorf("Bucket(-1) = %d, Bucket(2^62) = %d; want the first and the last", Bucket(-1), Bucket(1<<62))
	}
	var h Histogram
	if h.Quantile(0.5) != 0 {
		t.Error("the quantile of nothing is not 0")
	}
	for i := range 1000 {
		h[Bucket(time.Duration(i+1)*time.Millisecond)]++
	}
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 500 * time.Millisecond,
		0.99: 990 * time.Millisecond, 1: time.Second} {
		if got := h.Quantile(q); got < want*15/16 || got > want*17/16 {
			t.Errorf("Quantile(%v) = %v, want %v within 1/16", q, got, want)
		}
	}
}

func TestLastCountersOfRemovedVersions_E050(t *testing.T) {
	g := NewRegistry(Detail{})
	count := func() {
		r := infer.New()
		defer r.Release()
		g.Version("m", 1).Refused(r, Rejected)
	}
	count()
	g.Remove("m", 1)
	if got := g.Removed(); got != nil {
		t.Errorf("%d versions are kept for nobody", len(got))
	}
	count()
	count()
	g.Remove("m", 1)
	g.Remove("m", 1) // it is not there
	got := g.Removed()
	if len(got) != 1 || got[0].Model != "m" || got[0].Epoch != 2 || got[0].Failures[Rejected] != 2 {
		t.Errorf("removed: %+v, want the two requests of the second epoch", got)
	}
	if got := g.Removed(); got != nil {
		t.Errorf("%d versions are returned again", len(got))
	}
}
