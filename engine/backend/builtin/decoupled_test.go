package builtin_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func repeatConfig(decoupled bool) *inferencepb.ModelConfig {
	i32, u32 := inferencepb.DataType_TYPE_INT32, inferencepb.DataType_TYPE_UINT32
	return &inferencepb.ModelConfig{
		Input: []*inferencepb.ModelInput{
			{Name: "IN", DataType: i32, Dims: []int64{-1}},
			{Name: "DELAY", DataType: u32, Dims: []int64{-1}},
			{Name: "WAIT", DataType: u32, Dims: []int64{1}},
		},
		Output: []*inferencepb.ModelOutput{
			{Name: "OUT", DataType: i32, Dims: []int64{1}},
			{Name: "IDX", DataType: u32, Dims: []int64{1}},
		},
		ModelTransactionPolicy: &inferencepb.ModelTransactionPolicy{Decoupled: decoupled},
	}
}

func repeatModel() backendtest.Model {
	return backendtest.Model{
		Name:   "repeat",
		Config: repeatConfig(true),
		Inputs: func(_ int, seed uint64) []tensor.Tensor {
			s := uint32(seed)
			return []tensor.Tensor{
				words("IN", tensor.Int32, s, ^s, s*3), words("DELAY", tensor.Uint32, 0, 0, 0),
				words("WAIT", tensor.Uint32, 0),
			}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			if n := len(in[0].Data) / 4; len(responses) != n {
				return fmt.Errorf("%d responses, want %d", len(responses), n)
			}
			for i, out := range responses {
				want := tensor.Tensor{Name: "OUT", DataType: tensor.Int32, Shape: []int64{1},
					Data: in[0].Data[4*i : 4*i+4]}
				if err := backendtest.Same(backendtest.Find(out, "OUT"), want); err != nil {
					return err
				}
				if err := backendtest.Same(backendtest.Find(out, "IDX"),
					words("IDX", tensor.Uint32, uint32(i))); err != nil {
					return err
				}
			}
			return nil
		},
		Zero: func() []tensor.Tensor {
			return []tensor.Tensor{words("IN", tensor.Int32), words("DELAY", tensor.Uint32),
				words("WAIT", tensor.Uint32, 0)}
		},
		Bad: func() []tensor.Tensor {
			return []tensor.Tensor{words("IN", tensor.Int32, 1, 2), words("DELAY", tensor.Uint32, 0),
				words("WAIT", tensor.Uint32, 0)}
		},
		Slow: func() []tensor.Tensor {
			return []tensor.Tensor{words("IN", tensor.Int32, 1), words("DELAY", tensor.Uint32, 3e6),
				words("WAIT", tensor.Uint32, 0)}
		},
	}
}

func TestRepeat_D071(t *testing.T) { backendtest.Test(t, builtin.Repeat(), repeatModel()) }

func TestSquare_D071(t *testing.T) {
	backendtest.Test(t, builtin.Square(), backendtest.Model{
		Name: "square",
		Config: &inferencepb.ModelConfig{
			Input: []*inferencepb.ModelInput{{Name: "IN", DataType: inferencepb.DataType_TYPE_INT32,
				Dims: []int64{1}}},
			Output: []*inferencepb.ModelOutput{{Name: "OUT", DataType: inferencepb.DataType_TYPE_INT32,
				Dims: []int64{1}}},
			ModelTransactionPolicy: &inferencepb.ModelTransactionPolicy{Decoupled: true},
		},
		Inputs: func(_ int, seed uint64) []tensor.Tensor {
			return []tensor.Tensor{words("IN", tensor.Int32, 1+uint32(seed%7))}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			n := int(int32(in[0].Data[0]) | int32(int8(in[0].Data[3]))<<24)
			if len(responses) != max(n, 0) {
				return fmt.Errorf("%d responses, want %d", len(responses), n)
			}
			for _, out := range responses {
				if err := backendtest.Same(backendtest.Find(out, "OUT"),
					words("OUT", tensor.Int32, uint32(n))); err != nil {
					return err
				}
			}
			return nil
		},
		Bad: func() []tensor.Tensor { return []tensor.Tensor{words("IN", tensor.Int32, 1, 2)} },
	})
}

func TestRepeatTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inst := repeatInstance(t, true)
		r := infer.New() // not released: its channels belong to this bubble and must not be pooled for others
		r.Inputs = []tensor.Tensor{
			words("IN", tensor.Int32, 7, 8), words("DELAY", tensor.Uint32, 100, 200), words("WAIT", tensor.Uint32, 50),
		}
		start := time.Now()
		if err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: 1}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 50*time.Millisecond {
			t.Errorf("the instance was busy for %v, want 50ms", d)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel() // Next with it takes what is there and does not wait
		for i, want := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond} {
			if early := want - time.Since(start) - 1; early > 0 {
				time.Sleep(early)
				synctest.Wait()
				if _, err := r.Next(over); err == nil {
					t.Errorf("response %d came before %v", i, want)
				}
				time.Sleep(time.Nanosecond)
			}
			synctest.Wait()
			resp, err := r.Next(over)
			if err != nil || resp.Final != (i == 2) {
				t.Fatalf("response %d after %v: %+v, %v; want one, final %v", i, want, resp, err, i == 2)
			}
			resp.Release()
		}
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	})
}

func repeatInstance(t *testing.T, decoupled bool) backend.Instance {
	m, err := builtin.Repeat().Load(t.Context(), spec(repeatConfig(decoupled)))
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(), backend.Placement{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func TestRepeatWithoutDecoupled(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []uint32
		code status.Code
	}{
		{"one element", []uint32{5}, 0},
		{"two elements", []uint32{5, 6}, status.InvalidArg},
		{"none", nil, status.InvalidArg},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inst := repeatInstance(t, false)
			r := infer.New()
			defer r.Release()
			r.Inputs = []tensor.Tensor{
				words("IN", tensor.Int32, tt.in...), words("DELAY", tensor.Uint32, make([]uint32, len(tt.in))...),
				words("WAIT", tensor.Uint32, 0),
			}
			if err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: 1}); err != nil {
				t.Fatal(err)
			}
			resp, err := r.Next(t.Context())
			if err != nil || !resp.Final {
				t.Fatalf("Next = %+v, %v; want one final response", resp, err)
			}
			if tt.code != 0 && (resp.Err == nil || status.CodeOf(resp.Err) != tt.code) ||
				tt.code == 0 && len(resp.Outputs) != 2 {
				t.Errorf("%d outputs, error %v; want code %v", len(resp.Outputs), resp.Err, tt.code)
			}
			if err := inst.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDecoupledRefuses(t *testing.T) {
	batched := repeatConfig(true)
	batched.MaxBatchSize = 4
	wrong := repeatConfig(true)
	wrong.Input[1].DataType = inferencepb.DataType_TYPE_INT64
	missing := repeatConfig(true)
	missing.Output = missing.Output[:1]
	names := repeatConfig(true)
	names.Input[0].Name = "INPUT0"
	shape := repeatConfig(true)
	shape.Input[2].Dims = []int64{2}
	unequal := repeatConfig(true)
	unequal.Input[1].Dims = []int64{3}
	backendtest.TestRefusals(t, builtin.Repeat(),
		backendtest.Refusal{Name: "batching", Spec: spec(batched), Code: status.InvalidArg,
			Text: "repeat backend only supports models with max_batch_size == 0"},
		backendtest.Refusal{Name: "datatype", Spec: spec(wrong), Code: status.InvalidArg,
			Text: "expected DELAY datatype to be TYPE_UINT32, got TYPE_INT64"},
		backendtest.Refusal{Name: "outputs", Spec: spec(missing), Code: status.InvalidArg,
			Text: "expected 2 outputs, got 1"},
		backendtest.Refusal{Name: "names", Spec: spec(names), Code: status.InvalidArg,
			Text: "expected input tensor name to be IN, got INPUT0"},
		backendtest.Refusal{Name: "shape of WAIT", Spec: spec(shape), Code: status.InvalidArg,
			Text: "expected WAIT shape to be [1], got [2]"},
		backendtest.Refusal{Name: "unequal shapes", Spec: spec(unequal), Code: status.InvalidArg,
			Text: "expected IN and DELAY shape to match, got [-1] and [3]"},
	)
}
