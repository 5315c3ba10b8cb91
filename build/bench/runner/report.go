package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// reportHead describes the machine and the run. It is made before the run, for the load average.
func reportHead(started time.Time, o *options) string {
	average, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("# Bench %s\n\n"+
		"Ours: commit %s. Reference: tritonserver 2.51.0 out of `nvidia-pytriton==0.7.0`, Python models, "+
		"onnxruntime 1.31.1.\n"+
		"Machine: %s, %d cores, %s; load average before: %s. Server and load generator share the cores.\n"+
		"%d interleaved pairs a case, windows of %g s after 1 s of warm-up; median [range]. "+
		"µs: the server's CPU time per request.\n"+
		"Ratios are medians over the pairs, ours to reference: above 1 in requests/s and below 1 in µs is better.\n",
		started.Format("2006-01-02 15:04"), commit(), cpuModel(), runtime.NumCPU(), runtime.Version(),
		strings.TrimSpace(string(average)), o.repeat, o.seconds)
}

// tables returns the tables of the experiments that ran, and their bars.
func tables(all []experiment) string {
	var b, bars strings.Builder
	for _, e := range all {
		b.WriteString(e.table())
		for _, x := range e.bars() {
			bars.WriteString(x.row())
		}
	}
	if bars.Len() > 0 {
		b.WriteString("\n| bar | wanted | measured | | share of the reference wanted | measured |\n" +
			"|---|---|---|---|---|---|\n" + bars.String())
	}
	return b.String()
}

// bar is a limit that the project sets for a figure.
type bar struct {
	what       string
	got, limit float64
	atLeast    bool
	unit       string
	// wantedShare and gotShare are the limit and the figure as shares of the reference's figure; 0: there is none. A
	// bar in µs was set beside a reference that was measured on one machine; its share holds on any machine.
	wantedShare, gotShare float64
}

func atMost(limit float64, unit string, got float64, what string, args ...any) bar {
	return bar{what: fmt.Sprintf(what, args...), got: got, limit: limit, unit: unit}
}

func atLeast(limit float64, unit string, got float64, what string, args ...any) bar {
	return bar{what: fmt.Sprintf(what, args...), got: got, limit: limit, unit: unit, atLeast: true}
}

func (b bar) row() string {
	ok, sign := b.got <= b.limit, "≤"
	if b.atLeast {
		ok, sign = b.got >= b.limit, "≥"
	}
	share := "|"
	if b.wantedShare > 0 {
		share = fmt.Sprintf("≤ %.2f | %.2f, %s", b.wantedShare, b.gotShare, verdict(b.gotShare <= b.wantedShare))
	}
	return fmt.Sprintf("| %s | %s %g %s | %.3g | %s | %s |\n", b.what, sign, b.limit, b.unit, b.got, verdict(ok), share)
}

func verdict(ok bool) string {
	if ok {
		return "held"
	}
	return "**missed**"
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
