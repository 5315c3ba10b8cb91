package runtime

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// TestMain runs this program as the process of a framework if a test starts it so.
func TestMain(m *testing.M) { backendtest.Main(m, ServeWorker) }

// real returns the backend of a framework that is installed: `make test-frameworks` sets NEREID_FRAMEWORKS.
func real(t *testing.T, name string) *Backend {
	t.Helper()
	data := os.Getenv("NEREID_FRAMEWORKS")
	if data == "" {
		t.Skip("NEREID_FRAMEWORKS is not set: make test-frameworks installs the frameworks and runs this")
	}
	l := worker.NewLauncher(worker.Options{})
	t.Cleanup(l.Close)
	return framed(t, name, Options{
		Environment: filepath.Join(data, "runtime", "python", "environments", "framework-"+name), Install: "install it",
		Launcher: l, Worker: []string{os.Args[0]}, WorkerEnv: []string{backendtest.WorkerEnv + "=" + name},
	})
}

// completed sets what the engine sets before a load.
func completed(c *inferencepb.ModelConfig, backend, file string) *inferencepb.ModelConfig {
	c.Backend, c.DefaultModelFilename = backend, file
	return c
}

// folder makes a model's version from a folder of testdata.
func folder(t *testing.T, from, to string) (model, version string) {
	t.Helper()
	model = t.TempDir()
	version = filepath.Join(model, "1")
	if err := os.CopyFS(filepath.Join(version, to), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return model, version
}

func floats(name string, shape []int64, f func(i int) float32) tensor.Tensor {
	n, _ := tensor.Elements(shape)
	x := tensor.Tensor{Name: name, DataType: tensor.FP32, Shape: shape}
	for i := range int(n) {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(f(i)))
	}
	return x
}

const addSubConfig = `max_batch_size: 8
	input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] },
		{ name: "INPUT1" data_type: TYPE_FP32 dims: [ 16 ] } ]
	output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] },
		{ name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 16 ] } ]
	`

func addSub(t *testing.T, from, to string) backendtest.Model {
	m := backendtest.Model{Name: "add_sub", Config: completed(parse(t, addSubConfig), "tensorflow", to)}
	if to == "" {
		m.Config = completed(m.Config, "openvino", "model.xml")
	}
	m.ModelFolder, m.VersionFolder = folder(t, from, to)
	m.Inputs = func(rows int, seed uint64) []tensor.Tensor {
		shape := []int64{int64(rows), 16}
		return []tensor.Tensor{
			floats("INPUT0", shape, func(i int) float32 { return float32(int(seed) + i) }),
			floats("INPUT1", shape, func(i int) float32 { return float32(i * 3) }),
		}
	}
	m.Check = func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
		for name, sign := range map[string]float32{"OUTPUT0": 1, "OUTPUT1": -1} {
			out := backendtest.Find(responses[0], name)
			if out == nil || len(out.Data) != len(in[0].Data) {
				return fmt.Errorf("%s is %v", name, out)
			}
			at := func(b []byte, i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])) }
			for i := range len(out.Data) / 4 {
				if want := at(in[0].Data, i) + sign*at(in[1].Data, i); at(out.Data, i) != want {
					return fmt.Errorf("%s[%d] = %v, want %v", name, i, at(out.Data, i), want)
				}
			}
		}
		return nil
	}
	return m
}

// The backends pass the common tests with the frameworks' libraries, in processes of this program.
func TestRealConformance(t *testing.T) {
	t.Run("D064 TensorFlow", func(t *testing.T) {
		backendtest.Test(t, real(t, "tensorflow"), addSub(t, filepath.Join("savedmodel", "testdata", "add_sub"),
			"model.savedmodel"))
	})
	t.Run("D065 OpenVINO", func(t *testing.T) {
		backendtest.Test(t, real(t, "openvino"), addSub(t, filepath.Join("testdata", "add_sub_ir", "1"), ""))
	})
}

func TestRealRefusals(t *testing.T) {
	other := addSub(t, filepath.Join("savedmodel", "testdata", "add_sub"), "model.savedmodel")
	other.Config.Output[0].Name = "SUM"
	backendtest.TestRefusals(t, real(t, "tensorflow"), backendtest.Refusal{
		Name: "an output that the signature does not have", Code: status.InvalidArg,
		Text: "unexpected inference output 'SUM' for model 'add_sub': its signature has no such",
		Spec: backend.Spec{ModelName: "add_sub", Version: 1, Config: other.Config, ModelFolder: other.ModelFolder,
			VersionFolder: other.VersionFolder},
	})
	missing := addSub(t, filepath.Join("testdata", "add_sub_ir", "1"), "")
	if err := os.WriteFile(filepath.Join(missing.VersionFolder, "model.xml"), []byte("<net/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	backendtest.TestRefusals(t, real(t, "openvino"), backendtest.Refusal{
		Name: "a damaged file", Code: status.InvalidArg, Text: "unable to load model 'add_sub' from ",
		Spec: backend.Spec{ModelName: "add_sub", Version: 1, Config: missing.Config, ModelFolder: missing.ModelFolder,
			VersionFolder: missing.VersionFolder},
	})
}

// A device that is chosen among several computes the rows of each run, not those of the run before.
func TestRealShapesChange(t *testing.T) {
	b := real(t, "openvino")
	for _, device := range []string{"CPU", "AUTO", "AUTO:GPU,CPU", "MULTI:CPU,GPU"} {
		t.Run("D065 "+device, func(t *testing.T) {
			m := addSub(t, filepath.Join("testdata", "add_sub_ir", "1"), "")
			config := strings.ReplaceAll(strings.Replace(addSubConfig, "8", "0", 1), "[ 16 ]", "[ -1, 16 ]") +
				parameters("TARGET_DEVICE", device, "RESHAPE_IO_LAYERS", "YES")
			m.Config = completed(parse(t, config), "openvino", "model.xml")
			model, inst := loadOne(t, b, &m)
			for _, rows := range []int{1, 3, 2, 300, 200} { // the last two are not copied into a batch
				r := infer.New()
				r.Inputs, r.BatchSize = m.Inputs(rows, 7), 1
				err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: 1})
				if err != nil {
					t.Fatal(err)
				}
				resp, err := r.Next(t.Context())
				if err == nil {
					err = resp.Err
				}
				if err == nil {
					err = m.Check(r.Inputs, [][]tensor.Tensor{resp.Outputs})
				}
				if err != nil {
					t.Errorf("%d rows: %v", rows, err)
				}
				resp.Release()
			}
			if err := errors.Join(inst.Close(), model.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The memory of the process does not grow with the number of runs, also with texts and errors.
func TestRealRunsDoNotLeak(t *testing.T) {
	t.Run("D064 TensorFlow", func(t *testing.T) {
		config := `max_batch_size: 8
			input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] reshape { shape: [ ] } } ]
			output [ { name: "shouted" data_type: TYPE_STRING dims: [ 1 ] reshape { shape: [ ] } } ]`
		m := backendtest.Model{Config: completed(parse(t, config), "tensorflow", "model.savedmodel")}
		m.ModelFolder, m.VersionFolder = folder(t, filepath.Join("savedmodel", "testdata", "upper"), "model.savedmodel")
		good := []tensor.Tensor{{Name: "text", DataType: tensor.Bytes, Shape: []int64{2},
			Data: tensor.AppendBytesElement(tensor.AppendBytesElement(nil, "ab"), strings.Repeat("y", 3000))}}
		bad := []tensor.Tensor{{Name: "text", DataType: tensor.Bytes, Shape: []int64{3}, Data: good[0].Data}}
		leavesNothing(t, "tensorflow", &m, good, bad)
	})
	t.Run("D065 OpenVINO", func(t *testing.T) {
		m := addSub(t, filepath.Join("testdata", "add_sub_ir", "1"), "")
		bad := m.Inputs(2, 1)
		bad[1].Shape, bad[1].Data = []int64{2, 15}, bad[1].Data[:120]
		leavesNothing(t, "openvino", &m, m.Inputs(2, 1), bad)
	})
}

// loadOne loads a model in this process and makes an instance of it. The caller closes both.
func loadOne(t *testing.T, b *Backend, m *backendtest.Model) (backend.Model, backend.Instance) {
	t.Helper()
	s := backend.Spec{ModelName: "m", Version: 1, Config: m.Config, ModelFolder: m.ModelFolder,
		VersionFolder: m.VersionFolder, Log: slog.New(slog.DiscardHandler)}
	model, err := b.f.load(t.Context(), s, &processOptions{Library: b.find(t.Context())})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := model.NewInstance(t.Context(), backend.Placement{Name: "m_0_0",
		Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
	if err != nil {
		t.Fatal(err)
	}
	return model, inst
}

func leavesNothing(t *testing.T, name string, m *backendtest.Model, good, bad []tensor.Tensor) {
	b := real(t, name)
	model, inst := loadOne(t, b, m)
	run := func(n int) {
		for i := range n {
			in, fails := good, i%10 == 9
			if fails {
				in = bad
			}
			r := infer.New()
			r.Inputs, r.BatchSize = append([]tensor.Tensor(nil), in...), int(in[0].Shape[0])
			if err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r},
				Rows: r.BatchSize}); err != nil {
				t.Fatal(err)
			}
			resp, err := r.Next(t.Context())
			if err != nil || (resp.Err != nil) != fails {
				t.Fatalf("run %d: %v, %v; want that it fails: %v", i, err, resp.Err, fails)
			}
			resp.Release()
		}
	}
	runs, most := 20_000, int64(4<<20)
	if os.Getenv("NEREID_SOAK") == "full" {
		runs, most = 500_000, 16<<20 // 32 bytes a run: Go's heap varies more over so many runs
	}
	run(runs / 4)
	before := resident(t)
	run(runs)
	if after := resident(t); after > before+most {
		t.Errorf("%d runs took %d kB", runs, (after-before)>>10)
	}
	if err := errors.Join(inst.Close(), model.Close()); err != nil {
		t.Error(err)
	}
}

// resident returns the resident memory of this process in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
