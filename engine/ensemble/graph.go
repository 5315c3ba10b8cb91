package ensemble

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/stats"
	"nereid/engine/status"
)

// Host runs the requests of the steps.
type Host interface {
	// Infer admits r; see engine.Engine.Infer.
	Infer(ctx context.Context, r *infer.Request) error
}

// Lookup returns the configuration of a served version of the model with this key (repo.Key). Version
// infer.LatestVersion is the latest.
type Lookup func(model string, version int64) (*inferencepb.ModelConfig, error)

// Holder holds a served version of the model with this key. It returns nil if that is not in memory.
type Holder func(model string, version int64) infer.Held

// Options configure a Graph.
type Options struct {
	// Config is the ensemble's configuration, normalised, and validated without the models of its steps.
	Config *inferencepb.ModelConfig
	Host   Host
	Models Lookup
	// Hold keeps the models of the steps open for a request. nil: each step takes what is in service then.
	Hold Holder
	// Stats counts the ensemble's own requests.
	Stats *stats.Version
}

// Graph is the ensemble that Options describe. It does not change, except for what Refit updates. Its methods are safe
// for concurrent use.
type Graph struct {
	cfg      *inferencepb.ModelConfig
	name     string
	host     Host
	holder   Holder
	stats    *stats.Version
	batching bool
	steps    []step
	models   []stepModel // of the steps, each once
	tensors  []string    // by tensor number
	inputs   map[string]int
	outputs  []int // the ensemble's outputs, in the configuration's order

	fits atomic.Pointer[[]fit] // by step

	mu      sync.Mutex
	running int // guarded by mu, as is all below: how many requests are not finished
	closed  bool
	idle    chan struct{} // closed when closed is true and running is 0
	// sequences are the requests of sequences that are not finished, in the order in which they came.
	sequences map[infer.CorrelationID][]*place
}

// step is a request to a model.
type step struct {
	model   string
	version int64
	held    int    // index in Graph.models
	in, out []link // by port
	limit   *limit // nil: no limit
}

// stepModel is a model as a step names it.
type stepModel struct {
	name    string
	version int64
}

// limit limits how many requests of a step are in flight at once, over all requests of the ensemble.
type limit struct {
	tokens chan struct{} // one token for each request in flight

	mu       sync.Mutex
	inFlight map[*infer.Request]struct{} // guarded by mu
}

// link maps an input or output of a step's model to a tensor of the ensemble.
type link struct {
	port   string
	tensor int
}

// New builds the graph and checks that the models of its steps fit together. Errors: InvalidArg, with Triton's texts
// where it has them, and those of o.Models.
func New(o Options) (*Graph, error) {
	cfg := o.Config
	g := &Graph{
		cfg: cfg, name: cfg.GetName(), idle: make(chan struct{}), host: o.Host, holder: o.Hold, stats: o.Stats,
		inputs: map[string]int{}, batching: cfg.GetMaxBatchSize() > 0, sequences: map[infer.CorrelationID][]*place{},
	}
	numbers := map[string]int{}
	number := func(name string) int {
		n, ok := numbers[name]
		if !ok {
			n = len(g.tensors)
			numbers[name] = n
			g.tensors = append(g.tensors, name)
		}
		return n
	}
	for _, in := range cfg.GetInput() {
		g.inputs[in.GetName()] = number(in.GetName())
	}
	maxInFlight := cfg.GetEnsembleScheduling().GetMaxInflightRequests()
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		st := step{model: StepKey(s), version: stepVersion(s)}
		m := stepModel{st.model, st.version}
		if st.held = slices.Index(g.models, m); st.held < 0 {
			st.held = len(g.models)
			g.models = append(g.models, m)
		}
		for _, port := range slices.Sorted(maps.Keys(s.GetInputMap())) {
			st.in = append(st.in, link{port, number(s.GetInputMap()[port])})
		}
		for _, port := range slices.Sorted(maps.Keys(s.GetOutputMap())) {
			st.out = append(st.out, link{port, number(s.GetOutputMap()[port])})
		}
		if maxInFlight > 0 {
			st.limit = &limit{tokens: make(chan struct{}, maxInFlight), inFlight: map[*infer.Request]struct{}{}}
		}
		g.steps = append(g.steps, st)
	}
	for _, out := range cfg.GetOutput() {
		g.outputs = append(g.outputs, number(out.GetName()))
	}
	if err := g.Refit(o.Models); err != nil {
		return nil, err
	}
	return g, nil
}

// Refit checks the graph against the current models of its steps. It does not affect running requests. On an error
// (InvalidArg) the graph stays as it was.
func (g *Graph) Refit(models Lookup) error {
	fits, err := g.check(g.cfg, models)
	if err != nil {
		return err
	}
	g.fits.Store(&fits)
	return nil
}

// needed returns for each step whether the requested outputs depend on it; nil if they depend on all.
func (g *Graph) needed(r *infer.Request) []bool {
	if len(r.Outputs) == 0 {
		return nil
	}
	want := make([]bool, len(g.tensors))
	all := true
	for _, n := range g.outputs {
		want[n] = r.Wants(g.tensors[n])
		all = all && want[n]
	}
	if all {
		return nil
	}
	need := make([]bool, len(g.steps))
	for range g.steps {
		for i := range g.steps {
			if need[i] || !slices.ContainsFunc(g.steps[i].out, func(l link) bool { return want[l.tensor] }) {
				continue
			}
			need[i] = true
			for _, l := range g.steps[i].in {
				want[l.tensor] = true
			}
		}
	}
	return need
}

// Source returns which output of which step's model an output of the ensemble comes from.
func (g *Graph) Source(output string) (model string, version int64, port string, ok bool) {
	for i := range g.steps {
		s := &g.steps[i]
		for _, l := range s.out {
			if g.tensors[l.tensor] == output {
				return s.model, s.version, l.port, true
			}
		}
	}
	return "", 0, "", false
}

func (g *Graph) errorf(code status.Code, format string, args ...any) error {
	return status.Errorf(code, "in ensemble '"+g.name+"', "+format, args...)
}
