package onnxruntime_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// TestOptimizedGraph checks that the first load stores a graph, that the next uses it, and that results stay the same.
func TestOptimizedGraph(t *testing.T) {
	library := open(t).LibraryPath()
	cache := t.TempDir()
	var settings onnxruntime.Settings
	if err := settings.Set("optimized-model-cache", "true"); err != nil {
		t.Fatal(err)
	}
	b := onnxruntime.New(onnxruntime.Options{Library: library, CacheFolder: cache, Settings: settings})
	graphs := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(cache, "optimized", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	x := make([]float32, 784)
	for i := range x {
		x[i] = float32(i%11) / 11
	}
	in := floats("input", []int64{1, 784}, x...)
	run := func(change func(s *backend.Spec)) []float32 {
		t.Helper()
		s := mlpSpec()
		s.Config.Parameters = map[string]*inferencepb.ModelParameter{}
		if change != nil {
			change(&s)
		}
		resp := ask(t, b, s, 1, in)
		if resp.Err != nil {
			t.Fatal(resp.Err)
		}
		return numbers(resp.Output("output"))
	}
	off := func(s *backend.Spec) {
		s.Config.Parameters["optimized_model_cache"] = &inferencepb.ModelParameter{StringValue: "false"}
	}
	want := run(off)
	if found := graphs(); len(found) != 0 {
		t.Fatalf("a model that does not want it left %q", found)
	}
	compare(t, run(nil), want, 1e-6)
	found := graphs()
	if len(found) != 1 {
		t.Fatalf("the first load left %q, want one graph", found)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(found[0], long, long); err != nil {
		t.Fatal(err)
	}
	compare(t, run(nil), want, 1e-6)
	if info, err := os.Stat(found[0]); err != nil || time.Since(info.ModTime()) > time.Minute {
		t.Errorf("the second load did not use the graph: %v", err)
	}
	if err := os.WriteFile(found[0], []byte("\x08\x0a\x3a\x04junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	compare(t, run(nil), want, 1e-6)
	if info, err := os.Stat(found[0]); err != nil || info.Size() < 1<<20 {
		t.Errorf("a damaged graph was not made again: %v", err)
	}
	run(func(s *backend.Spec) {
		s.Config.Optimization =
			&inferencepb.ModelOptimizationPolicy{Graph: &inferencepb.ModelOptimizationPolicy_Graph{Level: -1}}
	})
	if found := graphs(); len(found) != 2 {
		t.Errorf("another level left %q, want a separate graph", found)
	}
	old := filepath.Join(cache, "optimized", "old.onnx")
	part := filepath.Join(cache, "optimized", "x.part")
	for _, f := range []string{old, part} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(-31 * 24 * time.Hour)
		if err := os.Chtimes(f, past, past); err != nil {
			t.Fatal(err)
		}
	}
	run(func(s *backend.Spec) {
		s.Config.Optimization =
			&inferencepb.ModelOptimizationPolicy{Graph: &inferencepb.ModelOptimizationPolicy_Graph{Level: 1}}
	})
	if found := graphs(); len(found) != 3 {
		t.Errorf("after a further load there are %q, want three graphs and nothing old", found)
	}
	s := mlpSpec()
	s.Config.Parameters = map[string]*inferencepb.ModelParameter{"optimized_model_cache": {StringValue: "often"}}
	if _, err := b.Load(t.Context(), s); status.CodeOf(err) != status.InvalidArg {
		t.Errorf("Load with optimized_model_cache often = %v, want Invalid argument", err)
	}
}

// TestOptimizedGraphIsNotStored checks the models whose optimized graph cannot replace them.
func TestOptimizedGraphIsNotStored(t *testing.T) {
	library := open(t).LibraryPath()
	cache := t.TempDir()
	b := onnxruntime.New(onnxruntime.Options{Library: library, CacheFolder: cache,
		Settings: onnxruntime.Settings{OptimizedModelCache: true}})
	s := mlpSpec()
	s.Config.Optimization =
		&inferencepb.ModelOptimizationPolicy{Graph: &inferencepb.ModelOptimizationPolicy_Graph{Level: 2}}
	m, err := b.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(cache, "optimized")); err == nil {
		t.Error("a model that is not optimized left a graph")
	}
	if err := os.WriteFile(filepath.Join(cache, "optimized"), nil, 0o600); err != nil { // a file in the folder's place
		t.Fatal(err)
	}
	if resp := ask(t, b, mlpSpec(), 1, floats("input", []int64{1, 784}, make([]float32, 784)...)); resp.Err != nil {
		t.Errorf("a cache that cannot be written costs the model: %v", resp.Err)
	}
}
