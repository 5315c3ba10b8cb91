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
	Program
	ServerOptions   []string // of the private servers; see ServerOptions
	Python          string   // the folder of the Python environments
	Cores, GPUCount int      // of the machine
}

var _ tuning.Tuner = (*Console)(nil)

// ServerOptions returns those of a server's options that its models need: the private servers get them too.
func ServerOptions(args []string) (out []string) {
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if slices.Contains([]string{"backend-config", "backend-directory", "disable-auto-complete-config", "strict-model-config", "repoagent-directory",
			"host-policy", "model-load-gpu-limit", "rate-limit", "rate-limit-resource", "pinned-memory-pool-byte-size", "cuda-memory-pool-byte-size",
			"cuda-virtual-address-size", "min-supported-compute-capability", "buffer-manager-thread-count", "onnxruntime-library", "python-requirements",
			"enable-peer-access"}, name) {
			out = append(out, a)
		}
	}
	return out
}

func (c *Console) machine() tuneMachine { return tuneMachine{cores: c.Cores, gpus: c.GPUCount} }

// mostTrials is how many measurements the page takes on: a thousand takes an hour or more.
const mostTrials = 1000

// asked makes the command's options of a request, with the command's checks.
func (c *Console) asked(m tuning.Model, r *api.StartTuning) (*tuneOptions, error) {
	o, v := &tuneOptions{}, &tuneValues{}
	o.flags(v) // sets what is not asked for
	o.model, o.with, o.repositories, o.server = m.Name, m.With, m.Repositories, c.ServerOptions
	o.program, o.python, o.machine, o.fillFree = c.Program, c.Python, c.machine(), true
	o.mode, o.composingToo = cmp.Or(r.Search, o.mode), r.Parts
	o.budget, o.batch = cmp.Or(r.Budget, o.budget), cmp.Or(r.Batch, o.batch)
	v.objective, v.window = cmp.Or(r.Objective, v.objective), cmp.Or(r.WindowMs, v.window)
	v.latency, v.throughput, v.memory, v.gpuMemory = r.LatencyBudgetMs, r.MinThroughput, r.MaxMemoryMB, r.MaxGPUMemoryMB
	v.batches, v.delays, v.counts, v.kinds = r.MaxBatchSizes, r.QueueDelays, r.InstanceCounts, r.InstanceKinds
	v.threads, v.concurrency, v.shape = r.Threads, r.Concurrency, r.Shapes
	return o, o.finish(v)
}

// Plan implements tuning.Tuner.
func (c *Console) Plan(m tuning.Model, r *api.StartTuning) (api.TuningPlan, error) {
	o, err := c.asked(m, r)
	if err != nil {
		return api.TuningPlan{}, err
	}
	t, err := o.tuner()
	if err != nil {
		return api.TuningPlan{}, err
	}
	t.present = map[string]*inferencepb.ModelConfig{}
	for _, part := range t.models() {
		if t.present[part.name] = m.Config(part.name); t.present[part.name] == nil {
			return api.TuningPlan{}, fmt.Errorf("nothing is known of the configuration of model %q; load it first", part.name)
		}
	}
	for _, model := range t.tuned() {
		cfg := t.present[model.name]
		switch {
		case cfg.GetModelTransactionPolicy().GetDecoupled():
			return api.TuningPlan{}, errDecoupled(model.name)
		case t.batch > max(1, int(cfg.GetMaxBatchSize())):
			return api.TuningPlan{}, fmt.Errorf("requests of %d rows are more than the max_batch_size of model %q, %d", t.batch, model.name, cfg.GetMaxBatchSize())
		}
	}
	t.makeSpace(&o.lists, c.machine())
	if n := o.most(&t.space); n > mostTrials {
		return api.TuningPlan{}, fmt.Errorf("these are %d measurements, more than %d; take fewer values, or the quick search, or nereid tune on the command line", n, mostTrials)
	}
	return o.plan(&t.space), nil
}

// plan says what a search of a space will be, with a guess of its time: windows until three agree, and the start of a
// server for each configuration.
func (o *tuneOptions) plan(s *tune.Space) api.TuningPlan {
	const server = 2 * time.Second // about, for a small model
	out := api.TuningPlan{Size: s.Size(), Most: o.most(s)}
	loads := len(s.Axes[len(s.Axes)-1].Values)
	configs := (out.Most + loads - 1) / loads // all loads of each, as brute measures
	least := out.Most
	if o.mode != "brute" {
		configs = out.Most // each its own, as quick may
		least = min(least, 8)
	}
	out.LeastMs = (time.Duration(least) * min(3, time.Duration(o.trials)) * o.window).Milliseconds()
	out.MostMs = (time.Duration(out.Most)*time.Duration(o.trials)*o.window + time.Duration(configs)*server).Milliseconds()
	for _, a := range s.Axes {
		out.Axes = append(out.Axes, api.TuningAxis{Model: a.Model, Field: string(a.Field), Values: a.Values, Present: a.Values[a.Start]})
	}
	return out
}

// Tune implements tuning.Tuner.
func (c *Console) Tune(ctx context.Context, m tuning.Model, r *api.StartTuning, see func(tuning.Event)) (err error) {
	o, err := c.asked(m, r)
	if err != nil {
		return err
	}
	t, err := o.tuner()
	if err != nil {
		return err
	}
	if err := t.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	seen := &tuneTeller{see: see, configs: map[string]int{}}
	o.events = tuneEvents{
		learned: func(r *tuned, _ int) {
			plan := o.plan(&r.space)
			see(tuning.Event{Plan: &plan})
		},
		trial: seen.trial,
	}
	t.point = func(cand tune.Candidate, p *perf.Point) {
		now := api.TuningNow{Changes: tuningChanges(t.space.Changes(cand)), Load: t.space.LoadOf(cand)}
		if p != nil {
			now.Rate, now.P99Us = p.Throughput(), micros(p.Latency.Quantile(.99))
		}
		see(tuning.Event{Now: &now})
	}
	found, err := o.search(ctx, t, io.Discard, io.Discard)
	if err == nil {
		err = seen.err
	}
	if err == nil && len(found.result.Trials) == 0 && ctx.Err() == nil {
		err = errors.New("nothing was measured")
	}
	return err
}

// tuneTeller makes events of the trials of a search.
type tuneTeller struct {
	see     func(tuning.Event)
	configs map[string]int // by variant
	trials  []tune.Trial
	err     error // the first one
}

func (s *tuneTeller) trial(r *tuned, t tune.Trial) {
	s.trials = append(s.trials, t)
	e := tuning.Event{}
	variant := r.space.Variant(t.Candidate)
	n, known := s.configs[variant]
	if !known {
		n = len(s.configs)
		s.configs[variant] = n
		texts, err := tuningTexts(r, t.Candidate)
		if err != nil && s.err == nil {
			s.err = err
		}
		e.Config = &tuning.Config{Changes: tuningChanges(r.space.Changes(t.Candidate)), Texts: texts}
	}
	e.Trial = tuningTrial(r, n, &t)
	e.Best, e.Present = -1, -1
	if best, ok := tune.Best(&r.space, &r.goal, s.trials); ok {
		e.Best = s.index(best)
	}
	if present, ok := tune.Baseline(&r.space, &r.goal, s.trials); ok {
		e.Present = s.index(present)
	}
	s.see(e)
}

func (s *tuneTeller) index(t tune.Trial) int {
	return slices.IndexFunc(s.trials, func(x tune.Trial) bool { return slices.Equal(x.Candidate, t.Candidate) })
}

func tuningTrial(r *tuned, config int, t *tune.Trial) *api.TuningTrial {
	out := &api.TuningTrial{
		Config: config, Load: r.space.LoadOf(t.Candidate), Rate: t.Throughput, P50Us: micros(t.P50), P90Us: micros(t.P90), P99Us: micros(t.P99),
		QueueUs: micros(t.Queue), ComputeUs: micros(t.Compute), Cores: t.CPU, MemoryBytes: t.Memory, GPUMemoryBytes: t.GPUMemory,
		GPUUtilization: t.GPUUtilization, GPUPowerW: t.GPUPower,
		Stable: t.Stable, Keeps: t.Failed == "" && r.goal.Keeps(&t.Measurement), Failed: t.Failed,
	}
	for i := range t.Models {
		m := &t.Models[i]
		out.Models = append(out.Models, api.TuningFigures{Model: append([]string{r.model}, r.with...)[i], Rate: m.Throughput, P50Us: micros(m.P50), P99Us: micros(m.P99)})
	}
	return out
}

// tuningTexts are the files that a candidate changes.
func tuningTexts(r *tuned, c tune.Candidate) (out []api.TuningText, err error) {
	for _, m := range r.models {
		if len(of(r.space.Changes(c), m.name)) == 0 {
			continue
		}
		text, err := r.configOf(m.name, c)
		if err != nil {
			return nil, err
		}
		out = append(out, api.TuningText{Model: m.name, Before: m.config, After: text})
	}
	return out, nil
}

func tuningChanges(list []tune.Change) (out []api.TuningChange) {
	for _, c := range list {
		out = append(out, api.TuningChange{Model: c.Model, Field: string(c.Field), From: c.From, To: c.To})
	}
	return out
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
