package shadow

import (
	"context"
	"errors"
	"math"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// answering is a candidate that gives one output for every request.
type answering struct{ data []byte }

func (a answering) Acquire() bool { return true }

func (a answering) Infer(r *infer.Request) error {
	resp := r.NewResponse()
	resp.AddOutput("OUT", tensor.Uint8, []int64{int64(len(a.data))}, a.data, nil)
	resp.Final = true
	return r.Respond(resp)
}

func offer(s *Shadow, err error) {
	r := infer.New()
	defer r.Release()
	r.OnDevice = true // as for all models of ONNX Runtime; these tensors are in Data
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Uint8, Shape: []int64{3},
		Data: []byte{1, 2, 3}})
	resp := r.NewResponse()
	resp.AddOutput("OUT", tensor.Uint8, []int64{2}, []byte{1, 2}, nil)
	resp.Final, resp.Err = true, err
	s.Offer(r, resp)
	resp.Release()
}

func TestCopiesAreSampledBoundedAndCounted(t *testing.T) {
	memory := tensor.NewBudget(1 << 20)
	s := New(Options{Candidate: answering{[]byte{1, 2}}, Percent: 25, Memory: memory})
	for range 4 * (queueLength + 10) {
		offer(s, nil)
	}
	if got := s.Report(); got.Seen != 4*(queueLength+10) || got.Waiting != queueLength || got.Dropped != 10 {
		t.Errorf("a full queue: %+v", got)
	}
	if used := memory.Used(); used != 5*queueLength {
		t.Errorf("%d bytes are in use, want %d", used, 5*queueLength)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.Run(ctx) // it may answer some of them
	for range 4 {
		offer(s, nil) // the last one is copied, and nobody runs
	}
	if got := s.Report(); got.Waiting != 0 || memory.Used() != 0 {
		t.Errorf("after the end %d copies wait with %d bytes", got.Waiting, memory.Used())
	}
}

func TestCopiesThatAreNotMade(t *testing.T) {
	busy := New(Options{Percent: 100, Busy: func() bool { return true }})
	offer(busy, nil)
	memory := tensor.NewBudget(8)
	memory.Add(8)
	full := New(Options{Percent: 100, Memory: memory})
	offer(full, nil)
	for name, s := range map[string]*Shadow{"a busy machine": busy, "no memory": full} {
		if got := s.Report(); got.Dropped != 1 || got.Waiting != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	failed := New(Options{Percent: 100})
	offer(failed, errors.New("failed"))
	if got := failed.Report(); got.Skipped != 1 || got.Waiting != 0 {
		t.Errorf("a failed request: %+v", got)
	}
}

func TestRulesByOutput(t *testing.T) {
	for _, tt := range []struct {
		dt    tensor.DataType
		shape []int64
		rule  RuleKind
		want  RuleKind
	}{
		{tensor.FP32, []int64{1, 10}, ByOutput, RuleTop},
		{tensor.FP32, []int64{10, 1}, ByOutput, RuleNear},
		{tensor.FP16, nil, ByOutput, RuleNear},
		{tensor.Int64, []int64{10}, ByOutput, RuleEqual},
		{tensor.Int64, []int64{10}, RuleNear, RuleNear},
		{tensor.Bytes, []int64{10}, RuleTop, RuleEqual},
		{tensor.FP32, []int64{1}, RuleTop, RuleEqual},
	} {
		if got := (Rule{Kind: tt.rule}).of(&tensor.Tensor{DataType: tt.dt, Shape: tt.shape}); got != tt.want {
			t.Errorf("rule %q for %v %v = %q, want %q", tt.rule, tt.dt, tt.shape, got, tt.want)
		}
	}
}

func TestFlag(t *testing.T) {
	for _, tt := range []struct {
		compared, agreed, failed int64
		want                     bool
	}{
		{2, 0, 0, false}, {3, 0, 0, true}, {100, 98, 0, false}, {300, 297, 0, true}, {2000, 1998, 0, false},
		{2000, 1980, 0, true}, {200, 200, 10, true}, {100_000, 99_900, 0, false},
	} {
		r := Report{Compared: tt.compared, Agreed: tt.agreed, Failed: tt.failed}
		if got := r.Flagged(); got != tt.want {
			t.Errorf("%+v: flagged is %v", tt, got)
		}
	}
}

// The interval of a known sample: mean 3, variance 2.5.
func TestInterval(t *testing.T) {
	var w welford
	if _, half := w.interval(); !math.IsInf(half, 1) {
		t.Errorf("nothing is known within %v", half)
	}
	for _, v := range []float64{1, 2, 3, 4, 5} {
		w.add(v)
	}
	if mean, half := w.interval(); mean != 3 || math.Abs(half-z95*math.Sqrt(0.5)) > 1e-12 {
		t.Errorf("interval = %v ± %v", mean, half)
	}
}

func BenchmarkOffer(b *testing.B) {
	s := New(Options{Percent: 1e-9})
	r := infer.New()
	resp := r.NewResponse()
	for b.Loop() {
		s.Offer(r, resp)
	}
}
