package tunecmd

import (
	"fmt"
	"html"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"nereid/app/tune"
)

// tuneRow is a line of a table.
type tuneRow struct {
	Name, Config, Load, Throughput, P50, P99, CPU, Memory, GPUMemory, Goal string
}

func (r *tuned) row(name string, t *tune.Trial) tuneRow {
	goal := "kept"
	if !r.goal.Keeps(&t.Measurement) {
		goal = "missed"
	}
	return tuneRow{name, r.variantText(t.Candidate), r.loadText(t.Candidate), fmt.Sprintf("%.1f", t.Throughput), msText(t.P50), msText(t.P99),
		fmt.Sprintf("%.0f %%", t.Of(tune.CPU)), fmt.Sprintf("%.0f MB", t.Of(tune.RAM)), fmt.Sprintf("%.0f MB", t.Of(tune.GPUMemory)), goal}
}

// head are the present configuration and the best ones, with their names.
func (r *tuned) head() iter.Seq2[string, *tune.Trial] {
	return func(yield func(string, *tune.Trial) bool) {
		if r.based && !yield("now", &r.baseline) {
			return
		}
		for i, t := range r.shown() {
			if !yield(strconv.Itoa(i+1), &t) {
				return
			}
		}
	}
}

// tunePage is what the report shows.
type tunePage struct {
	Model, Goal, When string
	Rows, All         []tuneRow
	Why, Steps        []string
	Failed            []string
	Speed, Memory     *plot
	GPUs              bool
}

// writeHTML writes a report that needs no other file.
func (r *tuned) writeHTML(w io.Writer) error {
	p := tunePage{Model: r.model, Goal: r.objectiveText(), When: r.began.Format(time.DateTime), Why: r.summary(), GPUs: r.gpus > 0}
	for name, t := range r.head() {
		p.Rows = append(p.Rows, r.row(name, t))
	}
	for _, s := range r.result.Steps {
		p.Steps = append(p.Steps, r.stepText(&s))
	}
	for i, t := range r.result.Trials {
		if t.Failed != "" {
			p.Failed = append(p.Failed, r.variantText(t.Candidate)+", "+r.loadText(t.Candidate)+": "+t.Failed)
			continue
		}
		p.All = append(p.All, r.row(strconv.Itoa(i+1), &t))
	}
	p.Speed = r.plot("p99, ms", "infer/s", func(t *tune.Trial) (float64, float64) { return t.Of(tune.LatencyP99), t.Throughput })
	p.Memory = r.plot("p99, ms", "memory, MB", func(t *tune.Trial) (float64, float64) {
		return t.Of(tune.LatencyP99), t.Of(tune.RAM) + t.Of(tune.GPUMemory)
	})
	return p.write(w)
}

// plot is a scatter plot with a logarithmic x axis.
type plot struct {
	X, Y   string // what the axes are
	Points []dot
	Lines  []tickLine
	Limit  float64 // where the constraint on the latency is; 0: there is none
}

type dot struct {
	X, Y        float64
	Kind, Title string
}

type tickLine struct {
	At    float64
	Text  string
	Along string // "x" or "y"
}

// The size of a plot, and what its margins are.
const (
	plotWidth, plotHeight   = 720.0, 360.0
	plotLeft, plotBottom    = 70.0, 40.0
	plotRight, plotTopSpace = 20.0, 15.0
)

func (r *tuned) plot(x, y string, of func(*tune.Trial) (float64, float64)) *plot {
	p := &plot{X: x, Y: y}
	trials := slices.DeleteFunc(slices.Clone(r.result.Trials), func(t tune.Trial) bool { return t.Failed != "" })
	low, high, top := math.Inf(1), 0.0, 0.0
	for i := range trials {
		a, b := of(&trials[i])
		low, high, top = min(low, max(a, 1e-3)), max(high, a, 1e-3), max(top, b)
	}
	if len(trials) == 0 {
		return p
	}
	low, high, top = low/1.2, high*1.2, max(top*1.1, 1e-9)
	atX := func(v float64) float64 {
		return plotLeft + (plotWidth-plotLeft-plotRight)*math.Log(max(v, low)/low)/math.Log(high/low)
	}
	atY := func(v float64) float64 {
		return plotHeight - plotBottom - (plotHeight-plotBottom-plotTopSpace)*v/top
	}
	best, ok := r.best()
	for i := range trials {
		t := &trials[i]
		a, b := of(t)
		kind := "other"
		switch {
		case ok && r.space.Key(t.Candidate) == r.space.Key(best.Candidate):
			kind = "best"
		case r.space.IsPresent(t.Candidate):
			kind = "now"
		case !r.goal.Keeps(&t.Measurement):
			kind = "missed"
		}
		p.Points = append(p.Points, dot{atX(a), atY(b), kind, r.variantText(t.Candidate) + ", " + r.loadText(t.Candidate) + ": " + figures(&t.Measurement)})
	}
	for v := math.Pow(10, math.Floor(math.Log10(low))); v < high; v *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if v*k >= low && v*k <= high {
				p.Lines = append(p.Lines, tickLine{atX(v * k), fmt.Sprintf("%g", v*k), "x"})
			}
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(top)))
	if top/step < 3 {
		step /= 2
	}
	for v := 0.0; v <= top; v += step {
		p.Lines = append(p.Lines, tickLine{atY(v), fmt.Sprintf("%g", v), "y"})
	}
	for _, c := range r.goal.Constraints {
		if c.Metric == tune.LatencyP99 && c.Max >= low && c.Max <= high {
			p.Limit = atX(c.Max)
		}
	}
	return p
}

// markup writes HTML and keeps the first error. Package html/template is not used: it calls methods by name, for which the linker
// keeps every method of every type in the program.
type markup struct {
	w   io.Writer
	err error
}

// put writes by a format of markup; strings among the arguments are text, and escaped.
func (m *markup) put(format string, args ...any) {
	if m.err != nil {
		return
	}
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = html.EscapeString(text)
		}
	}
	_, m.err = fmt.Fprintf(m.w, format, args...)
}

// list writes items between an opening and a closing tag, under a heading; nothing if there are none.
func (m *markup) list(heading, tag string, items []string) {
	if len(items) == 0 {
		return
	}
	m.put("<h2>%s</h2><%s>", heading, tag)
	for _, item := range items {
		m.put("<li>%s</li>", item)
	}
	m.put("</%s>\n", tag)
}

func (m *markup) table(rows []tuneRow, gpus bool) {
	m.put("<table><tr><th></th><th>Configuration</th><th>Load</th><th>infer/s</th><th>p50</th><th>p99</th><th>CPU</th><th>Memory</th>")
	if gpus {
		m.put("<th>GPU memory</th>")
	}
	m.put("<th>Goal</th></tr>\n")
	for _, r := range rows {
		m.put("<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>",
			r.Name, r.Config, r.Load, r.Throughput, r.P50, r.P99, r.CPU, r.Memory)
		if gpus {
			m.put("<td>%s</td>", r.GPUMemory)
		}
		m.put("<td>%s</td></tr>\n", r.Goal)
	}
	m.put("</table>\n")
}

func (m *markup) plot(heading string, p *plot) {
	const right, low = plotWidth - plotRight, plotHeight - plotBottom
	m.put("<h2>%s</h2>\n<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s by %s\">\n", heading, plotWidth, plotHeight, p.Y, p.X)
	upright := func(class string, at float64) {
		m.put(`<line class="%s" x1="%[2]g" x2="%[2]g" y1="%g" y2="%g"/>`, class, at, plotTopSpace, low)
	}
	for _, l := range p.Lines {
		if l.Along == "x" {
			upright("grid", l.At)
			m.put(`<text x="%g" y="%g" text-anchor="middle">%s</text>`, l.At, low+15, l.Text)
		} else {
			m.put(`<line class="grid" x1="%g" x2="%g" y1="%[3]g" y2="%[3]g"/>`, plotLeft, right, l.At)
			m.put(`<text x="%g" y="%g" dy="4" text-anchor="end">%s</text>`, plotLeft-6, l.At, l.Text)
		}
	}
	if p.Limit != 0 {
		upright("limit", p.Limit)
	}
	for _, d := range p.Points {
		radius := 4.5
		if d.Kind == "best" {
			radius = 7
		}
		m.put(`<circle class="%s" cx="%g" cy="%g" r="%g"><title>%s</title></circle>`+"\n", d.Kind, d.X, d.Y, radius, d.Title)
	}
	m.put(`<text x="%g" y="%g" text-anchor="middle">%s</text><text x="%g" y="11">%s</text></svg>`+"\n", (plotLeft+right)/2, plotHeight-6, p.X, plotLeft, p.Y)
	m.put("<p class=\"muted\">Green: the best. Blue: the present configuration. Hollow: misses a constraint. The line is the latency budget.</p>\n")
}

func (p *tunePage) write(w io.Writer) error {
	m := &markup{w: w}
	m.put("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s: tuning</title>\n"+tuneStyle+"</head><body>\n", p.Model)
	m.put("<h1>%s: tuning</h1>\n<p class=\"muted\">%s. Goal: %s.</p>\n", p.Model, p.When, p.Goal)
	for _, why := range p.Why {
		m.put("<p>%s</p>", why)
	}
	m.put("\n<h2>The best beside the present configuration</h2>\n")
	m.table(p.Rows, p.GPUs)
	m.plot("Throughput and latency", p.Speed)
	m.plot("Memory and latency", p.Memory)
	m.list("How it was found", "ol", p.Steps)
	m.list("What could not be measured", "ul", p.Failed)
	m.put("<h2>All measurements</h2>\n")
	m.table(p.All, p.GPUs)
	m.put("</body></html>\n")
	return m.err
}

// tuneStyle is the report's style sheet, as a format.
const tuneStyle = `<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c2430; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100%% } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #dde3ea; font-variant-numeric: tabular-nums }
th { font-weight: 600; color: #55606e } .muted { color: #55606e }
svg { width: 100%%; height: auto } svg text { font-size: 11px; fill: #55606e } .grid { stroke: #e6ebf0 } .limit { stroke: #b3401f; stroke-dasharray: 4 3 }
.other { fill: #8a99ab } .missed { fill: none; stroke: #b9c3ce } .now { fill: #1f6fb3 } .best { fill: #1f8a4c }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #dce3ea } th, .muted, svg text { color: #9aa7b5; fill: #9aa7b5 } th, td { border-color: #2c343d } .grid { stroke: #2c343d } }
</style>
`
