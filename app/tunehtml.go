package app

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"time"

	"nereid/engine/tune"
)

// writeHTML writes a report that needs no other file.
func (r *tuned) writeHTML(w io.Writer) error {
	type row struct {
		Name, Config, Load, Throughput, P50, P99, CPU, Memory, GPUMemory, Goal string
	}
	type page struct {
		Model, Goal, When string
		Rows, All         []row
		Why, Steps        []string
		Failed            []string
		Speed, Memory     *plot
		GPUs              bool
	}
	line := func(name string, t *tune.Trial) row {
		goal := "kept"
		if !r.goal.Keeps(&t.Measurement) {
			goal = "missed"
		}
		return row{name, r.variantText(t.Candidate), r.loadText(t.Candidate), fmt.Sprintf("%.1f", t.Throughput), msText(t.P50), msText(t.P99),
			fmt.Sprintf("%.0f %%", t.Of(tune.CPU)), fmt.Sprintf("%.0f MB", t.Of(tune.RAM)), fmt.Sprintf("%.0f MB", t.Of(tune.GPUMemory)), goal}
	}
	p := page{Model: r.model, Goal: r.objectiveText(), When: r.began.Format(time.DateTime), Why: r.summary(), GPUs: r.gpus > 0}
	if r.based {
		p.Rows = append(p.Rows, line("now", &r.baseline))
	}
	for i, t := range r.shown() {
		p.Rows = append(p.Rows, line(fmt.Sprint(i+1), &t))
	}
	for _, s := range r.result.Steps {
		p.Steps = append(p.Steps, r.stepText(&s))
	}
	for i, t := range r.result.Trials {
		if t.Failed != "" {
			p.Failed = append(p.Failed, r.variantText(t.Candidate)+", "+r.loadText(t.Candidate)+": "+t.Failed)
			continue
		}
		p.All = append(p.All, line(fmt.Sprint(i+1), &t))
	}
	p.Speed = r.plot("p99, ms", "infer/s", func(t *tune.Trial) (float64, float64) { return t.Of(tune.LatencyP99), t.Throughput })
	p.Memory = r.plot("p99, ms", "memory, MB", func(t *tune.Trial) (float64, float64) {
		return t.Of(tune.LatencyP99), t.Of(tune.RAM) + t.Of(tune.GPUMemory)
	})
	return tunePage().Execute(w, p)
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
	trials := worthShowing(r.result.Trials)
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

func tunePage() *template.Template {
	pair := func(gpus bool, list any) any {
		return struct {
			GPUs bool
			List any
		}{gpus, list}
	}
	return template.Must(template.New("tune").Funcs(template.FuncMap{"rows": pair}).Parse(tuneHTML))
}

const tuneHTML = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Model}}: tuning</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c2430; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #dde3ea; font-variant-numeric: tabular-nums }
th { font-weight: 600; color: #55606e } .muted { color: #55606e }
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: #55606e } .grid { stroke: #e6ebf0 } .limit { stroke: #b3401f; stroke-dasharray: 4 3 }
.other { fill: #8a99ab } .missed { fill: none; stroke: #b9c3ce } .now { fill: #1f6fb3 } .best { fill: #1f8a4c }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #dce3ea } th, .muted, svg text { color: #9aa7b5; fill: #9aa7b5 } th, td { border-color: #2c343d } .grid { stroke: #2c343d } }
</style></head><body>
<h1>{{.Model}}: tuning</h1>
<p class="muted">{{.When}}. Goal: {{.Goal}}.</p>
{{range .Why}}<p>{{.}}</p>{{end}}
{{define "rows"}}<table><tr><th></th><th>Configuration</th><th>Load</th><th>infer/s</th><th>p50</th><th>p99</th><th>CPU</th><th>Memory</th>{{if .GPUs}}<th>GPU memory</th>{{end}}<th>Goal</th></tr>
{{$gpus := .GPUs}}{{range .List}}<tr><td>{{.Name}}</td><td>{{.Config}}</td><td>{{.Load}}</td><td>{{.Throughput}}</td><td>{{.P50}}</td><td>{{.P99}}</td><td>{{.CPU}}</td><td>{{.Memory}}</td>{{if $gpus}}<td>{{.GPUMemory}}</td>{{end}}<td>{{.Goal}}</td></tr>
{{end}}</table>{{end}}
{{define "plot"}}<svg viewBox="0 0 720 360" role="img" aria-label="{{.Y}} by {{.X}}">
{{range .Lines}}{{if eq .Along "x"}}<line class="grid" x1="{{.At}}" x2="{{.At}}" y1="15" y2="320"/><text x="{{.At}}" y="335" text-anchor="middle">{{.Text}}</text>{{else}}<line class="grid" x1="70" x2="700" y1="{{.At}}" y2="{{.At}}"/><text x="64" y="{{.At}}" dy="4" text-anchor="end">{{.Text}}</text>{{end}}
{{end}}{{if .Limit}}<line class="limit" x1="{{.Limit}}" x2="{{.Limit}}" y1="15" y2="320"/>{{end}}
{{range .Points}}<circle class="{{.Kind}}" cx="{{.X}}" cy="{{.Y}}" r="{{if eq .Kind "best"}}7{{else}}4.5{{end}}"><title>{{.Title}}</title></circle>
{{end}}<text x="385" y="354" text-anchor="middle">{{.X}}</text><text x="70" y="11">{{.Y}}</text></svg>
<p class="muted">Green: the best. Blue: the present configuration. Hollow: misses a constraint. The line is the latency budget.</p>{{end}}
<h2>The best beside the present configuration</h2>
{{template "rows" (rows .GPUs .Rows)}}
<h2>Throughput and latency</h2>
{{template "plot" .Speed}}
<h2>Memory and latency</h2>
{{template "plot" .Memory}}
{{if .Steps}}<h2>How it was found</h2><ol>{{range .Steps}}<li>{{.}}</li>{{end}}</ol>{{end}}
{{if .Failed}}<h2>What could not be measured</h2><ul>{{range .Failed}}<li>{{.}}</li>{{end}}</ul>{{end}}
<h2>All measurements</h2>
{{template "rows" (rows .GPUs .All)}}
</body></html>
`
