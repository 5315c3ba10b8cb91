package onnxruntime_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// gpus returns the number of GPUs. Without one the test is skipped, or fails in "make test-gpu" (NEREID_TEST_GPU=1).
func gpus(t *testing.T) int {
	t.Helper()
	if os.Getenv("NEREID_TEST_GPU") != "1" {
		t.Skip("\"make test-gpu\" runs this, on a machine with an NVIDIA GPU")
	}
	out, err := exec.CommandContext(t.Context(), "nvidia-smi", "--query-gpu=name,driver_version",
		"--format=csv,noheader").Output()
	if err != nil {
		t.Fatalf("no GPU here: nvidia-smi: %v", err)
	}
	cards := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Logf("cards: %q", cards)
	return len(cards)
}

// usedMB returns the memory in use on GPU 0, in MB.
func usedMB(t *testing.T) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nvidia-smi", "--id=0", "--query-gpu=memory.used",
		"--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gpuModels returns models, each with an input and the name of the compared output.
func gpuModels() map[string]func() (backend.Spec, tensor.Tensor, string) {
	picture := make([]float32, 784)
	for i := range picture {
		picture[i] = float32(i*i%256) / 255
	}
	return map[string]func() (backend.Spec, tensor.Tensor, string){
		"perceptron": func() (backend.Spec, tensor.Tensor, string) {
			return mlpSpec(), floats("input", []int64{1, 784}, picture...), "output"
		},
		"convolutions": func() (backend.Spec, tensor.Tensor, string) {
			folder := filepath.Join("..", "..", "..", "models-sample", "digits")
			return backend.Spec{
				ModelName: "digits", Version: 1, ModelFolder: folder, VersionFolder: filepath.Join(folder, "1"),
				Log: slog.New(slog.DiscardHandler),
				Config: config(16, []tensorIO{{"image", tensor.FP32, []int64{1, 28, 28}}},
					[]tensorIO{{"scores", tensor.FP32, []int64{10}}}),
			}, floats("image", []int64{1, 1, 28, 28}, picture...), "scores"
		},
	}
}

// onGPU runs a request on a GPU.
func onGPU(t *testing.T, b *onnxruntime.Backend, s backend.Spec, device int, in tensor.Tensor,
	output string) ([]float32, error) {
	t.Helper()
	m, err := b.Load(t.Context(), s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	inst, err := m.NewInstance(t.Context(),
		backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_GPU, Device: device})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	}()
	resp := once(t, inst, 1, in)
	if resp.Err != nil {
		return nil, resp.Err
	}
	got := numbers(resp.Output(output))
	resp.Release()
	return got, nil
}

// accelerate configures instances on GPUs only, with a GPU accelerator unless name is "".
func accelerate(c *inferencepb.ModelConfig, name string, parameters map[string]string) {
	c.InstanceGroup = []*inferencepb.ModelInstanceGroup{{Kind: inferencepb.ModelInstanceGroup_KIND_GPU, Count: 1}}
	if name != "" {
		c.Optimization = &inferencepb.ModelOptimizationPolicy{ExecutionAccelerators: &accelerators{
			GpuExecutionAccelerator: []*accelerator{{Name: name, Parameters: parameters}}}}
	}
}

// TestGPU checks that models give the results of the CPU on a GPU, with each of Triton's options.
func TestGPU(t *testing.T) {
	cards, b := gpus(t), open(t)
	type words = map[string]string
	cases := map[string]struct {
		accelerator string
		options     words
		parameters  words
		within      float32
	}{
		"cuda": {within: 1e-3},
		"cuda accelerator": {accelerator: "cuda",
			options: words{"cudnn_conv_use_max_workspace": "1", "use_tf32": "0"}, within: 1e-3},
		"cuda model parameters": {parameters: words{"cudnn_conv_algo_search": "1", "gpu_mem_limit": "2147483648",
			"arena_extend_strategy": "1", "do_copy_in_default_stream": "1"}, within: 1e-3},
		"shrinkage": {parameters: words{"memory.enable_memory_arena_shrinkage": "gpu:0"}, within: 1e-3},
		"device initializers": {parameters: words{"session.use_device_allocator_for_initializers": "1"},
			within: 1e-3},
		"tensorrt": {accelerator: "tensorrt",
			options: words{"precision_mode": "FP32", "max_workspace_size_bytes": "1073741824"}, within: 1e-2},
		"tensorrt half": {accelerator: "tensorrt", options: words{"precision_mode": "FP16",
			"trt_engine_cache_enable": "true", "trt_engine_cache_path": t.TempDir()}, within: 5e-2},
	}
	for model, get := range gpuModels() {
		s, in, output := get()
		cpu := ask(t, b, s, 1, in)
		if cpu.Err != nil {
			t.Fatal(cpu.Err)
		}
		want := numbers(cpu.Output(output))
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			tt := cases[name]
			for device := range cards {
				t.Run(fmt.Sprintf("%s, %s, device %d", model, name, device), func(t *testing.T) {
					s, in, output := get()
					s.Config.Parameters = map[string]*inferencepb.ModelParameter{}
					for k, v := range tt.parameters {
						s.Config.Parameters[k] = &inferencepb.ModelParameter{StringValue: strings.ReplaceAll(v, "gpu:0",
							fmt.Sprintf("gpu:%d", device))}
					}
					accelerate(s.Config, tt.accelerator, tt.options)
					got, err := onGPU(t, b, s, device, in, output)
					if err != nil {
						t.Fatal(err)
					}
					compare(t, got, want, tt.within)
				})
			}
		}
	}
}

// TestGPURefuses checks that a configuration that the GPU cannot run fails to load.
func TestGPURefuses(t *testing.T) {
	cards, b := gpus(t), open(t)
	for _, tt := range []struct {
		name, accelerator string
		options           map[string]string
		device            int
		code              status.Code
	}{
		{"a card that is not there", "", nil, cards + 7, status.InvalidArg},
		{"an option that CUDA does not have", "cuda", map[string]string{"warp": "9"}, 0, status.InvalidArg},
		{"an option of TensorRT that is no number", "tensorrt", map[string]string{"max_workspace_size_bytes": "much"},
			0, status.InvalidArg},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := mlpSpec()
			accelerate(s.Config, tt.accelerator, tt.options)
			_, err := onGPU(t, b, s, tt.device, floats("input", []int64{1, 784}, make([]float32, 784)...), "output")
			if err == nil || status.CodeOf(err) != tt.code && status.CodeOf(err) != status.Unavailable {
				t.Errorf("%v %v, want %v", status.CodeOf(err), err, tt.code)
			}
		})
	}
}

// TestGPUMemoryIsReported checks that the memory of a model includes its weights. TensorRT models report none.
func TestGPUMemoryIsReported(t *testing.T) {
	gpus(t)
	b := open(t)
	for accelerator, told := range map[string]bool{"": true, "tensorrt": false} {
		t.Run(cmp.Or(accelerator, "no accelerator"), func(t *testing.T) {
			s := mlpSpec()
			accelerate(s.Config, accelerator, nil)
			m, err := b.Load(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			inst, err := m.NewInstance(t.Context(),
				backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_GPU})
			if err != nil {
				t.Fatal(err)
			}
			resp := once(t, inst, 1, floats("input", []int64{1, 784}, make([]float32, 784)...))
			if resp.Err != nil {
				t.Error(resp.Err)
			}
			resp.Release()
			const weights = 4 * (784*512 + 512*512 + 512*10)
			got := m.(backend.DeviceMemoryReporter).DeviceMemoryBytes()
			t.Logf("%v bytes of GPUs", got)
			if n := got[0]; told && (n < weights || n > weights+64<<20) || !told && len(got) > 0 {
				t.Errorf("it takes %v; the weights are %d bytes", got, weights)
			}
			if err := inst.Close(); err != nil {
				t.Error(err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGPUMemoryIsFreed checks that cycles of loading, running and unloading do not use more GPU memory.
func TestGPUMemoryIsFreed(t *testing.T) {
	gpus(t)
	b := open(t)
	s := mlpSpec()
	accelerate(s.Config, "", nil)
	in := floats("input", []int64{1, 784}, make([]float32, 784)...)
	cycle := func() {
		if _, err := onGPU(t, b, s, 0, in, "output"); err != nil {
			t.Fatal(err)
		}
	}
	cycle() // CUDA's own memory stays with the process
	before := usedMB(t)
	for range 20 {
		cycle()
	}
	if after := usedMB(t); after > before+20 {
		t.Errorf("the card's memory in use grew from %d to %d MB in 20 cycles", before, after)
	}
}
