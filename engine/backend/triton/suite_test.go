package triton

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/metrics/custom"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// The environment variable of a test's processes says what they run: a backend, or a strategy.
const runsBackend, runsStrategy = "1", "strategy"

// TestMain runs the process of a model, or of its strategy, if a test has started this program for it.
func TestMain(m *testing.M) {
	backendtest.Main(m, func(ctx context.Context, value string, log *slog.Logger) error {
		if value == runsStrategy {
			return ServeStrategy(ctx, log)
		}
		return ServeWorker(ctx, log)
	})
}

// compile makes a library of a source of the conformance tests.
func compile(t *testing.T, source, library string) {
	t.Helper()
	sources := filepath.Join("..", "..", "..", "build", "conformance", "triton")
	out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-pthread", "-I", sources,
		filepath.Join(sources, source), "-o", library).CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
}

// folders makes the folders of a model, with its library.
func folders(t *testing.T, m *backendtest.Model) {
	t.Helper()
	m.ModelFolder = filepath.Join(t.TempDir(), m.Name)
	m.VersionFolder = filepath.Join(m.ModelFolder, "1")
	if err := os.MkdirAll(m.VersionFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	name := m.Config.GetBackend()
	compile(t, name+".c", filepath.Join(m.ModelFolder, prefix+name+suffix))
}

// finder returns a finder whose processes end with the test.
func finder(t *testing.T) *Finder {
	t.Helper()
	l := worker.NewLauncher(worker.Options{})
	t.Cleanup(l.Close)
	return NewFinder(Options{
		Processes: Processes{Launcher: l, Worker: []string{os.Args[0]},
			WorkerEnv: []string{backendtest.WorkerEnv + "=" + runsBackend}, Metrics: &custom.Registry{}},
		Strategies: []string{"env", backendtest.WorkerEnv + "=" + runsStrategy, os.Args[0]},
	})
}

// of returns the backend of a model whose folders exist.
func (f *Finder) of(t *testing.T, m *backendtest.Model) backend.Backend {
	t.Helper()
	b := f.OfModel(m.Config, m.ModelFolder, m.VersionFolder)
	if b == nil {
		t.Fatalf("the library of %s is not found", m.Name)
	}
	return b
}

// plain returns a server with the model "plain", whose output is its input.
func plain(t *testing.T) backend.Host {
	t.Helper()
	m := &backendtest.Model{Name: "plain", Config: oneToOne("identity_test", 0, -1)}
	folders(t, m)
	config := `backend: "identity_test"
input { name: "IN" data_type: TYPE_FP32 dims: -1 } output { name: "OUT" data_type: TYPE_FP32 dims: -1 }`
	if err := os.WriteFile(filepath.Join(m.ModelFolder, "config.pbtxt"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New(engine.Options{ModelOptions: engine.ModelOptions{
		Repositories: []string{filepath.Dir(m.ModelFolder)}, Backends: []backend.Backend{finder(t).of(t, m)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	if err := eng.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return host{eng: eng}
}

// host lets a model call those of an engine, but not load any.
type host struct {
	backend.Host
	eng *engine.Engine
}

func (h host) Infer(ctx context.Context, r *infer.Request) error { return h.eng.Infer(ctx, r) }

func (h host) ModelReady(name string, version int64) bool {
	ready, err := h.eng.ModelReady(name, version)
	return ready && err == nil
}

// oneToOne is the configuration of a model with the input IN and the output OUT, of FP32.
func oneToOne(library string, maxBatch int32, columns int64) *inferencepb.ModelConfig {
	dims := []int64{columns}
	return &inferencepb.ModelConfig{
		Backend: library, MaxBatchSize: maxBatch,
		Input:  []*inferencepb.ModelInput{{Name: "IN", DataType: inferencepb.DataType_TYPE_FP32, Dims: dims}},
		Output: []*inferencepb.ModelOutput{{Name: "OUT", DataType: inferencepb.DataType_TYPE_FP32, Dims: dims}},
	}
}

func decoupled(cfg *inferencepb.ModelConfig) *inferencepb.ModelConfig {
	cfg.ModelTransactionPolicy = &inferencepb.ModelTransactionPolicy{Decoupled: true}
	return cfg
}

// stateful adds the state that sequence_test sets.
func stateful(cfg *inferencepb.ModelConfig) *inferencepb.ModelConfig {
	state := &inferencepb.ModelSequenceBatching_State{InputName: "SUM_IN", OutputName: "SUM_OUT",
		DataType: inferencepb.DataType_TYPE_FP32, Dims: cfg.Input[0].Dims}
	sequences := &inferencepb.ModelSequenceBatching{State: []*inferencepb.ModelSequenceBatching_State{state}}
	cfg.SchedulingChoice = &inferencepb.ModelConfig_SequenceBatching{SequenceBatching: sequences}
	return cfg
}

func floats(name string, shape []int64, at func(i int) float32) tensor.Tensor {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	data := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(at(int(i))))
	}
	return tensor.Tensor{Name: name, DataType: tensor.FP32, Shape: shape, Data: data}
}

func number(t tensor.Tensor, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
}

// rising returns inputs whose rows have numbers that rise from the seed.
func rising(columns int) func(rows int, seed uint64) []tensor.Tensor {
	return func(rows int, seed uint64) []tensor.Tensor {
		return []tensor.Tensor{floats("IN", []int64{int64(rows), int64(columns)},
			func(i int) float32 { return float32(seed) + float32(i) })}
	}
}

// vector returns the inputs of a model that does not batch.
func vector(values ...float32) []tensor.Tensor {
	return []tensor.Tensor{floats("IN", []int64{int64(len(values))}, func(i int) float32 { return values[i] })}
}

// same demands one response, whose output is the input.
func same(in []tensor.Tensor, responses [][]tensor.Tensor) error {
	if len(responses) != 1 {
		return fmt.Errorf("%d responses, want 1", len(responses))
	}
	want := in[0]
	want.Name = "OUT"
	return backendtest.Same(backendtest.Find(responses[0], "OUT"), want)
}

// sum demands the sum of the two inputs.
func sum(in []tensor.Tensor, responses [][]tensor.Tensor) error {
	want := floats("OUT", in[0].Shape, func(i int) float32 { return number(in[0], i) + number(in[1], i) })
	return backendtest.Same(backendtest.Find(responses[0], "OUT"), want)
}

// counted demands as many responses as the input says, with their numbers.
func counted(in []tensor.Tensor, responses [][]tensor.Tensor) error {
	if want := int(number(in[0], 0)); len(responses) != want {
		return fmt.Errorf("%d responses, want %d", len(responses), want)
	}
	for i, r := range responses {
		want := floats("OUT", []int64{1}, func(int) float32 { return float32(i) })
		if err := backendtest.Same(backendtest.Find(r, "OUT"), want); err != nil {
			return fmt.Errorf("response %d: %w", i, err)
		}
	}
	return nil
}

// delayed returns the inputs of reports_test: it takes up to one millisecond, and reports all.
func delayed(_ int, seed uint64) []tensor.Tensor { return vector(float32(seed%1000)/1000, 0) }

// Libraries that behave pass the tests of all backends. What becomes of others is in test_triton_faults.py.
func TestLibrariesAreLikeOtherBackends(t *testing.T) {
	const large = 4096 // a row of so many columns goes through the shared memory
	for _, tt := range []struct {
		backendtest.Model
		strategy bool
	}{
		{Model: backendtest.Model{Name: "identity",
			Config: oneToOne("identity_test", 8, large), Inputs: rising(large), Check: same}},
		{Model: backendtest.Model{Name: "descriptions of outputs",
			Config: oneToOne("outputs_test", 8, 3), Inputs: rising(3), Check: same}},
		{Model: backendtest.Model{Name: "decoupled",
			Config: decoupled(oneToOne("stream_test", 0, 1)), Check: counted,
			Inputs: func(_ int, seed uint64) []tensor.Tensor { return vector(float32(seed%5 + 1)) },
			Slow:   func() []tensor.Tensor { return vector(1e9) }}},
		{Model: backendtest.Model{Name: "sequence with a state",
			Config: stateful(oneToOne("sequence_test", 8, 3)), Check: sum,
			Inputs: func(rows int, seed uint64) []tensor.Tensor {
				state := rising(3)(rows, 2*seed+1)[0]
				state.Name = "SUM_IN"
				return append(rising(3)(rows, seed), state)
			}}},
		{Model: backendtest.Model{Name: "calls of another model",
			Config: oneToOne("calls_test", 0, -1), Host: plain(t), Check: same,
			Inputs: func(_ int, seed uint64) []tensor.Tensor { return vector(float32(seed), 2) }}},
		{Model: backendtest.Model{Name: "slow, with statistics",
			Config: oneToOne("reports_test", 0, 2), Inputs: delayed, Check: same}},
		{Model: backendtest.Model{Name: "slow and decoupled, with statistics",
			Config: decoupled(oneToOne("reports_test", 0, 2)), Inputs: delayed, Check: same}},
		{strategy: true, Model: backendtest.Model{Name: "batches of a strategy",
			Config: oneToOne("identity_test", 8, 4), Inputs: rising(4), Check: same}},
	} {
		t.Run(tt.Name, func(t *testing.T) {
			folders(t, &tt.Model)
			f := finder(t)
			b := f.of(t, &tt.Model)
			if tt.strategy {
				b = formedBy(t, f, b, &tt.Model)
			}
			backendtest.Test(t, b, tt.Model)
		})
	}
}
