package engine_test

import (
	"context"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// meeting is a backend with a model "first", which answers when the model "second" has executed, with 0.
type meeting struct {
	model string
	met   chan struct{}
}

func (meeting) Name() string           { return "meeting" }
func (meeting) Traits() backend.Traits { return backend.Traits{} }
func (meeting) Close() error           { return nil }

func (m meeting) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	return meeting{s.ModelName, m.met}, nil
}

func (m meeting) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return m, nil
}

func (m meeting) Execute(ctx context.Context, b *infer.Batch) error {
	if m.model == "second" {
		close(m.met)
	} else {
		select {
		case <-m.met:
		case <-time.After(10 * time.Second):
			return status.New(status.Internal, "the other model did not execute")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, r := range b.Requests {
		resp := r.NewResponse()
		resp.AddOutput("OUTPUT0", tensor.Int32, []int64{4}, words(0, 0, 0, 0), nil)
		resp.Final = true
		if err := r.Respond(resp); err != nil {
			return err
		}
	}
	return nil
}

// The models first and copy get the ensemble's input. Second gets the output of copy, so it does not wait for first.
func TestEnsembleStepRunsBesideOneThatTakesLonger_C043(t *testing.T) {
	const (
		tensors = `input { name: "INPUT0" data_type: TYPE_INT32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 4 }
`
		ensemble = `platform: "ensemble"
input { name: "IN" data_type: TYPE_INT32 dims: 4 }
output { name: "A" data_type: TYPE_INT32 dims: 4 }
output { name: "B" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling {
`
		first = `step { model_name: "first" model_version: -1 input_map { key: "INPUT0" value: "IN" }
  output_map { key: "OUTPUT0" value: "A" } }
`
		second = `step { model_name: "copy" model_version: -1 input_map { key: "INPUT0" value: "IN" }
  output_map { key: "OUTPUT0" value: "copied" } }
step { model_name: "second" model_version: -1 input_map { key: "INPUT0" value: "copied" }
  output_map { key: "OUTPUT0" value: "B" } }
`
	)
	for name, steps := range map[string]string{
		"first is listed first": first + second, "first is listed last": second + first,
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for model, cfg := range map[string]string{
				"first": `backend: "meeting"` + "\n" + tensors, "second": `backend: "meeting"` + "\n" + tensors,
				"copy": `backend: "identity"` + "\n" + tensors, "ens": ensemble + steps + "}\n",
			} {
				write(t, root+"/"+model+"/config.pbtxt", cfg)
				write(t, root+"/"+model+"/1/.keep", "")
			}
			e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root},
				Backends: append(builtin.All(), meeting{met: make(chan struct{})})}})
			r := infer.New()
			defer r.Release()
			r.ModelName = "ens"
			r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Int32, Shape: []int64{4},
				Data: words(1, 2, 3, 4)})
			if outs, err := all(t, e, r); err != nil || len(outs) != 1 || len(outs[0]) != 2 {
				t.Errorf("%v, %v; want both outputs", outs, err)
			}
		})
	}
}

// overtaking is a backend with a model "slow", whose answer to 1 waits for that to 2, and a model "last", which notes
// what it gets.
type overtaking struct {
	model string
	two   chan struct{}
	got   chan int32
}

func (overtaking) Name() string           { return "overtaking" }
func (overtaking) Traits() backend.Traits { return backend.Traits{} }
func (overtaking) Close() error           { return nil }

func (o overtaking) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	return overtaking{s.ModelName, o.two, o.got}, nil
}

func (o overtaking) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return o, nil
}

func (o overtaking) Execute(_ context.Context, b *infer.Batch) error {
	for _, r := range b.Requests {
		resp := r.NewResponse()
		n := numbers(r.Inputs[0].Data)[0]
		switch {
		case o.model == "last":
			o.got <- n
		case n == 1:
			<-o.two
			tick := time.NewTicker(10 * time.Millisecond) // 2 may reach the model "last" meanwhile, which it must not
			for range 10 {
				if <-tick.C; len(o.got) > 0 {
					break
				}
			}
			tick.Stop()
		}
		resp.AddOutput("OUTPUT0", tensor.Int32, []int64{1}, words(n), nil)
		resp.Final = true
		if err := r.Respond(resp); err != nil {
			return err
		}
		if o.model == "slow" && n == 2 {
			close(o.two)
		}
	}
	return nil
}

// The second request of a sequence overtakes the first in the first step, but not in the second.
func TestEnsembleKeepsTheOrderOfASequence_C041(t *testing.T) {
	const (
		tensors = `input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }
`
		steps = `ensemble_scheduling {
step { model_name: "slow" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" }
  output_map { key: "OUTPUT0" value: "between" } }
step { model_name: "last" model_version: -1 input_map { key: "INPUT0" value: "between" }
  output_map { key: "OUTPUT0" value: "OUTPUT0" } }
}
`
	)
	root := t.TempDir()
	for model, cfg := range map[string]string{
		"slow": `backend: "overtaking"` + "\n" + tensors + "instance_group { kind: KIND_CPU count: 2 }\n",
		"last": `backend: "overtaking"` + "\n" + tensors + "instance_group { kind: KIND_CPU count: 1 }\n",
		"ens":  `platform: "ensemble"` + "\n" + tensors + steps,
	} {
		write(t, root+"/"+model+"/config.pbtxt", cfg)
		write(t, root+"/"+model+"/1/.keep", "")
	}
	o := overtaking{two: make(chan struct{}), got: make(chan int32, 2)}
	e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root},
		Backends: append(builtin.All(), o)}})
	var sent []*infer.Request
	for n := range int32(2) {
		r := infer.New()
		defer r.Release()
		r.ModelName = "ens"
		r.Correlation.Text = "sequence"
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.Int32, Shape: []int64{1},
			Data: words(n + 1)})
		if err := e.Infer(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, r)
	}
	for _, r := range sent {
		resp, err := r.Next(t.Context())
		if err != nil || resp.Err != nil {
			t.Fatal(err, resp)
		}
		resp.Release()
	}
	if a, b := <-o.got, <-o.got; a != 1 || b != 2 {
		t.Errorf("the last model got %d, then %d; want 1, then 2", a, b)
	}
}
