package tunecmd

import (
	"context"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nereid/app/command"
	"nereid/app/datadir"
	"nereid/app/tune"
)

// Gain is what one change of a model's configuration brings, by a measurement of both.
type Gain struct {
	Change, Load string
	Rate, P99    float64 // those with the change, divided by those without
	Stable       bool    // the windows of both agreed
	Failed       string  // why there are no figures
	Apply        string  // the command that measures the change again, and writes it if it is better
}

// Gains measures the configuration of a model folder, and every change of one field. It writes its progress to out.
func Gains(ctx context.Context, program Program, folder, dataDir string, out io.Writer) (gains []Gain, err error) {
	r, err := searchFolder(ctx, program, folder, dataDir, out, func(o *options) { o.search.mode = "each" })
	if err != nil {
		return nil, err
	}
	return r.gains(), nil
}

// Found is the best configuration of a model folder.
type Found struct {
	Text          string // of config.pbtxt
	Changes, Load string
	Rate          float64 // rows per second
	P99           time.Duration
	Measured      int  // measurements
	Keeps         bool // it keeps the budget; if not, the fields above are empty
}

// Find searches for the best configuration of a model folder by "throughput" or "latency". The p99 is at most budgetMs
// milliseconds; 0: any. It writes its progress to out.
func Find(ctx context.Context, program Program, folder, dataDir, objective string, budgetMs float64,
	out io.Writer) (f Found, err error) {
	r, err := searchFolder(ctx, program, folder, dataDir, out, func(o *options) {
		o.text.objective, o.text.maxLatency, o.search.budget = objective, budgetMs, findBudget
	})
	if err != nil {
		return f, err
	}
	f.Measured = len(r.found.Trials)
	best, ok := r.best()
	if !ok {
		return f, nil
	}
	f.Keeps, f.Changes, f.Load = true, r.variantText(best.Candidate), r.loadText(best.Candidate)
	f.Rate, f.P99 = best.Throughput, best.P99
	f.Text = r.models[0].config
	if !r.space.IsPresent(best.Candidate) {
		f.Text, err = r.configOf(&r.models[0], best.Candidate)
	}
	return f, err
}

// findBudget is how many measurements Find makes at most.
const findBudget = 30

// searchFolder searches as set says. The windows are short, since several models or many changes are compared.
func searchFolder(ctx context.Context, program Program, folder, dataDir string, out io.Writer,
	set func(*options)) (*result, error) {
	o := newOptions()
	o.program, o.dataDir, o.fillFree = program, dataDir, true
	o.measure.trials, o.text.window = 4, 500 // ms
	o.model, o.repositories = filepath.Base(folder), []string{filepath.Dir(folder)}
	set(o)
	if err := o.finish(); err != nil {
		return nil, err
	}
	if at := datadir.Python(dataDir); isFolder(at) {
		o.python = at
	}
	t, err := o.newTuner()
	if err != nil {
		return nil, err
	}
	if err := t.open(); err != nil {
		return nil, err
	}
	r, err := o.runSearch(ctx, t, out, out)
	if cerr := t.close(); err == nil {
		err = cerr
	}
	if err == nil && r.cancelled {
		err = context.Canceled
	}
	return r, err
}

// gains compares every trial with the present configuration under the same load. A load that failed with the present
// configuration has no figures; those of the other loads stay.
func (r *result) gains() (gains []Gain) {
	present := map[int]tune.Measurement{} // by load
	for _, m := range r.found.Trials {
		if r.space.IsPresent(m.Candidate) {
			present[r.space.LoadOf(m.Candidate)] = m.Measurement
		}
	}
	for _, m := range r.found.Trials {
		if r.space.IsPresent(m.Candidate) {
			continue
		}
		load := r.space.LoadOf(m.Candidate)
		was, now := present[load], m.Measurement
		g := Gain{Change: r.variantText(m.Candidate), Load: r.loadText(m.Candidate), Failed: m.Failed,
			Apply: r.applyCommand(m.Candidate)}
		switch {
		case m.Failed != "":
		case was.Failed != "":
			g.Failed = tune.Unmeasured(was.Failed)
		default:
			g.Stable = was.Stable && now.Stable
			g.Rate, g.P99 = now.Throughput/was.Throughput, now.Of(tune.LatencyP99)/was.Of(tune.LatencyP99)
		}
		gains = append(gains, g)
	}
	return gains
}

// listOptions are the options that name the values of a field.
var listOptions = map[tune.Field]string{
	tune.MaxBatch: "max-batch-sizes", tune.Delay: "queue-delays", tune.Instances: "instance-counts",
	tune.Kind: "instance-kinds", tune.Threads: "threads",
}

// applyCommand is the command that compares a candidate with the present configuration, and writes the better one.
func (r *result) applyCommand(c tune.Candidate) string {
	values := map[tune.Field]string{}
	for f := range listOptions {
		values[f] = present
	}
	for _, ch := range r.space.Changes(c) {
		values[ch.Field] = strconv.Itoa(ch.To)
		switch {
		case ch.Field == tune.Delay && ch.To == tune.NoBatching:
			values[ch.Field] = "off"
		case ch.Field == tune.Kind:
			values[ch.Field] = map[int]string{tune.KindCPU: "cpu", tune.KindGPU: "gpu"}[ch.To]
		}
	}
	words := []string{"nereid tune --search=brute",
		command.ShellQuote("--model-repository=" + filepath.Dir(r.models[0].folder)), "-m",
		command.ShellQuote(r.model())}
	for _, f := range []tune.Field{tune.MaxBatch, tune.Delay, tune.Instances, tune.Kind, tune.Threads} {
		words = append(words, "--"+listOptions[f]+"="+values[f])
	}
	return strings.Join(append(words, "--concurrency="+strconv.Itoa(r.space.LoadOf(c)), "--apply"), " ")
}
