package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// figure is what is measured. Its name has the unit.
type figure struct{ name, format string }

var (
	rate     = figure{"requests/s", "%.0f"}
	serverUS = figure{"server CPU, µs a request", "%.1f"}
	p50      = figure{"p50, ms", "%.3f"}
	p99      = figure{"p99, ms", "%.2f"}
	otherCPU = figure{"cores of other processes", "%.2f"}
)

// value is one measured value.
type value struct {
	figure figure
	v      float64
}

// result has all values of a figure of a case, by side. Values of both sides with the same index are a pair, which was
// measured one after the other.
type result struct {
	name   string
	figure figure
	sides  [2][]float64
}

// results are in the order of the first values.
type results []*result

func (all *results) add(name string, side int, values ...value) {
	for _, v := range values {
		r := all.find(name, v.figure)
		if r == nil {
			r = &result{name: name, figure: v.figure}
			*all = append(*all, r)
		}
		r.sides[side] = append(r.sides[side], v.v)
	}
}

// find returns nil if the figure was not measured.
func (all *results) find(name string, f figure) *result {
	for _, r := range *all {
		if r.name == name && r.figure == f {
			return r
		}
	}
	return nil
}

// ratios are those of our values to the others, pair by pair.
func (r *result) ratios() (list []float64) {
	for i := range min(len(r.sides[0]), len(r.sides[1])) {
		if d := r.sides[1][i]; d > 0 {
			list = append(list, r.sides[0][i]/d)
		}
	}
	return list
}

// spread is a median with its range.
type spread struct{ median, low, high float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	m := v[len(v)/2]
	if len(v)%2 == 0 {
		m = (v[len(v)/2-1] + m) / 2
	}
	return spread{m, v[0], v[len(v)-1]}
}

// text formats the spread of values: the median and, if they differ, the range.
func text(values []float64, format string) string {
	s := spreadOf(values)
	switch {
	case len(values) == 0:
		return "–"
	case s.low == s.high:
		return fmt.Sprintf(format, s.median)
	}
	return fmt.Sprintf(format+" ["+format+"–"+format+"]", s.median, s.low, s.high)
}

// report returns the tables of what was measured and of the bars that it concerns.
func (all *results) report() string {
	var b strings.Builder
	b.WriteString("\n| case | figure | ours | the other | ratio |\n|---|---|---|---|---|\n")
	for _, r := range *all {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.name, r.figure.name, text(r.sides[0], r.figure.format),
			text(r.sides[1], r.figure.format), text(r.ratios(), "%.2f"))
	}
	head := "\n| bar | wanted | measured | | share of the other wanted | measured |\n|---|---|---|---|---|---|\n"
	for _, bar := range bars(all) {
		for _, r := range *all {
			if row := bar.row(r); row != "" {
				b.WriteString(head + row)
				head = ""
			}
		}
	}
	return b.String()
}

// reportHead describes the machine and the run. It is made before the run, for the load average.
func reportHead(started time.Time, o *options) string {
	average, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("# Bench %s\n\n"+
		"Ours: commit %s. Reference: tritonserver 2.51.0 out of `nvidia-pytriton==0.7.0`, Python models, "+
		"onnxruntime 1.31.1.\n"+
		"Machine: %s, %d cores, %s; load average before: %s. Server and load generator share the cores.\n"+
		"%d interleaved pairs a case, windows of %g s after 1 s of warm-up; median [range].\n"+
		"The other is the reference, unless the case names another one. Ratios are medians over the pairs: above 1 in "+
		"requests/s and below 1 in µs is better.\n",
		started.Format("2006-01-02 15:04"), commit(), cpuModel(), runtime.NumCPU(), runtime.Version(),
		strings.TrimSpace(string(average)), o.repeat, o.seconds)
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}
