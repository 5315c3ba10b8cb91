package engine_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/stats"
	"nereid/engine/tensor"
)

// What stays in service after a reload that failed keeps its labels and its summaries.
func TestAFailedReloadDoesNotChangeTheMetrics_A044_E012_E015(t *testing.T) {
	const before = `backend: "adder" metric_tags { key: "a" value: "1" } response_cache { enable: true }` + adderPorts
	root := t.TempDir()
	write(t, root+"/m/config.pbtxt", before)
	write(t, root+"/m/1/value", "10")
	store, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: []backend.Backend{adder{}},
			Cache: store},
		Latencies: stats.Detail{Summaries: true}, Mode: engine.ModeExplicit, StartupModels: []string{"*"},
	})
	oneWord(t, e, "m")
	for _, tt := range []struct{ name, config, value string }{
		{"another label and no cache", `backend: "adder" metric_tags { key: "b" value: "2" }` + adderPorts,
			"no number"},
		{"an ensemble that sends nothing to its step", over("absent", ""), "10"},
	} {
		write(t, root+"/m/config.pbtxt", tt.config)
		write(t, root+"/m/1/value", tt.value)
		if err := e.LoadModel(t.Context(), "m", engine.LoadParameters{}); err == nil {
			t.Fatalf("%s: the reload succeeds", tt.name)
		}
		s := snapshot(e, "m")
		var d stats.Distributions
		e.Distributions("m", 1, []float64{0.5}, &d)
		if !slices.Equal(s.Tags, []string{"_a", "1"}) || !s.Cached || d.HasSummary[stats.Request] ||
			d.Summaries[stats.CacheMiss].Count != 1 {
			t.Errorf("%s: labels %q, cached %v, %d misses in the summary; want those of before", tt.name, s.Tags,
				s.Cached, d.Summaries[stats.CacheMiss].Count)
		}
	}
}

// oneWord sends one request, which must be answered.
func oneWord(t *testing.T, e *engine.Engine, model string) {
	t.Helper()
	r := wordTo(model)
	defer r.Release()
	if _, err := all(t, e, r); err != nil {
		t.Fatal(err)
	}
}

func wordTo(model string) *infer.Request {
	r := infer.New()
	r.ModelName = model
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Int32, Shape: []int64{1}, Data: words(1)})
	return r
}

// The requests of an ensemble do not wait, those of a model with the same name that replaces it do.
func TestPendingRequestsOfAModelThatWasAnEnsemble_E010(t *testing.T) {
	b := numbered{new(atomic.Int32), make(chan struct{}), make(chan struct{}), make(chan struct{}), new(time.Duration)}
	t.Cleanup(func() { close(b.quit) })
	root := t.TempDir()
	write(t, root+"/last/config.pbtxt", numberedConfig)
	write(t, root+"/last/1/x", "")
	write(t, root+"/first/config.pbtxt", pipeline("last"))
	write(t, root+"/first/1/x", "")
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: []backend.Backend{b}},
		Mode:         engine.ModeExplicit, StartupModels: []string{"*"},
	})
	oneWord(t, e, "first")
	write(t, root+"/first/config.pbtxt", numberedConfig)
	if err := e.LoadModel(t.Context(), "first", engine.LoadParameters{}); err != nil {
		t.Fatal(err)
	}
	running, waiting := wordTo("first"), wordTo("first")
	defer running.Release()
	defer waiting.Release()
	if err := e.Infer(t.Context(), running); err != nil {
		t.Fatal(err)
	}
	<-b.started
	if err := e.Infer(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	if got := snapshot(e, "first").Pending; got != 1 {
		t.Errorf("%d requests are pending, want 1", got)
	}
	b.goOn <- struct{}{}
	<-b.started
	b.goOn <- struct{}{}
	for _, r := range []*infer.Request{running, waiting} {
		if resp, err := r.Next(t.Context()); err != nil || resp.Err != nil {
			t.Error(err, resp)
		}
	}
}
