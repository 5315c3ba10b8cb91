package runtime

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/backend/runtime/ovapi"
	"nereid/engine/backend/runtime/savedmodel"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func parse(t *testing.T, text string) *inferencepb.ModelConfig {
	t.Helper()
	c, _, faults := modelconfig.Parse("config.pbtxt", []byte(text))
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

// parameters returns the parameters of a configuration from pairs of key and value.
func parameters(pairs ...string) string {
	text := ""
	for i := 0; i < len(pairs); i += 2 {
		text += `parameters { key: "` + pairs[i] + `" value { string_value: "` + pairs[i+1] + "\" } }\n"
	}
	return text
}

// savedModel returns the specification of the model in the testdata of package savedmodel.
func savedModel(t *testing.T, config string) backend.Spec {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("savedmodel", "testdata", "add_sub", savedmodel.FileName))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	version := filepath.Join(folder, "1")
	if err := os.MkdirAll(filepath.Join(version, "model.savedmodel"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(version, "model.savedmodel", savedmodel.FileName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := parse(t, config)
	c.Backend = "tensorflow" // the engine completes it
	return backend.Spec{ModelName: "add_sub", Version: 1, Config: c, ModelFolder: folder,
		VersionFolder: version, Log: slog.New(slog.DiscardHandler)}
}

func framed(t *testing.T, name string, o Options) *Backend {
	t.Helper()
	b, err := New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The configuration of a SavedModel is completed without TensorFlow.
func TestSignature(t *testing.T) {
	sig, err := framed(t, "tensorflow", Options{}).Signature(t.Context(),
		savedModel(t, `platform: "tensorflow_savedmodel"`))
	if err != nil || len(sig.Inputs) != 2 || sig.Inputs[1].Name != "INPUT1" || sig.Inputs[1].DataType != tensor.FP32 ||
		!slices.Equal(sig.Outputs[0].Dims, []int64{-1, 16}) {
		t.Errorf("Signature = %+v, %v", sig, err)
	}
}

func TestSignatureRefuses(t *testing.T) {
	none := savedModel(t, `platform: "tensorflow_savedmodel"`)
	none.VersionFolder = t.TempDir()
	damaged := savedModel(t, "")
	if err := os.WriteFile(filepath.Join(damaged.VersionFolder, "model.savedmodel", savedmodel.FileName),
		[]byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	graph := savedModel(t, "")
	if err := os.WriteFile(filepath.Join(graph.VersionFolder, "model.graphdef"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	graph.Config.DefaultModelFilename = "model.graphdef"
	for _, tt := range []struct {
		name string
		s    backend.Spec
		code status.Code
		text string
	}{
		{"D064 a graph without outputs in its configuration", graph, status.InvalidArg,
			"list them in config.pbtxt"},
		{"D064 no file", none, status.NotFound,
			"has none of model.savedmodel; name the file in default_model_filename"},
		{"D064 a damaged file", damaged, status.InvalidArg, "it is not a protocol buffer of a SavedModel"},
		{"D064 a tag that is not there", savedModel(t, parameters("TF_GRAPH_TAG", "gpu")), status.InvalidArg,
			"expected 'gpu' tag, the SavedModel has serve"},
		{"D064 a signature that is not there", savedModel(t, parameters("TF_SIGNATURE_DEF", "x")), status.InvalidArg,
			"expected 'x' signature, the SavedModel has serving_default"},
		{"D064 the platform of a graph",
			savedModel(t, `platform: "tensorflow_graphdef" default_model_filename: "model.savedmodel"`),
			status.InvalidArg, "is a folder; a SavedModel's platform is tensorflow_savedmodel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := framed(t, "tensorflow", Options{}).Signature(t.Context(), tt.s)
			if status.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Signature = %v %v; want %v with %q", status.CodeOf(err), err, tt.code, tt.text)
			}
		})
	}
}

// Unsupported configurations are refused before a process is started. The error says what to do.
func TestLoadRefuses(t *testing.T) {
	accelerator := func(kind, name string) string {
		return `optimization { execution_accelerators { ` + kind + `_execution_accelerator: [ { name: "` + name +
			`" } ] } }`
	}
	for _, tt := range []struct{ name, backend, config, text string }{
		{"TensorFlow-TensorRT", "tensorflow", accelerator("gpu", "tensorrt"),
			"'tensorrt' (TF-TRT), which TensorFlow's packages no longer have; take it out, or convert the model to " +
				"ONNX"},
		{"another accelerator", "tensorflow", accelerator("gpu", "auto_mixed_precision"),
			"'auto_mixed_precision', which the tensorflow backend does not have; take it out"},
		{"a limit that is none", "tensorflow", parameters("MEMORY_LIMIT_BYTE_SIZE", "much"),
			`parameter MEMORY_LIMIT_BYTE_SIZE of model '`},
		{"D064 state of sequences", "tensorflow",
			`sequence_batching { state [ { input_name: "INPUT0" output_name: "OUTPUT0"
				data_type: TYPE_FP32 dims: [ 16 ] } ] }`,
			"convert the model to ONNX, or keep the state in the client"},
		{"A033 a platform of another backend", "tensorflow", `platform: "onnxruntime_onnx"`,
			"for backend 'tensorflow' and platform 'onnxruntime_onnx'; remove the platform"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := framed(t, tt.backend, Options{}).Load(t.Context(), savedModel(t, tt.config))
			if c := status.CodeOf(err); c != status.Unsupported && c != status.InvalidArg ||
				!strings.Contains(err.Error(), tt.text) {
				t.Errorf("Load = %v; want Unsupported or InvalidArg with %q", err, tt.text)
			}
		})
	}
}

func TestSessionConfig(t *testing.T) {
	growth := []byte{6<<3 | 2, 2, 4 << 3, 1}
	for _, tt := range []struct {
		name, config string
		settings     map[string]string
		want         []byte
		err          string
	}{
		{name: "nothing asked", want: slices.Concat([]byte{7 << 3, 1}, growth)},
		{name: "D064 threads", config: parameters("TF_NUM_INTRA_THREADS", "3", "TF_NUM_INTER_THREADS", "2",
			"TF_USE_PER_SESSION_THREADS", "On"),
			want: slices.Concat([]byte{2 << 3, 3, 5 << 3, 2, 9 << 3, 1, 7 << 3, 1}, growth)},
		{name: "D064 backend settings", settings: map[string]string{"allow-soft-placement": "False",
			"gpu-memory-fraction": "0.5"},
			want: []byte{6<<3 | 2, 9, 1<<3 | 1, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f}},
		{name: "a number that is none", config: parameters("TF_NUM_INTRA_THREADS", "two"),
			err: `parameter TF_NUM_INTRA_THREADS is "two", want a number from 0 on`},
		{name: "MAX_SESSION_SHARE_COUNT", config: parameters("MAX_SESSION_SHARE_COUNT", "-1"),
			err: `parameter MAX_SESSION_SHARE_COUNT is "-1"`},
		{name: "neither yes nor no", config: parameters("TF_USE_PER_SESSION_THREADS", "maybe"),
			err: `is "maybe", want YES or NO`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sessionConfig(parse(t, tt.config), tt.settings)
			if tt.err != "" {
				if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("sessionConfig = %v; want %q", err, tt.err)
				}
				return
			}
			if err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("sessionConfig = %x, %v; want %x", got, err, tt.want)
			}
		})
	}
}

func TestOpenVINOParameters(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		want         ovSettings
		err          string
	}{
		{name: "D065 all of them", config: parameters("PERFORMANCE_HINT", "latency", "INFERENCE_NUM_THREADS", "2",
			"COMPILATION_NUM_THREADS", "1", "HINT_BF16", "NO",
			"NUM_STREAMS", "auto", "TARGET_DEVICE", "AUTO", "RESHAPE_IO_LAYERS", "YES", "SKIP_OV_DYNAMIC_BATCHSIZE",
			"YES"),
			want: ovSettings{device: "AUTO", reshapes: true, fixed: true, properties: []ovapi.Property{
				{Key: "INFERENCE_NUM_THREADS", Value: "2"}, {Key: "COMPILATION_NUM_THREADS", Value: "1"},
				{Key: "PERFORMANCE_HINT", Value: "LATENCY"},
				{Key: "NUM_STREAMS", Value: "AUTO"}, {Key: "INFERENCE_PRECISION_HINT", Value: "f32"}}}},
		{name: "D065 those of its first releases", config: parameters("CPU_THREADS_NUM", "4",
			"CPU_THROUGHPUT_STREAMS", "3", "ENFORCE_BF16", "yes"),
			want: ovSettings{properties: []ovapi.Property{{Key: "INFERENCE_NUM_THREADS", Value: "4"},
				{Key: "NUM_STREAMS", Value: "3"}, {Key: "INFERENCE_PRECISION_HINT", Value: "bf16"}}}},
		{name: "D065 ENABLE_BATCH_PADDING", config: parameters("ENABLE_BATCH_PADDING", "YES"),
			want: ovSettings{fixed: true, padding: true}},
		{name: "a hint that is none", config: parameters("PERFORMANCE_HINT", "FAST"),
			err: `PERFORMANCE_HINT is "FAST", want LATENCY`},
		{name: "streams", config: parameters("NUM_STREAMS", "many"), err: `NUM_STREAMS is "MANY", want a number`},
		{name: "padding", config: parameters("ENABLE_BATCH_PADDING", "perhaps"),
			err: `ENABLE_BATCH_PADDING is "perhaps", want YES or NO`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseOpenVINO(parse(t, tt.config))
			if tt.err != "" {
				if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("parseOpenVINO = %v; want %q", err, tt.err)
				}
				return
			}
			if err != nil || got.device != tt.want.device || got.reshapes != tt.want.reshapes ||
				got.fixed != tt.want.fixed || got.padding != tt.want.padding ||
				!slices.Equal(got.properties, tt.want.properties) {
				t.Errorf("parseOpenVINO = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	folder := t.TempDir()
	file := func(path ...string) string {
		path = append([]string{folder}, path...)
		name := filepath.Join(path...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	installed := file("env", "lib", "python3.11", "site-packages", "tensorflow", "libtensorflow_cc.so.2")
	own := file("own", "lib", "libtensorflow.so.2")
	wheel := file("ov", "openvino", "libs", "libopenvino_c.so.2641")
	for _, tt := range []struct {
		name, backend string
		o             Options
		want          []string
	}{
		{"what was installed", "tensorflow", Options{Environment: filepath.Join(folder, "env")}, []string{installed}},
		{"a folder that is named comes first", "tensorflow",
			Options{Environment: filepath.Join(folder, "env"),
				Settings: map[string]string{"library": filepath.Join(folder, "own")}}, []string{own}},
		{"a file that is named", "tensorflow", Options{Settings: map[string]string{"library": own}}, []string{own}},
		{"a folder of packages", "openvino", Options{Settings: map[string]string{"library": filepath.Join(folder,
			"ov")}}, []string{wheel}},
		{"nothing: the system's", "openvino", Options{Environment: filepath.Join(folder, "env"),
			Interpreter: filepath.Join(folder, "no-python")}, []string{"libopenvino_c.so"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := framed(t, tt.backend, tt.o).find(t.Context()); !slices.Equal(got, tt.want) {
				t.Errorf("find = %q; want %q", got, tt.want)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	b := framed(t, "tensorflow", Options{Install: "run 'nereid install tensorflow' (1.6 GB)"})
	o := processOptions{Library: []string{"libnothing.so.1"}, Missing: b.missing("add_sub")}
	_, err := loadTensorFlow(context.Background(), savedModel(t, ""), &o)
	want := "TensorFlow is not installed, which model 'add_sub' needs: run 'nereid install tensorflow' (1.6 GB), " +
		"or name the folder of its library by --backend-config=tensorflow,library=<path>: cannot open TensorFlow " +
		"at libnothing.so.1: "
	if status.CodeOf(err) != status.Unavailable || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("load = %v; want %q", err, want)
	}
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct{ backend, key, value, err string }{
		{"tensorflow", "allow-soft-placement", "true", ""},
		{"tensorflow", "allow-soft-placement", "2", "neither true nor false"},
		{"tensorflow", "gpu-memory-fraction", "1.5", "not a number from 0 to 1"},
		{"tensorflow", "version", "1", "TensorFlow 1 is not run"},
		{"openvino", "library", "/nowhere/at/all", "no such file"},
	} {
		if !Known(tt.backend, tt.key) {
			t.Errorf("Known(%q, %q) = false", tt.backend, tt.key)
		}
		err := CheckSetting(tt.backend, tt.key, tt.value)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("CheckSetting(%q, %q, %q) = %v; want %q", tt.backend, tt.key, tt.value, err, cmp.Or(tt.err, "nil"))
		}
	}
	if Known("openvino", "version") || Known("onnxruntime", "library") {
		t.Error("settings of others are known")
	}
}

func TestValidateParameters(t *testing.T) {
	for _, tt := range []struct {
		name, backend, config string
		want                  []backend.ParameterRemark
	}{
		{name: "D064 fine", backend: "tensorflow", config: parameters("TF_NUM_INTRA_THREADS", "2", "mine", "x",
			"OPEN_FILES_LIMIT", "99")},
		{name: "D064 a value that cannot be", backend: "tensorflow", config: parameters("TF_NUM_INTRA_THREADS", "x"),
			want: []backend.ParameterRemark{{Name: "TF_NUM_INTRA_THREADS",
				Text: `parameter TF_NUM_INTRA_THREADS is "x", want a number from 0 on`, Refused: true}}},
		{name: "D065 of another backend", backend: "openvino",
			config: parameters("TF_GRAPH_TAG", "x", "NUM_STREAMS", "two"), want: []backend.ParameterRemark{
				{Name: "NUM_STREAMS", Text: `parameter NUM_STREAMS is "TWO", want a number from 0 on, AUTO or NUMA`,
					Refused: true},
				{Name: "TF_GRAPH_TAG", Text: "is unknown to the backend openvino"}}},
		{name: "a limit that is none", backend: "openvino", config: parameters("PROCESSES_LIMIT", "0"),
			want: []backend.ParameterRemark{{Name: "PROCESSES_LIMIT", Text: `"0" is not a positive number`,
				Refused: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := framed(t, tt.backend, Options{}).ValidateParameters(parse(t, tt.config))
			if !slices.EqualFunc(got, tt.want, func(a, b backend.ParameterRemark) bool {
				return a.Name == b.Name && a.Text == b.Text && a.Refused == b.Refused
			}) {
				t.Errorf("ValidateParameters = %+v; want %+v", got, tt.want)
			}
		})
	}
}
