package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/lifecycle"
	"nereid/engine/tensor"
)

// adder is a backend whose models add the number in the file "value" of their version.
type adder struct{}

type adderModel struct{ value int32 }

func (adder) Name() string           { return "adder" }
func (adder) Traits() backend.Traits { return backend.Traits{} }

func (adder) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	text, err := os.ReadFile(filepath.Join(s.VersionFolder, "value"))
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(string(text))
	return adderModel{int32(n)}, err
}

func (m adderModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return m, nil
}
func (adderModel) Traits() backend.Traits { return backend.Traits{} }
func (adderModel) Close() error           { return nil }

func (m adderModel) Execute(_ context.Context, b *infer.Batch) error {
	for _, r := range b.Requests {
		resp := r.NewResponse()
		resp.AddOutput("OUT", tensor.Int32, []int64{1}, words(numbers(r.Inputs[0].Data)[0]+m.value), nil)
		resp.Final = true
		if err := r.Respond(resp); err != nil {
			return err
		}
	}
	return nil
}

const adderPorts = `
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
`

// over is an ensemble of one step.
func over(part, more string) string {
	return `platform: "ensemble" ` + more + adderPorts + `ensemble_scheduling { step { model_name: "` + part +
		`" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }`
}

// The responses of an ensemble are cached if its configuration asks for that. A hit runs no step, whether or not the
// models of the steps have a cache. A reload of a step's model drops the cached responses of all ensembles above it
// before the load returns.
func TestEnsembleResponseCache_C050_I013(t *testing.T) {
	const on = `response_cache { enable: true }`
	root := t.TempDir()
	for name, cfg := range map[string]string{
		"part": `backend: "adder"` + adderPorts, "ens": over("part", on), "outer": over("ens", on),
		"alone": over("other", on), "other": `backend: "adder"` + adderPorts,
		"plain":       over("part", ""),
		"stream":      `backend: "adder" model_transaction_policy { decoupled: true }` + adderPorts,
		"over_stream": over("stream", on+` model_transaction_policy { decoupled: false }`),
		"says_stream": over("part", on+` model_transaction_policy { decoupled: true }`),
		"sequence":    `backend: "adder" sequence_batching { }` + adderPorts, "over_sequence": over("sequence", on),
		"over_over": over("mid_sequence", on), "mid_sequence": over("sequence", ""),
	} {
		write(t, root+"/"+name+"/config.pbtxt", cfg)
		write(t, root+"/"+name+"/1/value", "10")
	}
	store, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: []backend.Backend{adder{}},
			Cache: store},
		Mode: engine.ModeExplicit, StartupModels: []string{"*"},
	})
	ask := func(model string, n int32) int32 {
		t.Helper()
		r := infer.New()
		defer r.Release()
		r.ModelName = model
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Int32, Shape: []int64{1},
			Data: words(n)})
		outs, err := all(t, e, r)
		if err != nil || len(outs) != 1 {
			t.Fatalf("%s: %v, %v; start %v", model, outs, err, e.StartFailures())
		}
		return outs[0]["OUT"][0]
	}
	runs := func(model string) uint64 {
		s, err := e.ModelStatistics(model, -1)
		if err != nil {
			t.Fatal(err)
		}
		return s.GetModelStats()[0].GetInferenceStats().GetSuccess().GetCount()
	}
	set := func(n int) {
		t.Helper()
		write(t, root+"/part/1/value", fmt.Sprint(n))
		if err := e.LoadModel(t.Context(), "part", engine.LoadParameters{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("C050 refused if the responses of a step cannot be cached", func(t *testing.T) {
		failed := errors.Join(e.StartFailures()...)
		for _, want := range []string{
			"Response Cache does not currently support model over_stream with 'decoupled' transaction policy",
			"Response Cache does not currently support model says_stream with 'decoupled' transaction policy",
			"the response cache cannot serve ensemble 'over_sequence': model 'sequence' has sequence_batching",
			"the response cache cannot serve ensemble 'over_over': model 'sequence' has sequence_batching",
		} {
			if failed == nil || !strings.Contains(failed.Error(), want) {
				t.Errorf("failures at start: %v; want %q", failed, want)
			}
		}
	})
	t.Run("C050 a hit runs no step", func(t *testing.T) {
		for range 3 {
			if got := ask("ens", 1); got != 11 {
				t.Errorf("%d, want 11", got)
			}
			if got := ask("outer", 2); got != 12 {
				t.Errorf("%d, want 12", got)
			}
			if got := ask("plain", 1); got != 11 {
				t.Errorf("%d, want 11", got)
			}
		}
		if got := runs("part"); got != 1+1+3 {
			t.Errorf("the step's model ran %d times, want once for each ensemble that keeps its answers and 3 times "+
				"for the other", got)
		}
		s, err := e.ModelStatistics("ens", -1)
		if err != nil {
			t.Fatal(err)
		}
		if st := s.GetModelStats()[0].GetInferenceStats(); st.GetCacheHit().GetCount() != 2 ||
			st.GetCacheMiss().GetCount() != 2 || st.GetSuccess().GetCount() != 4 {
			t.Errorf("%d hits, %d misses, %d successes; want 2, 2 (one for outer) and 4", st.GetCacheHit().GetCount(),
				st.GetCacheMiss().GetCount(), st.GetSuccess().GetCount())
		}
	})
	t.Run("C050 a load that changes nothing", func(t *testing.T) {
		before := runs("part")
		for _, model := range []string{"outer", "ens", "part"} {
			if err := e.LoadModel(t.Context(), model, engine.LoadParameters{}); err != nil {
				t.Fatal(err)
			}
			ask("ens", 1)
			ask("outer", 2)
			if got := runs("part"); got != before {
				t.Errorf("after a load of %s, which changes nothing, the cached responses are gone", model)
			}
		}
	})
	t.Run("C050 a step's model that is loaded again", func(t *testing.T) {
		set(20)
		for _, model := range []string{"outer", "ens", "plain"} {
			for n := range int32(3) {
				if got := ask(model, n); got != n+20 {
					t.Errorf("%s: %d to %d, want %d", model, got, n, n+20)
				}
			}
		}
	})
	t.Run("C050 under load no response is older than the last load", func(t *testing.T) {
		var least atomic.Int32
		least.Store(20)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for c := range 6 {
			wg.Go(func() {
				model := []string{"ens", "outer"}[c%2]
				for {
					select {
					case <-stop:
						return
					default:
					}
					want := least.Load()
					if got := ask(model, 0); got < want {
						t.Errorf("%s: %d after %d was loaded", model, got, want)
						return
					}
				}
			})
		}
		for n := 21; n < 41; n++ {
			set(n)
			least.Store(int32(n))
		}
		close(stop)
		wg.Wait()
	})
	t.Run("C050 a step's model that becomes decoupled", func(t *testing.T) {
		ensembles := []string{"ens", "outer", "alone"}
		change := func(more string, n int) {
			t.Helper()
			for _, model := range []string{"part", "other"} {
				write(t, root+"/"+model+"/config.pbtxt", `backend: "adder"`+adderPorts+more)
				write(t, root+"/"+model+"/1/value", fmt.Sprint(n))
				if err := e.LoadModel(t.Context(), model, engine.LoadParameters{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, model := range ensembles {
			ask(model, 1)
		}
		change(`model_transaction_policy { decoupled: true }`, 50)
		for _, model := range ensembles {
			m, _ := e.Model(model)
			if v := m.Versions[0]; v.State == lifecycle.Ready ||
				!strings.Contains(v.Reason, "decoupled") {
				t.Errorf("%s serves responses of the model before: %v, %q", model, v.State, v.Reason)
			}
		}
		change("", 60)
		for _, model := range ensembles {
			if got := ask(model, 1); got != 61 {
				t.Errorf("%s: %d after the model was as before, want 61", model, got)
			}
		}
	})
}
