package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/lifecycle"
	"nereid/engine/residency"
	"nereid/engine/tensor"
)

// numbered is a backend whose models answer with the number of their load, from 1 on. A model "first" says in started
// that it executes, and answers when it may go on.
type numbered struct {
	loads   *atomic.Int32
	started chan struct{}
	goOn    chan struct{}
	quit    chan struct{}
	limit   *time.Duration // of backend.Leaver
}

type numberedModel struct {
	numbered
	name   string
	number int32
}

func (numbered) Name() string                { return "numbered" }
func (numbered) Traits() backend.Traits      { return backend.Traits{} }
func (numbered) Close() error                { return nil }
func (m numberedModel) Leave() time.Duration { return *m.limit }
func (numberedModel) MemoryBytes() int64 {
	return 100
}

func (n numbered) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	return numberedModel{n, s.ModelName, n.loads.Add(1)}, nil
}

func (m numberedModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return m, nil
}

func (m numberedModel) Execute(_ context.Context, b *infer.Batch) error {
	for _, r := range b.Requests {
		if m.name == "first" {
			m.started <- struct{}{}
			select {
			case <-m.goOn:
			case <-m.quit: // the test has failed
			}
		}
		resp := r.NewResponse()
		resp.AddOutput("OUT", tensor.Int32, []int64{1}, words(m.number), nil)
		resp.Final = true
		if err := r.Respond(resp); err != nil {
			return err
		}
	}
	return nil
}

const numberedConfig = `backend: "numbered"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
`

// numberedWith is the configuration of a load request for a numbered model with a reload policy.
func numberedWith(policy string) string {
	return `{"backend":"numbered","input":[{"name":"IN","data_type":"TYPE_INT32","dims":[1]}],` +
		`"output":[{"name":"OUT","data_type":"TYPE_INT32","dims":[1]}],` +
		`"parameters":{"reload_policy":{"string_value":"` + policy + `"}}}`
}

// pipeline is an ensemble that runs one model after the other.
func pipeline(models ...string) string {
	cfg := `platform: "ensemble"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
ensemble_scheduling {
`
	from := "IN"
	for i, m := range models {
		to := fmt.Sprintf("T%d", i)
		if i == len(models)-1 {
			to = "OUT"
		}
		cfg += fmt.Sprintf("step { model_name: %q model_version: -1 input_map { key: \"IN\" value: %q } "+
			"output_map { key: \"OUT\" value: %q } }\n", m, from, to)
		from = to
	}
	return cfg + "}\n"
}

// held is an engine with the ensembles "ens", of the models first and last, and "outer", of first and of "inner", which
// is an ensemble of last.
type held struct {
	*engine.Engine
	numbered
	t    *testing.T
	ch   *changes
	root string
}

func newHeld(t *testing.T, o engine.Options) *held {
	h := &held{t: t, ch: newChanges(), root: t.TempDir(),
		numbered: numbered{new(atomic.Int32), make(chan struct{}), make(chan struct{}), make(chan struct{}),
			new(time.Duration)}}
	for name, cfg := range map[string]string{
		"first": numberedConfig, "last": numberedConfig, "other": numberedConfig, "ens": pipeline("first", "last"),
		"inner": pipeline("last"), "outer": pipeline("first", "inner"),
	} {
		put(t, h.root, name, cfg)
	}
	o.Repositories, o.Backends, o.Mode = []string{h.root}, append(builtin.All(), h.numbered), engine.ModeExplicit
	o.Events.Changed = h.ch.note
	h.Engine = start(t, o)
	t.Cleanup(func() { close(h.quit) })
	return h
}

func (h *held) load(name, config string) {
	h.t.Helper()
	if err := h.LoadModel(h.t.Context(), name, engine.LoadParameters{ConfigJSON: config}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *held) unload(name string, dependents bool) {
	h.t.Helper()
	if err := h.UnloadModel(h.t.Context(), name, dependents); err != nil {
		h.t.Fatal(err)
	}
}

// begin sends a request and returns when its first step executes.
func (h *held) begin(model string) *infer.Request {
	h.t.Helper()
	return h.start(h.request(model))
}

func (h *held) request(model string) *infer.Request {
	r := infer.New()
	h.t.Cleanup(r.Release)
	r.ModelName = model
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.Int32, Shape: []int64{1}, Data: words(0)})
	return r
}

func (h *held) start(r *infer.Request) *infer.Request {
	h.t.Helper()
	if err := h.Infer(h.t.Context(), r); err != nil {
		h.t.Fatal(err)
	}
	<-h.started
	return r
}

// gives lets the first step of a request go on, and returns what the request gets.
func (h *held) gives(r *infer.Request) int32 {
	h.t.Helper()
	h.goOn <- struct{}{}
	return h.answer(r)
}

func (h *held) answer(r *infer.Request) int32 {
	h.t.Helper()
	resp, err := r.Next(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Release()
	if resp.Err != nil {
		h.t.Fatal(resp.Err)
	}
	return numbers(resp.Output("OUT").Data)[0]
}

func (h *held) state(name string) lifecycle.State {
	m, _ := h.Model(name)
	for _, v := range m.Versions {
		return v.State
	}
	return ""
}

// number returns the load that a model in service has.
func (h *held) number(name string) int32 {
	h.t.Helper()
	outs, err := all(h.t, h.Engine, h.request(name))
	if err != nil {
		h.t.Fatal(err)
	}
	return outs[0]["OUT"][0]
}

func (h *held) gone(names ...string) {
	h.t.Helper()
	for _, name := range names {
		h.ch.until(h.t, name+" is unloaded", func() bool { return h.state(name) == lifecycle.Unavailable })
	}
}

func TestEnsembleRequestHoldsTheModelsOfItsSteps_A068(t *testing.T) {
	for _, ensemble := range []string{"ens", "outer"} {
		for _, namespaces := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, namespaces %v", ensemble, namespaces), func(t *testing.T) {
				testHeldSteps(t, ensemble, engine.ModelOptions{Namespaces: namespaces})
			})
		}
	}
}

func testHeldSteps(t *testing.T, ensemble string, o engine.ModelOptions) {
	h := newHeld(t, engine.Options{ModelOptions: o})
	h.load(ensemble, "")
	t.Run("A068 the model of a later step is unloaded", func(t *testing.T) {
		h.t = t
		want := h.number("last")
		r := h.begin(ensemble)
		h.unload("last", false)
		if got := h.state("last"); got != lifecycle.Unloading {
			t.Errorf("the model is %s while a request needs it, want UNLOADING", got)
		}
		if got := h.gives(r); got != want {
			t.Errorf("load %d answers, want %d", got, want)
		}
		h.gone("last")
	})
	t.Run("A068 the model of a later step is loaded again", func(t *testing.T) {
		h.t = t
		h.load(ensemble, "")
		want := h.number("last")
		r := h.begin(ensemble)
		h.load("last", numberedWith("availability_first"))
		now := h.number("last")
		if now == want {
			t.Fatal("the load had no effect")
		}
		if ensemble == "outer" {
			want = now // the ensemble inside it begins its request after the load
		}
		if got := h.gives(r); got != want {
			t.Errorf("load %d answers, want %d; new requests get %d", got, want, now)
		}
		if got := h.gives(h.begin(ensemble)); got != now {
			t.Errorf("load %d answers a new request, want %d", got, now)
		}
	})
	t.Run("A068 the ensemble is unloaded with the models of its steps", func(t *testing.T) {
		h.t = t
		h.load(ensemble, "")
		h.unload("last", false)
		h.unload(ensemble, true)
		h.gone("first", "last", ensemble)
		h.load(ensemble, "")
		want := h.number("last")
		r := h.begin(ensemble)
		h.unload(ensemble, true)
		if got := h.gives(r); got != want {
			t.Errorf("load %d answers, want %d", got, want)
		}
		h.gone("first", "last", ensemble)
	})
	t.Run("A068 a cancelled request holds nothing", func(t *testing.T) {
		h.t = t
		h.load(ensemble, "")
		r := h.begin(ensemble)
		h.unload(ensemble, true)
		r.Cancel()
		h.goOn <- struct{}{}
		h.gone("first", "last", ensemble)
	})
}

// A sequence stays with the version that it began in, also for a request that came after the reload of the model.
func TestSequencesOfEnsemblesStayWithTheirVersion_A068(t *testing.T) {
	h := newHeld(t, engine.Options{})
	sequenced := numberedConfig + "sequence_batching { }\n"
	put(t, h.root, "last", sequenced)
	h.load("ens", "")
	send := func(flags infer.Flags) *infer.Request {
		r := h.request("ens")
		r.Correlation, r.Flags = infer.CorrelationID{Number: 7}, flags
		return h.start(r)
	}
	old := h.gives(send(infer.SequenceStart))
	early, loads := send(0), h.loads.Load()
	put(t, h.root, "last", sequenced+"parameters { key: \"a\" value { string_value: \"b\" } }\n")
	h.load("last", "")
	go func() { h.goOn <- struct{}{} }()
	late := send(0)
	if h.loads.Load() == loads {
		t.Fatal("the load had no effect")
	}
	if got := h.answer(early); got != old {
		t.Errorf("load %d answers a request from before the reload, want %d", got, old)
	}
	if got := h.gives(late); got != old {
		t.Errorf("load %d answers a request from after the reload, want %d", got, old)
	}
}

// The models of steps take 100 bytes each. A model that must leave memory does, whatever holds it.
func TestHeldModelLeavesForMemory_A068(t *testing.T) {
	h := newHeld(t, engine.Options{ModelOptions: engine.ModelOptions{Residency: residency.Budget{Host: 250}}})
	h.load("ens", "")
	r := h.begin("ens")
	before := h.number("last")
	h.load("other", "") // for which last is evicted
	if got := h.gives(r); got <= before {
		t.Errorf("load %d answers, want one after %d", got, before)
	}
	h.load("ens", "")
	r = h.begin("ens")
	if err := h.Evict("last"); err != nil {
		t.Fatal(err)
	}
	h.ch.until(t, "last is closed", func() bool { return h.Residency().Used.Host == 100 })
	if got := h.gives(r); got <= before {
		t.Errorf("load %d answers, want one after %d", got, before)
	}
	r = h.begin("ens")
	h.unload("last", false)
	h.load("other", numberedWith("availability_first"))
	h.gone("last")
	r.Cancel()
	h.goOn <- struct{}{}
}

// A reload with resources_first waits until what the model had before is closed, and not for requests that hold that.
func TestReloadThatReleasesMemoryDoesNotWaitForHolds_A063_A068(t *testing.T) {
	h := newHeld(t, engine.Options{})
	h.load("ens", "")
	r := h.begin("ens")
	h.load("last", numberedWith("availability_first"))
	h.load("last", numberedWith("resources_first"))
	if got, now := h.gives(r), h.number("last"); got != now {
		t.Errorf("load %d answers, want %d", got, now)
	}
}

func TestEnsembleRequestFinishesInAShutdown_A068(t *testing.T) {
	h := newHeld(t, engine.Options{})
	h.load("outer", "")
	want := h.number("last")
	r := h.begin("outer")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		h.Engine.Close(context.Background())
	}()
	h.ch.until(t, "last leaves service", func() bool { return h.state("last") == lifecycle.Unloading })
	if got := h.gives(r); got != want {
		t.Errorf("load %d answers, want %d", got, want)
	}
	<-closed
}

// The limit of a backend for a model that has left service is also that of holds.
func TestHoldsEndWithTheLimitOfTheUnload_A068(t *testing.T) {
	h := newHeld(t, engine.Options{})
	h.load("ens", "")
	r := h.begin("ens")
	*h.limit = 1
	h.unload("last", false)
	h.gone("last")
	h.load("last", "")
	if got, now := h.gives(r), h.number("last"); got != now {
		t.Errorf("load %d answers, want %d", got, now)
	}
}
