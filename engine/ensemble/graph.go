package ensemble

import (
	"cmp"
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

// Lookup returns the configuration of a model version that is in service by the model's key (repo.Key); version -1 is
// the latest.
type Lookup func(model string, version int64) (*inferencepb.ModelConfig, error)

// Options say what a Graph runs.
type Options struct {
	// Config is the ensemble's, normalised and valid by itself.
	Config *inferencepb.ModelConfig
	Host   Host
	Models Lookup
	// Stats counts the ensemble's own requests.
	Stats *stats.Version
}

// Graph is an ensemble's steps, ready to run. Only what the models of the steps say of themselves changes: see Refit.
type Graph struct {
	cfg       *inferencepb.ModelConfig
	name      string
	host      Host
	stats     *stats.Version
	decoupled bool
	batching  bool
	steps     []step
	tensors   []string // by tensor number
	inputs    map[string]int
	outputs   []int // the ensemble's outputs, in the configuration's order

	// flows says which steps' models are decoupled.
	flows atomic.Pointer[[]bool]

	mu      sync.Mutex
	running int // guarded by mu, as are the next two: requests that are not finished
	closed  bool
	quiet   chan struct{} // closed when closed and running is 0
}

// step is a request to a model.
type step struct {
	model   string
	version int64
	in, out []link  // by port
	places  *places // nil: no bound
}

// places bounds how many requests of a step are under way at once, over all requests of the ensemble.
type places struct {
	free chan struct{} // as many as there are, when all are taken

	mu    sync.Mutex
	taken map[*infer.Request]struct{} // guarded by mu: who has them
}

// link ties an input or output of a step's model to a tensor of the ensemble.
type link struct {
	port   string
	tensor int
}

// New builds the graph and checks that the models fit together. Errors: InvalidArg, with Triton's words where it has
// them; those of Models.
func New(o Options) (*Graph, error) {
	cfg := o.Config
	g := &Graph{
		cfg: cfg, name: cfg.GetName(), quiet: make(chan struct{}), host: o.Host, stats: o.Stats,
		inputs:    map[string]int{},
		decoupled: cfg.GetModelTransactionPolicy().GetDecoupled(), batching: cfg.GetMaxBatchSize() > 0,
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
	limit := cfg.GetEnsembleScheduling().GetMaxInflightRequests()
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		// A version of 0 is one that was not given.
		st := step{model: Part(s), version: cmp.Or(s.GetModelVersion(), infer.LatestVersion)}
		for _, port := range slices.Sorted(maps.Keys(s.GetInputMap())) {
			st.in = append(st.in, link{port, number(s.GetInputMap()[port])})
		}
		for _, port := range slices.Sorted(maps.Keys(s.GetOutputMap())) {
			st.out = append(st.out, link{port, number(s.GetOutputMap()[port])})
		}
		if limit > 0 {
			st.places = &places{free: make(chan struct{}, limit), taken: map[*infer.Request]struct{}{}}
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

// Refit checks the graph against the models of its steps as they are now. Requests under way go on as they began. On an
// error, InvalidArg, the graph is as before.
func (g *Graph) Refit(models Lookup) error {
	flows, err := g.check(g.cfg, models)
	if err != nil {
		return err
	}
	g.flows.Store(&flows)
	return nil
}

// needed returns the steps that the wanted outputs need, nil for all of them.
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

func (g *Graph) errorf(code status.Code, format string, args ...any) error {
	return status.Errorf(code, "in ensemble '"+g.name+"', "+format, args...)
}
