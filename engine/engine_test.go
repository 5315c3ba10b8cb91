package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const identityConfig = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
version_policy { all {} }
`

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func repository(t testing.TB) string {
	root := t.TempDir()
	write(t, root+"/id/config.pbtxt", identityConfig)
	write(t, root+"/id/1/.keep", "")
	return root
}

// changes notifies a test of every change of state.
type changes struct {
	mu   sync.Mutex
	cond *sync.Cond
	n    int
}

func newChanges() *changes {
	c := &changes{}
	c.cond = sync.NewCond(&c.mu)
	return c
}

func (c *changes) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.cond.Broadcast()
}

// until waits until ok returns true; it checks after each change.
func (c *changes) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	stop := time.AfterFunc(30*time.Second, c.note)
	defer stop.Stop()
	deadline := time.Now().Add(29 * time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		n := c.n
		c.mu.Unlock()
		done := ok()
		c.mu.Lock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		for c.n == n {
			c.cond.Wait()
		}
	}
}

func start(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	if o.Backends == nil {
		o.Backends = builtin.All()
	}
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func request(rows int, first byte) *infer.Request {
	r := infer.New()
	r.ModelName = "id"
	data := make([]byte, rows*16)
	for i := range data {
		data[i] = first + byte(i)
	}
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{int64(rows), 4},
		Data: data})
	return r
}

func ask(e *engine.Engine, r *infer.Request) ([]byte, error) {
	if err := e.Infer(context.Background(), r); err != nil {
		return nil, err
	}
	resp, err := r.Next(context.Background())
	if err != nil {
		return nil, err
	}
	defer resp.Release()
	if resp.Err != nil {
		return nil, resp.Err
	}
	return append([]byte{}, resp.Output("OUTPUT0").Data...), nil
}

func TestInferThroughTheEngine(t *testing.T) {
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{repository(t)}},
	})
	if !e.Live() || !e.Ready() {
		t.Fatalf("live %v, ready %v; want both", e.Live(), e.Ready())
	}
	r := request(2, 7)
	want := string(r.Inputs[0].Data)
	got, err := ask(e, r)
	if err != nil || string(got) != want {
		t.Errorf("identity gave %v, %v; want its input", got, err)
	}
	r.Release()
	st, err := e.ModelStatistics("id", infer.LatestVersion)
	if err != nil || len(st.ModelStats) != 1 {
		t.Fatalf("statistics = %v, %v", st, err)
	}
	if s := st.ModelStats[0]; s.InferenceCount != 2 || s.ExecutionCount != 1 || s.InferenceStats.Success.Count != 1 ||
		s.BatchStats[0].BatchSize != 2 {
		t.Errorf("statistics = %v, want 2 rows in 1 execution and 1 success of batch size 2", s)
	} else if len(s.MemoryUsage) != 0 {
		t.Errorf("a backend that does not measure its memory uses %v", s.MemoryUsage)
	}
}

func TestRefusedRequests(t *testing.T) {
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{repository(t)}},
	})
	for _, tt := range []struct {
		name string
		edit func(r *infer.Request)
		code status.Code
		want string
	}{
		{"unknown model", func(r *infer.Request) { r.ModelName = "nope" }, status.NotFound,
			"Request for unknown model: 'nope' is not found"},
		{"unknown version", func(r *infer.Request) { r.Version = 9 }, status.NotFound,
			"Request for unknown model: 'id' version 9 is not found"},
		{"no input", func(r *infer.Request) { r.Inputs = nil }, status.InvalidArg,
			"[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'id'. Got input(s) [], but " +
				"missing required input(s) ['INPUT0']. Please provide all required input(s)."},
		{"renamed input", func(r *infer.Request) { r.Inputs[0].Name = "NOPE" }, status.InvalidArg,
			"unexpected inference input 'NOPE' for model 'id'"},
		{"duplicate input", func(r *infer.Request) { r.Inputs = append(r.Inputs, r.Inputs[0]) }, status.InvalidArg,
			"[request id: <id_unknown>] input 'INPUT0' already exists in request"},
		{"unknown output", func(r *infer.Request) {
			r.Outputs = append(r.Outputs,
				infer.RequestedOutput{Name: "NOPE"})
		}, status.InvalidArg, "unexpected inference output 'NOPE' for model 'id'"},
		{"wrong type, with id", func(r *infer.Request) { r.ID, r.Inputs[0].DataType = "7", tensor.Int32 },
			status.InvalidArg,
			"[request id: 7] inference input 'INPUT0' data-type is 'INT32', but model 'id' expects 'FP32'"},
		{"wrong shape", func(r *infer.Request) { r.Inputs[0].Shape = []int64{1, 5} }, status.InvalidArg,
			"[request id: <id_unknown>] unexpected shape for input 'INPUT0' for model 'id'. Expected [-1,4], got " +
				"[1,5]. NOTE: Setting"},
		{"no batch dimension", func(r *infer.Request) { r.Inputs[0].Shape = []int64{4} }, status.InvalidArg,
			"[request id: <id_unknown>] unexpected shape"},
		{"batch of zero", func(r *infer.Request) { r.Inputs[0].Shape = []int64{0, 4} }, status.InvalidArg,
			"batch size does not match other inputs for 'id'"},
		{"batch too large", func(r *infer.Request) {
			r.Inputs[0].Shape, r.Inputs[0].Data = []int64{9, 4}, make([]byte, 9*16)
		}, status.InvalidArg, "[request id: <id_unknown>] inference request batch-size must be <= 8 for 'id'"},
		{"batch that wraps", func(r *infer.Request) { r.Inputs[0].Shape = []int64{1 << 62, 4} }, status.InvalidArg,
			"input 'INPUT0' for model 'id': shape [4611686018427387904,4] has more elements"},
		{"too few bytes", func(r *infer.Request) { r.Inputs[0].Data = r.Inputs[0].Data[:12] }, status.InvalidArg,
			"Expected 16, got 12"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(1, 0)
			defer r.Release()
			tt.edit(r)
			_, err := ask(e, r)
			if err == nil || status.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Infer = %v, want %v: %s", err, tt.code, tt.want)
			}
		})
	}
}

func TestPollFollowsTheRepository_I005(t *testing.T) {
	root := repository(t)
	c := newChanges()
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{root}, Settle: time.Millisecond,
			Events: engine.EventListener{Changed: c.note},
		},
		Mode: engine.ModePoll, PollInterval: 5 * time.Millisecond,
	})
	serves := func(v int64) bool { ok, _ := e.ModelReady("id", v); return ok }
	if !serves(1) {
		t.Fatal("version 1 is not served after Start")
	}
	write(t, root+"/id/2/.keep", "")
	c.until(t, "version 2 is served", func() bool { return serves(2) && serves(1) })
	write(t, root+"/other/config.pbtxt", strings.ReplaceAll(identityConfig, "dims: 4", "dims: 1"))
	write(t, root+"/other/1/.keep", "")
	c.until(t, "a new model is served", func() bool { ok, _ := e.ModelReady("other", 1); return ok })

	write(t, root+"/id/config.pbtxt", "max_batch_size: what")
	c.until(t, "the reason of the failed reload is in the index", func() bool {
		for _, row := range e.RepositoryIndex(true) {
			if row.Name == "id" && strings.Contains(row.Reason, "config.pbtxt:1:17") {
				return true
			}
		}
		return false
	})
	if !serves(1) || !serves(2) || !e.Ready() {
		t.Errorf("after a broken configuration: 1 %v, 2 %v, ready %v; want all", serves(1), serves(2), e.Ready())
	}
	write(t, root+"/id/config.pbtxt", strings.Replace(identityConfig, "max_batch_size: 8", "max_batch_size: 16", 1))
	c.until(t, "the mended configuration is served", func() bool {
		cfg, err := e.ModelConfig("id", 1)
		return err == nil && cfg.GetMaxBatchSize() == 16
	})
	if err := os.RemoveAll(root + "/id/2"); err != nil {
		t.Fatal(err)
	}
	c.until(t, "version 2 left", func() bool { return !serves(2) && serves(1) })
	if err := os.RemoveAll(root + "/id"); err != nil {
		t.Fatal(err)
	}
	c.until(t, "the model is forgotten", func() bool { _, ok := e.Model("id"); return !ok })
}

// During many reloads no request fails, and each gets its own rows.
func TestReloadUnderLoadLosesNoRequest(t *testing.T) {
	root := repository(t)
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}},
		Mode:         engine.ModeExplicit, StartupModels: []string{"id"},
	})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				r := request(1+n%3, byte(w*16+n))
				want := string(r.Inputs[0].Data)
				got, err := ask(e, r)
				if err != nil || string(got) != want {
					t.Errorf("client %d, request %d: %v", w, n, err)
				}
				r.Release()
			}
		}()
	}
	for i := range 40 {
		text := identityConfig + strings.Repeat("#", i+1)
		if i%4 == 3 {
			text = "broken: true"
		}
		write(t, root+"/id/config.pbtxt", text)
		if err := e.LoadModel(t.Context(), "id", engine.LoadParameters{}); (err != nil) != (i%4 == 3) {
			t.Errorf("load %d = %v", i, err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestExplicitLoadAndUnload_I005(t *testing.T) {
	root := repository(t)
	c := newChanges()
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Events: engine.EventListener{Changed: c.note}},
		Mode:         engine.ModeExplicit,
	})
	if rows := e.RepositoryIndex(false); len(rows) != 1 || rows[0].Name != "id" || rows[0].State != "" {
		t.Errorf("index before any load = %v, want the name alone", rows)
	}
	if err := e.LoadModel(t.Context(), "nope", engine.LoadParameters{}); status.CodeOf(err) != status.Internal ||
		!strings.HasPrefix(err.Error(), "failed to load 'nope', failed to poll from model repository") {
		t.Errorf("load of an unknown model = %v", err)
	}
	if err := e.LoadModel(t.Context(), "../id", engine.LoadParameters{}); err == nil {
		t.Error("load of ../id passes")
	}
	if err := e.LoadModel(t.Context(), "id", engine.LoadParameters{}); err != nil {
		t.Fatal(err)
	}
	if err := e.UnloadModel(t.Context(), "id", false); err != nil {
		t.Fatal(err)
	}
	if ok, _ := e.ModelReady("id", infer.LatestVersion); ok {
		t.Error("ready after unload")
	}
	c.until(t, "the index says unloaded", func() bool {
		rows := e.RepositoryIndex(false)
		return len(rows) == 1 && rows[0].State == "UNAVAILABLE" && rows[0].Reason == "unloaded"
	})
	if !e.Ready() {
		t.Error("an unloaded model makes the server unready")
	}
	over := engine.LoadParameters{ConfigJSON: `{"backend":"identity","max_batch_size":3,"input":[{"name":"INPUT0",` +
		`"data_type":"TYPE_FP32","dims":[4]}],` +
		`"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[4]}]}`, Files: map[string][]byte{"5/x": nil}}
	if err := e.LoadModel(t.Context(), "id", over); err != nil {
		t.Fatal(err)
	}
	if cfg, err := e.ModelConfig("id", 5); err != nil || cfg.GetMaxBatchSize() != 3 {
		t.Errorf("overridden configuration = %v, %v", cfg, err)
	}
	for _, path := range []string{"../x", "/etc/x", "1/../../x", "1/"} {
		over.Files = map[string][]byte{path: nil}
		if err := e.LoadModel(t.Context(), "id", over); err == nil {
			t.Errorf("override of %q passes", path)
		}
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{repository(t)}, Backends: builtin.All()},
		Mode:         engine.ModePoll,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Close(context.Background())
	e.Close(context.Background())
	r := request(1, 0)
	defer r.Release()
	if _, err := ask(e, r); err == nil {
		t.Error("Infer after Close passes")
	}
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > before { // the runtime needs a moment to reap what has returned
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func BenchmarkInfer(b *testing.B) {
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{repository(b)}, Backends: builtin.All()},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	if err := e.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	data := binary.LittleEndian.AppendUint64(make([]byte, 8), 1)
	shape := []int64{1, 4}
	b.ReportAllocs()
	for b.Loop() {
		r := infer.New()
		r.ModelName = "id"
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: shape, Data: data})
		if err := e.Infer(context.Background(), r); err != nil {
			b.Fatal(err)
		}
		resp, err := r.Next(context.Background())
		if err = errors.Join(err, resp.Err); err != nil {
			b.Fatal(err)
		}
		resp.Release()
		r.Release()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "infer/s")
}
