package onnxruntime

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/worker/process"
)

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pairs []string // key, value, ...
		want  Settings
		err   string
	}{
		{name: "none"},
		{name: "D011 enable-global-threadpool",
			pairs: []string{"enable-global-threadpool", "1", "intra_op_thread_count", "3",
				"inter_op_thread_count", "2"},
			want: Settings{GlobalThreadPool: true, IntraOpThreads: 3, InterOpThreads: 2}},
		{name: "in words", pairs: []string{"enable-global-threadpool", "True", "optimized-model-cache", "true"},
			want: Settings{GlobalThreadPool: true, OptimizedModelCache: true}},
		{name: "the last one counts",
			pairs: []string{"enable-global-threadpool", "1", "enable-global-threadpool", "0"}},
		{name: "several folders", pairs: []string{"op-library-directory", "/a/", "op-library-directory", "/b"},
			want: Settings{OpLibraryFolders: []string{"/a", "/b"}}},
		{name: "relative folder", pairs: []string{"op-library-directory", "ops"},
			err: `onnxruntime,op-library-directory: "ops" is not an absolute path`},
		{name: "no truth", pairs: []string{"enable-global-threadpool", "yes"},
			err: `onnxruntime,enable-global-threadpool: "yes" is neither "true" nor "false"`},
		{name: "no number", pairs: []string{"intra_op_thread_count", "many"},
			err: `onnxruntime,intra_op_thread_count: "many" is not a number from 0 to 2048`},
		{name: "negative", pairs: []string{"inter_op_thread_count", "-1"}, err: `"-1" is not a number`},
		{name: "too many", pairs: []string{"intra_op_thread_count", "99999999"}, err: `"99999999" is not a number`},
		{name: "limits of processes", pairs: []string{"execute-timeout-seconds", "3", "abandoned-timeout-seconds", "2",
			"unload-timeout-seconds", "4"},
			want: Settings{Limits: process.Limits{Execute: 3 * time.Second, Abandoned: 2 * time.Second,
				Unload: 4 * time.Second}}},
		{name: "no limit", pairs: []string{"execute-timeout-seconds", "0"},
			err: `onnxruntime,execute-timeout-seconds: "0" is not a positive number`},
		{name: "unknown", pairs: []string{"threads", "2"}, err: `"threads" is not a setting of onnxruntime; it has`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Settings
			var err error
			for i := 0; i+1 < len(tt.pairs) && err == nil; i += 2 {
				err = s.Set(tt.pairs[i], tt.pairs[i+1])
			}
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) ||
					errors.Is(err, ErrUnknownSetting) != (tt.name == "unknown") {
					t.Errorf("Set(%q) = %v, want %q", tt.pairs, err, tt.err)
				}
			case err != nil || !reflect.DeepEqual(s, tt.want):
				t.Errorf("Set(%q) = %+v, %v; want %+v", tt.pairs, s, err, tt.want)
			}
		})
	}
}

func TestPoolSizes(t *testing.T) {
	for _, tt := range []struct {
		name         string
		s            Settings
		threads      int
		intra, inter int
	}{
		{"one per core", Settings{}, 0, 0, 0},
		{"the program's choice", Settings{}, 2, 2, 2},
		{"counts without the pool have no effect", Settings{IntraOpThreads: 7, InterOpThreads: 8}, 2, 2, 2},
		{"counts of the pool", Settings{GlobalThreadPool: true, IntraOpThreads: 7, InterOpThreads: 8}, 2, 7, 8},
		{"pool without counts", Settings{GlobalThreadPool: true}, 2, 0, 0},
	} {
		if intra, inter := tt.s.pool(tt.threads); intra != tt.intra || inter != tt.inter {
			t.Errorf("%s: pool is %d and %d, want %d and %d", tt.name, intra, inter, tt.intra, tt.inter)
		}
	}
}

// TestOpLibrary checks that a configuration cannot load libraries outside the allowed folders.
func TestOpLibrary(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	model, elsewhere := filepath.Join(root, "m"), filepath.Join(root, "elsewhere")
	write := func(path string) string {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inModel, inVersion, other := write(filepath.Join(model, "ops.so")), write(filepath.Join(model, "1", "ver.so")),
		write(filepath.Join(elsewhere, "x.so"))
	beside := write(filepath.Join(root, "m-evil", "y.so")) // its path begins as the model's
	if err := os.Symlink(other, filepath.Join(model, "link.so")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(inVersion, filepath.Join(model, "inner.so")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, file string
		allowed    []string
		want, err  string
	}{
		{name: "in the model's folder", file: "ops.so", want: inModel},
		{name: "in the version's", file: "ver.so", want: inVersion},
		{name: "below", file: "1/ver.so", want: inVersion},
		{name: "absolute inside", file: inModel, want: inModel},
		{name: "link inside", file: "inner.so", want: inVersion},
		{name: "absolute outside", file: other, err: "outside the model's folder"},
		{name: "upwards", file: "../elsewhere/x.so", err: "outside the model's folder"},
		{name: "link outside", file: "link.so", err: "outside the model's folder"},
		{name: "a folder whose name begins alike", file: beside, err: "outside the model's folder"},
		{name: "allowed folder", file: other, allowed: []string{elsewhere}, want: other},
		{name: "name in an allowed folder", file: "x.so", allowed: []string{elsewhere}, want: other},
		{name: "upwards out of an allowed folder", file: "../m-evil/y.so", allowed: []string{elsewhere},
			err: "outside the model's folder"},
		{name: "missing", file: "none.so", err: `"none.so" is not in the model's folder`},
		{name: "the system's", file: "libc.so.6", err: `"libc.so.6" is not in the model's folder`},
		{name: "a folder", file: "1", err: `"1" is not in the model's folder`},
		{name: "empty", file: "", err: `is not in the model's folder`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := backend.Spec{ModelName: "m", ModelFolder: model, VersionFolder: filepath.Join(model, "1")}
			got, err := opLibrary(s, tt.file, tt.allowed)
			if tt.err == "" && (err != nil || got != tt.want) {
				t.Errorf("opLibrary(%q) = %q, %v; want %q", tt.file, got, err, tt.want)
			}
			if tt.err != "" && (status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("opLibrary(%q) = %q, %v; want Invalid argument with %q", tt.file, got, err, tt.err)
			}
		})
	}
}

// gpuConfig is a configuration with accelerators "name", parameters, ... and model parameters.
func gpuConfig(parameters map[string]string, accelerators ...*accelerator) *inferencepb.ModelConfig {
	c := &inferencepb.ModelConfig{Parameters: map[string]*inferencepb.ModelParameter{}}
	for k, v := range parameters {
		c.Parameters[k] = &inferencepb.ModelParameter{StringValue: v}
	}
	c.Optimization = &inferencepb.ModelOptimizationPolicy{
		ExecutionAccelerators: &inferencepb.ModelOptimizationPolicy_ExecutionAccelerators{
			GpuExecutionAccelerator: accelerators}}
	return c
}

// ONNX Runtime would replay a graph with the memory of the request that it was captured with.
func TestCUDAGraphsAreRemoved(t *testing.T) {
	for _, tt := range []struct {
		name, value, want string
		told              bool
	}{
		{"enable_cuda_graph", "1", "", true},
		{"enable_cuda_graph", "True", "", true},
		{"enable_cuda_graph", "0", "0", false},
		{"enable_cuda_graph", "maybe", "maybe", false}, // the provider says what is wrong
		{"trt_cuda_graph_enable", "true", "", true},
		{"trt_cuda_graph_enable", "false", "false", false},
		{"use_tf32", "1", "1", false},
	} {
		var log strings.Builder
		s := backend.Spec{ModelName: "m", Log: slog.New(slog.NewTextHandler(&log, nil))}
		options := map[string]string{tt.name: tt.value}
		withoutGraphs(s, options)
		if got := options[tt.name]; got != tt.want || strings.Contains(log.String(), tt.name) != tt.told {
			t.Errorf("%s=%s: the provider gets %q, want %q; the log: %q", tt.name, tt.value, got, tt.want, log.String())
		}
	}
	withoutGraphs(backend.Spec{}, nil)
}

// TestGPUOptions checks the providers' options for a configuration. TestGPU checks that the providers accept them.
func TestGPUOptions(t *testing.T) {
	type words = map[string]string
	for _, tt := range []struct {
		name       string
		parameters words
		asked      []*accelerator
		cuda, trt  words
		err        string
	}{
		{name: "plain", cuda: words{"device_id": "3"}},
		{name: "model parameters", parameters: words{"cudnn_conv_algo_search": "1", "gpu_mem_limit": "1000",
			"arena_extend_strategy": "1", "do_copy_in_default_stream": "0"},
			cuda: words{"device_id": "3", "cudnn_conv_algo_search": "HEURISTIC", "gpu_mem_limit": "1000",
				"arena_extend_strategy": "kSameAsRequested", "do_copy_in_default_stream": "0"}},
		{name: "accelerator cuda, with any key", parameters: words{"gpu_mem_limit": "1000"},
			asked: []*accelerator{{Name: "cuda", Parameters: words{"cudnn_conv_use_max_workspace": "0",
				"gpu_mem_limit": "2000", "use_ep_level_unified_stream": "true", "device_id": "9"}}},
			cuda: words{"device_id": "3", "cudnn_conv_use_max_workspace": "0", "gpu_mem_limit": "2000",
				"use_ep_level_unified_stream": "true"}},
		{name: "accelerator cuda, no truth",
			asked: []*accelerator{{Name: "cuda", Parameters: words{"do_copy_in_default_stream": "2"}}},
			err:   `do_copy_in_default_stream: "2"`},
		{name: "C087 accelerator tensorrt", asked: []*accelerator{{Name: "tensorrt", Parameters: words{
			"precision_mode": "FP16", "max_workspace_size_bytes": "1073741824", "int8_calibration_table_name": "t",
			"int8_use_native_calibration_table": "false",
			"trt_engine_cache_enable":           "true", "trt_engine_cache_path": "/c", "trt_dla_core": "0",
			"trt_profile_min_shapes": "x:1x2", "trt_tactic_sources": ""}}},
			cuda: words{"device_id": "3"},
			trt: words{"device_id": "3", "trt_fp16_enable": "1", "trt_max_workspace_size": "1073741824",
				"trt_int8_calibration_table_name":       "t",
				"trt_int8_use_native_calibration_table": "false", "trt_engine_cache_enable": "true",
				"trt_engine_cache_path": "/c", "trt_dla_core": "0", "trt_profile_min_shapes": "x:1x2"}},
		{name: "precision BF16", asked: []*accelerator{{Name: "tensorrt", Parameters: words{"precision_mode": "BF16"}}},
			cuda: words{"device_id": "3"}, trt: words{"device_id": "3", "trt_bf16_enable": "1"}},
		{name: "precision INT8", asked: []*accelerator{{Name: "tensorrt", Parameters: words{"precision_mode": "INT8"}}},
			cuda: words{"device_id": "3"}, trt: words{"device_id": "3", "trt_int8_enable": "1"}},
		{name: "precision FP32", asked: []*accelerator{{Name: "tensorrt", Parameters: words{"precision_mode": "FP32"}}},
			cuda: words{"device_id": "3"}, trt: words{"device_id": "3"}},
		{name: "unknown precision",
			asked: []*accelerator{{Name: "tensorrt", Parameters: words{"precision_mode": "FP8"}}},
			err:   "unsupported precision mode 'FP8' is requested"},
		{name: "unknown parameter", asked: []*accelerator{{Name: "tensorrt", Parameters: words{"trt_warp": "1"}}},
			err: "unknown parameter 'trt_warp' is provided for TensorRT Execution Accelerator"},
		{name: "bytes that are none",
			asked: []*accelerator{{Name: "tensorrt", Parameters: words{"max_workspace_size_bytes": "1G"}}},
			err:   `'max_workspace_size_bytes' of the TensorRT Execution Accelerator is "1G"`},
		{name: "truth that is none",
			asked: []*accelerator{{Name: "tensorrt", Parameters: words{"trt_sparsity_enable": "ja"}}},
			err:   `want true or false`},
		{name: "number that is none", asked: []*accelerator{{Name: "tensorrt", Parameters: words{"trt_dla_core": "a"}}},
			err: `want a number`},
		{name: "unknown accelerator", asked: []*accelerator{{Name: "warp"}},
			err: "unknown Execution Accelerator 'warp' is requested; " +
				"gpu_execution_accelerator knows tensorrt and cuda"},
		{name: "unknown search", parameters: words{"cudnn_conv_algo_search": "3"},
			err: "unsupported cudnn_conv_algo_search value '3' is requested"},
		{name: "unknown strategy", parameters: words{"arena_extend_strategy": "x"},
			err: "unsupported arena_extend_strategy value 'x' is requested"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cuda, trt, err := gpuOptions(gpuConfig(tt.parameters, tt.asked...), 3)
			if tt.err != "" {
				if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("gpuOptions = %v, want Invalid argument with %q", err, tt.err)
				}
				return
			}
			if err != nil || !maps.Equal(cuda, tt.cuda) || !maps.Equal(trt, tt.trt) || (trt == nil) != (tt.trt == nil) {
				t.Errorf("gpuOptions = %v, %v, %v; want %v and %v", cuda, trt, err, tt.cuda, tt.trt)
			}
		})
	}
}

// TestTensorRTParameters checks that all parameters of Triton's documentation are accepted.
func TestTensorRTParameters(t *testing.T) {
	for _, name := range slices.Concat(tensorRTBools, tensorRTNumbers, tensorRTTexts) {
		if key, v, err := tensorRTOption(name, "1"); key != name || v != "1" || err != nil {
			t.Errorf("tensorRTOption(%s, 1) = %s %s, %v; want the same", name, key, v, err)
		}
	}
}

// TestInstall checks the installation command in the error for a missing provider.
func TestInstall(t *testing.T) {
	l := &capi.Library{Path: "/x/libonnxruntime.so", Version: "1.99.0", Providers: []string{"CPUExecutionProvider"}}
	version := embeddedVersionOr("1.99.0")
	for _, tt := range []struct{ provider, name, runtime, want string }{
		{cudaProvider, "CUDA", "/data/runtime/onnxruntime",
			`onnxruntime 1.99.0 at /x/libonnxruntime.so has no CUDA execution provider (it has ` +
				`CPUExecutionProvider); run pip install --target=/data/runtime/onnxruntime ` +
				`"onnxruntime-gpu[cuda,cudnn]==` + version + `" and restart, or set instance_group { kind: KIND_CPU }`},
		{cudaProvider, "CUDA", "", `run pip install --target=<folder> "onnxruntime-gpu[cuda,cudnn]==` + version +
			`" and start with --onnxruntime-library=<folder>`},
		{tensorRTProvider, "TensorRT", "/r", `run pip install --target=/r "onnxruntime-gpu[cuda,cudnn]==` + version +
			`" "tensorrt-cu13-libs<11" and restart`},
		{openVINOProvider, "OpenVINO", "/r", `run pip install --target=/r onnxruntime-openvino and restart`},
	} {
		err := need(l, tt.provider, tt.name, tt.runtime)
		if status.CodeOf(err) != status.Unsupported || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("need(%s) = %v, want Unsupported with %q", tt.provider, err, tt.want)
		}
	}
	l.Providers = append(l.Providers, cudaProvider)
	if err := need(l, cudaProvider, "CUDA", ""); err != nil {
		t.Errorf("need of a provider that is there = %v", err)
	}
	if err := unusable(l, "CUDA", 2, "/r", errors.New("libcudnn.so.9: no such file")); status.CodeOf(
		err) != status.Unavailable ||
		!strings.Contains(err.Error(), "GPU 2") || !strings.Contains(err.Error(), "libcudnn.so.9") ||
		!strings.Contains(err.Error(), "pip install") {
		t.Errorf("unusable = %v", err)
	}
}

// TestRuntimeFolder checks that a library installed by pip is preferred to the copy inside the program.
func TestRuntimeFolder(t *testing.T) {
	write := func(path string) string {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	python, plain, several, empty := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	inPython := write(filepath.Join(python, "onnxruntime", "capi", "libonnxruntime.so.1.31.1"))
	inPlain := write(filepath.Join(plain, "libonnxruntime.so"))
	write(filepath.Join(several, "libonnxruntime.so.1.30.0"))
	write(filepath.Join(several, "libonnxruntime.so.1.31.1"))
	for _, tt := range []struct {
		name      string
		o         Options
		want, err string
	}{
		{name: "option names a Python package's folder", o: Options{Library: python}, want: inPython},
		{name: "option names the library's folder", o: Options{Library: plain}, want: inPlain},
		{name: "option names a folder without one", o: Options{Library: empty}, err: "pip install --target=" + empty},
		{name: "option names a folder with two", o: Options{Library: several}, err: "several onnxruntime libraries"},
		{name: "runtime folder", o: Options{RuntimeFolder: python}, want: inPython},
		{name: "runtime folder with two", o: Options{RuntimeFolder: several}, err: "several onnxruntime libraries"},
		{name: "the option comes first", o: Options{Library: plain, RuntimeFolder: python}, want: inPlain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.o.findLibrary(embedded)
			if tt.err == "" && (err != nil || got != tt.want) ||
				tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("findLibrary = %q, %v; want %q %q", got, err, tt.want, tt.err)
			}
		})
	}
	o := Options{RuntimeFolder: filepath.Join(empty, "not made"), CacheFolder: t.TempDir()}
	if path, err := o.findLibrary(packed(t, "a library")); err != nil || !strings.HasPrefix(path, o.CacheFolder) {
		t.Errorf("findLibrary without a runtime folder = %q, %v; want the copy inside the program", path, err)
	}
}
