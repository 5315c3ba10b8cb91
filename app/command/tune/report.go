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

	"nereid/app/tune"
)

// report shows what was found.
func (o *tuneOptions) report(r *tuned, stdout io.Writer) error {
	errs := []error{r.table(stdout)}
	if o.reportAt != "" {
		errs = append(errs, writeFile(o.reportAt, r.writeHTML))
	}
	if o.exportAt != "" {
		errs = append(errs, r.export(o.exportAt))
	}
	if o.variantsAt != "" {
		errs = append(errs, r.writeRepository(o.variantsAt))
	}
	if err := errors.Join(errs...); err != nil || !o.applies {
		return err
	}
	return o.apply(r, stdout)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// export writes the tables into a folder, under model_analyzer's names.
func (r *tuned) export(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	err := writeFile(filepath.Join(folder, "metrics-model-inference.csv"), r.writeCSV)
	if r.gpus > 0 {
		err = errors.Join(err, writeFile(filepath.Join(folder, "metrics-model-gpu.csv"), r.writeGPUCSV))
	}
	if r.alone != nil {
		err = errors.Join(err, writeFile(filepath.Join(folder, "metrics-server-only.csv"), r.writeServerCSV))
	}
	return err
}

// shown are the best configurations, without the present one.
func (r *tuned) shown() (out []tune.Trial) {
	for _, t := range r.ranked {
		if len(out) < r.top && !r.space.IsPresent(t.Candidate) {
			out = append(out, t)
		}
	}
	return out
}

// best is the best configuration that keeps the constraints, the present one if none is better; false if none keeps them.
func (r *tuned) best() (tune.Trial, bool) {
	if len(r.ranked) == 0 || !r.goal.Keeps(&r.ranked[0].Measurement) {
		return tune.Trial{}, false
	}
	return r.ranked[0], true
}

// table writes the best configurations beside the present one, and why.
func (r *tuned) table(w io.Writer) error {
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tab, "\tCONFIGURATION\t%s\tINFER/S\tP50\tP99\tCPU\tMEMORY\tGOAL\n", strings.ToUpper(r.loadName()))
	for name, t := range r.head() {
		row := r.row(name, t)
		fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", name, row.Config, r.space.LoadOf(t.Candidate), row.Throughput, row.P50, row.P99, row.CPU, row.Memory, row.Goal)
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

func (r *tuned) loadName() string {
	if r.rate {
		return "requests/s"
	}
	return "concurrency"
}

// why says in sentences what was found, and by which steps.
func (r *tuned) why() (lines []string) {
	all := r.summary()
	lines = append(lines, all[0])
	for _, s := range r.result.Steps {
		lines = append(lines, "  "+r.stepText(&s))
	}
	return append(lines, all[1:]...)
}

// summary is how much was measured, and what was found.
func (r *tuned) summary() (lines []string) {
	failed := 0
	for _, t := range r.result.Trials {
		if t.Failed != "" {
			failed++
		}
	}
	text := fmt.Sprintf("%d measurements in %.0f s", len(r.result.Trials), r.ended.Sub(r.began).Seconds())
	switch {
	case r.cut:
		text += ", interrupted"
	case r.searching == "quick" && r.result.Ended:
		text += "; nothing near the best is better"
	case r.searching == "quick":
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
	case r.based:
		lines = append(lines, fmt.Sprintf("The best, %s, at %s: throughput %s, p99 %s, memory %s against the present configuration at its best (%s).",
			r.variantText(best.Candidate), r.loadText(best.Candidate), ratio(best.Throughput, r.baseline.Throughput),
			ratio(best.Of(tune.LatencyP99), r.baseline.Of(tune.LatencyP99)), ratio(best.Of(tune.RAM), r.baseline.Of(tune.RAM)), r.loadText(r.baseline.Candidate)))
	}
	if ok && r.based && !r.space.IsPresent(best.Candidate) {
		for i, name := range append([]string{r.model}, r.with...) {
			if len(best.Models) > i && len(r.baseline.Models) > i {
				to, from := &best.Models[i], &r.baseline.Models[i]
				lines = append(lines, fmt.Sprintf("  %s: %.1f infer/s (%s), p99 %s (%s)", name, to.Throughput, ratio(to.Throughput, from.Throughput),
					msText(to.P99), ratio(to.Of(tune.LatencyP99), from.Of(tune.LatencyP99))))
			}
		}
	}
	return lines
}

// stepText says what a step changed and did.
func (r *tuned) stepText(s *tune.Step) string {
	var words []string
	for i := range r.space.Axes {
		a := &r.space.Axes[i]
		if s.From.Candidate[i] == s.To.Candidate[i] {
			continue
		}
		c := tune.Change{Model: a.Model, Field: a.Field, From: a.Values[s.From.Candidate[i]], To: a.Values[s.To.Candidate[i]]}
		word := changeText(c)
		if a.Field == tune.Load {
			word = fmt.Sprintf("%s %d → %d", r.loadName(), c.From, c.To)
		} else if a.Model != r.model {
			word = a.Model + ": " + word
		}
		words = append(words, word)
	}
	return fmt.Sprintf("%s: throughput %s, p99 %s", strings.Join(words, ", "), ratio(s.To.Throughput, s.From.Throughput),
		ratio(s.To.Of(tune.LatencyP99), s.From.Of(tune.LatencyP99)))
}

// ratio says a change in percent.
func ratio(to, from float64) string {
	if from <= 0 {
		return "unknown"
	}
	return fmt.Sprintf("%+.0f %%", 100*(to/from-1))
}

// objectiveText says what is to be reached.
func (r *tuned) objectiveText() string {
	var words []string
	for _, m := range slices.Sorted(maps.Keys(r.goal.Weights)) {
		words = append(words, fmt.Sprintf("%s (weight %g)", m, r.goal.Weights[m]))
	}
	if len(r.goal.Constraints) > 0 {
		words = append(words, r.goalText())
	}
	return strings.Join(words, ", ")
}

// goalText says the constraints.
func (r *tuned) goalText() string {
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
