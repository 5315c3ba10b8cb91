package onnxruntime_test

import (
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

// gpus returns the number of cards. Where "make test-gpu" asks for these checks (NEREID_TEST_GPU=1) no card is a
// failure; elsewhere the test is skipped.
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

// usedMB returns the memory in use on card 0.
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

// gpuModels are models with an input, whose answers must be the CPU's.
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

// onGPU runs a request on a card.
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

// accelerate makes a configuration ask for an accelerator of GPUs and have all its instances on them.
func accelerate(c *inferencepb.ModelConfig, name string, parameters map[string]string) {
	c.InstanceGroup = []*inferencepb.ModelInstanceGroup{{Kind: inferencepb.ModelInstanceGroup_KIND_GPU, Count: 1}}
	if name != "" {
		c.Optimization = &inferencepb.ModelOptimizationPolicy{ExecutionAccelerators: &accelerators{
			GpuExecutionAccelerator: []*accelerator{{Name: name, Parameters: parameters}}}}
	}
}

// TestGPU checks what needs a card: that models answer there as on the CPU, with every option that Triton has.
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
					near(t, got, want, tt.within)
				})
			}
		}
	}
}

// TestGPURefuses: what a card cannot do is a load error.
func TestGPURefuses(t *testing.T) {
	cards, b := gpus(t), open(t)
	for _, tt := range []struct {
		name, accelerator string
		options           map[string]string
		device            int
		code              status.Code
	}{
		{"a card that is not there", "", nil, cards + 7, status.Internal},
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

// TestGPUMemoryIsTold: the allocator of a model on a card holds its weights at least; of TensorRT's nothing is told.
func TestGPUMemoryIsTold(t *testing.T) {
	gpus(t)
	b := open(t)
	for accelerator, told := range map[string]bool{"": true, "tensorrt": false} {
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
		t.Logf("%q: %v bytes of GPUs", accelerator, got)
		if n := got[0]; told && (n < weights || n > weights+64<<20) || !told && len(got) > 0 {
			t.Errorf("%q takes %v; the weights are %d bytes", accelerator, got, weights)
		}
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGPUMemoryComesBack: cycles of loading, running and unloading leave the card's memory as it was.
func TestGPUMemoryComesBack(t *testing.T) {
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
