package tunecmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/app/tune"
)

func analyzerFile(t *testing.T, text string, args ...string) (*options, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return parse(append([]string{"--config-file", path}, args...))
}

func TestAnalyzerFile(t *testing.T) {
	t.Run("F028 F032 given values, constraints and weights", func(t *testing.T) {
		o, err := analyzerFile(t, `
model_repository: /models
objectives: { perf_latency_p99: 2, perf_throughput: 3 }
constraints: { perf_latency_p99: { max: 100 }, gpu_used_memory: { max: 200 } }
triton_server_flags: { log_verbose: 1 }
profile_models:
  one:
    parameters: { concurrency: { start: 2, stop: 8, step: 2 }, batch_sizes: 4 }
    perf_analyzer_flags: { shape: [ "I:1,2", "J:3" ], measurement-interval: 200 }
    model_config_parameters:
      max_batch_size: [ 6, 8 ]
      dynamic_batching: { max_queue_delay_microseconds: [ 200, 300 ] }
      instance_group: [ { kind: KIND_CPU, count: [ 1, 2 ] } ]
`, "--latency-budget=50")
		if err != nil {
			t.Fatal(err)
		}
		l := &o.search.lists
		if o.model != "one" || o.search.mode != "brute" || o.measure.batch != 4 ||
			o.measure.window.Milliseconds() != 200 ||
			!slices.Equal(o.repositories, []string{"/models"}) ||
			!slices.Equal(o.serverOptions, []string{"--log-verbose=1"}) || len(o.measure.inputs.Shapes) != 2 {
			t.Errorf("%+v", o)
		}
		if !slices.Equal(l.load, []int{2, 4, 6, 8}) || !slices.Equal(l.batches, []int{6, 8}) ||
			!slices.Equal(l.delays, []int{200, 300}) ||
			!slices.Equal(l.instances, []int{1, 2}) || !slices.Equal(l.kinds, []int{tune.KindCPU}) ||
			l.threads == nil || len(l.threads) != 0 {
			t.Errorf("%+v", l)
		}
		// The command line overrides the file.
		want := []tune.Constraint{{Metric: tune.LatencyP99, Max: 50}, {Metric: tune.GPUMemory, Max: 200}}
		if !slices.Equal(o.search.goal.Constraints, want) || o.search.goal.Weights[tune.LatencyP99] != 2 ||
			o.search.goal.Weights[tune.Throughput] != 3 {
			t.Errorf("%+v", o.search.goal)
		}
	})
	t.Run("F029 models at the same time", func(t *testing.T) {
		const text = "model_repository: r\nprofile_models: [ b, a ]\nrun_config_profile_models_concurrently_enable: " +
			"true\nrun_config_search_mode: quick\n"
		o, err := analyzerFile(t, text)
		if err != nil || o.model != "a" || !slices.Equal(o.with, []string{"b"}) || o.search.mode != "quick" {
			t.Errorf("%+v, %v", o, err)
		}
		if o, err := analyzerFile(t, text, "-m", "b"); err != nil || o.model != "b" || len(o.with) != 0 {
			t.Errorf("one of them: %+v, %v", o, err)
		}
		if _, err := analyzerFile(t, strings.Replace(text, "[ b, a ]", "{ a: { cpu_only: true }, b: }",
			1)); err == nil || !strings.Contains(err.Error(), "profile_models.a: of models") {
			t.Error(err)
		}
	})
}

func TestAnalyzerFileOfSeveralModels(t *testing.T) {
	t.Run("F027 F031 an automatic search within bounds", func(t *testing.T) {
		o, err := analyzerFile(t, "model_repository: r\nprofile_models: a, b\nrun_config_search_max_instance_count: "+
			"3\nrun_config_search_min_model_batch_size: 4\nrun_config_search_max_model_batch_size: "+
			"16\nrun_config_search_min_request_rate: 16\nrun_config_search_max_request_rate: 64\n", "-m", "b")
		if err != nil {
			t.Fatal(err)
		}
		l := &o.search.lists
		if o.model != "b" || !l.rate || !slices.Equal(l.load, []int{16, 32, 64}) ||
			!slices.Equal(l.batches, []int{4, 8, 16}) || !slices.Equal(l.instances, []int{1, 2, 3}) ||
			!slices.Equal(l.delays, []int{0}) || l.kinds == nil || len(l.kinds) > 0 {
			t.Errorf("%s %+v", o.model, l)
		}
	})
	for _, tt := range []struct{ name, text, want string }{
		{"a key", "profile_models: a\nmodel_repository: r\ntriton_launch_mode: docker\ngpus: all\n",
			"triton_launch_mode: nereid tune does not take this key"},
		{"all keys", "profile_models: a\nmodel_repository: r\ntriton_launch_mode: docker\ngpus: all\n",
			"gpus: nereid tune"},
		{"a model's key", "profile_models: { a: { weighting: 2 } }\n", "weighting of a model"},
		{"a field", "profile_models: { a: { model_config_parameters: { optimization: 1 } } }\n",
			"model_config_parameters.optimization"},
		{"several groups", "profile_models: { a: { model_config_parameters: { instance_group: [ { count: 1 }, { " +
			"count: 2 } ] } } }\n", "one group in each list"},
		{"a flag", "profile_models: a\nperf_analyzer_flags: { percentile: 95 }\n", "perf_analyzer_flags.percentile"},
		{"a constraint", "profile_models: a\nconstraints: { perf_throughput: { max: 1 } }\n",
			"constraints.perf_throughput.max"},
		{"several models", "profile_models: [ a, b ]\n", "names 2 models; choose one with -m"},
		{"no YAML", "a: [", "yaml"},
		{"bounds", "profile_models: a\nrun_config_search_min_concurrency: 9\nrun_config_search_max_concurrency: 3\n",
			"is above"},
		{"several batch sizes", "profile_models: a\nmodel_repository: r\nbatch_sizes: 1,2\n",
			`invalid value "1,2" for flag -b`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := analyzerFile(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func FuzzAnalyzerArgs(f *testing.F) {
	for _, s := range []string{"", "profile_models: a",
		"profile_models: [ { a: { parameters: { concurrency: 1 } } } ]\nobjectives: [ x ]", "1: 2", "a: &a [ *a ]",
		"profile_models: { a: { model_config_parameters: { instance_group: [ [ { count: 1 } ] ] } } }"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		args, _, err := analyzerArgs(b, "")
		if err == nil && !slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "--m=") }) {
			t.Errorf("%q names no model: %q", b, args)
		}
	})
}
