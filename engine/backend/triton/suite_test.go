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

	"nereid/engine/backend/backendtest"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// TestMain runs the process of a model if a test has started this program for it.
func TestMain(m *testing.M) {
	backendtest.Main(m, func(ctx context.Context, _ string, log *slog.Logger) error {
		return ServeWorker(ctx, log)
	})
}

// compile makes libtriton_NAME.so of a backend of the conformance tests in a new model folder.
func compile(t *testing.T, name string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	sources := filepath.Join("..", "..", "..", "build", "conformance", "triton")
	out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-pthread", "-I", sources,
		filepath.Join(sources, name+".c"), "-o", filepath.Join(folder, prefix+name+suffix)).CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return folder
}

// suite runs the tests of all backends on a model of one library.
func suite(t *testing.T, m backendtest.Model) {
	t.Helper()
	m.ModelFolder = compile(t, m.Config.GetBackend())
	m.VersionFolder = filepath.Join(m.ModelFolder, "1")
	l := worker.NewLauncher(worker.Options{})
	t.Cleanup(l.Close)
	f := NewFinder(Options{Processes: Processes{Launcher: l, Worker: []string{os.Args[0]},
		WorkerEnv: []string{backendtest.WorkerEnv + "=1"}}})
	b := f.OfModel(m.Config, m.ModelFolder, m.VersionFolder)
	if b == nil {
		t.Fatal("the library is not found")
	}
	backendtest.Test(t, b, m)
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

func TestALibraryIsLikeOtherBackends(t *testing.T) {
	const columns = 4096 // a row goes through the shared memory
	suite(t, backendtest.Model{
		Name: "same",
		Config: &inferencepb.ModelConfig{
			Name: "same", Backend: "identity_test", MaxBatchSize: 8,
			Input: []*inferencepb.ModelInput{{Name: "IN", DataType: inferencepb.DataType_TYPE_FP32,
				Dims: []int64{columns}}},
			Output: []*inferencepb.ModelOutput{{Name: "OUT", DataType: inferencepb.DataType_TYPE_FP32,
				Dims: []int64{columns}}},
		},
		Inputs: func(rows int, seed uint64) []tensor.Tensor {
			return []tensor.Tensor{floats("IN", []int64{int64(rows), columns},
				func(i int) float32 { return float32(seed) + float32(i) })}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			want := in[0]
			want.Name = "OUT"
			return backendtest.Same(backendtest.Find(responses[0], "OUT"), want)
		},
	})
}

func TestADecoupledLibraryIsLikeOtherBackends(t *testing.T) {
	count := func(n float32) []tensor.Tensor {
		return []tensor.Tensor{floats("IN", []int64{1}, func(int) float32 { return n })}
	}
	suite(t, backendtest.Model{
		Name: "counts",
		Config: &inferencepb.ModelConfig{
			Name: "counts", Backend: "stream_test",
			Input: []*inferencepb.ModelInput{{Name: "IN", DataType: inferencepb.DataType_TYPE_FP32, Dims: []int64{1}}},
			Output: []*inferencepb.ModelOutput{{Name: "OUT", DataType: inferencepb.DataType_TYPE_FP32,
				Dims: []int64{1}}},
			ModelTransactionPolicy: &inferencepb.ModelTransactionPolicy{Decoupled: true},
		},
		Inputs: func(_ int, seed uint64) []tensor.Tensor { return count(float32(seed%5 + 1)) },
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			want := int(math.Float32frombits(binary.LittleEndian.Uint32(in[0].Data)))
			if len(responses) != want {
				return fmt.Errorf("%d responses, want %d", len(responses), want)
			}
			for i, r := range responses {
				number := floats("OUT", []int64{1}, func(int) float32 { return float32(i) })
				if err := backendtest.Same(backendtest.Find(r, "OUT"), number); err != nil {
					return fmt.Errorf("response %d: %w", i, err)
				}
			}
			return nil
		},
		Slow: func() []tensor.Tensor { return count(1e9) },
	})
}
