package modelconfig_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/tensor"
)

// folder returns the entries of a version folder; a name with a trailing slash is a folder.
func folder(tb testing.TB, names ...string) []fs.DirEntry {
	tb.Helper()
	m := fstest.MapFS{".": {Mode: fs.ModeDir}}
	for _, n := range names {
		if d, ok := strings.CutSuffix(n, "/"); ok {
			m[d+"/x"] = &fstest.MapFile{}
		} else {
			m[n] = &fstest.MapFile{}
		}
	}
	entries, err := fs.ReadDir(m, ".")
	if err != nil {
		tb.Fatal(err)
	}
	return entries
}

func fp32(name string, dims ...int64) modelconfig.IO {
	return modelconfig.IO{Name: name, DataType: tensor.FP32, Dims: dims}
}

func sig(in, out modelconfig.IO) *modelconfig.Signature {
	return &modelconfig.Signature{Platform: "onnxruntime_onnx", Backend: "onnxruntime",
		Inputs: []modelconfig.IO{in}, Outputs: []modelconfig.IO{out}}
}

func parse(tb testing.TB, text string) *inferencepb.ModelConfig {
	tb.Helper()
	cfg, _, faults := modelconfig.Parse("config.pbtxt", []byte(text))
	if len(faults) > 0 {
		tb.Fatalf("Parse(%q) = %v", text, faults)
	}
	return cfg
}

// TestConfigAnswersLikeTriton_A028_A041 compares our /config of each configuration with the bytes of Triton 2.51's
// response to GET /v2/models/<name>/config.
func TestConfigAnswersLikeTriton_A028_A041(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files []string
		sig   *modelconfig.Signature
	}{
		{name: "add_sub", files: []string{"model.py"}},
		{name: "onnx_auto", files: []string{"model.onnx"}, sig: sig(fp32("input", -1, 784), fp32("output", -1, 10))},
		{name: "identity_ort", files: []string{"model.onnx"},
			sig: sig(fp32("INPUT0", -1, 16), fp32("OUTPUT0", -1, 16))},
		{name: "multi", files: []string{"model.onnx"}, sig: sig(fp32("INPUT0", -1, 16), fp32("OUTPUT0", -1, 16))},
		{name: "ens"},
		{name: "seq"},
		{name: "repeat"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/config/" + tt.name + ".pbtxt")
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile("testdata/config/" + tt.name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			cfg := parse(t, string(text))
			if faults := modelconfig.CompleteBackend(cfg, tt.name, folder(t, tt.files...)); len(faults) > 0 {
				t.Fatal(faults)
			}
			if tt.sig != nil {
				o := modelconfig.CompleteOptions{DefaultMaxBatchSize: modelconfig.DefaultMaxBatchSize}
				if faults := modelconfig.Complete(cfg, tt.sig, o); len(faults) > 0 {
					t.Fatal(faults)
				}
			}
			modelconfig.Normalize(cfg, modelconfig.NormalizeOptions{})
			if got := modelconfig.MarshalJSON(cfg); string(got) != string(want) {
				t.Errorf("MarshalJSON =\n%s\nwant\n%s", got, want)
			}
			again := proto.Clone(cfg).(*inferencepb.ModelConfig)
			modelconfig.Normalize(again, modelconfig.NormalizeOptions{})
			if !proto.Equal(again, cfg) {
				t.Errorf("Normalize twice = %v, want %v", again, cfg)
			}
			back, _, faults := modelconfig.ParseJSON("override", want)
			if len(faults) > 0 || !proto.Equal(back, cfg) {
				t.Errorf("ParseJSON = %v, %v; want %v", back, faults, cfg)
			}
		})
	}
}

// x and y return the text of an input and an output with dims.
func x(dims string) string { return `input { name: "x" data_type: TYPE_FP32 dims: ` + dims + ` }` }
func y(dims string) string { return `output { name: "y" data_type: TYPE_FP32 dims: ` + dims + ` }` }

func TestComplete_A030_A031_I006(t *testing.T) {
	batched := sig(fp32("x", -1, 3, -1), fp32("y", -1, 10))
	for _, tt := range []struct {
		name, text string
		sig        *modelconfig.Signature
		max        int
		want       string // complete configuration, without platform and backend
		fault      string
	}{
		{name: "nothing given", sig: batched, max: 4,
			want: `max_batch_size: 4 dynamic_batching { } ` + x(`[3, -1]`) + " " + y(`10`)},
		{name: "default max batch 16", sig: batched, max: 16,
			want: `max_batch_size: 16 dynamic_batching { } ` + x(`[3, -1]`) + " " + y(`10`)},
		{name: "default max batch 1 has no batcher", sig: batched, max: 1,
			want: `max_batch_size: 1 ` + x(`[3, -1]`) + " " + y(`10`)},
		{name: "default max batch 0 keeps the whole shape", sig: batched, max: 0,
			want: x(`[-1, 3, -1]`) + " " + y(`[-1, 10]`)},
		{name: "given size and scheduler stay", sig: batched, max: 4, text: `max_batch_size: 7 sequence_batching { }`,
			want: `max_batch_size: 7 sequence_batching { } ` + x(`[3, -1]`) + " " + y(`10`)},
		{name: "outputs missing", sig: batched, max: 4, text: x(`[3, 224]`),
			want: `max_batch_size: 4 dynamic_batching { } ` + x(`[3, 224]`) + " " + y(`10`)},
		{name: "both given: no batching is added", sig: batched, max: 4,
			text: x(`[-1, 3, -1]`) + " " + y(`[-1, 10]`),
			want: x(`[-1, 3, -1]`) + " " + y(`[-1, 10]`)},
		{name: "parts of tensors missing", sig: batched, max: 4,
			text: `max_batch_size: 8 input { name: "x" } output { name: "y" label_filename: "l.txt" dims: 10 }`,
			want: `max_batch_size: 8 ` + x(`[3, -1]`) +
				` output { name: "y" data_type: TYPE_FP32 dims: 10 label_filename: "l.txt" }`},
		{name: "fixed batch dimension", sig: sig(fp32("x", 2, 3), fp32("y", 2, 10)), max: 4,
			want: x(`[2, 3]`) + " " + y(`[2, 10]`)},
		{name: "a dimension of 0", sig: sig(fp32("x", 0, 3), fp32("y", 2, 0)), max: 4,
			want: x(`[-1, 3]`) + " " + y(`[2, -1]`)},
		{name: "one output without batch", sig: sig(fp32("x", -1, 3), fp32("y", 10)), max: 4,
			want: x(`[-1, 3]`) + " " + y(`10`)},
		{name: "only the batch dimension", sig: sig(fp32("x", -1), fp32("y", -1, 2)), max: 4,
			want: `max_batch_size: 4 dynamic_batching { } ` +
				`input { name: "x" data_type: TYPE_FP32 dims: 1 reshape { } } ` + y(`2`)},
		{name: "batch asked of a model without", sig: sig(fp32("x", 1, 3), fp32("y", 1, 10)), max: 4,
			text: "\nmax_batch_size: 8",
			fault: `config.pbtxt:2:17: autofill failed for model 'm': model does not support batching while ` +
				`non-zero max_batch_size is specified; set max_batch_size to 0 or remove it: ` +
				`input "x" of the model has shape [1,3], whose first dimension is fixed`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, pos, faults := modelconfig.Parse("config.pbtxt", []byte(tt.text))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			cfg.Name = "m"
			faults = modelconfig.Complete(cfg, tt.sig,
				modelconfig.CompleteOptions{DefaultMaxBatchSize: tt.max, Positions: pos})
			if tt.fault != "" || len(faults) > 0 {
				if len(faults) != 1 || faults[0].Error() != tt.fault {
					t.Errorf("Complete = %v, want %s", faults, tt.fault)
				}
				return
			}
			want := new(inferencepb.ModelConfig)
			text := `name: "m" platform: "onnxruntime_onnx" backend: "onnxruntime" ` + tt.want
			if err := prototext.Unmarshal([]byte(text), want); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(cfg, want) {
				t.Errorf("Complete gives\n%v\nwant\n%v", cfg, want)
			}
		})
	}
}

func TestCompleteBackend_A032_A033(t *testing.T) {
	for _, tt := range []struct {
		name, text, folder string
		files              []string
		platform, backend  string
		file               string
		fault              string
	}{
		{name: "onnx file", folder: "m", files: []string{"model.onnx"}, platform: "onnxruntime_onnx",
			backend: "onnxruntime", file: "model.onnx"},
		{name: "onnx folder", folder: "m", files: []string{"model.onnx/"}, platform: "onnxruntime_onnx",
			backend: "onnxruntime", file: "model.onnx"},
		{name: "python", folder: "m", files: []string{"model.py"}, backend: "python", file: "model.py"},
		{name: "onnx before python", folder: "m", files: []string{"model.py", "model.onnx"},
			platform: "onnxruntime_onnx", backend: "onnxruntime", file: "model.onnx"},
		{name: "torchscript", folder: "m", files: []string{"model.pt"}, platform: "pytorch_libtorch",
			backend: "pytorch", file: "model.pt"},
		{name: "aot inductor", folder: "m", files: []string{"model.pt2"}, platform: "torch_aoti", backend: "pytorch",
			file: "model.pt2"},
		{name: "saved model", folder: "m", files: []string{"model.savedmodel/"}, platform: "tensorflow_savedmodel",
			backend: "tensorflow", file: "model.savedmodel"},
		{name: "openvino", folder: "m", files: []string{"model.xml", "model.bin"}, backend: "openvino",
			file: "model.xml"},
		{name: "tensorrt", folder: "m", files: []string{"model.plan"}, platform: "tensorrt_plan", backend: "tensorrt",
			file: "model.plan"},
		{name: "platform alone", folder: "m", text: `platform: "onnxruntime_onnx"`, platform: "onnxruntime_onnx",
			backend: "onnxruntime", file: "model.onnx"},
		{name: "other name of libtorch", folder: "m", text: `platform: "libtorch"`, platform: "libtorch",
			backend: "pytorch", file: "model.pt"},
		{name: "backend alone", folder: "m", text: `backend: "onnxruntime"`, platform: "onnxruntime_onnx",
			backend: "onnxruntime", file: "model.onnx"},
		{name: "other file name", folder: "m", text: `backend: "onnxruntime" default_model_filename: "net.onnx"`,
			platform: "onnxruntime_onnx", backend: "onnxruntime", file: "net.onnx"},
		{name: "A041 a platform beside a backend without one", folder: "m", text: `platform: "x" backend: "python"`,
			platform: "x", backend: "python", file: "model.py"},
		{name: "a platform of another backend", folder: "m", text: `platform: "tensorrt_plan" backend: "onnxruntime"`,
			platform: "tensorrt_plan", backend: "onnxruntime"},
		{name: "custom backend", folder: "m", text: `backend: "identity"`, backend: "identity"},
		{name: "folder name", folder: "m.identity", backend: "identity", file: "model.identity"},
		{name: "ensemble", folder: "m", text: `ensemble_scheduling { }`, platform: "ensemble"},
		{name: "nothing names a backend", folder: "m",
			fault: "Invalid model name: Could not determine backend for model 'm' with no " +
				"backend in model configuration."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := parse(t, tt.text)
			faults := modelconfig.CompleteBackend(cfg, tt.folder, folder(t, tt.files...))
			if tt.fault != "" {
				if len(faults) != 1 || !strings.Contains(faults[0].Error(), tt.fault) {
					t.Errorf("CompleteBackend = %v, want %q", faults, tt.fault)
				}
				return
			}
			if len(faults) > 0 || cfg.Name != tt.folder || cfg.Platform != tt.platform || cfg.Backend != tt.backend ||
				cfg.DefaultModelFilename != tt.file {
				t.Errorf("CompleteBackend = %v with %v, want platform %q, backend %q, file %q", faults, cfg,
					tt.platform, tt.backend, tt.file)
			}
		})
	}
}

func TestNormalizeGroups_C057_C058(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		gpus       []int32
		want       string
	}{
		{"auto without GPU", `backend: "python"`, nil, `instance_group { name: "m" kind: KIND_CPU count: 1 }`},
		{"auto with GPUs", `backend: "onnxruntime"`, []int32{0, 1},
			`instance_group { name: "m" kind: KIND_GPU count: 1 gpus: [0, 1] }`},
		{"listed GPU is there", `instance_group { gpus: 1 count: 3 }`, []int32{0, 1},
			`instance_group { name: "m_0" kind: KIND_GPU count: 3 gpus: 1 }`},
		{"listed GPU is not there", `backend: "python" instance_group { gpus: 5 }`, []int32{0},
			`instance_group { name: "m_0" kind: KIND_CPU count: 1 }`},
		{"names count every group",
			`backend: "onnxruntime" instance_group [ { name: "a" kind: KIND_CPU }, { kind: KIND_CPU count: 4 } ]`, nil,
			`instance_group [ { name: "a" kind: KIND_CPU count: 2 }, { name: "m_1" kind: KIND_CPU count: 4 } ]`},
		{"model kind", `instance_group { kind: KIND_MODEL }`, []int32{0},
			`instance_group { name: "m_0" kind: KIND_MODEL count: 1 }`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := parse(t, tt.text)
			cfg.Name = "m"
			modelconfig.Normalize(cfg, modelconfig.NormalizeOptions{GPUs: tt.gpus})
			got := &inferencepb.ModelConfig{InstanceGroup: cfg.InstanceGroup}
			if want := parse(t, tt.want); !proto.Equal(got, want) {
				t.Errorf("Normalize gives %v, want %v", got, want)
			}
		})
	}
}

func TestNormalizePreferredGroups_C060(t *testing.T) {
	cfg := parse(t, `name: "m"`)
	modelconfig.Normalize(cfg, modelconfig.NormalizeOptions{PreferredGroups: []*inferencepb.ModelInstanceGroup{
		{Kind: inferencepb.ModelInstanceGroup_KIND_GPU, Count: 2},
		{Kind: inferencepb.ModelInstanceGroup_KIND_CPU, Count: 6}}})
	got := &inferencepb.ModelConfig{InstanceGroup: cfg.InstanceGroup}
	if want := parse(t, `instance_group { name: "m" kind: KIND_CPU count: 6 }`); !proto.Equal(got, want) {
		t.Errorf("Normalize gives %v, want %v", got, want)
	}
}

func TestChooseVersions_A046_A047_A048(t *testing.T) {
	available := []int64{10, 2, 1, 2}
	for _, tt := range []struct {
		policy string
		want   []int64
	}{
		{"", []int64{10}},
		{"version_policy { }", []int64{10}},
		{"version_policy { latest { num_versions: 2 } }", []int64{2, 10}},
		{"version_policy { latest { num_versions: 9 } }", []int64{1, 2, 10}},
		{"version_policy { latest { } }", []int64{}},
		{"version_policy { all { } }", []int64{1, 2, 10}},
		{"version_policy { specific { versions: [10, 1, 7] } }", []int64{1, 10}},
		{"version_policy { specific { versions: [7] } }", []int64{}},
	} {
		got := modelconfig.ChooseVersions(parse(t, tt.policy).VersionPolicy, available)
		if !slices.Equal(got, tt.want) {
			t.Errorf("ChooseVersions(%s) = %v, want %v", tt.policy, got, tt.want)
		}
		if got := modelconfig.ChooseVersions(parse(t, tt.policy).VersionPolicy, nil); len(got) != 0 {
			t.Errorf("ChooseVersions(%s) of none = %v", tt.policy, got)
		}
	}
}

func TestChangesInPlace(t *testing.T) {
	const base = `name: "m" instance_group [ { count: 1 kind: KIND_CPU }, { count: 2 kind: KIND_GPU } ]`
	for _, tt := range []struct {
		other string
		want  bool
	}{
		{base, true},
		{base + ` version_policy { all { } }`, true},
		{`name: "m" instance_group [ { count: 5 kind: KIND_CPU }, { count: 2 kind: KIND_GPU } ]`, true},
		{`name: "m" instance_group [ { count: 5 kind: KIND_CPU } ]`, true},
		{`name: "m" instance_group [ { name: "a" kind: KIND_GPU }, { name: "b" kind: KIND_CPU }, { kind: KIND_GPU } ]`,
			true},
		{`name: "m" instance_group [ { count: 1 kind: KIND_CPU }, { count: 2 kind: KIND_GPU gpus: 1 } ]`, false},
		{`name: "m" instance_group [ { kind: KIND_CPU rate_limiter { priority: 2 } }, { count: 2 kind: KIND_GPU } ]`,
			false},
		{`name: "m"`, false},
		{`name: "m" instance_group [ { count: 5 kind: KIND_GPU }, { count: 2 kind: KIND_GPU } ]`, true},
		{`name: "m" max_batch_size: 1 instance_group [ { count: 5 kind: KIND_CPU }, { count: 2 kind: KIND_GPU } ]`,
			false},
	} {
		if got := modelconfig.ChangesInPlace(parse(t, base), parse(t, tt.other)); got != tt.want {
			t.Errorf("ChangesInPlace(%s) = %v, want %v", tt.other, got, tt.want)
		}
	}
}

func TestParseJSONFaults_A026(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{bad", "override:1:2: "},
		{"5", "override:1:1: "},
		{"{\n \"nosuch\": 1}",
			`override:2:2: the configuration is not the JSON of a model configuration: unknown field "nosuch"`},
		{`{"max_batch_size": "x"}`, "override:1:20: "},
		{"", "override:1:1: the configuration is not"},
	} {
		_, _, faults := modelconfig.ParseJSON("override", []byte(tt.text))
		if len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), tt.want) {
			t.Errorf("ParseJSON(%s) = %v, want %s", tt.text, faults, tt.want)
		}
	}
}

func TestMarshalJSONForms_A026(t *testing.T) {
	cfg := parse(t, `
parameters { key: "b" value { string_value: "tab\t \"q\" \\ \001 <é>" } } parameters { key: "a" value { } }
cc_model_filenames { key: "8.0" value: "x" }
dynamic_batching { priority_queue_policy { key: 10 value { } } priority_queue_policy { key: 9 value { } } }
model_metrics { metric_control { histogram_options { buckets: [0.1, 1, 1e6, 1e-7, 2.5e30, inf] } } }
`)
	got := string(modelconfig.MarshalJSON(cfg))
	for _, want := range []string{
		`"parameters":{"a":{"string_value":""},"b":{"string_value":"tab\t \"q\" \\ \u0001 <é>"}}`,
		`"cc_model_filenames":{"8.0":"x"}`,
		`"priority_queue_policy":{"9":{"timeout_action":"REJECT","default_timeout_microseconds":0,` +
			`"allow_timeout_override":false,"max_queue_size":0},"10":{`,
		`"buckets":[0.1,1,1000000,1e-7,2.5e30,"Infinity"]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("MarshalJSON = %s, want %s in it", got, want)
		}
	}
}

// Triton's JSON parser reads a single value as a list of one.
func TestParseJSONOfASingleValueForAList(t *testing.T) {
	got, _, faults := modelconfig.ParseJSON("f", []byte(`{"instance_group": {"count": 2, "gpus": 1},
		"versionPolicy": {"specific": {"versions": 9007199254740993}}, "parameters": {"a": {"string_value": "b"}},
		"ensembleScheduling": {"step": {"input_map": {"x": "y"}}}, "input": [ { "dims": 3 } ]}`))
	if faults.Err() != nil {
		t.Fatal(faults)
	}
	want := parse(t, `instance_group { count: 2 gpus: 1 } version_policy { specific { versions: 9007199254740993 } }
		parameters { key: "a" value { string_value: "b" } }
		ensemble_scheduling { step { input_map { key: "x" value: "y" } } } input { dims: 3 }`)
	if !proto.Equal(got, want) {
		t.Errorf("ParseJSON = %v, want %v", got, want)
	}
	for _, text := range []string{`{"instance_group": {"nosuch": 1}}`, `{"instance_group": 5}`, `{"input": "x"}`} {
		if _, _, faults := modelconfig.ParseJSON("f", []byte(text)); faults.Err() == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"instance_group":{"count":2,"gpus":1}}`))
	f.Add([]byte(`{"name":"x","max_batch_size":8,"input":[{"name":"a","dims":["1",-1]}],"version_policy":{"all":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, _, faults := modelconfig.ParseJSON("f", text)
		if faults.Err() != nil {
			return
		}
		again, _, faults := modelconfig.ParseJSON("f", modelconfig.MarshalJSON(cfg))
		if faults.Err() != nil || !proto.Equal(cfg, again) {
			t.Errorf("MarshalJSON of %v reads %v, %v", cfg, again, faults)
		}
	})
}
