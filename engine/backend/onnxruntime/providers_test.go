package onnxruntime_test

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

type (
	accelerators = inferencepb.ModelOptimizationPolicy_ExecutionAccelerators
	accelerator  = inferencepb.ModelOptimizationPolicy_ExecutionAccelerators_Accelerator
)

// mlpSpec is the sample model mlp.
func mlpSpec() backend.Spec {
	folder := filepath.Join("..", "..", "..", "models-sample", "mlp")
	return backend.Spec{
		ModelName: "mlp", Version: 1, ModelFolder: folder, VersionFolder: filepath.Join(folder, "1"),
		Log: slog.New(slog.DiscardHandler),
		Config: config(64, []tensorIO{{"input", tensor.FP32, []int64{784}}},
			[]tensorIO{{"output", tensor.FP32, []int64{10}}}),
	}
}

// TestOpenVINO_D008 checks the error of a library without the provider. With the provider (NEREID_ONNXRUNTIME_LIBRARY
// is the folder of PyPI's onnxruntime-openvino) the model gives the results of the CPU provider.
func TestOpenVINO_D008(t *testing.T) {
	b := open(t)
	x := make([]float32, 784)
	for i := range x {
		x[i] = float32(i%7) / 7
	}
	in := floats("input", []int64{1, 784}, x...)
	plain := ask(t, b, mlpSpec(), 1, in)
	if plain.Err != nil {
		t.Fatal(plain.Err)
	}
	s := mlpSpec()
	s.Config.Optimization = &inferencepb.ModelOptimizationPolicy{ExecutionAccelerators: &accelerators{
		CpuExecutionAccelerator: []*accelerator{
			{Name: "openvino", Parameters: map[string]string{"device_type": "CPU"}}}}}
	providers, err := b.Providers()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(providers, "OpenVINOExecutionProvider") {
		if strings.Contains(os.Getenv("NEREID_ONNXRUNTIME_LIBRARY"), "openvino") {
			t.Fatal("the library of make test-openvino has no OpenVINO provider: ", providers)
		}
		_, err := b.Load(t.Context(), s)
		if status.CodeOf(err) != status.Unsupported ||
			!strings.Contains(err.Error(), "has no OpenVINO execution provider") ||
			!strings.Contains(err.Error(), "take cpu_execution_accelerator out") {
			t.Errorf("Load with openvino = %v, want Unsupported and what to do", err)
		}
		return
	}
	fast := ask(t, b, s, 1, in)
	if fast.Err != nil {
		t.Fatal(fast.Err)
	}
	compare(t, numbers(fast.Output("output")), numbers(plain.Output("output")), 1e-3)
	s.Config.Optimization.ExecutionAccelerators.CpuExecutionAccelerator[0].Parameters = map[string]string{"warp": "9"}
	if _, err := b.Load(t.Context(), s); status.CodeOf(err) != status.InvalidArg ||
		!strings.Contains(err.Error(), "its parameters must be") {
		t.Errorf("Load with an unknown option = %v, want Invalid argument", err)
	}
}

// compare fails the test unless two lists of numbers agree within a tolerance.
func compare(t *testing.T, got, want []float32, within float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d numbers, want %d", len(got), len(want))
	}
	for i := range got {
		if d := got[i] - want[i]; d > within || d < -within || d != d {
			t.Errorf("number %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// TestGlobalThreadPool runs in a separate process, because a process makes its pool only once.
func TestGlobalThreadPool_D011(t *testing.T) {
	if os.Getenv("NEREID_TEST_POOL") == "" {
		open(t) // skips without a library
		c := exec.Command(os.Args[0], "-test.run", "^TestGlobalThreadPool_D011$")
		c.Env = append(os.Environ(), "NEREID_TEST_POOL=1")
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var settings onnxruntime.Settings
	for key, value := range map[string]string{"enable-global-threadpool": "1", "intra_op_thread_count": "21",
		"inter_op_thread_count": "31"} {
		if err := settings.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	before := threads(t)
	b := onnxruntime.New(onnxruntime.Options{Library: os.Getenv("NEREID_ONNXRUNTIME_LIBRARY"), Settings: settings,
		CacheFolder: filepath.Join("..", "..", "..", ".cache", "onnxruntime")})
	if _, err := b.Version(); err != nil {
		t.Fatal(err)
	}
	if n := threads(t) - before; n < 45 || n > 60 {
		t.Errorf("the pools brought %d threads, want 20 and 30", n)
	}
	for _, s := range []backend.Spec{
		parameters(t, "intra_op_thread_count", "21"),
		parameters(t, "intra_op_thread_count", "21", "inter_op_thread_count", "21", "execution_mode", "1"),
	} {
		if _, _, n := loaded(t, b, s); n < -5 || n > 5 {
			t.Errorf("a model with thread counts brought %d threads, want none beside the pool", n)
		}
	}
}
