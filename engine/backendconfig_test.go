package engine_test

import (
	"context"
	"testing"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/modelconfig"
	"nereid/engine/tensor"
)

// named is the identity backend with another name; it returns signatures of its models.
type named struct {
	backend.Backend
	name string
}

func (n named) Name() string { return n.name }

func (n named) Signature(context.Context, backend.Spec) (*modelconfig.Signature, error) {
	io := modelconfig.IO{Name: "INPUT0", DataType: tensor.FP32, Dims: []int64{-1, 2}}
	out := io
	out.Name = "OUTPUT0"
	return &modelconfig.Signature{Backend: n.name, Inputs: []modelconfig.IO{io}, Outputs: []modelconfig.IO{out}}, nil
}

// default-max-batch-size of a backend takes precedence over that of all backends, and a configuration over both.
func TestDefaultMaxBatchSizes_D002_I022(t *testing.T) {
	root := t.TempDir()
	for name, cfg := range map[string]string{"l": `backend: "left"`, "r": `backend: "right"`,
		"own": `backend: "left" max_batch_size: 3`} {
		write(t, root+"/"+name+"/config.pbtxt", cfg)
		write(t, root+"/"+name+"/1/.keep", "")
	}
	global := 7
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{root}, DefaultMaxBatchSize: &global,
			DefaultMaxBatchSizes: map[string]int{"left": 9},
			Backends: []backend.Backend{named{builtin.Identity(), "left"},
				named{builtin.Identity(), "right"}},
		},
	})
	for name, want := range map[string]int32{"l": 9, "r": 7, "own": 3} {
		cfg, err := e.ModelConfig(name, -1)
		if err != nil {
			t.Fatal(err, e.StartFailures())
		}
		if got := cfg.GetMaxBatchSize(); got != want {
			t.Errorf("max_batch_size of %s is %d, want %d", name, got, want)
		}
	}
}
