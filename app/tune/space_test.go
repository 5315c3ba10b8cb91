package tune

import (
	"context"
	"slices"
	"testing"
)

func TestEachMeasuresEveryChangeAlone(t *testing.T) {
	for _, tt := range []struct {
		name string
		axes []Axis
		want []string
	}{
		{"without batching, a larger batch comes with it", []Axis{NewAxis("m", MaxBatch, []int{4, 32}, 8),
			NewAxis("m", Delay, []int{NoBatching, 0, 100}, NoBatching), NewAxis("m", Threads, []int{1}, 0)},
			[]string{
				"m.max_batch_size=32 m.max_queue_delay=0 m.intra_op_threads=0",
				"m.max_batch_size=8 m.max_queue_delay=0 m.intra_op_threads=0",
				"m.max_batch_size=8 m.max_queue_delay=100 m.intra_op_threads=0",
				"m.max_batch_size=8 m.max_queue_delay=-1 m.intra_op_threads=1"}},
		{"with batching, sizes change alone", []Axis{NewAxis("m", MaxBatch, []int{4, 32}, 8),
			NewAxis("m", Delay, nil, 0)}, []string{"m.max_batch_size=4 m.max_queue_delay=0",
			"m.max_batch_size=32 m.max_queue_delay=0"}},
		{"batching that cannot be turned on", []Axis{NewAxis("m", MaxBatch, []int{32}, 8),
			NewAxis("m", Delay, nil, NoBatching)}, nil},
	} {
		s := Space{Axes: append(tt.axes, NewAxis("", Load, []int{1, 8}, 8))}
		r, err := Each(t.Context(), Options{Space: s, Goal: Goal{Weights: map[Metric]float64{Throughput: 1}},
			Measure: func(context.Context, Candidate) (Measurement, error) { return Measurement{Throughput: 1}, nil }})
		if err != nil || !r.Ended || len(r.Trials) != 2*(1+len(tt.want)) {
			t.Fatalf("%s: %d trials, %v", tt.name, len(r.Trials), err)
		}
		var got []string
		for _, trial := range r.Trials {
			if v := s.Variant(trial.Candidate); !s.IsPresent(trial.Candidate) && !slices.Contains(got, v) {
				got = append(got, v)
			}
		}
		if !s.IsPresent(r.Trials[0].Candidate) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
