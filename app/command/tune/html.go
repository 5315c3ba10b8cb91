package tunecmd

import (
	_ "embed"
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

// tableRow is a row of a table.
type tableRow struct {
	Name, Config, Load, Throughput, P50, P99, CPU, Memory, GPUMemory, Goal string
}

func (r *result) row(name string, t *tune.Trial) tableRow {
	goal := "kept"
	if !r.goal.Keeps(&t.Measurement) {
		goal = "missed"
	}
	return tableRow{name, r.variantText(t.Candidate), r.loadText(t.Candidate), fmt.Sprintf("%.1f", t.Throughput),
		msText(t.P50), msText(t.P99),
		cpuText(&t.Measurement), fmt.Sprintf("%.0f MB", t.Of(tune.RAM)),
		fmt.Sprintf("%.0f MB", t.Of(tune.GPUMemory)), goal}
}

// cpuText is the share of one core; a dash if too little was measured.
func cpuText(m *tune.Measurement) string {
	if m.CPUUnknown {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", m.Of(tune.CPU))
}

// head yields the present configuration and the best ones, with their names.
func (r *result) head() iter.Seq2[string, *tune.Trial] {
	return func(yield func(string, *tune.Trial) bool) {
		if r.hasBaseline && !yield("now", &r.baseline) {
			return
		}
		for i, t := range r.shown() {
			if !yield(strconv.Itoa(i+1), &t) {
				return
			}
		}
	}
}

// page is the contents of the report.
type page struct {
	Model, Goal, When string
	Rows, All         []tableRow
	Why, Steps        []string
	Failed            []string
	Speed, Memory     *plot
	GPUs              bool
}

// writeHTML writes a report that needs no other files.
func (r *result) writeHTML(w io.Writer) error {
	p := page{Model: r.title(), Goal: r.objectiveText(), When: r.began.Format(time.DateTime), Why: r.summary(),
		GPUs: r.gpus > 0}
	for name, t := range r.head() {
		p.Rows = append(p.Rows, r.row(name, t))
	}
	for _, s := range r.found.Steps {
		p.Steps = append(p.Steps, r.stepText(&s))
	}
	for i, t := range r.found.Trials {
		if t.Failed != "" {
			p.Failed = append(p.Failed, r.variantText(t.Candidate)+", "+r.loadText(t.Candidate)+": "+t.Failed)
			continue
		}
		p.All = append(p.All, r.row(strconv.Itoa(i+1), &t))
	}
	p.Speed = r.plot("p99, ms", "infer/s", func(t *tune.Trial) (float64, float64) {
		return t.Of(tune.LatencyP99),
			t.Throughput
	})
	p.Memory = r.plot("p99, ms", "memory, MB", func(t *tune.Trial) (float64, float64) {
		return t.Of(tune.LatencyP99), t.Of(tune.RAM) + t.Of(tune.GPUMemory)
	})
	return p.write(w)
}

// plot is a scatter plot with a logarithmic x axis.
type plot struct {
	X, Y   string // labels of the axes
	Points []dot
	Lines  []tickLine
	Limit  float64 // x of the constraint on the latency; 0: there is none
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

// The size of a plot and its margins.
const (
	plotWidth, plotHeight   = 720.0, 360.0
	plotLeft, plotBottom    = 70.0, 40.0
	plotRight, plotTopSpace = 20.0, 15.0
)

// plot makes a plot of all trials.
func (r *result) plot(x, y string, of func(*tune.Trial) (float64, float64)) *plot {
	p := &plot{X: x, Y: y}
	trials := slices.DeleteFunc(slices.Clone(r.found.Trials), func(t tune.Trial) bool { return t.Failed != "" })
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
		p.Points = append(p.Points, dot{atX(a), atY(b), kind, r.variantText(t.Candidate) + ", " +
			r.loadText(t.Candidate) + ": " + figures(&t.Measurement)})
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

// markup writes HTML and keeps the first error. It does not use html/template, which calls methods by name: the linker
// would have to keep every method of every type in the program.
type markup struct {
	w   io.Writer
	err error
}

// put writes a format of markup. It escapes the strings among the arguments.
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

// raw writes markup as it is.
func (m *markup) raw(text string) {
	if m.err == nil {
		_, m.err = io.WriteString(m.w, text)
	}
}

// list writes a list under a heading; nothing if there are no items.
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

// table writes a table of trials.
func (m *markup) table(rows []tableRow, gpus bool) {
	m.put("<table><tr><th></th><th>Configuration</th><th>Load</th><th>infer/s</th>" +
		"<th>p50</th><th>p99</th><th>CPU</th><th>Memory</th>")
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

// plot writes a plot as SVG.
func (m *markup) plot(heading string, p *plot) {
	const right, low = plotWidth - plotRight, plotHeight - plotBottom
	m.put("<h2>%s</h2>\n<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s by %s\">\n", heading, plotWidth,
		plotHeight, p.Y, p.X)
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
		m.put(`<circle class="%s" cx="%g" cy="%g" r="%g"><title>%s</title></circle>`+"\n", d.Kind, d.X, d.Y, radius,
			d.Title)
	}
	m.put(`<text x="%g" y="%g" text-anchor="middle">%s</text><text x="%g" y="11">%s</text></svg>`+"\n",
		(plotLeft+right)/2, plotHeight-6, p.X, plotLeft, p.Y)
	m.put("<p class=\"muted\">Green: the best. Blue: the present configuration. Hollow: misses a constraint. The " +
		"line is the latency budget.</p>\n")
}

func (p *page) write(w io.Writer) error {
	m := &markup{w: w}
	m.put("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s: tuning</title>\n", p.Model)
	m.raw(styleSheet)
	m.put("</head><body>\n")
	m.put("<h1>%s: tuning</h1>\n<p class=\"muted\">%s. Goal: %s.</p>\n", p.Model, p.When, p.Goal)
	for _, why := range p.Why {
		m.put("<p>%s</p>", why)
	}
	m.put("\n<h2>The best configurations and the present one</h2>\n")
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

// styleSheet is the report's style element.
//
//go:embed style.html
var styleSheet string
