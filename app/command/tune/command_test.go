package tunecmd

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nereid/app/perf"
	"nereid/app/tune"
	"nereid/engine/client"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/tensor"
)

// tuneRun searches with short measurements. The private servers are this test binary as the program.
func tuneRun(t *testing.T, args ...string) (*result, string) {
	t.Helper()
	r, out, err := tuneTry(t, t.Context(), args...)
	if err != nil {
		t.Fatalf("nereid tune %q: %v\n%s", args, err, out)
	}
	return r, out
}

func tuneTry(t *testing.T, ctx context.Context, args ...string) (*result, string, error) {
	t.Helper()
	t.Setenv(asProgram, "1")
	o, err := parse(append([]string{"--request-count", "40"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	o.program = testProgram
	tn, err := o.newTuner()
	if err != nil {
		return nil, "", err
	}
	if err := tn.open(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r, err := o.runSearch(ctx, tn, &out, &out)
	if cerr := tn.close(); cerr != nil {
		t.Error(cerr)
	}
	if _, serr := os.Stat(tn.scratch); !os.IsNotExist(serr) {
		t.Errorf("the private server's folder is left: %v", serr)
	}
	if r != nil {
		if err := r.table(&out); err != nil {
			t.Error(err)
		}
	}
	return r, out.String(), err
}

const sampleModels = "../../../models-sample"

func TestTune(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Run("F029 F036 a quick search of an ONNX model", func(t *testing.T) {
		r, out := tuneRun(t, "--model-repository", sampleModels, "-m", "mlp", "--budget=8", "--concurrency=2,4,8",
			"--threads=1", "--instance-counts=1,2")
		if n := len(r.found.Trials); n < 3 || n > 8 {
			t.Errorf("%d measurements, want 3 to 8\n%s", n, out)
		}
		for _, trial := range r.found.Trials {
			m := trial.Measurement
			if m.Failed != "" || m.Throughput <= 0 || m.P99 < m.P50 || m.P50 <= 0 || m.Memory < 10<<20 ||
				m.AvailableMemory <= 0 || m.Requests < 40 {
				t.Errorf("%s: %+v", r.space.Key(trial.Candidate), m)
			}
		}
		if !r.hasBaseline || !strings.Contains(out, "now  present configuration") || len(r.variants()) < 2 {
			t.Errorf("no baseline or no variants: %q\n%s", r.variants(), out)
		}
	})
	t.Run("F028 F031 a brute search of given values under request rates", func(t *testing.T) {
		r, out := tuneRun(t, "--model-repository", sampleModels, "-m", "mlp", "--search=brute", "--max-batch-sizes=4,8",
			"--queue-delays=off,100",
			"--instance-counts=2", "--threads=1", "--request-rate=200,400", "--instance-kinds=cpu,gpu")
		// 2 sizes by 2 delays under 2 rates, and the present configuration, which is none of them.
		if len(r.found.Trials) != 2*2*2+2 || len(r.variants()) != 5 || !r.found.Ended {
			t.Errorf("%d measurements of %q\n%s", len(r.found.Trials), r.variants(), out)
		}
		for _, want := range []string{"200 requests/s", "dynamic batching, 0 µs → no dynamic batching",
			"max_batch_size 64 → 4", "no GPU that models may use: --instance-kinds changes nothing"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
	t.Run("F033 a server without models", func(t *testing.T) {
		at := t.TempDir()
		r, _ := tuneRun(t, "--model-repository", testModels(t), "-m", "plain", "--search=brute", "--concurrency=1",
			"--max-batch-sizes=present", "--queue-delays=present",
			"--instance-counts=present", "--window=50", "--export-path", at)
		if err := r.writeTables(at); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(at, "metrics-server-only.csv"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
		if err != nil || len(rows) != 2 ||
			strings.Join(rows[0][:5],
				",") != "Model,GPU UUID,GPU Memory Usage (MB),GPU Utilization (%),GPU Power Usage (W)" ||
			rows[1][0] != "triton-server" {
			t.Fatalf("%q, %v", rows, err)
		}
		if mb, err := strconv.ParseFloat(rows[1][5], 64); err != nil || mb < 10 || r.serverOnly.Memory < 10<<20 {
			t.Errorf("a server without models takes %q MB, %v", rows[1][5], err)
		}
	})
}

func TestTuneSeveralModels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Run("F029 two models at the same time", func(t *testing.T) {
		at := t.TempDir()
		r, out := tuneRun(t, "--model-repository", sampleModels, "-m", "mlp,add_sub", "--search=brute",
			"--concurrency=1,2", "--max-batch-sizes=present", "--queue-delays=present",
			"--threads=present", "--instance-counts=1,2", "--shape=INPUT0:16")
		// Two counts of instances of each model under two loads.
		if len(r.found.Trials) != 2*2*2 || len(r.variants()) != 4 || !r.found.Ended {
			t.Errorf("%d measurements of %q\n%s", len(r.found.Trials), r.variants(), out)
		}
		for _, trial := range r.found.Trials {
			if len(trial.Models) != 2 || trial.Failed != "" {
				t.Fatalf("%s: %+v", r.space.Key(trial.Candidate), trial.Measurement)
			}
			a, b := trial.Models[0], trial.Models[1]
			if a.Throughput <= 0 || b.Throughput <= 0 || trial.Throughput != a.Throughput+b.Throughput ||
				trial.P99 != max(a.P99, b.P99) || a.Requests < 40 || b.Requests < 40 || a.Memory != b.Memory {
				t.Errorf("%s: %+v", r.space.Key(trial.Candidate), trial.Measurement)
			}
		}
		for _, want := range []string{"Tuning mlp and add_sub", "add_sub: instances "} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if err := r.writeTables(at); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(at, "metrics-model-inference.csv"))
		if err != nil || strings.Count(string(b), "\nmlp,") != 8 || strings.Count(string(b), "\nadd_sub,") != 8 {
			t.Errorf("a row for each model: %v\n%s", err, b)
		}
	})
	t.Run("two models, and a shape that none has", func(t *testing.T) {
		_, _, err := tuneTry(t, t.Context(), "--model-repository", sampleModels, "-m", "mlp", "-m", "add_sub",
			"--shape=NOTHING:4")
		if err == nil || !strings.Contains(err.Error(), `no model has an input "NOTHING"`) {
			t.Error(err)
		}
		if _, _, err := tuneTry(t, t.Context(), "--model-repository", sampleModels, "-m", "mlp,mlp"); err == nil ||
			!strings.Contains(err.Error(), "named twice") {
			t.Error(err)
		}
	})
	t.Run("F029 an ensemble and its parts", func(t *testing.T) {
		r, out := tuneRun(t, "--model-repository", testModels(t), "-m", "pair", "--search=brute", "--concurrency=2",
			"--tune-composing", "--max-batch-sizes=8",
			"--instance-counts=1,2", "--queue-delays=off")
		if len(r.found.Trials) != 2 || !strings.Contains(out, "plain: instances 1 → 2") {
			t.Errorf("%d measurements\n%s", len(r.found.Trials), out)
		}
	})
}

// An ensemble takes no larger batches than its steps: larger ones are not tried.
func TestTuneTriesOnlyBatchesThatAnEnsembleCanTake_F027(t *testing.T) {
	config := func(text string) *inferencepb.ModelConfig {
		cfg, _, faults := modelconfig.Parse("", []byte(text))
		if err := faults.Err(); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	of := func(steps ...string) string {
		text := `platform: "ensemble" max_batch_size: 6 ensemble_scheduling {`
		for _, s := range steps {
			text += ` step { model_name: "` + s + `" model_version: -1 }`
		}
		return text + " }"
	}
	present := map[string]*inferencepb.ModelConfig{
		"twelve": config(`name: "twelve" backend: "identity" max_batch_size: 12`),
		"large":  config(`name: "large" backend: "identity" max_batch_size: 64`),
		"pair":   config(`name: "pair" ` + of("large", "twelve")),
		"outer":  config(`name: "outer" ` + of("large", "pair")),
	}
	for _, tt := range []struct {
		name      string
		tuned     []string
		composing []string
		batches   []int // of --max-batch-sizes
		mode      string
		want      []int // of the first model
	}{
		{"the smallest step", []string{"pair"}, []string{"large", "twelve"}, nil, "quick", []int{1, 2, 4, 6, 8}},
		{"few values", []string{"pair"}, []string{"large", "twelve"}, nil, "each", []int{6, 8}},
		{"an ensemble in an ensemble", []string{"outer"}, []string{"large", "pair", "twelve"}, nil, "quick",
			[]int{1, 2, 4, 6}},
		{"a step that is tuned too", []string{"pair", "twelve"}, []string{"large"}, nil, "quick",
			[]int{1, 2, 4, 6, 8, 16, 32, 64}},
		{"values that were asked for", []string{"pair"}, []string{"large", "twelve"}, []int{16}, "quick", []int{6, 16}},
		{"another model", []string{"twelve"}, nil, nil, "each", []int{8, 12, 32}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := &tuner{present: present, measureOptions: &measureOptions{batch: 1}}
			for _, name := range tt.tuned {
				tn.tuned = append(tn.tuned, modelFolder{name: name})
			}
			for _, name := range tt.composing {
				tn.composing = append(tn.composing, modelFolder{name: name})
			}
			l := lists{batches: tt.batches, load: []int{1}}
			if tt.mode == "each" {
				l.setFew()
			}
			tn.makeSpace(&l, machine{cores: 2})
			if a := tn.space.Axes[0]; a.Model != tt.tuned[0] || a.Field != tune.MaxBatch ||
				!slices.Equal(a.Values, tt.want) {
				t.Errorf("%+v, want %v", a, tt.want)
			}
		})
	}
}

func TestTuneContinuesAfterFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Run("a configuration that cannot be loaded is passed over", func(t *testing.T) {
		root := writeFiles(t, t.TempDir(), map[string]string{"m/1/x": "", "m/config.pbtxt": `
backend: "identity" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
model_warmup { name: "w" batch_size: 8
  inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }`})
		r, out := tuneRun(t, "--model-repository", root, "-m", "m", "--search=brute", "--concurrency=2",
			"--max-batch-sizes=2", "--instance-counts=1", "--queue-delays=off")
		if r.found.Trials[0].Failed != "" || !strings.Contains(r.found.Trials[1].Failed, "batch") ||
			!strings.Contains(out, "1 failed") || len(r.ranked) != 1 {
			t.Errorf("%+v\n%s", r.found.Trials, out)
		}
	})
	t.Run("F035 a search that was cancelled goes on from its checkpoint", func(t *testing.T) {
		at := filepath.Join(t.TempDir(), "checkpoint")
		args := []string{"--model-repository", testModels(t), "-m", "plain", "--search=brute", "--concurrency=1,2",
			"--max-batch-sizes=8", "--instance-counts=1,2", "--queue-delays=off", "--checkpoint", at}
		ctx, cancel := context.WithCancel(t.Context())
		o, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		o.program = testProgram
		t.Setenv(asProgram, "1")
		tn, err := o.newTuner()
		if err != nil {
			t.Fatal(err)
		}
		if err := tn.open(); err != nil {
			t.Fatal(err)
		}
		o.measure.requests = 20
		part, err := o.runSearch(ctx, tn, writerFunc(func(b []byte) (int, error) {
			if strings.HasPrefix(string(b), "[2/") {
				cancel()
			}
			return len(b), nil
		}), &bytes.Buffer{})
		if err := errors.Join(err, tn.close()); err != nil || !part.cancelled || len(part.found.Trials) != 2 {
			t.Fatalf("cancelled: %+v, %v", part, err)
		}
		r, out := tuneRun(t, args...)
		if len(r.found.Trials) != 4 || strings.Count(out, "(from the checkpoint)") != 2 || r.cancelled {
			t.Errorf("%d trials\n%s", len(r.found.Trials), out)
		}
		if again, out := tuneRun(t, args...); strings.Count(out, "(from the checkpoint)") != 4 ||
			len(again.found.Trials) != 4 {
			t.Errorf("a search that is done measures again\n%s", out)
		}
		if _, _, err := tuneTry(t, t.Context(), append(args, "-b", "2")...); err == nil ||
			!strings.Contains(err.Error(), "another model") {
			t.Errorf("a checkpoint of another load is taken: %v", err)
		}
	})
}

// The usual values are model_analyzer's, with instances by the machine.
func TestTuneAxes_F027(t *testing.T) {
	cfg, _, faults := modelconfig.Parse("", []byte(`name: "m" backend: "onnxruntime" max_batch_size: 6
dynamic_batching { } instance_group [ { count: 2 kind: KIND_CPU } ]`))
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	axes := axes(cfg, &lists{}, machine{cores: 8, gpus: 1}, true)
	want := map[tune.Field][]int{
		tune.MaxBatch:  {1, 2, 4, 6, 8, 16, 32, 64, 128},
		tune.Delay:     {tune.NoBatching, 0, 100, 500, 1000, 5000},
		tune.Instances: {1, 2, 3, 4, 5, 6, 7, 8},
		tune.Kind:      {tune.KindCPU, tune.KindGPU},
		tune.Threads:   {1, 2, 4, 0},
	}
	for _, a := range axes {
		if !slices.Equal(a.Values, want[a.Field]) || a.Present != (a.Field == tune.MaxBatch) {
			t.Errorf("%+v, want %v", a, want[a.Field])
		}
		delete(want, a.Field)
	}
	if len(want) > 0 {
		t.Errorf("no axes for %v", want)
	}
	o, err := parse([]string{"-m", "m", "--model-repository", "x", "--search", "brute"})
	if err != nil || !slices.Equal(o.search.lists.load, []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
		t.Errorf("loads %v, %v", o.search.lists.load, err)
	}
}

func TestTuneConfig(t *testing.T) {
	const text = `# mine
name: "m"
max_batch_size: 64 # rows
instance_group [ { count: 1 kind: KIND_CPU host_policy: "p" } ]
dynamic_batching { preferred_batch_size: [ 4, 32 ] preserve_ordering: true }
parameters { key: "k" value { string_value: "v" } }
`
	present, _, _ := modelconfig.Parse("", []byte(text))
	for _, tt := range []struct {
		name    string
		changes []tune.Change
		want    []string // in the text
		none    []string
	}{
		{"nothing", nil, []string{text}, nil},
		{"smaller batches lose preferred sizes", []tune.Change{{Field: tune.MaxBatch, From: 64, To: 8}},
			[]string{"# mine", "max_batch_size: 8 # rows", "preserve_ordering: true", "4"}, []string{"32"}},
		{"no batching", []tune.Change{{Field: tune.Delay, From: 0, To: tune.NoBatching}},
			[]string{"# mine", "max_batch_size: 64 # rows"}, []string{"dynamic_batching"}},
		{"a delay", []tune.Change{{Field: tune.Delay, To: 500}}, []string{"max_queue_delay_microseconds: 500",
			"preserve_ordering: true"}, nil},
		{"instances keep their policy", []tune.Change{{Field: tune.Instances, From: 1, To: 3}},
			[]string{"count: 3", `host_policy: "p"`, "KIND_CPU"}, nil},
		{"on the GPU", []tune.Change{{Field: tune.Kind, From: 0, To: 1}}, []string{"KIND_GPU", "count: 1"},
			[]string{"KIND_CPU"}},
		{"threads beside other parameters", []tune.Change{{Field: tune.Threads, To: 2}},
			[]string{`"intra_op_thread_count"`, `"2"`, `"k"`}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := configText(text, present, tt.changes)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range tt.want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in\n%s", w, got)
				}
			}
			for _, w := range tt.none {
				if strings.Contains(got, w) {
					t.Errorf("%q in\n%s", w, got)
				}
			}
			cfg, _, faults := modelconfig.Parse("", []byte(got))
			if why := mismatch(cfg, tt.changes); faults.Err() != nil || why != "" {
				t.Errorf("%v %s", faults.Err(), why)
			}
		})
	}
	if why := mismatch(&inferencepb.ModelConfig{MaxBatchSize: 4},
		[]tune.Change{{Field: tune.MaxBatch, To: 8}}); !strings.Contains(why, "is to be 8, but") {
		t.Errorf("a change that was not taken is %q", why)
	}
}

func TestTuneOptions(t *testing.T) {
	o, err := parse([]string{"-m", "m", "--model-repository=r", "--latency-budget=20", "--min-throughput=5",
		"--max-memory=100", "--objective=perf_throughput=2,latency=1", "--queue-delays=off,100", "--concurrency=2:8:2",
		"--", "--backend-config=a,b=c"})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("F032 objectives and constraints", func(t *testing.T) {
		if len(o.search.goal.Constraints) != 3 || o.search.goal.Weights[tune.Throughput] != 2 ||
			o.search.goal.Weights[tune.LatencyP99] != 1 {
			t.Errorf("%+v", o.search.goal)
		}
	})
	if !slices.Equal(o.search.lists.delays, []int{-1, 100}) || !slices.Equal(o.search.lists.load, []int{2, 4, 6, 8}) ||
		!slices.Equal(o.serverOptions, []string{"--backend-config=a,b=c"}) {
		t.Errorf("%+v", o)
	}
	for _, tt := range [][2]string{
		{"--objective=speed", `objective "speed": want one of cpu_free_ram`},
		{"--objective=throughput=x", `the weight "x" is no number`},
		{"--latency-budget=-1", "want a min or a max above 0"},
		{"--search=optuna", "want quick, brute or each"},
		{"--budget=0", "want 1 or more"},
		{"--instance-kinds=tpu", `"tpu" is none of cpu, gpu`},
		{"--max-batch-sizes=0", "is none of the whole numbers from 1"},
		{"--window=1", "want 50 to 600000"},
		{"--concurrency=8:2", `"8:2": want start:end:step`},
		{"--concurrency=present", `"present" is none of the whole numbers from 1 to 65536`},
		{"--request-rate=present", `"present" is none of the whole numbers from 1`},
		{"--instance-counts=1:2000", "the whole numbers from 1 to 1024"},
		{"--instance-kinds=1:2", "want values of cpu, gpu"},
		{"--concurrency=1:60000", "60000 values are more than 4096"},
		{"--nothing", "unknown option -nothing"},
	} {
		if _, err := parse([]string{"-m", "m", "--model-repository=r", tt[0]}); err == nil ||
			!strings.Contains(err.Error(), tt[1]) {
			t.Errorf("%s: %v, want %q", tt[0], err, tt[1])
		}
	}
	if _, err := parse([]string{"-m", "m", "--model-repository=r", "--", "--http-port=1"}); err == nil ||
		!strings.Contains(err.Error(), "sets this option") {
		t.Errorf("an option of the private servers' own: %v", err)
	}
}

// After its start the server may log a model's own lines, which may look like its own.
func TestPrivateServerLog(t *testing.T) {
	s := &privateServer{cmd: exec.Command("none"), exited: make(chan struct{})}
	up := make(chan struct{})
	s.readLog(strings.NewReader("I Started HTTPService at 127.0.0.1:1\nI Started Metrics Service at 127.0.0.1:2\n"+
		"Started HTTPService at 127.0.0.1:3\nStarted Metrics Service at 127.0.0.1:4\ngone\n"), up)
	<-up
	<-s.exited
	if s.address != "127.0.0.1:1" || s.metrics != "127.0.0.1:2" || s.lastLine() != "gone" {
		t.Errorf("%s %s %s", s.address, s.metrics, s.lastLine())
	}
}

func TestTuneCheckpoint(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "m")
	writeFiles(t, folder, map[string]string{"1/model.py": "x", "config.pbtxt": ""})
	open := func(t *testing.T, text string, args ...string) (at string, err error) {
		t.Helper()
		at = filepath.Join(t.TempDir(), "checkpoint")
		o, err := parse(append([]string{"-m", "m", "--model-repository=r", "--checkpoint", at}, args...))
		if err != nil {
			t.Fatal(err)
		}
		if text != "" {
			writeFiles(t, filepath.Dir(at), map[string]string{"checkpoint": text})
		}
		_, _, err = o.openCheckpoint(&tuner{tuned: []modelFolder{{name: "m", folder: folder}}})
		return at, err
	}
	read := func(t *testing.T, at string) string {
		t.Helper()
		b, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	at, err := open(t, "")
	head := read(t, at)
	if err != nil || !strings.HasSuffix(head, "}\n") {
		t.Fatalf("%q, %v", head, err)
	}
	const line = `{"Key":"load=1","Throughput":5}` + "\n"
	for _, tt := range []struct{ name, text, want string }{
		{"a head that was cut short", head[:len(head)/2], head},
		{"a line that was cut short", head + line + line[:9], head + line},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, err := open(t, tt.text)
			if got := read(t, at); err != nil || got != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
	t.Run("a file of something else stays", func(t *testing.T) {
		at, err := open(t, "name: \"m\"")
		if got := read(t, at); err == nil || !strings.Contains(err.Error(), "name another file") ||
			got != "name: \"m\"" {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("other shapes are another load", func(t *testing.T) {
		if _, err := open(t, head+line, "--shape=X:1,2"); err == nil ||
			!strings.Contains(err.Error(), "name another file") {
			t.Error(err)
		}
	})
	t.Run("F035 a model whose files have changed is another one", func(t *testing.T) {
		writeFiles(t, folder, map[string]string{"config.pbtxt": "# a comment"})
		if _, err := open(t, head+line); err != nil {
			t.Errorf("after a change of the file config.pbtxt: %v", err)
		}
		writeFiles(t, folder, map[string]string{"1/model.py": "other"})
		if _, err := open(t, head+line); err == nil || !strings.Contains(err.Error(), "name another file") {
			t.Error(err)
		}
	})
}

func TestTuneCheckpointInputs_F035(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given bool // not generated
		value byte // of the second search
		want  string
	}{
		{"the same inputs of a file", true, 1, ""},
		{"a file whose inputs have changed", true, 2, "name another file"},
		{"generated inputs are other ones each time", false, 2, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := parse([]string{"-m", "m", "--model-repository=r", "--checkpoint",
				filepath.Join(t.TempDir(), "checkpoint")})
			if err != nil {
				t.Fatal(err)
			}
			open := func(value byte) error {
				data := &perf.Data{Given: tt.given, Streams: [][]perf.Step{{{Inputs: []client.Tensor{
					{Name: "X", DataType: tensor.Uint8, Shape: []int64{1}, Data: []byte{value}}}}}}}
				_, _, err := o.openCheckpoint(&tuner{loads: []modelLoad{{model: perf.Model{Name: "m"}, data: data}}})
				return err
			}
			if err := open(1); err != nil {
				t.Fatal(err)
			}
			err = open(tt.value)
			if got := fmt.Sprint(err); (err != nil) != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
