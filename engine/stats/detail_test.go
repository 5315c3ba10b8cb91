package stats

import (
	"slices"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// answer counts a request with the given times, as a model does: executed in a batch of one, or answered from the
// cache.
func answer(v *Version, executed bool, queue, input, run, output time.Duration) {
	r := infer.NewDetached()
	at := infer.Stamp(time.Hour)
	next := func(d time.Duration) infer.Stamp { at += infer.Stamp(d); return at }
	r.Times = infer.Times{Arrived: at}
	if executed {
		r.Times.Queued = at
		r.Times.Taken = next(queue)
		r.Times.Input = next(input)
		r.Times.Output = next(run)
		b := infer.NewBatch()
		b.Requests, b.Rows = append(b.Requests, r), 1
		r.Batch = b
	}
	r.Times.Finished = next(output)
	v.Finished(r, &infer.Response{Final: true}, Other)
}

func TestDetail(t *testing.T) {
	all := Detail{Summaries: true, Histograms: true}
	phases := func(has [NumPhases]bool) (list []Phase) {
		for p := range NumPhases {
			if has[p] {
				list = append(list, p)
			}
		}
		return list
	}
	plain := []Phase{Request, Queue, ComputeInput, ComputeInfer, ComputeOutput}
	for _, tt := range []struct {
		name                  string
		keep                  Detail
		kind                  Kind
		summaries, histograms []Phase
	}{
		{name: "nothing is asked for"},
		{name: "E015 summaries", keep: Detail{Summaries: true}, summaries: plain},
		{name: "E018 histograms", keep: Detail{Histograms: true}, histograms: plain},
		{name: "E014 a decoupled model", keep: all, kind: Kind{Decoupled: true}, summaries: plain,
			histograms: append(slices.Clone(plain), FirstResponse)},
		{name: "E015 E016 a cached model has none of whole requests", keep: all, kind: Kind{Cached: true},
			summaries:  []Phase{Queue, ComputeInput, ComputeInfer, ComputeOutput, CacheHit, CacheMiss},
			histograms: []Phase{Queue, ComputeInput, ComputeInfer, ComputeOutput}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewRegistry(tt.keep)
			v := g.Version("m", 1)
			v.SetKind(tt.kind)
			answer(v, true, 10*time.Microsecond, 0, 0, 0)
			var d Distributions
			if !g.Distributions("m", 1, []float64{0.5}, &d) || g.Distributions("m", 2, nil, &d) {
				t.Error("Distributions does not know which versions there are")
			}
			if s, h := phases(d.HasSummary), phases(d.HasHistogram); !slices.Equal(s, tt.summaries) ||
				!slices.Equal(h, tt.histograms) {
				t.Errorf("summaries of %v and histograms of %v, want %v and %v", s, h, tt.summaries, tt.histograms)
			}
		})
	}
}

func TestDistributions(t *testing.T) {
	v := NewRegistry(Detail{Summaries: true, Histograms: true}).Version("m", 1)
	v.SetKind(Kind{Cached: true, Buckets: map[Phase][]float64{ComputeInfer: {-1, 0.5, 300}}})
	for range 3 {
		answer(v, true, 200*time.Microsecond, 20*time.Microsecond, 300*time.Microsecond, 1*time.Microsecond)
	}
	answer(v, true, 0, 0, 301*time.Microsecond, 0)
	answer(v, false, 0, 0, 0, 5*time.Microsecond)
	v.CacheMiss(40 * time.Microsecond)
	v.CacheHit(30 * time.Microsecond)
	var d Distributions
	v.Distributions([]float64{0.5, 0.1}, &d)
	count := func(p Phase) [2]uint64 { return [2]uint64{d.Summaries[p].Count, d.Summaries[p].Ns} }
	for p, want := range map[Phase][2]uint64{
		Queue: {5, 600_000}, ComputeInput: {4, 60_000}, ComputeInfer: {4, 1_201_000}, ComputeOutput: {4, 3_000},
		CacheHit: {1, 30_000}, CacheMiss: {1, 40_000},
	} {
		if got := count(p); got != want {
			t.Errorf("summary of phase %d: %d of %d ns, want %d of %d", p, got[0], got[1], want[0], want[1])
		}
	}
	if h := d.Histograms[ComputeInfer]; !slices.Equal(h.Counts, []uint64{0, 0, 3, 1}) || h.Count != 4 {
		t.Errorf("histogram of the computation %+v, want 3 up to 300 us and 1 above", h)
	}
	if h := d.Histograms[Queue]; !slices.Equal(h.Counts, []uint64{2, 3, 0, 0, 0, 0}) {
		t.Errorf("histogram of the queue %+v, want 2 up to 100 us and 3 up to 1 ms", h)
	}
	// A reload keeps the latencies whose kind stays the same.
	v.SetKind(Kind{Cached: true, Buckets: map[Phase][]float64{ComputeInfer: {1}}})
	v.Distributions(nil, &d)
	if h := d.Histograms[ComputeInfer]; h.Count != 0 || len(h.Counts) != 2 || d.Histograms[Queue].Count != 5 ||
		d.Summaries[ComputeInfer].Count != 4 {
		t.Errorf("after a reload with other buckets: %+v, want that histogram empty and the others kept", d)
	}
}

func TestFirstResponse(t *testing.T) {
	v := NewRegistry(Detail{Histograms: true}).Version("m", 1)
	v.SetKind(Kind{Decoupled: true})
	send := func(responses ...*infer.Response) {
		r := infer.NewDetached()
		r.Times.Arrived = infer.Now()
		for _, resp := range responses {
			v.Responded(r, resp)
		}
	}
	out := func() *infer.Response { return &infer.Response{Outputs: make([]tensor.Tensor, 1)} }
	end := &infer.Response{Final: true, Empty: true} // is not counted
	send(out(), out(), end)
	send(&infer.Response{}, end) // one without outputs is a response
	send(end)
	var d Distributions
	v.Distributions(nil, &d)
	if h := d.Histograms[FirstResponse]; h.Count != 2 || h.Unit != time.Millisecond ||
		!slices.Equal(h.Bounds, []float64{100, 500, 2000, 5000}) {
		t.Errorf("histogram of first responses %+v, want 2 with Triton's bounds", h)
	}
}

func BenchmarkFinished(b *testing.B) {
	for name, keep := range map[string]Detail{"sums": {}, "summaries": {Summaries: true},
		"histograms": {Histograms: true}, "both": {Summaries: true, Histograms: true}} {
		b.Run(name, func(b *testing.B) {
			v := NewRegistry(keep).Version("m", 1)
			v.SetKind(Kind{})
			r := infer.NewDetached()
			batch := infer.NewBatch()
			batch.Requests, batch.Rows, r.Batch = append(batch.Requests, r), 1, batch
			resp := &infer.Response{Final: true}
			b.ReportAllocs()
			for b.Loop() {
				now := infer.Now()
				r.Times = infer.Times{Arrived: now - 90_000, Queued: now - 80_000, Taken: now - 70_000,
					Input: now - 60_000, Output: now - 20_000, Finished: now}
				v.Finished(r, resp, Other)
			}
		})
	}
}
