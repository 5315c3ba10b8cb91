package tunecmd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"nereid/app/command"
	"nereid/app/tune"
)

// report prints the result and writes the files.
func (o *options) report(r *result, stdout io.Writer) error {
	errs := []error{r.table(stdout)}
	if o.output.report != "" {
		errs = append(errs, command.WriteFile(o.output.report, r.writeHTML))
	}
	if o.output.export != "" {
		errs = append(errs, r.writeTables(o.output.export))
	}
	if o.output.repository != "" {
		errs = append(errs, r.writeRepository(o.output.repository))
	}
	if err := errors.Join(errs...); err != nil || !o.output.apply {
		return err
	}
	return o.applyBest(r, stdout)
}

// writeTables writes the CSV files into a folder, under model_analyzer's names.
func (r *result) writeTables(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	err := command.WriteFile(filepath.Join(folder, "metrics-model-inference.csv"), r.writeCSV)
	if r.gpus > 0 {
		err = errors.Join(err, command.WriteFile(filepath.Join(folder, "metrics-model-gpu.csv"), r.writeGPUCSV))
	}
	if r.serverOnly != nil {
		err = errors.Join(err, command.WriteFile(filepath.Join(folder, "metrics-server-only.csv"), r.writeServerCSV))
	}
	return err
}

// table prints the best configurations next to the present one, and how they were found.
func (r *result) table(w io.Writer) error {
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tab, "\tCONFIGURATION\t%s\tINFER/S\tP50\tP99\tCPU\tMEMORY\tGOAL\n", strings.ToUpper(r.loadName()))
	for name, t := range r.head() {
		row := r.row(name, t)
		fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", name, row.Config, r.space.LoadOf(t.Candidate),
			row.Throughput, row.P50, row.P99, row.CPU, row.Memory, row.Goal)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, line := range r.why() {
		fmt.Fprintln(w, line)
	}
	return nil
}

// why describes the result and the steps of the search.
func (r *result) why() (lines []string) {
	all := r.summary()
	lines = append(lines, all[0])
	for _, s := range r.found.Steps {
		lines = append(lines, "  "+r.stepText(&s))
	}
	return append(lines, all[1:]...)
}

// summary says how much was measured and what was found.
func (r *result) summary() (lines []string) {
	failed := 0
	for _, t := range r.found.Trials {
		if t.Failed != "" {
			failed++
		}
	}
	text := fmt.Sprintf("%d measurements in %.0f s", len(r.found.Trials), r.ended.Sub(r.began).Seconds())
	switch {
	case r.cancelled:
		text += ", interrupted"
	case r.mode == "quick" && r.found.Ended:
		text += "; no neighbour of the best is better"
	case r.mode == "quick":
		text += ", which is the budget; a larger one may find better"
	}
	if failed > 0 {
		text += fmt.Sprintf("; %d failed", failed)
	}
	lines = append(lines, text+".")
	best, ok := r.best()
	switch {
	case !ok:
		lines = append(lines, "No configuration keeps the constraints: "+r.goalText()+".")
	case r.space.IsPresent(best.Candidate):
		lines = append(lines, "The present configuration is the best that was found.")
	case r.hasBaseline:
		lines = append(lines, fmt.Sprintf("The best, %s, at %s: throughput %s, p99 %s, memory %s against the present "+
			"configuration at its best (%s).",
			r.variantText(best.Candidate), r.loadText(best.Candidate), ratio(best.Throughput, r.baseline.Throughput),
			ratio(best.Of(tune.LatencyP99), r.baseline.Of(tune.LatencyP99)),
			ratio(best.Of(tune.RAM), r.baseline.Of(tune.RAM)), r.loadText(r.baseline.Candidate)))
	}
	if ok && r.hasBaseline && !r.space.IsPresent(best.Candidate) {
		for i, name := range r.names {
			if len(best.Models) > i && len(r.baseline.Models) > i {
				to, from := &best.Models[i], &r.baseline.Models[i]
				lines = append(lines, fmt.Sprintf("  %s: %.1f infer/s (%s), p99 %s (%s)", name, to.Throughput,
					ratio(to.Throughput, from.Throughput),
					msText(to.P99), ratio(to.Of(tune.LatencyP99), from.Of(tune.LatencyP99))))
			}
		}
	}
	return lines
}

// stepText says what a step changed and what it gained.
func (r *result) stepText(s *tune.Step) string {
	var words []string
	for i := range r.space.Axes {
		a := &r.space.Axes[i]
		if s.From.Candidate[i] == s.To.Candidate[i] {
			continue
		}
		c := tune.Change{Model: a.Model, Field: a.Field, From: a.Values[s.From.Candidate[i]],
			To: a.Values[s.To.Candidate[i]]}
		if a.Field == tune.Load {
			words = append(words, fmt.Sprintf("%s %d → %d", r.loadName(), c.From, c.To))
		} else {
			words = append(words, r.changeText(c))
		}
	}
	return fmt.Sprintf("%s: throughput %s, p99 %s", strings.Join(words, ", "),
		ratio(s.To.Throughput, s.From.Throughput),
		ratio(s.To.Of(tune.LatencyP99), s.From.Of(tune.LatencyP99)))
}

// ratio formats a change in percent.
func ratio(to, from float64) string {
	if from <= 0 {
		return "unknown"
	}
	return fmt.Sprintf("%+.0f %%", 100*(to/from-1))
}

// objectiveText describes the goal.
func (r *result) objectiveText() string {
	var words []string
	for _, m := range slices.Sorted(maps.Keys(r.goal.Weights)) {
		words = append(words, fmt.Sprintf("%s (weight %g)", m, r.goal.Weights[m]))
	}
	if len(r.goal.Constraints) > 0 {
		words = append(words, r.goalText())
	}
	return strings.Join(words, ", ")
}

// goalText describes the constraints.
func (r *result) goalText() string {
	var words []string
	for _, c := range r.goal.Constraints {
		if c.Min > 0 {
			words = append(words, fmt.Sprintf("%s at least %g", c.Metric, c.Min))
		}
		if c.Max > 0 {
			words = append(words, fmt.Sprintf("%s at most %g", c.Metric, c.Max))
		}
	}
	return strings.Join(words, ", ")
}
