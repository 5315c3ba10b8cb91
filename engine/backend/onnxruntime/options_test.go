package onnxruntime_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// parameters makes the add_sub model with parameters "name", "value", ...
func parameters(t *testing.T, pairs ...string) backend.Spec {
	t.Helper()
	m := addSubModel(t)
	m.Config.Parameters = map[string]*inferencepb.ModelParameter{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.Config.Parameters[pairs[i]] = &inferencepb.ModelParameter{StringValue: pairs[i+1]}
	}
	return spec(t, &m)
}

// loaded returns a model with an instance, and the number of threads that ONNX Runtime started for it.
func loaded(t *testing.T, b backend.Backend, s backend.Spec) (backend.Model, backend.Instance, int) {
	t.Helper()
	before := threads(t)
	m, err := b.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(), backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
	if err != nil {
		t.Fatal(err)
	}
	brought := threads(t) - before
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, inst, brought
}

// threads counts the threads of the process that Go did not start, by their names.
func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skip("threads are counted in /proc")
	}
	return len(tasks)
}

func TestThreadCounts_D010(t *testing.T) {
	b := open(t)
	// Go's own threads come and go by ones; the pools here are far larger.
	for _, tt := range []struct {
		name   string
		spec   backend.Spec
		lo, hi int
	}{
		{"no counts", parameters(t), -5, 5},
		{"parallel mode takes the shared pool", parameters(t, "execution_mode", "1"), -5, 5},
		{"counts of 0 are none", parameters(t, "intra_op_thread_count", "0", "inter_op_thread_count", "0"), -5, 5},
		{"one intra-op thread is the caller's", parameters(t, "intra_op_thread_count", "1"), -5, 5},
		{"own intra-op threads", parameters(t, "intra_op_thread_count", "21"), 15, 25},
		{"own inter-op threads in parallel mode", parameters(t, "intra_op_thread_count", "1", "inter_op_thread_count",
			"21", "execution_mode", "1"), 15, 25},
		{"inter-op threads need parallel mode", parameters(t, "intra_op_thread_count", "1", "inter_op_thread_count",
			"21", "execution_mode", "0"), -5, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, n := loaded(t, b, tt.spec); n < tt.lo || n > tt.hi {
				t.Errorf("the model brought %d threads, want %d to %d", n, tt.lo, tt.hi)
			}
		})
	}
}

// The time that ONNX Runtime takes to start a pool grows with the square of its size.
func TestThreadCountsHaveABound_D010(t *testing.T) {
	b := open(t)
	const bound = "want a number from 0 to 2048"
	for _, tt := range []struct{ name, value, want string }{
		{"intra_op_thread_count", "2049", bound},
		{"inter_op_thread_count", "100000", bound},
		{"execution_mode", "parallel", "want 0 (sequential) or 1 (parallel)"},
	} {
		name, value := tt.name, tt.value
		s := parameters(t, "execution_mode", "0", name, value) // the mode 1 would start the inter-op threads
		m, err := b.Load(t.Context(), s)
		if err == nil {
			_ = m.Close()
		}
		if want := "parameter \"" + name + "\" is \"" + value + "\", " + tt.want; err == nil ||
			status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), want) {
			t.Errorf("Load = %v, want: %s", err, want)
		}
		remarks := b.ValidateParameters(s.Config)
		if want := "is \"" + value + "\"; " + tt.want; !slices.ContainsFunc(remarks,
			func(r backend.ParameterRemark) bool { return r.Name == name && r.Refused && r.Text == want }) {
			t.Errorf("ValidateParameters = %+v, want: %s", remarks, want)
		}
	}
}

// TestInstancesWithThreadCounts checks that two instances have two pools, unless the model shares its session.
func TestInstancesWithThreadCounts(t *testing.T) {
	b := open(t)
	for share, want := range map[string]bool{"false": true, "true": false} {
		m, _, _ := loaded(t, b, parameters(t, "intra_op_thread_count", "21", "share_session_between_instances", share))
		before := threads(t)
		second, err := m.NewInstance(t.Context(), backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
		if err != nil {
			t.Fatal(err)
		}
		if got := threads(t)-before > 15; got != want {
			t.Errorf("share_session_between_instances %s: a second pool %v, want %v", share, got, want)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestArenaOptions_D012(t *testing.T) {
	b := open(t)
	memory := func(s backend.Spec) int64 {
		m, _, _ := loaded(t, b, s)
		return m.(backend.MemoryReporter).MemoryBytes()
	}
	mlp := func(arena string) backend.Spec {
		s := mlpSpec()
		s.Config.Parameters = map[string]*inferencepb.ModelParameter{"enable_mem_arena": {StringValue: arena}}
		return s
	}
	if with, without := memory(mlp("true")), memory(mlp("false")); with <= 0 || without != -1 {
		t.Errorf("the arena holds %d bytes when enabled and %d when not; want some and -1", with, without)
	}
	for value, want := range map[string]string{"cpu:0": "", "moon:7": "onnx runtime error"} {
		s := parameters(t, "memory.enable_memory_arena_shrinkage", value, "enable_mem_pattern", "false",
			"session.use_device_allocator_for_initializers", "1")
		shape := []int64{1, 16}
		resp := ask(t, b, s, 1, tensor.Tensor{Name: "INPUT0", DataType: tensor.Int32, Shape: shape,
			Data: make([]byte, 64)},
			tensor.Tensor{Name: "INPUT1", DataType: tensor.Int32, Shape: shape, Data: make([]byte, 64)})
		if want == "" && resp.Err != nil ||
			want != "" && (resp.Err == nil || !strings.Contains(resp.Err.Error(), want)) {
			t.Errorf("shrinkage of %q: %v, want %q", value, resp.Err, want)
		}
	}
}

// TestSessionEntries sets an entry that makes ONNX Runtime expect another format.
func TestSessionEntries_D013(t *testing.T) {
	_, err := open(t).Load(t.Context(), parameters(t, "session.load_model_format", "ORT"))
	if err == nil || !strings.Contains(err.Error(), "onnx runtime error") {
		t.Errorf("Load with session.load_model_format ORT = %v, want the runtime's refusal of an ONNX file", err)
	}
}

func TestCustomOps_A045_D017_I019(t *testing.T) {
	b := open(t)
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to make a library of operators with")
	}
	c := config(8, []tensorIO{{"x", tensor.FP32, []int64{2}}}, []tensorIO{{"y", tensor.FP32, []int64{2}}})
	s := sample(t, "custom_op", c)
	if _, err := b.Load(t.Context(), s); err == nil || !strings.Contains(err.Error(), "test.nereid") {
		t.Errorf("Load without the operator = %v, want an error that names its domain", err)
	}
	c.ModelOperations = &inferencepb.ModelOperations{OpLibraryFilename: []string{"1/ops.so"}}
	if _, err := b.Load(t.Context(), s); err == nil || !strings.Contains(err.Error(), "ops.so") {
		t.Errorf("Load without the library = %v, want an error that names it", err)
	}
	build := exec.Command(cc, "-shared", "-fPIC", "-I", "capi", "testdata/custom_op.c", "-o",
		filepath.Join(s.VersionFolder, "ops.so"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	resp := ask(t, b, s, 1, floats("x", []int64{1, 2}, 3, 4))
	if resp.Err != nil {
		t.Fatal(resp.Err)
	}
	if err := backendtest.Same(resp.Output("y"), floats("y", []int64{1, 2}, 6, 8)); err != nil {
		t.Error(err)
	}
}

// TestHugeModel loads a model with 2.8 GB of external weights. The file is sparse and uses no disk space.
func TestHugeModel_D019(t *testing.T) {
	b := open(t)
	s := sample(t, "huge",
		config(8, []tensorIO{{"index", tensor.Int64, []int64{1}}}, []tensorIO{{"value", tensor.FP32, []int64{1}}}))
	data, err := os.Create(filepath.Join(s.VersionFolder, "table.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	if _, err := data.WriteAt(floats("", nil, 42).Data, 4*699_999_999); err != nil {
		t.Fatal(err)
	}
	resp := ask(t, b, s, 1, ints("index", []int64{1, 1}, 699_999_999))
	if resp.Err != nil {
		t.Fatal(resp.Err)
	}
	if err := backendtest.Same(resp.Output("value"), floats("value", []int64{1, 1}, 42)); err != nil {
		t.Error(err)
	}
	if err := data.Truncate(4 * 699_999_999); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Load(t.Context(), s); status.CodeOf(err) != status.InvalidArg ||
		!strings.Contains(err.Error(), "table.data") {
		t.Errorf("Load of a file that is one number short = %v, want Invalid argument with its name", err)
	}
}
