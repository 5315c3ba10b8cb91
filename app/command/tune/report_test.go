package tunecmd

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/app/tune"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/store"
)

// foundOf is a search's end as if it had been measured: two instances are better.
func foundOf(t *testing.T, m modelFolder) *result {
	t.Helper()
	present, _, faults := modelconfig.Parse("", []byte(m.config))
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	r := &result{
		names: []string{m.name}, models: []modelFolder{m}, batch: 2, top: 3, mode: "quick", gpus: 1,
		began: time.Unix(0, 0), ended: time.Unix(9, 0), present: map[string]*inferencepb.ModelConfig{m.name: present},
		goal: tune.Goal{
			Weights:     map[tune.Metric]float64{tune.Throughput: 1},
			Constraints: []tune.Constraint{{Metric: tune.LatencyP99, Max: 10}},
		},
		space: tune.Space{Axes: []tune.Axis{
			{Model: m.name, Field: tune.Instances, Values: []int{1, 2, 3}},
			{Field: tune.Load, Values: []int{4, 8}},
		}},
	}
	trial := func(i, load int, throughput float64, p99 time.Duration) tune.Trial {
		return tune.Trial{Candidate: tune.Candidate{i, load}, Measurement: tune.Measurement{Throughput: throughput,
			P50: p99 / 2, P99: p99, Avg: p99 / 2,
			P90: p99, P95: p99, Memory: 100e6, CPU: 1.25, GPUMemory: 5e6, GPUUtilization: 40, GPUPower: 70.5,
			Stable: true}}
	}
	r.found = &tune.Result{Ended: true, Trials: []tune.Trial{trial(0, 0, 100, 4*time.Millisecond),
		trial(0, 1, 120, 8*time.Millisecond),
		trial(1, 1, 230.5, 6*time.Millisecond), trial(2, 1, 300, 20*time.Millisecond),
		{Candidate: tune.Candidate{2, 0}, Measurement: tune.Measurement{Failed: "no <memory>"}}}}
	r.found.Steps = []tune.Step{{From: r.found.Trials[1], To: r.found.Trials[2]}}
	r.rank()
	return r
}

const tunedConfig = `# kept
backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
instance_group [ { count: 1 kind: KIND_CPU } ]
`

func tunedModel(t *testing.T) (root string, m modelFolder) {
	t.Helper()
	root = writeFiles(t, t.TempDir(), map[string]string{"m/config.pbtxt": tunedConfig, "m/1/data": "x",
		"m/1/.swap": "no"})
	m, err := findModel([]string{root}, "m", "")
	if err != nil {
		t.Fatal(err)
	}
	return root, m
}

func TestTuneReport_F033(t *testing.T) {
	_, m := tunedModel(t)
	r := foundOf(t, m)
	t.Run("F033 the tables have model_analyzer's columns", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "results")
		if err := r.writeTables(folder); err != nil {
			t.Fatal(err)
		}
		read := func(name string) [][]string {
			b, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		rows := read("metrics-model-inference.csv")
		if got := strings.Join(rows[0][:9],
			","); got != "Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Satisfies "+
			"Constraints,Throughput (infer/sec),p99 Latency (ms)" {
			t.Errorf("columns %s", got)
		}
		want := [][]string{ // by rank: the constraint is kept first
			{"m", "2", "8", "m_config_0", "2:CPU", "8", "Yes", "230.5", "6"},
			{"m", "2", "4", "m_config_default", "1:CPU", "8", "Yes", "100", "4"},
			{"m", "2", "8", "m_config_default", "1:CPU", "8", "Yes", "120", "8"},
			{"m", "2", "8", "m_config_1", "3:CPU", "8", "No", "300", "20"},
		}
		if len(rows) != 1+len(want) {
			t.Fatalf("%q", rows)
		}
		for i, w := range want {
			if !slices.Equal(rows[i+1][:9], w) {
				t.Errorf("row %d is %q, want %q", i, rows[i+1], w)
			}
		}
		if gpu := read("metrics-model-gpu.csv"); len(gpu) != 5 || gpu[1][8] != "40" || gpu[1][9] != "70.5" ||
			gpu[0][3] != "Concurrency" {
			t.Errorf("%q", gpu)
		}
		r.rate = true
		if err := r.writeTables(folder); err != nil {
			t.Fatal(err)
		}
		for name, at := range map[string]int{"metrics-model-inference.csv": 2, "metrics-model-gpu.csv": 3} {
			if got := read(name)[0][at]; got != "Request Rate" {
				t.Errorf("F031 %s has the column %q for rates", name, got)
			}
		}
	})
}

func TestTuneHTMLReport_F033(t *testing.T) {
	_, m := tunedModel(t)
	r := foundOf(t, m)
	t.Run("F033 the page", func(t *testing.T) {
		var b bytes.Buffer
		if err := r.writeHTML(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		for _, want := range []string{"<title>m: tuning</title>", "instances 1 → 2", "throughput +92 %", "<svg ",
			`class="best"`, `class="limit"`, "no &lt;memory&gt;", "230.5", "GPU memory"} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s in the page", want)
			}
		}
		if n := strings.Count(page, "<circle "); n != 8 {
			t.Errorf("%d points, want 4 in each plot", n)
		}
		for _, bad := range []string{"http://", "https://", "<script", "NaN", "Inf"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s in the page", bad)
			}
		}
	})
	t.Run("why", func(t *testing.T) {
		text := strings.Join(r.why(), "\n")
		for _, want := range []string{"5 measurements in 9 s; no neighbour of the best is better; 1 failed.",
			"instances 1 → 2: throughput +92 %, p99 -25 %", "The best, instances 1 → 2, at concurrency 8"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	})
}

// A report of models that were tuned together names all of them, and whose change is meant.
func TestTuneReportNamesAllModels_F033(t *testing.T) {
	_, m := tunedModel(t)
	r := foundOf(t, m)
	r.names = append(r.names, "other")
	var b bytes.Buffer
	if err := r.writeHTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<title>m and other: tuning</title>", "<h1>m and other: tuning</h1>",
		"m: instances 1 → 2"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in the page:\n%s", want, b.String())
		}
	}
}

// The system counts CPU time in steps of 10 ms: nothing can be said of a few milliseconds.
func TestTuneShowsNoCPUWhereTooLittleWasMeasured_F033(t *testing.T) {
	begin := time.Unix(100, 0)
	for _, tt := range []struct {
		name        string
		wall        time.Duration
		first, last float64
		want, csv   string
	}{
		{"7 ms", 7 * time.Millisecond, 1, 1, "–", ""},
		{"99 ms with a step", 99 * time.Millisecond, 1, 1.01, "–", ""},
		{"a second without any", time.Second, 1, 1, "0 %", "0"},
		{"a second", time.Second, 1, 2.5, "150 %", "150"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, m := tunedModel(t)
			r := foundOf(t, m)
			u := consumption{begin: begin, end: begin.Add(tt.wall), first: tt.first, last: tt.last}
			for i := range r.found.Trials {
				one := u.measurement()
				if one.CPU < 0 || tt.csv == "" && one.CPU <= 0 {
					t.Errorf("%v cores: without a bound, no use of the CPU would be the best", one.CPU)
				}
				r.found.Trials[i].CPU, r.found.Trials[i].CPUUnknown = one.CPU, one.CPUUnknown
			}
			r.rank()
			if got := r.row("now", &r.baseline).CPU; got != tt.want {
				t.Errorf("the table has %q, want %q", got, tt.want)
			}
			var b bytes.Buffer
			if err := r.writeCSV(&b); err != nil {
				t.Fatal(err)
			}
			rows, err := csv.NewReader(&b).ReadAll()
			last := len(rows[0]) - 1
			if err != nil || rows[0][last] != "CPU Utilization (%)" || rows[1][last] != tt.csv {
				t.Errorf("the CSV has %q, %v; want %q", rows[1], err, tt.csv)
			}
		})
	}
}

func TestTuneVariants_F038(t *testing.T) {
	_, m := tunedModel(t)
	r := foundOf(t, m)
	root := filepath.Join(t.TempDir(), "out")
	if err := r.writeRepository(root); err != nil {
		t.Fatal(err)
	}
	for name, count := range map[string]string{"m_config_default": "1", "m_config_0": "2", "m_config_1": "3"} {
		b, err := os.ReadFile(filepath.Join(root, name, "config.pbtxt"))
		cfg, _, faults := modelconfig.Parse("", b)
		if err != nil || faults.Err() != nil || cfg.GetName() != name || !strings.Contains(string(b), "# kept") ||
			!strings.Contains(string(b), "count: "+count) {
			t.Errorf("%s: %v %v\n%s", name, err, faults.Err(), b)
		}
		if b, err := os.ReadFile(filepath.Join(root, name, "1", "data")); err != nil || string(b) != "x" {
			t.Errorf("%s: the model's file is %q, %v", name, b, err)
		}
		from, err1 := os.Stat(filepath.Join(r.models[0].folder, "1", "data"))
		to, err2 := os.Stat(filepath.Join(root, name, "1", "data"))
		if err1 != nil || err2 != nil || os.SameFile(from, to) {
			t.Errorf("%s shares its file with the model: writing to one changes the other (%v, %v)", name, err1,
				err2)
		}
		if _, err := os.Stat(filepath.Join(root, name, "1", ".swap")); !os.IsNotExist(err) {
			t.Errorf("%s has an editor's file: %v", name, err)
		}
	}
	if out, err := runProgram(t, "validate", root); err != nil {
		t.Errorf("the variants have faults: %v %s", err, out)
	}
	if err := r.writeRepository(root); err == nil ||
		!strings.Contains(err.Error(), "remove it, or name another folder") {
		t.Errorf("variants take the place of others: %v", err)
	}
}

// A search takes minutes: what cannot be written is refused before it.
func TestTuneRefusesOutputsBeforeTheSearch_F033_F038(t *testing.T) {
	root := writeFiles(t, t.TempDir(), map[string]string{"file": "", "out/m_config_3/x": "", "other/m_config_3b/x": ""})
	for option, want := range map[string]string{
		"--output-model-repository=" + root + "/out":   "m_config_3 already; remove it, or name another folder",
		"--output-model-repository=" + root + "/file":  "is no folder",
		"--export-path=" + root + "/file":              "is no folder",
		"--report=" + root + "/none/r.html":            "no such file",
		"--report=" + root:                             "is a folder",
		"--output-model-repository=" + root + "/other": "no model \"m\"", // which comes next
		"--report=" + root + "/file":                   "no model \"m\"",
	} {
		o, err := parse([]string{"-m", "m", "--model-repository", root, option})
		if err != nil {
			t.Fatal(err)
		}
		o.program = testProgram
		if err := o.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", option, err, want)
		}
	}
}

// A model's folder, its versions and its files may be links.
func TestTuneVariantsOfLinks(t *testing.T) {
	files := writeFiles(t, t.TempDir(), map[string]string{"model/config.pbtxt": tunedConfig, "one/data": "x",
		"one/config.pbtxt": "a file of the version's", "two": "y"})
	root := t.TempDir()
	for link, target := range map[string]string{filepath.Join(root, "m"): "model",
		filepath.Join(files, "model", "1"): "one", filepath.Join(files, "one", "more"): "two"} {
		if err := os.Symlink(filepath.Join(files, target), link); err != nil {
			t.Fatal(err)
		}
	}
	m, err := findModel([]string{root}, "m", "")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := foundOf(t, m).writeRepository(out); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"1/data": "x", "1/config.pbtxt": "a file of the version's",
		"1/more": "y"} {
		path := filepath.Join(out, "m_config_0", filepath.FromSlash(name))
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v; want %q", name, b, err, want)
		}
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is not a separate file: %v", name, err)
		}
	}
}

// With --model-config-name another file of a model may have its configuration.
func TestTuneUsesTheConfigurationOfTheServer_F029_F038(t *testing.T) {
	root, _ := tunedModel(t)
	other := strings.Replace(tunedConfig, "max_batch_size: 8", "max_batch_size: 4", 1)
	writeFiles(t, root, map[string]string{"m/configs/small.pbtxt": other})
	for name, want := range map[string]string{"": tunedConfig, "none": tunedConfig, "small": other} {
		m, err := findModel([]string{root}, "m", name)
		if err != nil || m.config != want {
			t.Errorf("%s: %q, %v", name, m.config, err)
		}
	}
	m, err := findModel([]string{root}, "m", "small")
	if err != nil {
		t.Fatal(err)
	}
	out, r := filepath.Join(t.TempDir(), "out"), foundOf(t, m)
	o := &options{dataDir: t.TempDir(), program: testProgram}
	var said bytes.Buffer
	if err := errors.Join(r.writeRepository(out), o.applyBest(r, &said)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		root + "/m/config.pbtxt": tunedConfig, root + "/m/configs/small.pbtxt": "max_batch_size: 4",
		out + "/m_config_0/config.pbtxt": "max_batch_size: 4", out + "/m_config_0/configs/small.pbtxt": "count: 2",
	} {
		if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s is %q, %v; want %q", path, b, err, want)
		}
	}
	if !strings.Contains(said.String(), "small.pbtxt") {
		t.Errorf("it says %q", said.String())
	}
}

func TestTuneApply(t *testing.T) {
	revisions := func(t *testing.T, st *store.Store) []store.Revision {
		t.Helper()
		list, err := st.Revisions(t.Context(), "m", 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			if list[i], err = st.Revision(t.Context(), list[i].ID); err != nil {
				t.Fatal(err)
			}
		}
		return list
	}
	check := func(t *testing.T, m modelFolder, list []store.Revision) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(m.folder, "config.pbtxt"))
		if err != nil || !strings.Contains(string(b), "count: 2") || !strings.Contains(string(b), "# kept") {
			t.Errorf("the configuration is %q, %v", b, err)
		}
		if len(list) != 1 || list[0].Source != store.SourceTune || list[0].Before == nil ||
			*list[0].Before != tunedConfig || list[0].After == nil || *list[0].After != string(b) {
			t.Errorf("revisions %+v", list)
		}
	}
	t.Run("without a server", func(t *testing.T) {
		_, m := tunedModel(t)
		o := &options{dataDir: t.TempDir(), program: testProgram}
		if err := o.applyBest(foundOf(t, m), &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(t.Context(), o.dataDir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		check(t, m, revisions(t, st))
	})
	t.Run("with the file's mode", func(t *testing.T) {
		_, m := tunedModel(t)
		path := filepath.Join(m.folder, "config.pbtxt")
		if err := os.Chmod(path, 0o660); err != nil {
			t.Fatal(err)
		}
		o := &options{dataDir: t.TempDir(), program: testProgram}
		if err := o.applyBest(foundOf(t, m), &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o660 {
			t.Errorf("%v, %v; want 660", info.Mode(), err)
		}
	})
	t.Run("not over a change, nor where nothing is better, nor after an interrupt", func(t *testing.T) {
		_, m := tunedModel(t)
		o := &options{dataDir: t.TempDir(), program: testProgram}
		r := foundOf(t, m)
		r.cancelled = true
		if err := o.applyBest(r, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("%v", err)
		}
		r.cancelled, r.goal.Constraints[0].Max = false, 1
		if err := o.applyBest(r, &bytes.Buffer{}); err == nil ||
			!strings.Contains(err.Error(), "keeps the constraints") {
			t.Errorf("%v", err)
		}
		r = foundOf(t, m)
		writeFiles(t, m.folder, map[string]string{"config.pbtxt": "# other\n"})
		if err := o.applyBest(r, &bytes.Buffer{}); err == nil ||
			!strings.Contains(err.Error(), "was changed while it was tuned") {
			t.Errorf("%v", err)
		}
		var out bytes.Buffer
		r.ranked = []tune.Trial{r.baseline}
		if err := o.applyBest(r, &out); err != nil || !strings.Contains(out.String(), "stays") {
			t.Errorf("%v %s", err, out.String())
		}
	})
}
