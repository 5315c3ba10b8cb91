package onnxruntime_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker"
	"nereid/engine/worker/process"
)

// TestMain runs the process of an isolated model if a test has started this program for it.
func TestMain(m *testing.M) {
	backendtest.Main(m, func(ctx context.Context, _ string, log *slog.Logger) error {
		return onnxruntime.ServeWorker(ctx, log)
	})
}

// isolating returns a backend that can start processes.
func isolating(t testing.TB) *onnxruntime.Backend {
	t.Helper()
	open(t) // skips without a library
	l := worker.NewLauncher(worker.Options{})
	t.Cleanup(l.Close)
	return onnxruntime.New(onnxruntime.Options{Library: os.Getenv("NEREID_ONNXRUNTIME_LIBRARY"), Threads: 2,
		CacheFolder: filepath.Join("..", "..", "..", ".cache", "onnxruntime"),
		Launcher:    l, Worker: []string{os.Args[0]}, WorkerEnv: []string{backendtest.WorkerEnv + "=1"}})
}

// isolate sets the parameter isolation of a configuration.
func isolate(c *inferencepb.ModelConfig) *inferencepb.ModelConfig {
	if c.Parameters == nil {
		c.Parameters = map[string]*inferencepb.ModelParameter{}
	}
	c.Parameters["isolation"] = &inferencepb.ModelParameter{StringValue: "process"}
	return c
}

func TestConformanceInAProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	models := []backendtest.Model{
		identityModel(t, "identity_fp32", tensor.FP32, 50_000), // through the shared memory
		identityModel(t, "identity_bytes", tensor.Bytes, 4),
		loopModel(t),
		tableModel(t),
	}
	for i := range models {
		isolate(models[i].Config)
	}
	b := isolating(t)
	backendtest.Test(t, b, models...)
}

func TestSignatureFromAProcess(t *testing.T) {
	sig, err := isolating(t).Signature(t.Context(),
		sample(t, "add_sub", isolate(&inferencepb.ModelConfig{Name: "add_sub"})))
	if err != nil || len(sig.Inputs) != 2 || sig.Inputs[1].Name != "INPUT1" ||
		tensor.FormatShape(sig.Inputs[1].Dims) != "[-1,16]" ||
		sig.Inputs[1].DimNames[0] != "n" || sig.Platform != "onnxruntime_onnx" || len(sig.Outputs) != 2 {
		t.Errorf("Signature = %+v, %v", sig, err)
	}
}

func TestIsolationIsRefused(t *testing.T) {
	c := config(8, []tensorIO{{"INPUT0", tensor.FP32, []int64{-1}}}, []tensorIO{{"OUTPUT0", tensor.FP32, []int64{-1}}})
	c.Parameters = map[string]*inferencepb.ModelParameter{"isolation": {StringValue: "container"}}
	wrong := sample(t, "identity_fp32", c)
	backendtest.TestRefusals(t, open(t),
		backendtest.Refusal{Name: "unknown value", Spec: wrong, Code: status.InvalidArg,
			Text: `parameter "isolation" is "container", want "process"`},
		backendtest.Refusal{Name: "no processes", Spec: sample(t, "identity_fp32", isolate(&inferencepb.ModelConfig{})),
			Code: status.Unsupported, Text: "cannot start"})
	bad := isolate(config(8, []tensorIO{{"INPUT0", tensor.Int32, []int64{-1}}},
		[]tensorIO{{"OUTPUT0", tensor.FP32, []int64{-1}}}))
	backendtest.TestRefusals(t, isolating(t),
		backendtest.Refusal{Name: "datatype, reported by the process", Spec: sample(t, "identity_fp32", bad),
			Code: status.InvalidArg,
			Text: "configuration expects datatype TYPE_INT32 for input 'INPUT0', model provides TYPE_FP32"})
}

// A process does not warn of its own limits, which hold.
func TestLimitsOfIsolatedModelsAreNoReasonToWarn(t *testing.T) {
	c := isolate(config(8, []tensorIO{{"INPUT0", tensor.FP32, []int64{-1}}},
		[]tensorIO{{"OUTPUT0", tensor.FP32, []int64{-1}}}))
	for name, value := range map[string]string{"EXECUTE_TIMEOUT_SECONDS": "5", "unread": "1"} {
		c.Parameters[name] = &inferencepb.ModelParameter{StringValue: value}
	}
	m, err := isolating(t).Load(t.Context(), sample(t, "identity_fp32", c))
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(),
		backend.Placement{Name: "m_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
	if err != nil {
		t.Fatal(err)
	}
	output := strings.Join(m.(backend.ProcessReporter).Processes()[0].Output, "\n")
	if err := errors.Join(inst.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(output, "parameter=unread") || strings.Contains(output, "EXECUTE_TIMEOUT_SECONDS") {
		t.Errorf("the process writes %q", output)
	}
}

// crashing returns a model whose operator library aborts the process when it is loaded, or when it runs.
func crashing(t *testing.T, when string) backend.Spec {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to make a library of operators with")
	}
	c := isolate(config(8, []tensorIO{{"x", tensor.FP32, []int64{2}}}, []tensorIO{{"y", tensor.FP32, []int64{2}}}))
	c.ModelOperations = &inferencepb.ModelOperations{OpLibraryFilename: []string{"1/ops.so"}}
	s := sample(t, "custom_op", c)
	build := exec.Command(cc, "-shared", "-fPIC", "-I", "capi", "-D"+when, "testdata/custom_op.c", "-o",
		filepath.Join(s.VersionFolder, "ops.so"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// once runs a request on an instance.
func once(t *testing.T, inst backend.Instance, rows int, in ...tensor.Tensor) *infer.Response {
	t.Helper()
	r := infer.New()
	r.Inputs, r.BatchSize = in, rows
	return alone(t, inst, r)
}

// alone runs a request in a separate batch and returns its response.
func alone(t *testing.T, inst backend.Instance, r *infer.Request) *infer.Response {
	t.Helper()
	if err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: r.BatchSize}); err != nil {
		r.Fail(err)
	}
	resp, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestACrashAffectsOnlyItsModel checks that the requests of a crashed model fail with a reason, and that the model is
// restarted after each crash. Another model and this process continue.
func TestACrashAffectsOnlyItsModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	b := isolating(t)
	good, bad := addSubModel(t), crashing(t, "CRASH_ON_RUN")
	isolate(good.Config)
	make1 := func(s backend.Spec) (backend.Model, backend.Instance) {
		m, err := b.Load(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := m.NewInstance(t.Context(),
			backend.Placement{Name: s.ModelName + "_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := inst.Close(); err != nil {
				t.Error(err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		return m, inst
	}
	_, goodInst := make1(spec(t, &good))
	badModel, badInst := make1(bad)
	resp := once(t, badInst, 1, floats("x", []int64{1, 2}, 3, 4))
	if status.CodeOf(resp.Err) != status.Unavailable || !strings.Contains(resp.Err.Error(), "signal 6") {
		t.Errorf("answer of the model that aborts: %v, want Unavailable with the signal", resp.Err)
	}
	if resp := once(t, goodInst, 1, good.Inputs(1, 1)...); resp.Err != nil {
		t.Errorf("the other model: %v", resp.Err)
	}
	pid := func() int { return badModel.(backend.ProcessReporter).Processes()[0].PID }
	for crashes, end := 1, time.Now().Add(5*time.Minute); crashes <= process.MaxFailedStarts; { // after growing pauses
		resp := once(t, badInst, 1, floats("x", []int64{1, 2}, 3, 4))
		if strings.Contains(resp.Err.Error(), "ended while it had the request") {
			crashes++
		}
		if time.Now().After(end) {
			t.Fatalf("after %d crashes the model is not started again: %v", crashes, resp.Err)
		}
	}
	for end := time.Now().Add(5 * time.Minute); pid() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process is not started again")
		}
	}
	if err := badModel.(backend.Health).Healthy(); err != nil {
		t.Errorf("Healthy = %v", err)
	}
	if resp := once(t, goodInst, 1, good.Inputs(1, 2)...); resp.Err != nil {
		t.Errorf("the other model: %v", resp.Err)
	}
}

func TestCrashWhileLoading(t *testing.T) {
	_, err := isolating(t).Load(t.Context(), crashing(t, "CRASH_ON_LOAD"))
	if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), "signal 6") ||
		!strings.Contains(err.Error(), "while ONNX Runtime was loading it") {
		t.Errorf("Load = %v, want Invalid argument with what happened", err)
	}
}

// TestAllocatedMemoryOfIsolatedModels checks that cycles of loading, running and unloading an isolated model do not
// leak memory of this process. NEREID_SOAK=full: 200 cycles.
func TestAllocatedMemoryOfIsolatedModels(t *testing.T) {
	if race {
		t.Skip("the race detector's own memory grows")
	}
	// Over a few cycles what the Go runtime keeps for itself weighs more: an arena or a socket that stayed would be 40
	// kB and more.
	b, cycles, most := isolating(t), 40, 30.0
	if os.Getenv("NEREID_SOAK") == "full" {
		cycles, most = 200, 10
	}
	s := mlpSpec()
	isolate(s.Config)
	in := []tensor.Tensor{{Name: "input", DataType: tensor.FP32, Shape: []int64{64, 784}, Data: make([]byte, 64*784*4)}}
	var samples []int64
	for i := range cycles {
		cycle(t, b, s, in, 64)
		if i >= cycles/4 {
			debug.FreeOSMemory()
			samples = append(samples, resident(t))
		}
	}
	grows := slope(samples) / 1024
	t.Logf("%d kB after a quarter of the cycles, %d kB at the end, %.1f kB a cycle", samples[0]>>10,
		samples[len(samples)-1]>>10, grows)
	if grows > most {
		t.Errorf("resident memory grows by %.1f kB a cycle, want at most %.0f: %d", grows, most, samples)
	}
}
