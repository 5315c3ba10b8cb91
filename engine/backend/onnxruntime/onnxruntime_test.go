package onnxruntime_test

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// open returns the backend. Without a library the test is skipped, or fails if all tests are required.
func open(t testing.TB) *onnxruntime.Backend {
	t.Helper()
	b := onnxruntime.New(onnxruntime.Options{Library: os.Getenv("NEREID_ONNXRUNTIME_LIBRARY"), Threads: 2,
		CacheFolder: filepath.Join("..", "..", "..", ".cache", "onnxruntime")})
	if _, err := b.Version(); err != nil {
		if os.Getenv("NEREID_TEST_FULL") == "1" {
			t.Fatalf("no onnxruntime: %v", err)
		}
		t.Skipf("no onnxruntime (\"make setup-onnxruntime\" fetches it): %v", err)
	}
	return b
}

// repository copies a model of testdata to a new model repository.
func repository(t testing.TB, name string) (modelFolder, versionFolder string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return lay(t, data)
}

func lay(t testing.TB, model []byte) (modelFolder, versionFolder string) {
	t.Helper()
	modelFolder = t.TempDir()
	versionFolder = filepath.Join(modelFolder, "1")
	if err := os.Mkdir(versionFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(versionFolder, "model.onnx"), model, 0o644); err != nil {
		t.Fatal(err)
	}
	return modelFolder, versionFolder
}

// tensorIO is a configured input or output.
type tensorIO struct {
	name string
	dt   tensor.DataType
	dims []int64
}

func config(batch int32, inputs, outputs []tensorIO) *inferencepb.ModelConfig {
	c := &inferencepb.ModelConfig{Backend: "onnxruntime", MaxBatchSize: batch}
	for _, x := range inputs {
		c.Input = append(c.Input, &inferencepb.ModelInput{Name: x.name, DataType: inferencepb.DataType(x.dt),
			Dims: x.dims})
	}
	for _, x := range outputs {
		c.Output = append(c.Output, &inferencepb.ModelOutput{Name: x.name, DataType: inferencepb.DataType(x.dt),
			Dims: x.dims})
	}
	return c
}

func fill(n int, seed uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return b
}

// one returns the tensors of the only response.
func one(responses [][]tensor.Tensor, n int) ([]tensor.Tensor, error) {
	if len(responses) != 1 || len(responses[0]) != n {
		return nil, fmt.Errorf("%d responses, want one with %d outputs", len(responses), n)
	}
	return responses[0], nil
}

// identityModel returns its input, rows of a width.
func identityModel(t *testing.T, name string, dt tensor.DataType, width int) backendtest.Model {
	model, version := repository(t, name)
	dims := []int64{-1}
	data := func(rows, width int, seed uint64) []byte {
		switch dt {
		case tensor.Bool:
			b := fill(rows*width, seed)
			for i := range b {
				b[i] &= 1
			}
			return b
		case tensor.Bytes:
			var b []byte
			for i := range rows * width {
				b = tensor.AppendBytesElement(b, fill(int(seed+uint64(i))%70, seed*31+uint64(i))) // with NUL bytes
			}
			return b
		}
		return fill(rows*width*dt.Size(), seed)
	}
	return backendtest.Model{
		Name: fmt.Sprintf("%s_%d", name, width), ModelFolder: model, VersionFolder: version,
		Config: config(16, []tensorIO{{"INPUT0", dt, dims}}, []tensorIO{{"OUTPUT0", dt, dims}}),
		Inputs: func(rows int, seed uint64) []tensor.Tensor {
			return []tensor.Tensor{{Name: "INPUT0", DataType: dt, Shape: []int64{int64(rows), int64(width)},
				Data: data(rows, width, seed)}}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			out, err := one(responses, 1)
			if err != nil {
				return err
			}
			want := in[0]
			want.Name = "OUTPUT0"
			return backendtest.Same(&out[0], want)
		},
		Zero: func() []tensor.Tensor {
			return []tensor.Tensor{{Name: "INPUT0", DataType: dt, Shape: []int64{1, 0}}}
		},
		Bad: func() []tensor.Tensor {
			return []tensor.Tensor{{Name: "INPUT0", DataType: dt, Shape: []int64{1, 5}, Data: []byte{9, 9, 9}}}
		},
	}
}

func addSubModel(t *testing.T) backendtest.Model {
	model, version := repository(t, "add_sub")
	dims := []int64{16}
	return backendtest.Model{
		Name: "add_sub", ModelFolder: model, VersionFolder: version,
		Config: config(16, []tensorIO{{"INPUT0", tensor.Int32, dims}, {"INPUT1", tensor.Int32, dims}},
			[]tensorIO{{"OUTPUT0", tensor.Int32, dims}, {"OUTPUT1", tensor.Int32, dims}}),
		Inputs: func(rows int, seed uint64) []tensor.Tensor {
			shape := []int64{int64(rows), 16}
			return []tensor.Tensor{ // not in the configuration's order
				{Name: "INPUT1", DataType: tensor.Int32, Shape: shape, Data: fill(rows*64, ^seed)},
				{Name: "INPUT0", DataType: tensor.Int32, Shape: shape, Data: fill(rows*64, seed)},
			}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			out, err := one(responses, 2)
			if err != nil {
				return err
			}
			sum, diff := in[0], in[0]
			sum.Name, diff.Name, sum.Data, diff.Data = "OUTPUT0", "OUTPUT1", nil, nil
			for i := 0; i < len(in[0].Data); i += 4 {
				a, b := binary.LittleEndian.Uint32(in[1].Data[i:]), binary.LittleEndian.Uint32(in[0].Data[i:])
				sum.Data = binary.LittleEndian.AppendUint32(sum.Data, a+b)
				diff.Data = binary.LittleEndian.AppendUint32(diff.Data, a-b)
			}
			if err := backendtest.Same(backendtest.Find(out, "OUTPUT0"), sum); err != nil {
				return err
			}
			return backendtest.Same(backendtest.Find(out, "OUTPUT1"), diff)
		},
	}
}

func floats(name string, shape []int64, v ...float32) tensor.Tensor {
	x := tensor.Tensor{Name: name, DataType: tensor.FP32, Shape: shape}
	for _, f := range v {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(f))
	}
	return x
}

func ints(name string, shape []int64, v ...int64) tensor.Tensor {
	x := tensor.Tensor{Name: name, DataType: tensor.Int64, Shape: shape}
	for _, n := range v {
		x.Data = binary.LittleEndian.AppendUint64(x.Data, uint64(n))
	}
	return x
}

// loopModel counts to n, one step at a time.
func loopModel(t *testing.T) backendtest.Model {
	model, version := repository(t, "loop")
	return backendtest.Model{
		Name: "loop", ModelFolder: model, VersionFolder: version,
		Config: config(0, []tensorIO{{"n", tensor.Int64, []int64{1}}}, []tensorIO{{"y", tensor.FP32, []int64{1}}}),
		Inputs: func(_ int, seed uint64) []tensor.Tensor {
			return []tensor.Tensor{ints("n", []int64{1},
				int64(seed%9))}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			out, err := one(responses, 1)
			if err != nil {
				return err
			}
			return backendtest.Same(&out[0], floats("y", []int64{1}, float32(in[0].Data[0])))
		},
		Slow: func() []tensor.Tensor { return []tensor.Tensor{ints("n", []int64{1}, 1e12)} },
	}
}

// tableModel looks up numbers in a table of four. A larger index fails the run.
func tableModel(t *testing.T) backendtest.Model {
	model, version := repository(t, "table")
	return backendtest.Model{
		Name: "table", ModelFolder: model, VersionFolder: version,
		Config: config(8, []tensorIO{{"index", tensor.Int64, []int64{1}}},
			[]tensorIO{{"value", tensor.FP32, []int64{1}}}),
		Inputs: func(rows int, seed uint64) []tensor.Tensor {
			v := make([]int64, rows)
			for i := range v {
				v[i] = int64(seed+uint64(i)) % 4
			}
			return []tensor.Tensor{ints("index", []int64{int64(rows), 1}, v...)}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			out, err := one(responses, 1)
			if err != nil {
				return err
			}
			var v []float32
			for i := 0; i < len(in[0].Data); i += 8 {
				v = append(v, 10+float32(in[0].Data[i]))
			}
			return backendtest.Same(&out[0], floats("value", in[0].Shape, v...))
		},
		Bad: func() []tensor.Tensor { return []tensor.Tensor{ints("index", []int64{1, 1}, 99)} },
	}
}

func TestConformance_D005_D016(t *testing.T) {
	own := addSubModel(t)
	own.Name = "own threads"
	own.Config.Parameters = map[string]*inferencepb.ModelParameter{
		"intra_op_thread_count": {StringValue: "1"}, "execution_mode": {StringValue: "0"},
		"enable_mem_arena":   {StringValue: "false"},
		"enable_mem_pattern": {StringValue: "0"}, "session.disable_prepacking": {StringValue: "1"},
	}
	pooled := addSubModel(t)
	pooled.Name = "shared threads"
	pooled.Config.Parameters = map[string]*inferencepb.ModelParameter{"execution_mode": {StringValue: "1"}}
	backendtest.Test(t, open(t),
		identityModel(t, "identity_fp32", tensor.FP32, 16),
		identityModel(t, "identity_fp32", tensor.FP32, 5000), // outputs in the runtime's memory
		identityModel(t, "identity_fp16", tensor.FP16, 3),
		identityModel(t, "identity_bf16", tensor.BF16, 3),
		identityModel(t, "identity_bool", tensor.Bool, 7),
		identityModel(t, "identity_int64", tensor.Int64, 4),
		identityModel(t, "identity_int32", tensor.Int32, 4),
		identityModel(t, "identity_int16", tensor.Int16, 4),
		identityModel(t, "identity_int8", tensor.Int8, 4),
		identityModel(t, "identity_uint64", tensor.Uint64, 4),
		identityModel(t, "identity_uint32", tensor.Uint32, 4),
		identityModel(t, "identity_uint16", tensor.Uint16, 4),
		identityModel(t, "identity_uint8", tensor.Uint8, 4),
		identityModel(t, "identity_fp64", tensor.FP64, 4),
		identityModel(t, "identity_bytes", tensor.Bytes, 4),
		addSubModel(t),
		own,
		pooled,
		loopModel(t),
		tableModel(t),
	)
}

func spec(t testing.TB, m *backendtest.Model) backend.Spec {
	return backend.Spec{
		ModelName: m.Name, Version: 1, Config: m.Config, ModelFolder: m.ModelFolder, VersionFolder: m.VersionFolder,
		Log: slog.New(slog.DiscardHandler),
	}
}
