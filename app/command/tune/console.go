package tunecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/tuning"
	"nereid/app/perf"
	"nereid/app/tune"
	"nereid/engine/inferencepb"
)

// Console runs the searches of nereid tune for the GUI.
type Console struct {
	Program       Program
	ServerOptions []string // of the private servers; see ServerOptions
	Python        string   // the folder of the Python environments
	ConfigName    string   // of the server's --model-config-name
	Cores, GPUs   int      // of the machine
}

var _ tuning.Tuner = (*Console)(nil)

// ServerOptions returns those of a server's options that its models need. The private servers get them too.
func ServerOptions(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		return !slices.Contains(modelServerOptions, name)
	})
}

var modelServerOptions = []string{
	"backend-config", "backend-directory", "disable-auto-complete-config", "strict-model-config",
	"repoagent-directory", "host-policy", "model-load-gpu-limit", "rate-limit", "rate-limit-resource",
	"pinned-memory-pool-byte-size", "cuda-memory-pool-byte-size", "cuda-virtual-address-size",
	"min-supported-compute-capability", "buffer-manager-thread-count", "onnxruntime-library", "python-requirements",
	"enable-peer-access",
}

// maxConsoleTrials is how many measurements the GUI allows: a thousand takes an hour or more.
const maxConsoleTrials = 1000

func (c *Console) machine() machine { return machine{cores: c.Cores, gpus: c.GPUs} }

// newTuner makes the command's options and tuner of a request, with the command's checks.
func (c *Console) newTuner(m tuning.Model, r *api.StartTuning) (*options, *tuner, error) {
	o := newOptions()
	o.model, o.with, o.repositories, o.serverOptions = m.Name, m.With, m.Repositories, c.ServerOptions
	o.configName = c.ConfigName
	o.program, o.python, o.machine, o.fillFree = c.Program, c.Python, c.machine(), true
	s, v := &o.search, &o.text
	s.mode, s.tuneComposing, s.budget = cmp.Or(r.Search, s.mode), r.Parts, cmp.Or(r.Budget, s.budget)
	o.measure.batch = cmp.Or(r.Batch, o.measure.batch)
	v.objective, v.window = cmp.Or(r.Objective, v.objective), cmp.Or(r.WindowMs, v.window)
	v.maxLatency, v.minThroughput, v.maxMemory, v.maxGPUMemory = r.LatencyBudgetMs, r.MinThroughput, r.MaxMemoryMB,
		r.MaxGPUMemoryMB
	v.batches, v.delays, v.instances, v.kinds = r.MaxBatchSizes, r.QueueDelays, r.InstanceCounts, r.InstanceKinds
	v.threads, v.concurrency, v.shapes = r.Threads, r.Concurrency, r.Shapes
	if err := o.finish(); err != nil {
		return nil, nil, err
	}
	t, err := o.newTuner()
	return o, t, err
}

// Plan implements tuning.Tuner.
func (c *Console) Plan(m tuning.Model, r *api.StartTuning) (plan api.TuningPlan, err error) {
	o, t, err := c.newTuner(m, r)
	if err != nil {
		return plan, err
	}
	t.present = map[string]*inferencepb.ModelConfig{}
	for _, model := range t.models() {
		if t.present[model.name] = m.Config(model.name); t.present[model.name] == nil {
			return plan, fmt.Errorf("the configuration of model %q is unknown; load it first", model.name)
		}
	}
	for _, model := range t.tuned {
		cfg, batch := t.present[model.name], o.measure.batch
		switch {
		case cfg.GetModelTransactionPolicy().GetDecoupled():
			return plan, errDecoupled(model.name)
		case batch > max(1, int(cfg.GetMaxBatchSize())):
			return plan, fmt.Errorf("requests of %d rows are more than the max_batch_size of model %q, %d",
				batch, model.name, cfg.GetMaxBatchSize())
		}
	}
	t.makeSpace(&o.search.lists, c.machine())
	if n := o.maxTrials(&t.space); n > maxConsoleTrials {
		return plan, fmt.Errorf("these are %d measurements, more than %d; take fewer values, or the quick search, "+
			"or nereid tune on the command line", n, maxConsoleTrials)
	}
	return o.plan(&t.space), nil
}

// plan describes the search of a space, with an estimate of its time: windows until three agree, and the start of a
// server for each configuration.
func (o *options) plan(s *tune.Space) api.TuningPlan {
	const serverStart = 2 * time.Second // about, for a small model
	out := api.TuningPlan{Size: s.Size(), Most: o.maxTrials(s)}
	loads := len(s.Axes[len(s.Axes)-1].Values)
	configs := (out.Most + loads - 1) / loads // brute measures all loads of each configuration
	least := out.Most
	if o.search.mode == "quick" {
		configs = out.Most // quick may measure another configuration each time
		least = min(least, 8)
	}
	m := &o.measure
	out.LeastMs = (time.Duration(least) * min(3, time.Duration(m.trials)) * m.window).Milliseconds()
	out.MostMs = (time.Duration(out.Most)*time.Duration(m.trials)*m.window +
		time.Duration(configs)*serverStart).Milliseconds()
	for _, a := range s.Axes {
		out.Axes = append(out.Axes, api.TuningAxis{
			Model: a.Model, Field: string(a.Field), Values: a.Values, Present: a.Values[a.Start],
		})
	}
	return out
}

// Tune implements tuning.Tuner.
func (c *Console) Tune(ctx context.Context, m tuning.Model, r *api.StartTuning,
	see func(tuning.Event)) (err error) {
	o, t, err := c.newTuner(m, r)
	if err != nil {
		return err
	}
	if err := t.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	w := &eventWriter{see: see, configs: map[string]int{}}
	o.events = events{
		spaceKnown: func(r *result) {
			plan := o.plan(&r.space)
			see(tuning.Event{Plan: &plan})
		},
		trial: w.trial,
	}
	t.point = func(cand tune.Candidate, p *perf.Point) {
		now := api.TuningNow{Changes: changesAPI(t.space.Changes(cand)), Load: t.space.LoadOf(cand)}
		if p != nil {
			now.Rate, now.P99Us = p.Throughput(), micros(p.Latency.Quantile(.99))
		}
		see(tuning.Event{Now: &now})
	}
	found, err := o.runSearch(ctx, t, io.Discard, io.Discard)
	if err == nil {
		err = w.err
	}
	if err == nil && len(found.found.Trials) == 0 && ctx.Err() == nil {
		err = errors.New("nothing was measured")
	}
	return err
}

// eventWriter converts the trials of a search into events.
type eventWriter struct {
	see     func(tuning.Event)
	configs map[string]int // by variant
	trials  []tune.Trial
	err     error // the first one
}

func (s *eventWriter) trial(r *result, t tune.Trial) {
	s.trials = append(s.trials, t)
	e := tuning.Event{}
	variant, changes := r.space.Variant(t.Candidate), r.space.Changes(t.Candidate)
	n, known := s.configs[variant]
	if !known {
		n = len(s.configs)
		s.configs[variant] = n
		texts, err := textsAPI(r, t.Candidate)
		if err != nil && s.err == nil {
			s.err = err
		}
		e.Config = &tuning.Config{Changes: changesAPI(changes), Texts: texts}
	}
	e.Trial = trialAPI(r, n, &t)
	e.Best, e.Present = -1, -1
	if best, ok := tune.Best(&r.space, &r.goal, s.trials); ok {
		e.Best = s.index(best)
	}
	if present, ok := tune.Baseline(&r.space, &r.goal, s.trials); ok {
		e.Present = s.index(present)
	}
	s.see(e)
}

func (s *eventWriter) index(t tune.Trial) int {
	return slices.IndexFunc(s.trials, func(x tune.Trial) bool { return slices.Equal(x.Candidate, t.Candidate) })
}

func trialAPI(r *result, config int, t *tune.Trial) *api.TuningTrial {
	out := &api.TuningTrial{
		Config: config, Load: r.space.LoadOf(t.Candidate), Rate: t.Throughput,
		P50Us: micros(t.P50), P90Us: micros(t.P90), P99Us: micros(t.P99),
		QueueUs: micros(t.Queue), ComputeUs: micros(t.Compute), Cores: t.CPU, MemoryBytes: t.Memory,
		GPUMemoryBytes: t.GPUMemory, GPUUtilization: t.GPUUtilization, GPUPowerW: t.GPUPower,
		Stable: t.Stable, Keeps: t.Failed == "" && r.goal.Keeps(&t.Measurement), Failed: t.Failed,
	}
	for i := range t.Models {
		m := &t.Models[i]
		out.Models = append(out.Models, api.TuningFigures{
			Model: r.names[i], Rate: m.Throughput, P50Us: micros(m.P50), P99Us: micros(m.P99),
		})
	}
	return out
}

// textsAPI are the configuration files that a candidate changes.
func textsAPI(r *result, c tune.Candidate) (out []api.TuningText, err error) {
	for _, m := range r.models {
		if len(changesOf(r.space.Changes(c), m.name)) == 0 {
			continue
		}
		text, err := r.configOf(&m, c)
		if err != nil {
			return nil, err
		}
		out = append(out, api.TuningText{Model: m.name, Before: m.config, After: text})
	}
	return out, nil
}

func changesAPI(list []tune.Change) (out []api.TuningChange) {
	for _, c := range list {
		out = append(out, api.TuningChange{Model: c.Model, Field: string(c.Field), From: c.From, To: c.To})
	}
	return out
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
