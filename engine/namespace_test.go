package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/lifecycle"
	"nereid/engine/metrics"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// pairConfig is an ensemble of one step: sum and difference, or with first and second swapped the other way round.
func pairConfig(step, first, second string) string {
	return fmt.Sprintf(`platform: "ensemble"
input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 }
input { name: "INPUT1" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT1" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling { step { model_name: %q model_version: -1
  input_map { key: "INPUT0" value: "INPUT0" } input_map { key: "INPUT1" value: "INPUT1" }
  output_map { key: "OUTPUT0" value: %q } output_map { key: "OUTPUT1" value: %q } } }
`, step, first, second)
}

// twins are two repositories: what "part" answers is the sum in the first and the difference in the second.
type twins struct {
	*engine.Engine
	t      *testing.T
	first  string
	second string
	ch     *changes
}

func newTwins(t *testing.T, o engine.Options, fill func(first, second string)) *twins {
	w := &twins{t: t, first: t.TempDir(), second: t.TempDir(), ch: newChanges()}
	fill(w.first, w.second)
	o.Repositories, o.Namespaces = []string{w.first, w.second + "/"}, true
	o.PollInterval, o.Settle = 5*time.Millisecond, time.Millisecond
	o.Events.Changed = w.ch.note
	w.Engine = start(t, o)
	return w
}

func put(t testing.TB, root, name, config string) {
	write(t, root+"/"+name+"/config.pbtxt", config)
	write(t, root+"/"+name+"/1/.keep", "")
}

// run is the first number that a model gives for 5 and 3: 8 is the sum, 2 the difference.
func (w *twins) run(model string) (int32, error) {
	w.t.Helper()
	r := infer.New()
	defer r.Release()
	r.ModelName = model
	for name, n := range map[string]int32{"INPUT0": 5, "INPUT1": 3} {
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: name, DataType: tensor.Int32, Shape: []int64{1},
			Data: words(n)})
	}
	outs, err := all(w.t, w.Engine, r)
	if err != nil {
		return 0, err
	}
	return outs[0]["OUTPUT0"][0], nil
}

func (w *twins) gives(model string, want int32) {
	w.t.Helper()
	if got, err := w.run(model); err != nil || got != want {
		w.t.Errorf("%s gives %d, %v; want %d", model, got, err, want)
	}
}

func (w *twins) refuses(model string, n int) {
	w.t.Helper()
	want := fmt.Sprintf("There are %d identifiers of model '%s' in global map, model namespace must be provided to "+
		"resolve ambiguity.", n, model)
	if _, err := w.run(model); err == nil || err.Error() != want || status.CodeOf(err) != status.InvalidArg {
		w.t.Errorf("%s: %v, want %q", model, err, want)
	}
	if ready, _ := w.ModelReady(model, -1); ready {
		w.t.Errorf("%s is ready, whichever that is", model)
	}
	if _, err := w.ModelConfig(model, -1); err == nil || err.Error() != want {
		w.t.Errorf("configuration of %s: %v", model, err)
	}
}

// both have an ensemble each, over a part of one name.
func both(t *testing.T) func(first, second string) {
	return func(first, second string) {
		put(t, first, "part", oneConfig)
		put(t, first, "plus", pairConfig("part", "OUTPUT0", "OUTPUT1"))
		put(t, second, "inner", oneConfig)
		put(t, second, "part", pairConfig("inner", "OUTPUT1", "OUTPUT0"))
		put(t, second, "minus", pairConfig("part", "OUTPUT0", "OUTPUT1"))
	}
}

func TestNamespaces(t *testing.T) {
	t.Run("A076 names that one model has are served as ever", func(t *testing.T) {
		w := newTwins(t, engine.Options{}, func(first, second string) {
			put(t, first, "one", oneConfig)
			put(t, second, "two", pairConfig("one", "OUTPUT1", "OUTPUT0"))
		})
		w.gives("one", 8)
		w.gives("two", 2)
		if !w.Ready() {
			t.Error("the server is not ready")
		}
		if _, err := w.run("three"); err == nil || err.Error() != "Request for unknown model: 'three' is not found" ||
			status.CodeOf(err) != status.InvalidArg {
			t.Errorf("unknown model: %v", err)
		}
	})
	t.Run("A076 C051 an ensemble runs its own repository's model, a name that two have is refused", func(t *testing.T) {
		w := newTwins(t, engine.Options{}, both(t))
		w.gives("plus", 8)
		w.gives("minus", 2)
		w.refuses("part", 2)
		w.gives(w.first+"/part", 8) // ours: by its key
		w.gives(w.second+"/part", 2)
		for name, want := range map[string]string{"plus": w.first, "minus": w.second} {
			cfg, err := w.ModelConfig(name, -1)
			if err != nil || cfg.GetEnsembleScheduling().GetStep()[0].GetModelNamespace() != want {
				t.Errorf("configuration of %s: %v, %v; want the namespace %s", name, cfg.GetEnsembleScheduling(), err,
					want)
			}
		}
	})
	t.Run("A076 C050 an ensemble with a cache runs its own repository's model", func(t *testing.T) {
		store, err := cache.New(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		const on = "response_cache { enable: true }\n"
		w := newTwins(t, engine.Options{ModelOptions: engine.ModelOptions{Cache: store}}, func(first, second string) {
			both(t)(first, second)
			put(t, first, "plus", pairConfig("part", "OUTPUT0", "OUTPUT1")+on)
			put(t, second, "minus", pairConfig("part", "OUTPUT0", "OUTPUT1")+on)
		})
		for range 2 {
			w.gives("plus", 8)
			w.gives("minus", 2)
		}
	})
	t.Run("A076 the server is ready without an ensemble whose step was unloaded", func(t *testing.T) {
		w := newTwins(t, engine.Options{Mode: engine.ModeExplicit}, func(first, _ string) {
			put(t, first, "part", oneConfig)
			put(t, first, "plus", pairConfig("part", "OUTPUT0", "OUTPUT1"))
		})
		if err := w.LoadModel(t.Context(), "plus", engine.LoadParameters{}); err != nil {
			t.Fatal(err)
		}
		if err := w.UnloadModel(t.Context(), "part", false); err != nil {
			t.Fatal(err)
		}
		if _, err := w.run("plus"); err == nil || !w.Ready() {
			t.Errorf("the ensemble: %v, ready: %v", err, w.Ready())
		}
	})
	t.Run("C051 a step that names a repository runs that one's model", func(t *testing.T) {
		w := newTwins(t, engine.Options{}, func(first, second string) {
			both(t)(first, second)
			put(t, first, "far", strings.Replace(pairConfig("part", "OUTPUT0", "OUTPUT1"), `model_version`,
				fmt.Sprintf(`model_namespace: %q model_version`, second), 1))
		})
		w.gives("far", 2)
	})
	t.Run("C051 a step names a repository by a relative path, as --model-repository", func(t *testing.T) {
		w := newTwins(t, engine.Options{}, func(first, second string) {
			both(t)(first, second)
			t.Chdir(filepath.Dir(second))
			put(t, first, "far", strings.Replace(pairConfig("part", "OUTPUT0", "OUTPUT1"), `model_version`,
				fmt.Sprintf(`model_namespace: %q model_version`, filepath.Base(second)), 1))
		})
		w.gives("far", 2)
	})
	t.Run("C051 without namespaces the field has no effect", func(t *testing.T) {
		root := t.TempDir()
		put(t, root, "one", oneConfig)
		put(t, root, "e", strings.Replace(pairConfig("one", "OUTPUT0", "OUTPUT1"), `model_version`,
			`model_namespace: "elsewhere" model_version`, 1))
		w := &twins{t: t, Engine: start(t, engine.Options{
			ModelOptions: engine.ModelOptions{Repositories: []string{root}},
		})}
		w.gives("e", 8)
		if cfg, _ := w.ModelConfig("e", -1); cfg.GetEnsembleScheduling().GetStep()[0].GetModelNamespace() != "" {
			t.Errorf("configuration %v", cfg.GetEnsembleScheduling())
		}
	})
	t.Run("A076 ensembles of one name each run their own repository's", func(t *testing.T) {
		w := newTwins(t, engine.Options{Mode: engine.ModeExplicit}, func(first, second string) {
			put(t, first, "sum", oneConfig)
			put(t, first, "same", pairConfig("sum", "OUTPUT0", "OUTPUT1"))
			put(t, second, "difference", oneConfig)
			put(t, second, "same", pairConfig("difference", "OUTPUT1", "OUTPUT0"))
		})
		if err := w.LoadModel(t.Context(), "same", engine.LoadParameters{}); err != nil {
			t.Fatal(err)
		}
		w.refuses("same", 2)
		w.gives("sum", 8)
		w.gives("difference", 8)
		w.gives(w.first+"/same", 8)
		w.gives(w.second+"/same", 2)
		if err := w.UnloadModel(t.Context(), "same", true); err != nil { // both, and what they are made of
			t.Fatal(err)
		}
		for _, name := range []string{"same", "sum", "difference", w.first + "/same"} {
			if ready, _ := w.ModelReady(name, -1); ready {
				t.Errorf("%s is ready", name)
			}
		}
	})
	t.Run("A076 a step that two other repositories could run is refused", func(t *testing.T) {
		third := t.TempDir()
		put(t, third, "e", pairConfig("part", "OUTPUT0", "OUTPUT1"))
		first, second := t.TempDir(), t.TempDir()
		both(t)(first, second)
		e := start(t, engine.Options{
			ModelOptions: engine.ModelOptions{Repositories: []string{first, second, third}, Namespaces: true},
		})
		m, _ := e.Model("e")
		if m.Err == nil || !strings.Contains(m.Err.Error(),
			"contains models that are not available or ambiguous: part") {
			t.Errorf("failed with %v", m.Err)
		}
	})
	t.Run("A076 an ensemble that comes with a load request runs its own repository's model", func(t *testing.T) {
		w := newTwins(t, engine.Options{Mode: engine.ModeExplicit}, both(t))
		const config = `{"platform":"ensemble","input":[{"name":"INPUT0","data_type":"TYPE_INT32","dims":[1]},
			{"name":"INPUT1","data_type":"TYPE_INT32","dims":[1]}],
			"output":[{"name":"OUTPUT0","data_type":"TYPE_INT32","dims":[1]}],
			"ensemble_scheduling":{"step":[{"model_name":"part","model_version":-1,
			"input_map":{"INPUT0":"INPUT0","INPUT1":"INPUT1"},"output_map":{"OUTPUT0":"OUTPUT0"}}]}}`
		for name, want := range map[string]int32{"plus": 8, "minus": 2} {
			if err := w.LoadModel(t.Context(), name,
				engine.LoadParameters{ConfigJSON: config, Files: map[string][]byte{"1/x": nil}}); err != nil {
				t.Fatal(err)
			}
			w.gives(name, want)
		}
	})
	t.Run("A076 files of a load request for a name that two have are refused", func(t *testing.T) {
		w := newTwins(t, engine.Options{Mode: engine.ModeExplicit}, both(t))
		err := w.LoadModel(t.Context(), "part",
			engine.LoadParameters{ConfigJSON: `{"backend":"identity"}`, Files: map[string][]byte{"1/x": nil}})
		if err == nil || !strings.Contains(err.Error(), "resolve ambiguity") {
			t.Errorf("got %v", err)
		}
		if err := w.LoadModel(t.Context(), w.first+"/../part", engine.LoadParameters{}); err == nil {
			t.Error("a key that is none passes")
		}
	})
}

func TestEnsembleFollowsModelsOfOtherNamespaces(t *testing.T) {
	for _, mode := range []engine.ControlMode{engine.ModePoll, engine.ModeExplicit} {
		t.Run("I005 A076 C051 a part goes and comes back, mode "+string(mode), func(t *testing.T) {
			w := newTwins(t, engine.Options{Mode: mode}, both(t))
			ask := func(names ...string) {
				t.Helper()
				for _, name := range names {
					if mode != engine.ModeExplicit {
						break
					}
					if err := w.LoadModel(t.Context(), name, engine.LoadParameters{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			ask("plus", "minus")
			w.gives("plus", 8)
			away := t.TempDir() + "/part"
			if err := os.Rename(w.first+"/part", away); err != nil {
				t.Fatal(err)
			}
			if mode == engine.ModeExplicit {
				if err := w.UnloadModel(t.Context(), w.first+"/part", false); err != nil {
					t.Fatal(err)
				}
			}
			ask("plus", "minus")
			w.ch.until(t, "plus to run the other repository's part",
				func() bool { n, _ := w.run("plus"); return n == 2 })
			w.gives("minus", 2)
			if mode == engine.ModePoll {
				w.ch.until(t, "part to mean the other one", func() bool { n, _ := w.run("part"); return n == 2 })
			}
			if err := os.Rename(away, w.first+"/part"); err != nil {
				t.Fatal(err)
			}
			ask("plus")
			w.ch.until(t, "plus to run its own part again", func() bool { n, _ := w.run("plus"); return n == 8 })
			w.gives("minus", 2)
			w.refuses("part", 2)
		})
	}
}

func TestStatusShowsNamespaces(t *testing.T) {
	w := newTwins(t, engine.Options{}, both(t))
	w.gives("plus", 8)
	w.gives("minus", 2)
	t.Run("A076 the index has a row for each of two models of a name", func(t *testing.T) {
		n := 0
		for _, row := range w.RepositoryIndex(false) {
			if row.GetName() == "part" && row.GetState() == string(lifecycle.Ready) {
				n++
			}
			if strings.Contains(row.GetName(), "/") {
				t.Errorf("row %v", row)
			}
		}
		if n != 2 {
			t.Errorf("%d rows of part, want 2", n)
		}
	})
	t.Run("A076 statistics of all models name both", func(t *testing.T) {
		resp, err := w.ModelStatistics("", -1)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range resp.GetModelStats() {
			names = append(names, s.GetName())
			if want := uint64(1); s.GetInferenceCount() != want && s.GetName() != "inner" {
				t.Errorf("%s has %d inferences, want %d", s.GetName(), s.GetInferenceCount(), want)
			}
		}
		slices.Sort(names)
		if want := []string{"inner", "minus", "part", "part", "plus"}; !slices.Equal(names, want) {
			t.Errorf("models %v, want %v", names, want)
		}
		if _, err := w.ModelStatistics("part", -1); err == nil || !strings.Contains(err.Error(), "is not available") {
			t.Errorf("statistics of part: %v", err)
		}
		if resp, err := w.ModelStatistics("plus", -1); err != nil || len(resp.GetModelStats()) != 1 {
			t.Errorf("statistics of plus: %v, %v", resp, err)
		}
	})
	t.Run("A076 metrics have the namespace as a label", func(t *testing.T) {
		x, err := metrics.New(metrics.Options{Source: w})
		if err != nil {
			t.Fatal(err)
		}
		text := string(x.Append(nil))
		for _, root := range []string{w.first, w.second} {
			if want := fmt.Sprintf(`nv_inference_request_success{model="part",namespace="%s",version="1"} 1`,
				root); !strings.Contains(text, want) {
				t.Errorf("%s is not in\n%s", want, text)
			}
		}
	})
	t.Run("A076 metadata has the plain name", func(t *testing.T) {
		meta, err := w.ModelMetadata(w.first+"/part", -1)
		if err != nil || meta.GetName() != "part" || !slices.Equal(meta.GetVersions(), []string{"1"}) {
			t.Errorf("metadata %v, %v", meta, err)
		}
	})
}
