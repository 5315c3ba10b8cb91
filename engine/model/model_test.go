package model

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func config(t testing.TB, text string) *inferencepb.ModelConfig {
	t.Helper()
	cfg := &inferencepb.ModelConfig{}
	if err := prototext.Unmarshal([]byte(text), cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Name = "m"
	return cfg
}

func spec(cfg *inferencepb.ModelConfig, folder string, b backend.Backend) Spec {
	return Spec{
		Name: "m", Version: 1, Config: cfg, ModelFolder: folder, VersionFolder: filepath.Join(folder, "1"), Backend: b,
		Stats: stats.NewRegistry(stats.Detail{}).Version("m", 1), Log: slog.New(slog.DiscardHandler),
	}
}

func serve(t testing.TB, s Spec) *Model {
	t.Helper()
	m, err := Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// ask sends one request and returns all its responses' outputs.
func ask(t testing.TB, m *Model, r *infer.Request) ([]tensor.Tensor, error) {
	t.Helper()
	if !m.Acquire() {
		t.Fatal("the model is closing")
	}
	if err := m.Infer(r); err != nil {
		return nil, err
	}
	var all []tensor.Tensor
	for {
		resp, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range resp.Outputs {
			out.Shape, out.Data = slices.Clone(out.Shape), slices.Clone(out.Data)
			all = append(all, out)
		}
		err, final := resp.Err, resp.Final
		resp.Release()
		if err != nil || final {
			return all, err
		}
	}
}

func request(inputs ...tensor.Tensor) *infer.Request {
	r := infer.NewDetached()
	r.ModelName = "m"
	r.Inputs = append(r.Inputs, inputs...)
	return r
}

func input(name string, dt tensor.DataType, data int, shape ...int64) tensor.Tensor {
	return tensor.Tensor{Name: name, DataType: dt, Shape: shape, Data: make([]byte, data)}
}

// beforeModel is a model whose instances call a function before each execution; an error of it is the execution's.
type beforeModel struct {
	backend.Model
	do func(*infer.Batch) error
}

type beforeInstance struct {
	backend.Instance
	do func(*infer.Batch) error
}

func (m *beforeModel) Traits() backend.Traits { return backend.Traits{} }

func (m *beforeModel) NewInstance(ctx context.Context, p backend.Placement) (backend.Instance, error) {
	i, err := m.Model.NewInstance(ctx, p)
	return &beforeInstance{i, m.do}, err
}

func (i *beforeInstance) Execute(ctx context.Context, b *infer.Batch) error {
	if err := i.do(b); err != nil {
		return err
	}
	return i.Instance.Execute(ctx, b)
}

// recorder is the identity backend; it keeps the inputs that its instances execute.
type recorder struct {
	backend.Backend
	mu   sync.Mutex
	seen []tensor.Tensor // guarded by mu
	fail error
}

func record() *recorder { return &recorder{Backend: builtin.Identity()} }

func (r *recorder) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	m, err := r.Backend.Load(ctx, s)
	return &beforeModel{m, r.record}, err
}

func (r *recorder) record(b *infer.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range b.Requests {
		for _, in := range req.Inputs {
			in.Shape, in.Data = slices.Clone(in.Shape), slices.Clone(in.Data)
			r.seen = append(r.seen, in)
		}
	}
	return r.fail
}

func identity(dt, dims, more string) string {
	return `backend: "identity" input { name: "INPUT0" data_type: ` + dt + ` dims: ` + dims +
		` } output { name: "OUTPUT0" data_type: ` + dt +
		` dims: ` + dims + ` } instance_group { count: 1 kind: KIND_CPU } ` + more
}

func TestWarmupSamples_C082(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, b []byte) {
		if err := os.MkdirAll(filepath.Join(folder, "warmup"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "warmup", name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("four", []byte{1, 2, 3, 4})
	write("five", []byte{1, 2, 3, 4, 5})
	write("strings", tensor.AppendBytesElement(tensor.AppendBytesElement(nil, "a"), "\x00b"))
	if err := syscall.Mkfifo(filepath.Join(folder, "warmup", "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	const batching = "max_batch_size: 8 "
	warmup := func(dt, dims, data string) string {
		return `model_warmup { name: "w" batch_size: 1 inputs { key: "INPUT0" value { data_type: ` + dt + ` dims: ` +
			dims + ` ` + data + ` } } }`
	}
	for _, tt := range []struct {
		name, config string
		runs         int
		shape        []int64
		bytes        int
		data         []byte // nil: any
		want         string // part of the error
	}{
		{name: "zeros of one byte each", config: identity("TYPE_UINT8", "[ 2, 3 ]",
			warmup("TYPE_UINT8", "[ 2, 3 ]", "zero_data: true")),
			runs: 1, shape: []int64{2, 3}, bytes: 6, data: make([]byte, 6)},
		{name: "zeros of two bytes each", config: identity("TYPE_FP16", "[ 4 ]",
			warmup("TYPE_FP16", "[ 4 ]", "zero_data: true")),
			runs: 1, shape: []int64{4}, bytes: 8, data: make([]byte, 8)},
		{name: "random bool", config: identity("TYPE_BOOL", "[ 64 ]",
			warmup("TYPE_BOOL", "[ 64 ]", "random_data: true")),
			runs: 1, shape: []int64{64}, bytes: 64},
		{name: "random doubles for a variable dimension",
			config: identity("TYPE_FP64", "[ -1 ]", warmup("TYPE_FP64", "[ 5 ]", "random_data: true")),
			runs:   1, shape: []int64{5}, bytes: 40},
		{name: "random strings", config: identity("TYPE_STRING", "[ 3 ]",
			warmup("TYPE_STRING", "[ 3 ]", "random_data: true")),
			runs: 1, shape: []int64{3}, bytes: 12},
		{name: "batch", config: batching + identity("TYPE_INT32", "[ 2 ]",
			strings.Replace(warmup("TYPE_INT32", "[ 2 ]", "zero_data: true"), "batch_size: 1", "batch_size: 3", 1)),
			runs: 1, shape: []int64{3, 2}, bytes: 24},
		{name: "count", config: identity("TYPE_INT32", "[ 2 ]",
			strings.Replace(warmup("TYPE_INT32", "[ 2 ]", "zero_data: true"), "batch_size: 1", "batch_size: 1 count: 4",
				1)),
			runs: 4, shape: []int64{2}, bytes: 8},
		{name: "file", config: identity("TYPE_UINT8", "[ 4 ]",
			warmup("TYPE_UINT8", "[ 4 ]", `input_data_file: "four"`)),
			runs: 1, shape: []int64{4}, bytes: 4, data: []byte{1, 2, 3, 4}},
		{name: "file of strings", config: identity("TYPE_STRING", "[ 2 ]",
			warmup("TYPE_STRING", "[ 2 ]", `input_data_file: "strings"`)),
			runs: 1, shape: []int64{2}, bytes: 11},
		{name: "file of which the first bytes are used", config: identity("TYPE_UINT8", "[ 4 ]",
			warmup("TYPE_UINT8", "[ 4 ]", `input_data_file: "five"`)),
			runs: 1, shape: []int64{4}, bytes: 4, data: []byte{1, 2, 3, 4}},
		{name: "each row of a batch has the first bytes", config: batching + identity("TYPE_UINT8", "[ 2 ]",
			strings.Replace(warmup("TYPE_UINT8", "[ 2 ]", `input_data_file: "five"`), "batch_size: 1", "batch_size: 2",
				1)),
			runs: 1, shape: []int64{2, 2}, bytes: 4, data: []byte{1, 2, 1, 2}},
		{name: "file that is too short", config: identity("TYPE_UINT8", "[ 5 ]",
			warmup("TYPE_UINT8", "[ 5 ]", `input_data_file: "four"`)),
			want: "input_data_file has 4 bytes, its dims and data_type need 5"},
		{name: "file with more strings", config: identity("TYPE_STRING", "[ 1 ]",
			warmup("TYPE_STRING", "[ 1 ]", `input_data_file: "strings"`)),
			want: "bytes left over after 1 elements"},
		{name: "file that is not there", config: identity("TYPE_UINT8", "[ 4 ]",
			warmup("TYPE_UINT8", "[ 4 ]", `input_data_file: "six"`)),
			want: "no such file"},
		{name: "file outside", config: identity("TYPE_UINT8", "[ 4 ]",
			warmup("TYPE_UINT8", "[ 4 ]", `input_data_file: "../../etc/passwd"`)),
			want: "must be inside"},
		{name: "pipe", config: identity("TYPE_UINT8", "[ 4 ]",
			warmup("TYPE_UINT8", "[ 4 ]", `input_data_file: "pipe"`)),
			want: "not a regular file"},
		{name: "more than memory can be", config: identity("TYPE_UINT8", "[ -1, -1 ]",
			warmup("TYPE_UINT8", "[ 2147483648, 2147483648 ]", `zero_data: true`)),
			want: "larger"},
		{name: "wrong data type", config: identity("TYPE_UINT8", "[ 4 ]",
			warmup("TYPE_INT8", "[ 4 ]", "zero_data: true")),
			want: "failed to run warmup sample 'w': [request id: <id_unknown>] inference input 'INPUT0' data-type is " +
				"'INT8'"},
		{name: "wrong dims", config: identity("TYPE_UINT8", "[ 4 ]", warmup("TYPE_UINT8", "[ 5 ]", "zero_data: true")),
			want: "unexpected shape"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := record()
			m, err := Load(t.Context(), spec(config(t, tt.config), folder, rec))
			if err == nil {
				defer m.Close(context.Background())
			}
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || status.CodeOf(err) != status.InvalidArg {
					t.Fatalf("Load = %v, want InvalidArg with %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(rec.seen) != tt.runs {
				t.Fatalf("%d inputs were run, want %d", len(rec.seen), tt.runs)
			}
			for _, in := range rec.seen {
				if !slices.Equal(in.Shape, tt.shape) || len(in.Data) != tt.bytes || tt.data != nil &&
					!slices.Equal(in.Data, tt.data) {
					t.Errorf("warmup input of shape %v with %d bytes %v, want %v with %d %v", in.Shape, len(in.Data),
						in.Data, tt.shape, tt.bytes, tt.data)
				}
			}
			var s stats.Snapshot
			if m.stats.Snapshot(&s); s.Success.Count+s.Fail.Count+s.Executions != 0 || s.Pending != 0 {
				t.Errorf("the statistics saw the warmup: %+v", s.Counters)
			}
		})
	}
}

func TestFailedWarmupFailsTheLoad(t *testing.T) {
	rec := record()
	rec.fail = status.New(status.Internal, "too cold")
	_, err := Load(t.Context(), spec(config(t, identity("TYPE_UINT8", "[ 1 ]",
		`model_warmup { name: "w" inputs { key: "INPUT0" value { data_type: TYPE_UINT8 dims: 1 zero_data: true } } }`)),
		t.TempDir(), rec))
	if err == nil || !strings.Contains(err.Error(), "failed to run warmup sample 'w': too cold") {
		t.Errorf("Load = %v, want the warmup's failure", err)
	}
}

func TestReshape_C089(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		sent         []int64
		bytes        int
		seen         []int64 // by the backend
	}{
		{"to no dimension", `max_batch_size: 4 ` + reshaped("[ 1 ]", "{ shape: [ ] }"), []int64{3, 1}, 12, []int64{3}},
		{"scalar without batching", reshaped("[ 1 ]", "{ shape: [ ] }"), []int64{1}, 4, []int64{}},
		{"split", reshaped("[ 6 ]", "{ shape: [ 2, 3 ] }"), []int64{6}, 24, []int64{2, 3}},
		{"variable", `max_batch_size: 4 ` + reshaped("[ -1, 1 ]", "{ shape: [ -1 ] }"), []int64{2, 5, 1}, 40,
			[]int64{2, 5}},
		{"two variable", reshaped("[ -1, 1, -1 ]", "{ shape: [ -1, -1 ] }"), []int64{3, 1, 2}, 24, []int64{3, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := record()
			m := serve(t, spec(config(t, tt.config), t.TempDir(), rec))
			r := request(input("INPUT0", tensor.FP32, tt.bytes, tt.sent...))
			defer r.Release()
			out, err := ask(t, m, r)
			if err != nil || len(out) != 1 || !slices.Equal(out[0].Shape, tt.sent) {
				t.Fatalf("answer %+v, %v; want the shape sent, %v", out, err, tt.sent)
			}
			if !slices.Equal(rec.seen[0].Shape, tt.seen) {
				t.Errorf("the backend saw shape %v, want %v", rec.seen[0].Shape, tt.seen)
			}
		})
	}
}

func reshaped(dims, to string) string {
	return `backend: "identity" instance_group { count: 1 kind: KIND_CPU } input { name: "INPUT0" data_type: ` +
		`TYPE_FP32 dims: ` + dims + ` reshape ` + to +
		` } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: ` + dims + ` reshape ` + to + ` }`
}

func TestLabels_A042(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"plain": "cat\ndog\n", "crlf": "cat\r\ndog", "gap": "cat\n\ndog\n",
		"empty": ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file string
		want []string
		err  string
	}{
		{"plain", []string{"cat", "dog"}, ""},
		{"crlf", []string{"cat", "dog"}, ""},
		{"gap", []string{"cat", "", "dog"}, ""},
		{"empty", nil, ""},
		{"missing", nil, "cannot read label_filename"},
		{"../labels", nil, "must be inside"},
		{"/etc/passwd", nil, "must be inside"},
		{"pipe", nil, "not a regular file"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			cfg := config(t, identity("TYPE_UINT8", "[ 1 ]", ""))
			cfg.Output[0].LabelFilename = tt.file
			got, err := readLabels(folder, cfg)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || status.CodeOf(err) != status.InvalidArg {
					t.Errorf("readLabels = %v, want InvalidArg with %q", err, tt.err)
				}
				return
			}
			if err != nil || !slices.Equal(got["OUTPUT0"], tt.want) {
				t.Errorf("labels = %q, %v; want %q", got["OUTPUT0"], err, tt.want)
			}
		})
	}
}

func TestSignatureChecks(t *testing.T) {
	two := `backend: "identity" input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 2 ] } input { name: "INPUT1" ` +
		`data_type: TYPE_STRING dims: [ -1 ] optional: true } ` +
		`output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 2 ] }`
	in := func(name string, dt tensor.DataType, data []byte, shape ...int64) tensor.Tensor {
		return tensor.Tensor{Name: name, DataType: dt, Shape: shape, Data: data}
	}
	ok := in("INPUT0", tensor.FP32, make([]byte, 8), 2)
	word := tensor.AppendBytesElement(nil, "x")
	var many []tensor.Tensor
	for i := range 20000 {
		many = append(many, in("X"+string(rune('a'+i%26))+strings.Repeat("y", i%7)+time.Duration(i).String(),
			tensor.FP32, nil))
	}
	for _, tt := range []struct {
		name, config string
		inputs       []tensor.Tensor
		want         string // "": passes
	}{
		{"C092 optional left out", two, []tensor.Tensor{ok}, ""},
		{"C092 optional there", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, word, 1)}, ""},
		{"optional alone", two, []tensor.Tensor{in("INPUT1", tensor.Bytes, word, 1)},
			"missing required input(s) ['INPUT0']"},
		{"optional first", two, []tensor.Tensor{in("INPUT1", tensor.Bytes, word, 1), ok}, ""},
		{"no strings", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, nil, 0)}, ""},
		{"too few strings", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, word, 2)},
			"expected 2 string elements for inference input 'INPUT1' for model 'm', got 1"},
		{"too many strings", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, word, 0)},
			"unexpected number of string elements 1 for inference input 'INPUT1' for model 'm', expecting 0"},
		{"string over the end", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, []byte{9, 0, 0, 0, 1}, 1)},
			"expecting string of length 9 but only 1 bytes available"},
		{"half a length", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, []byte{1, 0, 0, 0, 1, 9, 9}, 2)},
			"expecting 4 bytes but only 2 bytes available"},
		{"half a length behind all", two, []tensor.Tensor{ok,
			in("INPUT1", tensor.Bytes, []byte{1, 0, 0, 0, 1, 9, 9}, 1)},
			"expecting 4 bytes but only 2 bytes available"},
		{"string of 2^32-1 bytes", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, []byte{255, 255, 255, 255}, 1)},
			"expecting string of length 4294967295 but only 0 bytes available"},
		{"2^62 strings", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, word, 1<<62)},
			"expected 4611686018427387904 string elements"},
		{"negative dimension", two, []tensor.Tensor{ok, in("INPUT1", tensor.Bytes, word, -1)}, "unexpected shape"},
		{"twice", two, []tensor.Tensor{ok, ok}, "input 'INPUT0' already exists in request"},
		{"20000 inputs", two, many, "expected number of inputs between 1 and 2 but got 20000 inputs"},
		{"size that wraps to 0", `backend: "identity" max_batch_size: 64 input { name: "INPUT0" data_type: ` +
			`TYPE_FP32 dims: [ 288230376151711744 ] } ` +
			`output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }`,
			[]tensor.Tensor{in("INPUT0", tensor.FP32, nil, 16, 288230376151711744)}, "larger than memory can be"},
		{"batch sizes that differ", `backend: "identity" max_batch_size: 4 input { name: "INPUT0" data_type: ` +
			`TYPE_UINT8 dims: [ 1 ] } ` +
			`input { name: "INPUT1" data_type: TYPE_UINT8 dims: [ 1 ] } output { name: "OUTPUT0" data_type: ` +
			`TYPE_UINT8 dims: [ 1 ] }`,
			[]tensor.Tensor{in("INPUT0", tensor.Uint8, []byte{1}, 1, 1),
				in("INPUT1", tensor.Uint8, []byte{1, 2}, 2, 1)},
			"input 'INPUT1' batch size does not match other inputs for 'm'"},
		{"batch size before dims", `backend: "identity" max_batch_size: 4 input { name: "INPUT0" data_type: ` +
			`TYPE_UINT8 dims: [ 8 ] } output { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [ 8 ] }`,
			[]tensor.Tensor{in("INPUT0", tensor.Uint8, make([]byte, 8), 8)},
			"inference request batch-size must be <= 4 for 'm'"},
		{"no shape", `backend: "identity" max_batch_size: 4 input { name: "INPUT0" data_type: TYPE_UINT8 dims: [ 1 ` +
			`] } output { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [ 1 ] }`,
			[]tensor.Tensor{in("INPUT0", tensor.Uint8, []byte{1})}, "has no shape but model requires batch dimension"},
		{"no elements", `backend: "identity" input { name: "INPUT0" data_type: TYPE_UINT8 dims: [ -1 ] } output { ` +
			`name: "OUTPUT0" data_type: TYPE_UINT8 dims: [ -1 ] }`,
			[]tensor.Tensor{in("INPUT0", tensor.Uint8, nil, 0)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSignature(config(t, tt.config))
			r := request(tt.inputs...)
			defer r.Release()
			start := time.Now()
			err := s.check(r)
			if d := time.Since(start); d > time.Minute { // it took far too long
				t.Errorf("check took %v", d)
			}
			if tt.want == "" {
				if err != nil {
					t.Errorf("check = %v, want it to pass", err)
				}
				return
			}
			if err == nil || status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("check = %.300v, want InvalidArg with %q", err, tt.want)
			}
			if err != nil && len(err.Error()) > 4096 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// A request to a model that is not decoupled gets its response also if the backend responds on another goroutine.
func TestBuiltinDecoupledBackendsServeOneResponse(t *testing.T) {
	cfg := config(t, `backend: "square" instance_group { count: 1 kind: KIND_CPU } input { name: "IN" data_type: `+
		`TYPE_INT32 dims: 1 } output { name: "OUT" data_type: TYPE_INT32 dims: 1 }`)
	m := serve(t, spec(cfg, t.TempDir(), builtin.Square()))
	for range 2000 {
		r := request(tensor.Tensor{Name: "IN", DataType: tensor.Int32, Shape: []int64{1},
			Data: binary.LittleEndian.AppendUint32(nil, 1)})
		if _, err := ask(t, m, r); err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
}

func TestFailureReasons(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fail   error
		cancel bool
		want   stats.Reason
	}{
		{"the backend's error", status.New(status.Internal, "no"), false, stats.BackendFailure},
		{"the backend is busy", status.New(status.Unavailable, "no"), false, stats.BackendFailure},
		{"cancelled while it runs", status.New(status.Cancelled, "no"), false, stats.Canceled},
		{"cancelled while it waits", nil, true, stats.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := record()
			rec.fail = tt.fail
			m := serve(t, spec(config(t, identity("TYPE_UINT8", "[ 1 ]", "")), t.TempDir(), rec))
			r := request(input("INPUT0", tensor.Uint8, 1, 1))
			defer r.Release()
			if tt.cancel {
				r.Cancel()
			}
			if _, err := ask(t, m, r); err == nil {
				t.Fatal("no error")
			}
			var s stats.Snapshot
			m.stats.Snapshot(&s)
			if s.Fail.Count != 1 || s.Success.Count != 0 || s.Failures[tt.want] != 1 || s.Pending != 0 ||
				s.Inferences != 0 {
				t.Errorf("counters %+v, want one failure %v", s.Counters, tt.want)
			}
		})
	}
}

// Refused requests do not delay the closing of the model, and their caller may fail them.
func TestRefusedRequestsDoNotHoldTheModel(t *testing.T) {
	m, err := Load(t.Context(), spec(config(t, identity("TYPE_UINT8", "[ 1 ]", "")), t.TempDir(), builtin.Identity()))
	if err != nil {
		t.Fatal(err)
	}
	r := request(input("INPUT0", tensor.Uint8, 2, 1))
	if _, err := ask(t, m, r); err == nil {
		t.Error("a wrong size passes")
	}
	r.Fail(status.New(status.InvalidArg, "as the caller sees it"))
	r.Release()
	m.scheduler.Close() // as at the end of a shutdown that waited long enough
	m.inline.policy = inlineNever
	r = request(input("INPUT0", tensor.Uint8, 1, 1))
	if _, err := ask(t, m, r); status.CodeOf(err) != status.Unavailable {
		t.Errorf("Infer = %v, want Unavailable", err)
	}
	r.Fail(status.New(status.Unavailable, "as the caller sees it"))
	r.Release()
	if !m.Idle() {
		t.Error("a refused request is still counted as inside")
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if m.Acquire() {
		t.Error("a closed model takes a request")
	}
}
