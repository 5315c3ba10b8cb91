package tunecmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"nereid/app/perf"
	"nereid/app/tune"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/store"
)

// Program is what the command needs of the program that it belongs to.
type Program struct {
	// DataDir returns the data folder: the given one, or the default if that is empty.
	DataDir func(given string) (string, error)
	// PythonFolder returns the folder of the Python environments in a data folder.
	PythonFolder func(dataDir string) string
	// AddRevision stores a revision in a data folder, through the server that has it open or without one.
	AddRevision func(dataDir string, r store.Revision) error
	// GPUs counts the GPUs that models may use.
	GPUs func(log *slog.Logger) int
}

// Run runs the command and returns its exit status. An interrupt stops the search; what was measured is then reported.
func Run(ctx context.Context, program Program, args []string, stdout, stderr io.Writer) int {
	o, err := parseTune(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, tuneUsage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "error: %v\n\n%s", err, tuneUsage)
		return 2
	}
	o.program = program
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second interrupt ends the program at once
	if err := o.run(ctx, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// tuned is what a search found of a model.
type tuned struct {
	model     string
	with      []string // measured at the same time
	space     tune.Space
	goal      tune.Goal
	rate      bool // the load is requests a second
	batch     int
	result    *tune.Result
	ranked    []tune.Trial
	baseline  tune.Trial
	based     bool // there is a baseline
	cut       bool // the search was cancelled
	configOf  func(model string, c tune.Candidate) (string, error)
	models    []tuneModel
	present   map[string]*inferencepb.ModelConfig // completed, by model
	began     time.Time
	ended     time.Time
	gpus      int
	alone     *tune.Measurement // of a server without models; nil: there is none
	top       int
	searching string // quick or brute
}

// run tunes and reports.
func (o *tuneOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	if dir, err := o.program.DataDir(o.dataDir); err == nil { // what was installed for models counts here too
		if at := o.program.PythonFolder(dir); isFolder(at) {
			o.python = at
		}
	}
	t, err := o.tuner()
	if err != nil {
		return err
	}
	if err := t.open(); err != nil {
		return err
	}
	r, err := o.search(ctx, t, stdout, stderr)
	err = errors.Join(err, t.close())
	if r == nil || len(r.result.Trials) == 0 {
		if err == nil || errors.Is(err, context.Canceled) {
			return errors.New("interrupted before anything was measured")
		}
		return err
	}
	return errors.Join(err, o.report(r, stdout))
}

// tuner finds the model and those that work for it.
func (o *tuneOptions) tuner() (*tuner, error) {
	m, err := findTuneModel(o.repositories, o.model)
	if err != nil {
		return nil, err
	}
	t := &tuner{model: m, options: o.server, batch: o.batch, window: o.window, trials: o.trials, requests: o.requests, rate: o.lists.rate, tuneParts: o.composingToo, python: o.python, pythonFolder: o.program.PythonFolder}
	for _, name := range o.with {
		other, err := findTuneModel(o.repositories, name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(t.tuned(), func(m tuneModel) bool { return m.name == name }) {
			return nil, fmt.Errorf("model %q is named twice", name)
		}
		t.others = append(t.others, other)
	}
	t.load = o.inputsOf
	var names []string
	for _, model := range t.tuned() {
		names = append(names, steps(model.config)...)
	}
	names = append(names, o.composing...)
	for i := 0; i < len(names); i++ { // grows as ensembles are found
		if slices.ContainsFunc(t.models(), func(m tuneModel) bool { return m.name == names[i] }) {
			continue
		}
		part, err := findTuneModel(o.repositories, names[i])
		if err != nil {
			return nil, fmt.Errorf("a part of model %q: %w", m.name, err)
		}
		t.parts = append(t.parts, part)
		names = append(names, steps(part.config)...)
	}
	for _, n := range o.composing {
		t.composing = append(t.composing, perf.ModelVersion{Name: n})
	}
	return t, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// inputsOf makes the requests of a model. Of several models each takes the shapes of its own inputs.
func (o *tuneOptions) inputsOf(shape *perf.Model) (*perf.Data, error) {
	inputs := o.inputs
	if len(o.with) > 0 {
		inputs.Shapes = maps.Clone(o.inputs.Shapes)
		maps.DeleteFunc(inputs.Shapes, func(name string, _ []int64) bool {
			return !slices.ContainsFunc(shape.Inputs, func(in perf.IO) bool { return in.Name == name })
		})
	}
	if o.fillFree {
		inputs.FillFree(shape)
	}
	return perf.ReadInputs(o.data, shape, inputs)
}

// steps are the models of an ensemble's configuration; none for others, and for a text that cannot be read.
func steps(config string) (names []string) {
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(config))
	if faults.Err() != nil {
		return nil // the private server says it better
	}
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		names = append(names, s.GetModelName())
	}
	return names
}

// search looks for the best. The result is nil if nothing could be begun; beside an error it is what was measured.
func (o *tuneOptions) search(ctx context.Context, t *tuner, stdout, stderr io.Writer) (*tuned, error) {
	machine := o.machine
	if machine.cores == 0 {
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		machine = tuneMachine{cores: runtime.GOMAXPROCS(0), gpus: o.program.GPUs(log)}
	}
	fmt.Fprintf(stdout, "Tuning %s in servers of its own; what serves it now is left alone, but shares the machine.\n", strings.Join(append([]string{o.model}, o.with...), " and "))
	r := &tuned{model: t.model.name, goal: o.goal, rate: o.lists.rate, batch: o.batch, began: time.Now(), with: o.with, models: t.models(), gpus: machine.gpus, top: o.top, searching: o.mode, result: &tune.Result{}}
	if o.exportAt != "" {
		t.gpus = machine.gpus
		var err error
		if r.alone, err = t.alone(ctx); err != nil {
			return nil, fmt.Errorf("a server without models: %w", err)
		}
	}
	if err := t.learn(ctx, &o.lists, machine); err != nil {
		return nil, err
	}
	if err := o.checkShapes(t.loads); err != nil {
		return nil, err
	}
	r.space, r.present = t.space, t.present
	r.configOf = func(model string, c tune.Candidate) (string, error) {
		for _, m := range r.models {
			if m.name == model {
				return tuneConfig(m.config, t.present[m.name], of(r.space.Changes(c), m.name))
			}
		}
		return "", fmt.Errorf("there is no model %q", model)
	}
	known, keep, err := o.checkpoint(t)
	if err != nil {
		return nil, err
	}
	most := o.most(&r.space)
	n := 0
	if o.events.learned != nil {
		o.events.learned(r, most)
	}
	s := tune.Options{Space: r.space, Goal: o.goal, Budget: o.budget, Cores: machine.cores, Known: known, Measure: t.measure}
	var kept error
	s.Done = func(trial tune.Trial, fresh bool) {
		n++
		o.progress(stdout, r, trial, n, most, fresh)
		if o.events.trial != nil {
			o.events.trial(r, trial)
		}
		if fresh {
			kept = errors.Join(kept, keep(trial))
		}
	}
	find := tune.Quick
	if o.mode == "brute" {
		find = tune.Brute
	}
	r.result, err = find(ctx, s)
	r.ended = time.Now()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		r.cut, err = true, nil
		fmt.Fprintln(stderr, "interrupted: these are the figures of what was measured")
	}
	r.ranked = tune.Rank(&r.space, &r.goal, r.result.Trials)
	r.baseline, r.based = tune.Baseline(&r.space, &r.goal, r.result.Trials)
	return r, errors.Join(err, kept)
}

// checkShapes refuses shapes of inputs that no model has.
func (o *tuneOptions) checkShapes(loads []tuneLoad) error {
	for name := range o.inputs.Shapes {
		has := func(in perf.IO) bool { return in.Name == name }
		if !slices.ContainsFunc(loads, func(l tuneLoad) bool { return slices.ContainsFunc(l.shape.Inputs, has) }) {
			return fmt.Errorf("--shape: no model has an input %q", name)
		}
	}
	return nil
}

// most is how many measurements a search makes at most.
func (o *tuneOptions) most(s *tune.Space) int {
	if o.mode == "brute" {
		return s.Size()
	}
	return min(o.budget, s.Size())
}

// progress prints a line of a trial.
func (o *tuneOptions) progress(w io.Writer, r *tuned, t tune.Trial, n, most int, fresh bool) {
	again := ""
	if !fresh {
		again = " (from the checkpoint)"
	}
	fmt.Fprintf(w, "[%d/%d] %s, %s: %s%s\n", n, most, r.variantText(t.Candidate), r.loadText(t.Candidate), figures(&t.Measurement), again)
}

// variantText says a candidate's configuration by its changes.
func (r *tuned) variantText(c tune.Candidate) string {
	changes := r.space.Changes(c)
	if len(changes) == 0 {
		return "present configuration"
	}
	words := make([]string, len(changes))
	for i, ch := range changes {
		if words[i] = changeText(ch); ch.Model != r.model {
			words[i] = ch.Model + ": " + words[i]
		}
	}
	return strings.Join(words, ", ")
}

func (r *tuned) loadText(c tune.Candidate) string {
	if r.rate {
		return fmt.Sprintf("%d requests/s", r.space.LoadOf(c))
	}
	return fmt.Sprintf("concurrency %d", r.space.LoadOf(c))
}

func figures(m *tune.Measurement) string {
	if m.Failed != "" {
		return "failed: " + m.Failed
	}
	text := fmt.Sprintf("%.1f infer/s, p99 %s", m.Throughput, msText(m.P99))
	if !m.Stable {
		text += " (windows differ)"
	}
	return text
}

func msText(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Nanoseconds())/1e6) }
