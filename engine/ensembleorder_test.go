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
