package engine_test

import (
	"context"
	"strings"
	"testing"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
)

// A model that needs a backend which only Triton has is refused with the backend's name and an alternative. The other
// models of the repository are loaded.
func TestUnsupportedConfigurationsAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, config, file, want string }{
		{"tensorrt_plan", `platform: "tensorrt_plan"`, "model.plan",
			"serve the ONNX model that the engine was built from, with optimization { execution_accelerators"},
		{"a plan without a configuration", "", "model.plan",
			"backend 'tensorrt' runs engines that TensorRT has built for one kind of GPU"},
		{"DALI", `backend: "dali"`, "model.dali",
			"put the pipeline into a Python model (pip install nvidia-dali-cuda120"},
		{"vLLM", `backend: "vllm"`, "model.json", "put the vllm/model.py of its makers into --backend-directory"},
		{"TensorRT-LLM", `backend: "tensorrtllm"`, "model.json",
			"put a tensorrtllm/model.py that runs TensorRT-LLM's Python API into --backend-directory"},
		{"Caffe2", `platform: "caffe2_netdef"`, "model.netdef",
			"PyTorch has dropped Caffe2; convert the model to ONNX"},
		{"a NetDef without a configuration", "", "model.netdef", "backend 'caffe2' ran Caffe2's networks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root+"/id/config.pbtxt", strings.Replace(identityConfig, "all {}", "latest { num_versions: 1 }",
				1))
			write(t, root+"/id/1/.keep", "")
			write(t, root+"/refused/1/"+tt.file, "x")
			if tt.config != "" {
				write(t, root+"/refused/config.pbtxt", tt.config)
			}
			e, err := engine.New(engine.Options{
				ModelOptions: engine.ModelOptions{Repositories: []string{root},
					Backends: []backend.Backend{builtin.Identity()}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close(context.Background())
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ok, _ := e.ModelReady("id", 1); !ok {
				t.Error("the other model is not ready")
			}
			for _, row := range e.RepositoryIndex(false) {
				if row.Name == "refused" && (!strings.HasPrefix(row.Reason, "Unsupported: ") ||
					!strings.Contains(row.Reason, tt.want)) {
					t.Errorf("the reason is %q; want %q", row.Reason, tt.want)
				}
			}
		})
	}
}
