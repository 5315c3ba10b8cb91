package engine_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// pouring is a backend. Its decoupled models send one response for each different number of IN: that number, width
// times. Model "again" also notes the first number of each request. The model "late" answers each request with IN, that
// of 0 after that of 1.
type pouring struct {
	model string
	width int
	one   chan struct{}
	got   chan int32
}

func (pouring) Name() string           { return "pouring" }
func (pouring) Traits() backend.Traits { return backend.Traits{} }
func (pouring) Close() error           { return nil }

func (p pouring) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	p.model = s.ModelName
	return p, nil
}

func (p pouring) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return p, nil
}

func (p pouring) Execute(_ context.Context, b *infer.Batch) error {
	for _, r := range b.Requests {
		in := numbers(r.Inputs[0].Data)
		if p.model == "late" {
			p.late(r, in)
			continue
		}
		if p.model == "again" {
			p.got <- in[0]
		}
		for _, n := range slices.Compact(in) {
			resp := r.NewResponse()
			resp.AddOutput("OUT", tensor.Int32, []int64{int64(p.width)}, bytes.Repeat(words(n), p.width), nil)
			if err := r.Respond(resp); err != nil {
				return err
			}
		}
		resp := r.NewResponse()
		resp.Final, resp.Empty = true, true
		if err := r.Respond(resp); err != nil {
			return err
		}
	}
	return nil
}

func (p pouring) late(r *infer.Request, in []int32) {
	if in[0] == 0 {
		<-p.one
		tick := time.NewTicker(10 * time.Millisecond) // 1 may reach the model "again" meanwhile, which it must not
		for range 10 {
			if <-tick.C; len(p.got) > 0 {
				break
			}
		}
		tick.Stop()
	}
	resp := r.NewResponse()
	resp.AddOutput("OUT", tensor.Int32, []int64{int64(len(in))}, words(in...), nil)
	resp.Final = true
	_ = r.Respond(resp) // fails only if it is cancelled
	if in[0] == 1 {
		close(p.one)
	}
}

// pour runs numbers through an ensemble of steps with these models, each behind the one before.
func pour(t *testing.T, p pouring, in []int32, models ...string) (outs []map[string][]int32) {
	t.Helper()
	const tensors = `input { name: "IN" data_type: TYPE_INT32 dims: -1 }
output { name: "OUT" data_type: TYPE_INT32 dims: -1 }
`
	root := t.TempDir()
	put(t, root, "pour", `backend: "pouring"`+"\nmodel_transaction_policy { decoupled: true }\n"+tensors)
	put(t, root, "again", `backend: "pouring"`+"\nmodel_transaction_policy { decoupled: true }\n"+tensors)
	put(t, root, "late", `backend: "pouring"`+"\ninstance_group { kind: KIND_CPU count: 2 }\n"+tensors)
	steps, from := "", "IN"
	for i, model := range models {
		to := model
		if i == len(models)-1 {
			to = "OUT"
		}
		steps += `step { model_name: "` + model + `" model_version: -1 input_map { key: "IN" value: "` + from +
			`" } output_map { key: "OUT" value: "` + to + `" } }` + "\n"
		from = to
	}
	put(t, root, "chain", `platform: "ensemble"`+"\n"+tensors+"ensemble_scheduling {\n"+steps+"}\n")
	e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root},
		Backends: []backend.Backend{p}}})
	r := infer.New()
	defer r.Release()
	r.ModelName = "chain"
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Int32, Shape: []int64{int64(len(in))},
		Data: words(in...)})
	stuck := time.AfterFunc(50*time.Second, r.Cancel) // after a minute more may wait
	defer stuck.Stop()
	outs, err := all(t, e, r)
	if err != nil {
		t.Fatal(err)
	}
	return outs
}

// A response that overtakes an earlier one must not take the instance of a decoupled step first: it would keep it until
// the earlier one has got its responses from that instance.
func TestResponsesReachTheNextDecoupledStepInOrder_C048(t *testing.T) {
	p := pouring{width: 1, one: make(chan struct{}), got: make(chan int32, 2)}
	if outs := pour(t, p, []int32{0, 1}, "pour", "late", "again"); len(outs) != 2 || outs[0]["OUT"][0] != 0 {
		t.Errorf("the responses are %v", outs)
	}
	if a, b := <-p.got, <-p.got; a != 0 || b != 1 {
		t.Errorf("the last model got %d, then %d; want 0, then 1", a, b)
	}
}

// The first step sends more than may wait, and its only instance is needed for the second.
func TestADecoupledStepDoesNotWaitForItself_C048(t *testing.T) {
	var in []int32
	for n := range int32(200) {
		in = append(in, n)
	}
	outs := pour(t, pouring{width: 1 << 15}, in, "pour", "pour")
	if len(outs) != len(in) {
		t.Fatalf("%d responses, want %d", len(outs), len(in))
	}
	for i, out := range outs {
		if out["OUT"][0] != int32(i) {
			t.Fatalf("response %d is %d", i, out["OUT"][0])
		}
	}
}
