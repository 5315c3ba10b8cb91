package tunecmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nereid/app/command"
	"nereid/app/perf"
	"nereid/app/tune"
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
func Run(ctx context.Context, env *command.Env, program Program, args []string) int {
	o, err := parse(args)
	usage := usageHead + command.Help(newOptions().sections()) + usageTail
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(env.Stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(env.Stderr, "error: %v\n\n%s", err, usage)
		return 2
	}
	o.program = program
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second interrupt ends the program at once
	if err := o.run(ctx, env.Stdout, env.Stderr); err != nil {
		fmt.Fprintf(env.Stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// run searches and reports.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	if dir, err := o.program.DataDir(o.dataDir); err == nil { // use the environments that were installed for models
		if at := o.program.PythonFolder(dir); isFolder(at) {
			o.python = at
		}
	}
	if err := o.checkOutputs(); err != nil {
		return err
	}
	t, err := o.newTuner()
	if err != nil {
		return err
	}
	if err := t.open(); err != nil {
		return err
	}
	r, err := o.runSearch(ctx, t, stdout, stderr)
	err = errors.Join(err, t.close())
	if r == nil || len(r.found.Trials) == 0 {
		if err == nil || errors.Is(err, context.Canceled) {
			return errors.New("interrupted before anything was measured")
		}
		return err
	}
	return errors.Join(err, o.report(r, stdout))
}

// checkOutputs refuses before the search what could not be written after it.
func (o *options) checkOutputs() error {
	if err := command.CheckFile(o.output.report); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	for option, path := range map[string]string{
		"--export-path": o.output.export, "--output-model-repository": o.output.repository,
	} {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return fmt.Errorf("%s: %s is no folder", option, path)
		}
	}
	if o.output.repository == "" {
		return nil
	}
	entries, err := os.ReadDir(o.output.repository)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--output-model-repository: %w", err)
	}
	for _, e := range entries {
		n, ok := strings.CutPrefix(e.Name(), o.model+"_config_")
		if _, err := strconv.Atoi(n); ok && (err == nil || n == "default") {
			return fmt.Errorf("--output-model-repository: %s has %s already; remove it, or name another folder",
				o.output.repository, e.Name())
		}
	}
	return nil
}

// newTuner finds the models and their composing models.
func (o *options) newTuner() (*tuner, error) {
	m := &o.measure
	t := &tuner{
		serverOptions: o.serverOptions, python: o.python, pythonFolder: o.program.PythonFolder,
		measureOptions: m, inputs: o.inputsOf, rate: o.search.lists.rate, tuneComposing: o.search.tuneComposing,
	}
	for _, name := range append([]string{o.model}, o.with...) {
		if slices.ContainsFunc(t.tuned, func(m modelFolder) bool { return m.name == name }) {
			return nil, fmt.Errorf("model %q is named twice", name)
		}
		model, err := findModel(o.repositories, name, o.configName)
		if err != nil {
			return nil, err
		}
		t.tuned = append(t.tuned, model)
	}
	var names []string
	for _, model := range t.tuned {
		names = append(names, model.steps()...)
	}
	names = append(names, m.composing...)
	for i := 0; i < len(names); i++ { // names grows with the steps of ensembles
		if slices.ContainsFunc(t.models(), func(m modelFolder) bool { return m.name == names[i] }) {
			continue
		}
		model, err := findModel(o.repositories, names[i], o.configName)
		if err != nil {
			return nil, fmt.Errorf("a composing model of %q: %w", o.model, err)
		}
		t.composing = append(t.composing, model)
		names = append(names, model.steps()...)
	}
	return t, nil
}

// inputsOf makes the inputs of a model. If several models are tuned, each takes the shapes of its own inputs.
func (o *options) inputsOf(model *perf.Model) (*perf.Data, error) {
	inputs := o.measure.inputs
	if len(o.with) > 0 {
		inputs.Shapes = maps.Clone(inputs.Shapes)
		maps.DeleteFunc(inputs.Shapes, func(name string, _ []int64) bool { return !model.HasInput(name) })
	}
	if o.fillFree {
		inputs.FillFree(model)
	}
	return perf.ReadInputs(o.measure.paths, model, inputs)
}

// runSearch searches. The result is nil if nothing could be started; next to an error it is what was measured.
func (o *options) runSearch(ctx context.Context, t *tuner, stdout, stderr io.Writer) (*result, error) {
	here := o.machine
	if here.cores == 0 {
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		here = machine{cores: runtime.GOMAXPROCS(0), gpus: o.program.GPUs(log)}
	}
	r := &result{
		names: append([]string{o.model}, o.with...), models: t.models(), goal: o.search.goal, mode: o.search.mode,
		rate: o.search.lists.rate, batch: o.measure.batch, top: o.output.top, gpus: here.gpus, began: time.Now(),
		found: &tune.Result{},
	}
	if here.gpus == 0 && slices.Contains(o.search.lists.kinds, tune.KindGPU) {
		fmt.Fprintln(stderr, "This machine has no GPU that models may use: --instance-kinds changes nothing.")
	}
	fmt.Fprintf(stdout, "Tuning %s in separate servers. Servers that run now keep their configurations, but share the "+
		"machine.\n", r.title())
	if o.output.export != "" {
		t.gpus = here.gpus
		var err error
		if r.serverOnly, err = t.measureServerOnly(ctx); err != nil {
			return nil, fmt.Errorf("a server without models: %w", err)
		}
	}
	if err := t.learn(ctx, &o.search.lists, here); err != nil {
		return nil, err
	}
	if err := o.checkShapes(t.loads); err != nil {
		return nil, err
	}
	r.space, r.present = t.space, t.present
	known, keep, err := o.openCheckpoint(t)
	if err != nil {
		return nil, err
	}
	if o.events.spaceKnown != nil {
		o.events.spaceKnown(r)
	}
	n := 0
	var kept error
	s := tune.Options{
		Space: r.space, Goal: r.goal, Budget: o.search.budget, Cores: here.cores, Known: known, Measure: t.measure,
		Done: func(trial tune.Trial, fresh bool) {
			n++
			o.progress(stdout, r, trial, n, fresh)
			if o.events.trial != nil {
				o.events.trial(r, trial)
			}
			if fresh {
				kept = errors.Join(kept, keep(trial))
			}
		},
	}
	find := tune.Quick
	switch r.mode {
	case "brute":
		find = tune.Brute
	case "each":
		find = tune.Each
	}
	r.found, err = find(ctx, s)
	r.ended = time.Now()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		r.cancelled, err = true, nil
		fmt.Fprintln(stderr, "interrupted: these are the figures of what was measured")
	}
	r.rank()
	return r, errors.Join(err, kept)
}

// checkShapes refuses shapes of inputs that no model has.
func (o *options) checkShapes(loads []modelLoad) error {
	for name := range o.measure.inputs.Shapes {
		if !slices.ContainsFunc(loads, func(l modelLoad) bool { return l.model.HasInput(name) }) {
			return fmt.Errorf("--shape: no model has an input %q", name)
		}
	}
	return nil
}

// maxTrials is the most measurements of a search.
func (o *options) maxTrials(s *tune.Space) int {
	switch o.search.mode {
	case "brute":
		return s.Size()
	case "each":
		return (1 + len(s.Singles())) * len(s.Axes[len(s.Axes)-1].Values)
	}
	return min(o.search.budget, s.Size())
}

// progress prints a line for a trial.
func (o *options) progress(w io.Writer, r *result, t tune.Trial, n int, fresh bool) {
	known := ""
	if !fresh {
		known = " (from the checkpoint)"
	}
	fmt.Fprintf(w, "[%d/%d] %s, %s: %s%s\n", n, o.maxTrials(&r.space), r.variantText(t.Candidate),
		r.loadText(t.Candidate), figures(&t.Measurement), known)
}
