package onnxruntime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// ask loads a model, runs one request and returns its response.
func ask(t *testing.T, b backend.Backend, s backend.Spec, rows int, in ...tensor.Tensor) *infer.Response {
	t.Helper()
	m, err := b.Load(t.Context(), s)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	inst, err := m.NewInstance(t.Context(),
		backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU, SharedThreads: true})
	if err != nil {
		t.Fatalf("NewInstance: %v", err)
	}
	r := infer.New()
	r.Inputs, r.BatchSize = in, rows
	resp := alone(t, inst, r)
	t.Cleanup(func() {
		resp.Release()
		r.Release()
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return resp
}

func sample(t testing.TB, name string, c *inferencepb.ModelConfig) backend.Spec {
	t.Helper()
	model, version := repository(t, name)
	return backend.Spec{ModelName: name, Version: 1, Config: c, ModelFolder: model, VersionFolder: version,
		Log: slog.New(slog.DiscardHandler)}
}

func TestAnswers(t *testing.T) {
	b := open(t)
	for _, tt := range []struct {
		name, model string
		batch       int32
		inputs      []tensorIO
		outputs     []tensorIO
		in          []tensor.Tensor
		want        tensor.Tensor
		err         string
	}{
		{
			name: "C095 scalar", model: "scalar", inputs: []tensorIO{{"x", tensor.FP32, []int64{1}}},
			outputs: []tensorIO{{"y", tensor.FP32, []int64{1}}},
			in:      []tensor.Tensor{floats("x", []int64{1}, 3)}, want: floats("y", []int64{1}, -3),
		},
		{
			name: "shape from the values", model: "nonzero", inputs: []tensorIO{{"x", tensor.FP32, []int64{-1}}},
			outputs: []tensorIO{{"y", tensor.Int64, []int64{1, -1}}},
			in:      []tensor.Tensor{floats("x", []int64{4}, 0, 5, 0, 6)}, want: ints("y", []int64{1, 2}, 1, 3),
		},
		{
			name: "no elements from the values", model: "nonzero", inputs: []tensorIO{{"x", tensor.FP32, []int64{-1}}},
			outputs: []tensorIO{{"y", tensor.Int64, []int64{1, -1}}},
			in:      []tensor.Tensor{floats("x", []int64{2}, 0, 0)}, want: ints("y", []int64{1, 0}),
		},
		{
			name: "C096 initializer in place of an input", model: "default", batch: 4,
			inputs: []tensorIO{{"x", tensor.FP32, []int64{2}}}, outputs: []tensorIO{{"y", tensor.FP32, []int64{2}}},
			in: []tensor.Tensor{floats("x", []int64{1, 2}, 10, 20)}, want: floats("y", []int64{1, 2}, 11, 22),
		},
		{
			name: "C096 initializer given as an input", model: "default",
			inputs:  []tensorIO{{"x", tensor.FP32, []int64{-1, 2}}, {"bias", tensor.FP32, []int64{2}}},
			outputs: []tensorIO{{"y", tensor.FP32, []int64{-1, 2}}},
			in:      []tensor.Tensor{floats("x", []int64{1, 2}, 10, 20), floats("bias", []int64{2}, 5, 6)},
			want:    floats("y", []int64{1, 2}, 15, 26),
		},
		{
			name: "C096 initializer left out", model: "default",
			inputs:  []tensorIO{{"x", tensor.FP32, []int64{-1, 2}}, {"bias", tensor.FP32, []int64{2}}},
			outputs: []tensorIO{{"y", tensor.FP32, []int64{-1, 2}}},
			in:      []tensor.Tensor{floats("x", []int64{1, 2}, 10, 20)}, want: floats("y", []int64{1, 2}, 11, 22),
		},
		{
			name: "output that is no tensor beside one that is", model: "sequence", batch: 4,
			inputs: []tensorIO{{"x", tensor.FP32, []int64{2}}}, outputs: []tensorIO{{"y", tensor.FP32, []int64{2}}},
			in: []tensor.Tensor{floats("x", []int64{1, 2}, 1, 2)}, want: floats("y", []int64{1, 2}, 1, 2),
		},
		{
			name: "rows mixed by the model", model: "mixes_rows", batch: 4,
			inputs: []tensorIO{{"x", tensor.FP32, []int64{2}}}, outputs: []tensorIO{{"y", tensor.FP32, []int64{2}}},
			in: []tensor.Tensor{floats("x", []int64{2, 2}, 1, 2, 3, 4)}, err: "shape [1,2] for a batch of 2",
		},
		{
			name: "input missing", model: "table", batch: 4,
			inputs:  []tensorIO{{"index", tensor.Int64, []int64{1}}},
			outputs: []tensorIO{{"value", tensor.FP32, []int64{1}}},
			err:     "needs the input 'index'",
		},
		{
			name: "wrong datatype", model: "table", batch: 4,
			inputs:  []tensorIO{{"index", tensor.Int64, []int64{1}}},
			outputs: []tensorIO{{"value", tensor.FP32, []int64{1}}},
			in:      []tensor.Tensor{floats("index", []int64{1, 1}, 1)}, err: "has datatype FP32, want INT64",
		},
		{
			name: "failure in the model", model: "table", batch: 4,
			inputs:  []tensorIO{{"index", tensor.Int64, []int64{1}}},
			outputs: []tensorIO{{"value", tensor.FP32, []int64{1}}},
			in:      []tensor.Tensor{ints("index", []int64{1, 1}, 44)}, err: "onnx runtime error 2: ",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows := 1
			if len(tt.in) > 0 && tt.batch > 0 {
				rows = int(tt.in[0].Shape[0])
			}
			resp := ask(t, b, sample(t, tt.model, config(tt.batch, tt.inputs, tt.outputs)), rows, tt.in...)
			if tt.err != "" {
				if resp.Err == nil || !strings.Contains(resp.Err.Error(), tt.err) {
					t.Errorf("answer is %v, want an error with %q", resp.Err, tt.err)
				}
				return
			}
			if resp.Err != nil {
				t.Fatal(resp.Err)
			}
			if err := backendtest.Same(resp.Output(tt.want.Name), tt.want); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOneBadRowFailsAlone checks that a request with bad values does not fail the others of its batch.
func TestOneBadRowFailsAlone(t *testing.T) {
	m := tableModel(t)
	model, err := open(t).Load(t.Context(), spec(t, &m))
	if err != nil {
		t.Fatal(err)
	}
	inst, err := model.NewInstance(t.Context(), backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
	if err != nil {
		t.Fatal(err)
	}
	b := &infer.Batch{Rows: 3}
	for _, index := range []int64{1, 99, 2} {
		r := infer.New()
		defer r.Release()
		r.Inputs, r.BatchSize = []tensor.Tensor{ints("index", []int64{1, 1}, index)}, 1
		b.Requests = append(b.Requests, r)
	}
	if err := inst.Execute(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{11, 0, 12} {
		resp, err := b.Requests[i].Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want == 0 {
			if resp.Err == nil {
				t.Error("the index beyond the table was answered without an error")
			}
		} else if resp.Err != nil {
			t.Errorf("request %d: %v", i, resp.Err)
		} else if err := backendtest.Same(resp.Output("value"), floats("value", []int64{1, 1}, want)); err != nil {
			t.Error(err)
		}
		resp.Release()
	}
	if err := inst.Close(); err != nil {
		t.Error(err)
	}
	if err := model.Close(); err != nil {
		t.Error(err)
	}
}

// TestRequestsOfDifferentShapesRunSeparately checks one batch with requests of different widths.
func TestRequestsOfDifferentShapesRunSeparately(t *testing.T) {
	h := identityHarness(t, 3, 1)
	b := &infer.Batch{}
	var want []tensor.Tensor
	for i, width := range []int64{3, 3, 5, 3} {
		in := tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1, width},
			Data: fill(int(4*width), uint64(i))}
		r := infer.New()
		defer r.Release()
		r.Inputs, r.BatchSize = []tensor.Tensor{in}, 1
		b.Requests = append(b.Requests, r)
		b.Rows++
		in.Name = "OUTPUT0"
		want = append(want, in)
	}
	if err := h.inst.Execute(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for i, r := range b.Requests {
		resp, err := r.Next(t.Context())
		if err != nil || resp.Err != nil {
			t.Fatal(err, resp.Err)
		}
		if err := backendtest.Same(resp.Output("OUTPUT0"), want[i]); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
		resp.Release()
	}
}

// tensorJSON is a modelconfig.IO as JSON.
func tensorJSON(name string, dataType int, dims, dimNames string) string {
	return fmt.Sprintf(`{"Name":%q,"DataType":%d,"Dims":%s,"DimNames":%s,"Optional":false}`, name, dataType, dims,
		dimNames)
}

func TestSignature(t *testing.T) {
	b := open(t)
	for _, tt := range []struct {
		model string
		want  string // as JSON: the inputs, "] [", the outputs
		err   string
	}{
		{model: "add_sub", want: tensorJSON("INPUT0", 8, "[-1,16]", `["n",""]`) + "," +
			tensorJSON("INPUT1", 8, "[-1,16]", `["n",""]`) + "] [" +
			tensorJSON("OUTPUT0", 8, "[-1,16]", `["n",""]`) + "," +
			tensorJSON("OUTPUT1", 8, "[-1,16]", `["n",""]`)},
		{model: "scalar", want: tensorJSON("x", 11, "null", "null") + "] [" + tensorJSON("y", 11, "null", "null")},
		{model: "default", want: tensorJSON("x", 11, "[-1,2]", `["n",""]`) + "," +
			strings.Replace(tensorJSON("bias", 11, "[2]", `[""]`), "false", "true", 1) + "] [" +
			tensorJSON("y", 11, "[-1,2]", `["n",""]`)},
		{model: "sequence", want: tensorJSON("x", 11, "[-1,2]", `["n",""]`) + "] [" +
			tensorJSON("y", 11, "[-1,2]", `["n",""]`)},
		{model: "identity_bytes", want: tensorJSON("INPUT0", 13, "[-1,-1]", `["batch","width"]`) + "] [" +
			tensorJSON("OUTPUT0", 13, "[-1,-1]", `["batch","width"]`)},
		{model: "complex", err: "complex64"},
	} {
		t.Run(tt.model, func(t *testing.T) {
			sig, err := b.Signature(t.Context(), sample(t, tt.model, &inferencepb.ModelConfig{}))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("Signature = %v, want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			in, _ := json.Marshal(sig.Inputs)
			out, _ := json.Marshal(sig.Outputs)
			if got := string(in) + " " + string(out); got != "["+tt.want+"]" || sig.Platform != "onnxruntime_onnx" ||
				sig.Backend != "onnxruntime" {
				t.Errorf("Signature = %s (%s, %s)\nwant %s", got, sig.Platform, sig.Backend, tt.want)
			}
		})
	}
}

// TestAutoComplete compares the completed configuration with Triton's.
func TestAutoComplete_D015(t *testing.T) {
	s := sample(t, "add_sub", &inferencepb.ModelConfig{Name: "add_sub"})
	sig, err := open(t).Signature(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if faults := modelconfig.Complete(s.Config, sig, modelconfig.CompleteOptions{DefaultMaxBatchSize: 4}); len(
		faults) > 0 {
		t.Fatal(faults)
	}
	c := s.Config
	if c.MaxBatchSize != 4 || c.Backend != "onnxruntime" || c.Platform != "onnxruntime_onnx" || len(c.Input) != 2 ||
		len(c.Output) != 2 ||
		tensor.FormatShape(c.Input[0].Dims) != "[16]" || c.Input[0].DataType != inferencepb.DataType_TYPE_INT32 ||
		c.GetDynamicBatching() == nil {
		t.Errorf("completed configuration is %v", c)
	}
	shape := []int64{1, 16}
	resp := ask(t, open(t), s, 1, tensor.Tensor{Name: "INPUT0", DataType: tensor.Int32, Shape: shape,
		Data: fill(64, 1)},
		tensor.Tensor{Name: "INPUT1", DataType: tensor.Int32, Shape: shape, Data: make([]byte, 64)})
	if resp.Err != nil || !bytes.Equal(resp.Output("OUTPUT1").Data, fill(64, 1)) {
		t.Errorf("answer of the completed model: %+v", resp)
	}
}

func TestRefuses_C097(t *testing.T) {
	b := open(t)
	f32, i32 := tensor.FP32, tensor.Int32
	identity := func(batch int32, in, out tensorIO) *inferencepb.ModelConfig {
		return config(batch, []tensorIO{in}, []tensorIO{out})
	}
	good := identity(8, tensorIO{"INPUT0", f32, []int64{-1}}, tensorIO{"OUTPUT0", f32, []int64{-1}})
	withParameter := func(name, value string) *inferencepb.ModelConfig {
		c := identity(8, tensorIO{"INPUT0", f32, []int64{-1}}, tensorIO{"OUTPUT0", f32, []int64{-1}})
		c.Parameters = map[string]*inferencepb.ModelParameter{name: {StringValue: value}}
		return c
	}
	file := func(name string, model []byte) backend.Spec {
		folder, version := lay(t, model)
		return backend.Spec{ModelName: name, Version: 1, Config: good, ModelFolder: folder, VersionFolder: version}
	}
	gone := sample(t, "identity_fp32", good)
	if err := os.Remove(filepath.Join(gone.VersionFolder, "model.onnx")); err != nil {
		t.Fatal(err)
	}
	upwards := sample(t, "identity_fp32", &inferencepb.ModelConfig{DefaultModelFilename: "../../model.onnx"})
	whole, err := os.ReadFile("testdata/identity_fp32.onnx")
	if err != nil {
		t.Fatal(err)
	}
	x, y := tensorIO{"x", f32, []int64{1}}, tensorIO{"y", f32, []int64{1}}
	gpu := sample(t, "identity_fp32",
		identity(8, tensorIO{"INPUT0", f32, []int64{-1}}, tensorIO{"OUTPUT0", f32, []int64{-1}}))
	gpu.Config.Optimization = &inferencepb.ModelOptimizationPolicy{ExecutionAccelerators: &accelerators{
		CpuExecutionAccelerator: []*accelerator{{Name: "warp"}}}}
	backendtest.TestRefusals(t, b,
		backendtest.Refusal{Name: "no file", Spec: gone, Code: status.Internal, Text: "failed to stat file " +
			gone.VersionFolder + "/model.onnx"},
		backendtest.Refusal{Name: "file name upwards", Spec: upwards, Code: status.InvalidArg,
			Text: "must name a file in the version's folder"},
		backendtest.Refusal{Name: "empty file", Spec: file("empty", nil), Code: status.Internal,
			Text: "failed:No graph was found in the protobuf. The file is empty"},
		backendtest.Refusal{Name: "text", Spec: file("text", []byte("this is no model")), Code: status.Internal,
			Text: `failed:Protobuf parsing failed. The file is text ("this is no model")`},
		backendtest.Refusal{Name: "Git LFS pointer",
			Spec: file("pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")),
			Code: status.Internal, Text: "run git lfs pull"},
		backendtest.Refusal{Name: "zip", Spec: file("zip", []byte("PK\x03\x04junk of a PyTorch model")),
			Code: status.Internal, Text: "The file is a zip archive"},
		backendtest.Refusal{Name: "truncated", Spec: file("truncated", whole[:len(whole)-9]), Code: status.Internal,
			Text: "failed:Protobuf parsing failed. The file is cut off or damaged (not a protocol buffer: "},
		backendtest.Refusal{Name: "unknown operator",
			Spec: sample(t, "unknown_op", config(0, []tensorIO{x}, []tensorIO{y})), Code: status.Internal,
			Text: "Frobnicate"},
		backendtest.Refusal{Name: "opset too new",
			Spec: sample(t, "opset_too_new", config(0, []tensorIO{x}, []tensorIO{y})), Code: status.Internal,
			Text: "opset"},
		backendtest.Refusal{Name: "external data missing",
			Spec: sample(t, "external",
				config(8, []tensorIO{{"x", f32, []int64{256}}}, []tensorIO{{"y", f32, []int64{2}}})),
			Code: status.InvalidArg, Text: `external data "external.data" is missing`},
		backendtest.Refusal{Name: "datatype",
			Spec: sample(t, "identity_fp32",
				identity(8, tensorIO{"INPUT0", i32, []int64{-1}}, tensorIO{"OUTPUT0", f32, []int64{-1}})),
			Code: status.InvalidArg,
			Text: "unable to load model 'identity_fp32', configuration expects datatype TYPE_INT32 for input " +
				"'INPUT0', model provides TYPE_FP32"},
		backendtest.Refusal{Name: "input name",
			Spec: sample(t, "identity_fp32",
				identity(8, tensorIO{"IN", f32, []int64{-1}}, tensorIO{"OUTPUT0", f32, []int64{-1}})),
			Code: status.InvalidArg, Text: "unexpected inference input 'IN', allowed inputs are: INPUT0"},
		backendtest.Refusal{Name: "C097 output name",
			Spec: sample(t, "identity_fp32",
				identity(8, tensorIO{"INPUT0", f32, []int64{-1}}, tensorIO{"OUT", f32, []int64{-1}})),
			Code: status.InvalidArg, Text: "unexpected inference output 'OUT', allowed outputs are: OUTPUT0"},
		backendtest.Refusal{Name: "C097 output datatype",
			Spec: sample(t, "identity_fp32",
				identity(8, tensorIO{"INPUT0", f32, []int64{-1}}, tensorIO{"OUTPUT0", i32, []int64{-1}})),
			Code: status.InvalidArg,
			Text: "unable to load model 'identity_fp32', configuration expects datatype TYPE_INT32 for output " +
				"'OUTPUT0', model provides TYPE_FP32"},
		backendtest.Refusal{Name: "C097 output dims", Spec: sample(t, "add_sub",
			config(8, []tensorIO{{"INPUT0", i32, []int64{16}}, {"INPUT1", i32, []int64{16}}},
				[]tensorIO{{"OUTPUT0", i32, []int64{17}}})),
			Code: status.InvalidArg,
			Text: "model 'add_sub', tensor 'OUTPUT0': the model expects 2 dimensions (shape [-1,16]) but the model " +
				"configuration specifies 2 dimensions"},
		backendtest.Refusal{Name: "input left out",
			Spec: sample(t, "add_sub",
				config(8, []tensorIO{{"INPUT0", i32, []int64{16}}}, []tensorIO{{"OUTPUT0", i32, []int64{16}}})),
			Code: status.InvalidArg, Text: "configuration expects 1 inputs, model provides 2: INPUT0, INPUT1"},
		backendtest.Refusal{Name: "dims", Spec: sample(t, "add_sub",
			config(8, []tensorIO{{"INPUT0", i32, []int64{17}}, {"INPUT1", i32, []int64{16}}},
				[]tensorIO{{"OUTPUT0", i32, []int64{16}}})),
			Code: status.InvalidArg,
			Text: "model 'add_sub', tensor 'INPUT0': the model expects 2 dimensions (shape [-1,16]) but the model " +
				"configuration specifies 2 dimensions (an initial batch dimension because max_batch_size > 0 " +
				"followed by the explicit tensor shape, making complete shape [-1,17])"},
		backendtest.Refusal{Name: "dims without batching",
			Spec: sample(t, "loop",
				config(0, []tensorIO{{"n", tensor.Int64, []int64{2}}}, []tensorIO{{"y", f32, []int64{1}}})),
			Code: status.InvalidArg,
			Text: "the model expects 1 dimensions (shape [1]) but the model configuration specifies 1 dimensions " +
				"(shape [2])"},
		backendtest.Refusal{Name: "no batch dimension",
			Spec: sample(t, "loop",
				config(8, []tensorIO{{"n", tensor.Int64, []int64{1}}}, []tensorIO{{"y", f32, []int64{1}}})),
			Code: status.InvalidArg, Text: "first dimension must be -1; but shape expected by the model is [1]"},
		backendtest.Refusal{Name: "D020 sequence as an output",
			Spec: sample(t, "sequence",
				config(8, []tensorIO{{"x", f32, []int64{2}}}, []tensorIO{{"s", f32, []int64{2}}})),
			Code: status.Unsupported, Text: "ONNX_TYPE_SEQUENCE"},
		backendtest.Refusal{Name: "thread count",
			Spec: sample(t, "identity_fp32", withParameter("intra_op_thread_count", "many")), Code: status.InvalidArg,
			Text: `"many"`},
		backendtest.Refusal{Name: "execution mode", Spec: sample(t, "identity_fp32",
			withParameter("execution_mode", "2")), Code: status.InvalidArg,
			Text: "execution_mode are 0 or 1 but got 2"},
		backendtest.Refusal{Name: "boolean",
			Spec: sample(t, "identity_fp32", withParameter("enable_mem_arena", "maybe")), Code: status.InvalidArg,
			Text: `"maybe"`},
		backendtest.Refusal{Name: "accelerator", Spec: gpu, Code: status.InvalidArg,
			Text: "unknown Execution Accelerator 'warp' is requested"},
	)
}

// The warning names the model, so that it can be found among the warnings of other models.
func TestOutputsThatAreNoTensorsAreLeftOutWithAWarning_D020(t *testing.T) {
	var log bytes.Buffer
	s := sample(t, "sequence", &inferencepb.ModelConfig{Backend: "onnxruntime"})
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	sig, err := open(t).Signature(t.Context(), s)
	if err != nil || len(sig.Outputs) != 1 || sig.Outputs[0].Name != "y" {
		t.Fatalf("Signature = %+v, %v; want the output y alone", sig, err)
	}
	if got := log.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, " model=sequence ") ||
		!strings.Contains(got, "ONNX_TYPE_SEQUENCE") {
		t.Errorf("the log is %q; want a warning with the model and the type", got)
	}
}

// TestModelFolder checks that model.onnx may be a folder with the model and its external data.
func TestModelFolder_A008(t *testing.T) {
	folder := t.TempDir()
	inside := filepath.Join(folder, "1", "model.onnx")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"external.onnx": "model.onnx", "external.data": "external.data"} {
		data, err := os.ReadFile(filepath.Join("testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inside, to), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := backend.Spec{
		ModelName: "external", Version: 1,
		Config: config(8, []tensorIO{{"x", tensor.FP32, []int64{256}}},
			[]tensorIO{{"y", tensor.FP32, []int64{2}}}),
		ModelFolder: folder, VersionFolder: filepath.Join(folder, "1"), Log: slog.New(slog.DiscardHandler),
	}
	v := make([]float32, 256)
	v[3] = 1 // picks row 3 of the weights: 6, 7
	resp := ask(t, open(t), s, 1, floats("x", []int64{1, 256}, v...))
	if resp.Err != nil {
		t.Fatal(resp.Err)
	}
	if err := backendtest.Same(resp.Output("y"), floats("y", []int64{1, 2}, 6, 7)); err != nil {
		t.Error(err)
	}
}

func resident(t *testing.T) int64 {
	t.Helper()
	runtime.GC()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestIdleThreadsDoNotSpin checks that the shared pool uses no CPU time without runs.
func TestIdleThreadsDoNotSpin(t *testing.T) {
	h := mlpHarness(t, 64,
		map[string]*inferencepb.ModelParameter{"execution_mode": {StringValue: "1"}}) // needs the pool
	h.once(context.Background(), t)
	// 300 ms of waiting, measured: what is under test is time that passes. Threads that spin do so each time; the
	// garbage collector does not.
	var used []time.Duration
	for range 5 {
		before := cpuTime()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		<-ctx.Done()
		cancel()
		if used = append(used, cpuTime()-before); used[len(used)-1] <= 100*time.Millisecond {
			return
		}
	}
	t.Errorf("the process used %v of CPU time in 300ms of idling each", used)
}

// TestCancelledContextStopsTheRun checks a run whose request is not cancelled.
func TestCancelledContextStopsTheRun(t *testing.T) {
	m := loopModel(t)
	model, err := open(t).Load(t.Context(), spec(t, &m))
	if err != nil {
		t.Fatal(err)
	}
	inst, err := model.NewInstance(t.Context(), backend.Placement{Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := infer.New()
	defer r.Release()
	r.Inputs = m.Slow()
	if err := inst.Execute(ctx, &infer.Batch{Requests: []*infer.Request{r}, Rows: 1}); err != nil {
		t.Fatal(err)
	}
	if resp, err := r.Next(t.Context()); err != nil || status.CodeOf(resp.Err) != status.Cancelled {
		t.Errorf("answer %+v, %v; want Cancelled", resp, err)
	}
	if err := inst.Close(); err != nil {
		t.Error(err)
	}
	if err := model.Close(); err != nil {
		t.Error(err)
	}
}

// TestGPUWithoutProvider checks the error of a library without GPU providers.
func TestGPUWithoutProvider(t *testing.T) {
	m := addSubModel(t)
	model, err := open(t).Load(t.Context(), spec(t, &m))
	if err != nil {
		t.Fatal(err)
	}
	inst, err := model.NewInstance(t.Context(),
		backend.Placement{Name: "m_0_0", Kind: inferencepb.ModelInstanceGroup_KIND_GPU})
	if err == nil {
		t.Log("this onnxruntime has CUDA")
		err = inst.Close()
	} else if code := status.CodeOf(err); (code == status.Unsupported || code == status.Unavailable) &&
		strings.Contains(err.Error(), "pip install --target=") {
		err = nil
	}
	if err != nil {
		t.Error(err)
	}
	cpu, err := model.NewInstance(t.Context(),
		backend.Placement{Name: "m_1_0", Kind: inferencepb.ModelInstanceGroup_KIND_CPU})
	if err != nil {
		t.Fatalf("an instance on the CPU after one that failed: %v", err)
	}
	if err := cpu.Close(); err != nil {
		t.Error(err)
	}
	if err := model.Close(); err != nil {
		t.Error(err)
	}
}

// TestSequenceControls checks that inputs from the sequence batcher need not be configured as inputs.
func TestSequenceControls(t *testing.T) {
	c := config(8, []tensorIO{{"INPUT0", tensor.Int32, []int64{16}}},
		[]tensorIO{{"OUTPUT0", tensor.Int32, []int64{16}}})
	c.SchedulingChoice = &inferencepb.ModelConfig_SequenceBatching{SequenceBatching: &inferencepb.ModelSequenceBatching{
		ControlInput: []*inferencepb.ModelSequenceBatching_ControlInput{{Name: "INPUT1"}}}}
	shape := []int64{1, 16}
	data := make([]byte, 64)
	data[0] = 5
	resp := ask(t, open(t), sample(t, "add_sub", c), 1,
		tensor.Tensor{Name: "INPUT0", DataType: tensor.Int32, Shape: shape, Data: data},
		tensor.Tensor{Name: "INPUT1", DataType: tensor.Int32, Shape: shape, Data: data})
	if resp.Err != nil || resp.Output("OUTPUT0").Data[0] != 10 {
		t.Errorf("answer %+v", resp)
	}
}

func TestVersion(t *testing.T) {
	v, err := open(t).Version()
	if err != nil || !strings.HasPrefix(v, "1.") {
		t.Errorf("Version = %q, %v", v, err)
	}
	if n := onnxruntime.New(onnxruntime.Options{}).Traits().DefaultInstanceCount; n != 2 {
		t.Errorf("DefaultInstanceCount = %d, want 2", n)
	}
}
