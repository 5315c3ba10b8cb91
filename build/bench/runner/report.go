package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report collects the points of both sides; side 0 is ours, side 1 the reference.
type report struct {
	started   time.Time
	starts    [2][]startPoint
	order     []caseKey
	points    map[caseKey]*[2][]loadPoint
	history   [2][]loadPoint              // ours with its history, and without
	echo      map[echoKey]*[2][]loadPoint // ours with 1 MiB tensors, and the echo program
	idle      []idlePoint
	instances pairs
	conv      convPoints
	python    pythonPoints
	recovery  recoveryPoints
	loadAvg   string
}

type caseKey struct {
	name    string
	clients int
}

// startPoint is one start with an empty repository.
type startPoint struct {
	toReady time.Duration
	rssMB   float64
	idleCPU float64 // percent of one core
}

func newReport(options) *report {
	avg, _ := os.ReadFile("/proc/loadavg")
	return &report{started: time.Now(), points: map[caseKey]*[2][]loadPoint{}, echo: map[echoKey]*[2][]loadPoint{}, loadAvg: strings.TrimSpace(string(avg))}
}

func (r *report) addStart(side int, p startPoint) { r.starts[side] = append(r.starts[side], p) }

func (r *report) addLoad(name string, clients, side int, p loadPoint) {
	k := caseKey{name, clients}
	if r.points[k] == nil {
		r.points[k] = &[2][]loadPoint{}
		r.order = append(r.order, k)
	}
	r.points[k][side] = append(r.points[k][side], p)
}

func (r *report) empty() bool {
	return len(r.order) == 0 && len(r.starts[0]) == 0 && len(r.history[0]) == 0 && len(r.echo) == 0 && len(r.idle) == 0 && len(r.instances) == 0 && len(r.conv[0]) == 0 && len(r.python.builtin) == 0 && len(r.python.load[0]) == 0 && len(r.recovery.killed) == 0
}

// spread is a median with its range.
type spread struct{ median, low, high float64 }

func spreadOf[T any](points []T, f func(T) float64) spread {
	var v []float64
	for _, p := range points {
		v = append(v, f(p))
	}
	if len(v) == 0 {
		return spread{}
	}
	slices.Sort(v)
	m := v[len(v)/2]
	if len(v)%2 == 0 {
		m = (v[len(v)/2-1] + m) / 2
	}
	return spread{m, v[0], v[len(v)-1]}
}

func (s spread) text(format string) string {
	if s.low == s.high {
		return fmt.Sprintf(format, s.median)
	}
	return fmt.Sprintf(format+" ["+format+"–"+format+"]", s.median, s.low, s.high)
}

// finish prints the report and, when a folder was named, writes it there.
func (r *report) finish(o options) error {
	text := r.markdown(o)
	fmt.Print(text)
	if o.report == "" {
		return nil
	}
	if err := os.MkdirAll(o.report, 0o755); err != nil {
		return err
	}
	path := filepath.Join(o.report, "bench-"+r.started.Format("2006-01-02")+".md")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "written:", path)
	return nil
}

func (r *report) markdown(o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Bench %s\n\n", r.started.Format("2006-01-02 15:04"))
	fmt.Fprintf(&b, "Ours: commit %s. Reference: tritonserver 2.51.0 out of `nvidia-pytriton==0.7.0`, Python models, onnxruntime 1.31.1.\n", commit())
	fmt.Fprintf(&b, "Machine: %s, %d cores, %s; load average before: %s. Server and load generator share the cores.\n", cpuModel(), runtime.NumCPU(), runtime.Version(), r.loadAvg)
	fmt.Fprintf(&b, "%d interleaved pairs a case, windows of %g s after 1 s of warm-up; median [range]. µs: the server's CPU time per request.\n", o.repeat, o.seconds)
	fmt.Fprintf(&b, "Ratios are medians over the pairs, ours to reference: above 1 in requests/s and below 1 in µs is better.\n")
	if len(r.order) > 0 {
		b.WriteString("\n| case | clients | ours req/s | reference req/s | ratio | ours µs | reference µs | ratio | ours p50 / p99 ms | reference p50 / p99 ms | others' CPU |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, k := range r.order {
			b.WriteString(row(k, r.points[k]))
		}
	}
	if len(r.starts[0]) > 0 {
		b.WriteString("\nEmpty repository:\n\n| | start to ready, ms | RSS at rest, MB | CPU at rest, % |\n|---|---|---|---|\n")
		for side, name := range []string{"ours", "reference"} {
			if p := r.starts[side]; len(p) > 0 {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name,
					spreadOf(p, func(p startPoint) float64 { return float64(p.toReady) / 1e6 }).text("%.0f"),
					spreadOf(p, func(p startPoint) float64 { return p.rssMB }).text("%.0f"),
					spreadOf(p, func(p startPoint) float64 { return p.idleCPU }).text("%.1f"))
			}
		}
	}
	if len(r.history[0]) > 0 {
		us := func(p loadPoint) float64 { return p.ServerUS }
		v, _ := pairRatio(&r.history, us)
		fmt.Fprintf(&b, "\nRecording the history, identity-http, 64 clients: %s µs a request with it, %s without; ratio over %d pairs %s.\n",
			spreadOf(r.history[0], us).text("%.2f"), spreadOf(r.history[1], us).text("%.2f"), len(r.history[0]), v.text("%.3f"))
	}
	r.echoTable(&b)
	r.idleTable(&b)
	b.WriteString(r.instances.markdown())
	b.WriteString(r.conv.markdown())
	b.WriteString(r.python.markdown())
	b.WriteString(r.recovery.markdown())
	b.WriteString(r.bars())
	return b.String()
}

func (r *report) echoTable(b *strings.Builder) {
	if len(r.echo) == 0 {
		return
	}
	b.WriteString("\nTensors of 1 MiB, beside a program that sends each message back over a library (http: fasthttp, grpc: our own HTTP/2,\n" +
		"grpc-go: that; ours serves gRPC by its own in both):\n\n" +
		"| echo | clients | ours req/s | echo req/s | ours µs | echo µs | ratio |\n|---|---|---|---|---|---|---|\n")
	rate, us := func(p loadPoint) float64 { return p.Rate }, func(p loadPoint) float64 { return p.ServerUS }
	for _, k := range r.echoKeys() {
		s := r.echo[k]
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %s |\n", k.library, k.clients, spreadOf(s[0], rate).text("%.0f"), spreadOf(s[1], rate).text("%.0f"),
			spreadOf(s[0], us).text("%.0f"), spreadOf(s[1], us).text("%.0f"), ratio(s, us))
	}
}

// echoKeys returns the cases in the order of the libraries.
func (r *report) echoKeys() []echoKey {
	return slices.SortedFunc(maps.Keys(r.echo), func(a, b echoKey) int {
		return cmp.Or(cmp.Compare(slices.Index(echoLibraries, a.library), slices.Index(echoLibraries, b.library)), cmp.Compare(a.clients, b.clients))
	})
}

func (r *report) idleTable(b *strings.Builder) {
	if len(r.idle) == 0 {
		return
	}
	b.WriteString("\nIdle connections, each after one request (HTTP) or its greeting (gRPC):\n\n" +
		"| protocol | connections | memory each, bytes | a request on one, median ms | at most | on a new one, median ms | at most |\n|---|---|---|---|---|---|---|\n")
	for _, p := range r.idle {
		fmt.Fprintf(b, "| %s | %d | %d | %.2f | %.2f | %.2f | %.2f |\n", p.proto, p.connections, p.bytesEach,
			ms(p.old.median), ms(p.old.most), ms(p.fresh.median), ms(p.fresh.most))
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func row(k caseKey, sides *[2][]loadPoint) string {
	rate := func(p loadPoint) float64 { return p.Rate }
	us := func(p loadPoint) float64 { return p.ServerUS }
	col := func(side int, f func(loadPoint) float64, format string) string {
		if len(sides[side]) == 0 {
			return "–"
		}
		return spreadOf(sides[side], f).text(format)
	}
	latency := func(side int) string {
		if len(sides[side]) == 0 {
			return "–"
		}
		return fmt.Sprintf("%.3f / %.2f", spreadOf(sides[side], func(p loadPoint) float64 { return p.P50MS }).median,
			spreadOf(sides[side], func(p loadPoint) float64 { return p.P99MS }).median)
	}
	others := spreadOf(slices.Concat(sides[0], sides[1]), func(p loadPoint) float64 { return p.OtherCPU })
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %.2f, at most %.2f |\n", k.name, k.clients,
		col(0, rate, "%.0f"), col(1, rate, "%.0f"), ratio(sides, rate), col(0, us, "%.1f"), col(1, us, "%.1f"), ratio(sides, us),
		latency(0), latency(1), others.median, others.high)
}

// ratio returns the median over the pairs of ours to theirs.
func ratio(sides *[2][]loadPoint, f func(loadPoint) float64) string {
	if v, ok := pairRatio(sides, f); ok {
		return v.text("%.2f")
	}
	return "–"
}

func pairRatio(sides *[2][]loadPoint, f func(loadPoint) float64) (spread, bool) {
	var v []float64
	for i := range min(len(sides[0]), len(sides[1])) {
		if d := f(sides[1][i]); d > 0 {
			v = append(v, f(sides[0][i])/d)
		}
	}
	return spreadOf(v, func(x float64) float64 { return x }), len(v) > 0
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for _, line := range strings.Split(string(data), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}
