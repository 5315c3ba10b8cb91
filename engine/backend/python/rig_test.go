package python_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/backend/python"
	"nereid/engine/infer"
	"nereid/engine/metrics/custom"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// long is how long a test waits for something that an idle machine does at once.
const long = 2 * time.Minute

// interpreter returns a Python with numpy. Without one it skips the test, or fails it if NEREID_TEST_FULL=1.
func interpreter(t testing.TB) string {
	t.Helper()
	venv := os.Getenv("NEREID_VENV")
	if venv == "" {
		venv = filepath.Join("..", "..", "..", ".cache", "venv")
	}
	path, err := filepath.Abs(filepath.Join(venv, "bin", "python"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		missing := t.Skipf
		if os.Getenv("NEREID_TEST_FULL") == "1" {
			missing = t.Fatalf
		}
		missing("no Python environment at %s (set NEREID_VENV): %v", venv, err)
	}
	return path
}

// journal is a log that tests can read.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// rig is a server of Python models.
type rig struct {
	*engine.Engine
	t        testing.TB
	root     string
	folder   string
	backend  *python.Backend
	launcher *worker.Launcher
	metrics  custom.Registry
	log      journal
	once     sync.Once
	waits    bool // requests may run on the caller's goroutine
}

// serve starts an engine with models, which maps paths in the repository to the files' content.
func serve(t testing.TB, settings map[string]string, files map[string]string) *rig {
	t.Helper()
	return serveWith(t, settings, files, func(*engine.Options) {})
}

// serveWith is serve with other options of the engine.
func serveWith(t testing.TB, settings map[string]string, files map[string]string, set func(*engine.Options)) *rig {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data[1]") // not a pattern
	return serveIn(t, python.Options{Settings: settings, Folder: folder}, files, set)
}

// serveIn is serveWith with more options of the backend.
func serveIn(t testing.TB, p python.Options, files map[string]string, set func(*engine.Options)) *rig {
	t.Helper()
	r := &rig{t: t, root: t.TempDir(), folder: p.Folder}
	all := map[string]string{"python": interpreter(t), "stub-timeout-seconds": "300"} // for busy machines
	maps.Copy(all, p.Settings)
	for path, text := range files {
		r.write(path, text)
	}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.launcher = worker.NewLauncher(worker.Options{Log: log})
	var err error
	p.Settings, p.Launcher, p.Metrics, p.Log = all, r.launcher, &r.metrics, log
	if r.backend, err = python.New(p); err != nil {
		t.Fatal(err)
	}
	o := engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{r.root}, Log: log,
			Backends: append([]backend.Backend{r.backend}, builtin.All()...),
		},
		Mode: engine.ModeExplicit, StartupModels: []string{"*"},
	}
	set(&o)
	if r.Engine, err = engine.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) stop() {
	r.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		r.Close(ctx)
		r.backend.Close()
		r.launcher.Close()
	})
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.root, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// writeAt makes an empty file.
func (r *rig) writeAt(path string) {
	r.t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// ready fails the test unless all models are ready.
func (r *rig) ready() *rig {
	r.t.Helper()
	for _, err := range r.StartFailures() {
		r.t.Fatal(err)
	}
	return r
}

// request returns a request with FP32 inputs of shape [n].
func request(model string, inputs map[string][]float32) *infer.Request {
	q := infer.New()
	q.ModelName = model
	for name, v := range inputs {
		b := make([]byte, 4*len(v))
		for i, f := range v {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(f))
		}
		q.Inputs = append(q.Inputs, tensor.Tensor{Name: name, DataType: tensor.FP32, Shape: []int64{int64(len(v))},
			Data: b})
	}
	return q
}

// answer is a copy of one response.
type answer struct {
	outputs map[string][]byte
	types   map[string]tensor.DataType
	shapes  map[string][]int64
	params  []infer.Parameter
	err     error
	final   bool
}

// floats returns an FP32 output.
func (a answer) floats(name string) []float32 {
	b := a.outputs[name]
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// all runs a request, releases it and returns its responses.
func (r *rig) all(q *infer.Request) []answer {
	r.t.Helper()
	defer q.Release()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	if r.waits {
		q.Client = ctx
	}
	if err := r.Infer(ctx, q); err != nil {
		return []answer{{err: err, final: true}}
	}
	var all []answer
	for {
		resp, err := q.Next(ctx)
		if err != nil {
			r.t.Errorf("no answer of %s: %v", q.ModelName, err)
			return append(all, answer{err: err})
		}
		all = append(all, read(resp))
		if all[len(all)-1].final {
			return all
		}
	}
}

func read(resp *infer.Response) answer {
	a := answer{outputs: map[string][]byte{}, types: map[string]tensor.DataType{},
		shapes: map[string][]int64{}, err: resp.Err, final: resp.Final}
	for _, o := range resp.Outputs {
		a.outputs[o.Name] = append([]byte(nil), o.Data...)
		a.types[o.Name] = o.DataType
		a.shapes[o.Name] = append([]int64(nil), o.Shape...)
	}
	a.params = append(a.params, resp.Parameters...)
	resp.Release()
	return a
}

// one runs a request that has one response.
func (r *rig) one(q *infer.Request) answer {
	r.t.Helper()
	name := q.ModelName
	all := r.all(q)
	if len(all) != 1 {
		r.t.Errorf("%s: %d responses, want 1", name, len(all))
	}
	return all[0]
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(long); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not so after %v: %s", long, what)
		}
	}
}

// config is a configuration with FP32 vectors IN and OUT.
func config(more string) string {
	return `backend: "python"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
` + more
}

// code returns a model. Its execute runs body for each request, which computes the output y from the input x. methods
// are its other methods.
func code(body, more string) string {
	return `import json, os, sys, time, signal, threading
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
` + indent(body, "            ") + `
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", y)]))
        return responses
` + indent(more, "    ")
}

func indent(text, by string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = by + l
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
