// Package custom keeps the metrics that models define.
//
// A model asks for families by name, and for metrics in them by labels. Models that ask for the same family or metric
// share it. It is removed when its last user closes it. The package starts no goroutine.
package custom

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"nereid/engine/status"
)

// Kind is a family's kind, in Prometheus's terms.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Registry holds families by name. The zero value is empty. Safe for concurrent use.
type Registry struct {
	mu       sync.Mutex
	families map[string]*Family // guarded by mu, as is all in them
}

// Family is a name with metrics for its labels.
type Family struct {
	g       *Registry
	name    string
	help    string
	kind    Kind
	users   int
	metrics map[string]*Metric // by Metric.labels
}

// Metric is one value, or one distribution.
type Metric struct {
	f       *Family
	labels  string // formatted, without the braces
	users   int
	value   float64
	bounds  []float64 // of a histogram, ascending
	counts  []uint64  // one more than bounds
	samples uint64
}

// Family returns the family of a name, and makes it if there is none. The caller must close it. Errors: InvalidArg
// for an invalid name, an invalid kind and a kind that differs from the family's, AlreadyExists for a name of the
// server's own metrics.
func (g *Registry) Family(name, help string, kind Kind) (*Family, error) {
	switch {
	case !validName(name):
		return nil, status.Errorf(status.InvalidArg,
			"metric family name %q is not one of Prometheus: letters, digits, '_' and ':', no digit first", name)
	case serverOwn.MatchString(name):
		return nil, status.Errorf(status.AlreadyExists, "metric family name %q is the server's own", name)
	case kind != Counter && kind != Gauge && kind != Histogram:
		return nil, status.Errorf(status.InvalidArg, "metric family kind %q is none of counter, gauge, histogram", kind)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.families[name]
	if f == nil {
		f = &Family{g: g, name: name, help: help, kind: kind, metrics: map[string]*Metric{}}
		if g.families == nil {
			g.families = map[string]*Family{}
		}
		g.families[name] = f
	}
	if f.kind != kind {
		return nil, status.New(status.InvalidArg, "Family name already exists with different type") // Triton's words
	}
	f.users++
	return f, nil
}

// serverOwn matches the names of the server's metrics.
var serverOwn = regexp.MustCompile(
	`^(nereid_|nv_(inference|cache|cpu|gpu|pinned|model|energy)_|input_byte_size_counter$)`)

func validName(name string) bool {
	for i, c := range name {
		letter := c == '_' || c == ':' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Close releases the family. It stays as long as one of its metrics does.
func (f *Family) Close() {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	f.users--
	f.sweep()
}

// sweep removes a family without users. g.mu is held.
func (f *Family) sweep() {
	if f.users == 0 && len(f.metrics) == 0 {
		delete(f.g.families, f.name)
	}
}

// Metric returns the metric with the given labels, and makes it if there is none. The caller must close it. buckets are
// the upper bounds of a histogram, ascending; it has +Inf in any case. Errors: InvalidArg for invalid names of
// labels and for wrong buckets.
func (f *Family) Metric(labels map[string]string, buckets []float64) (*Metric, error) {
	for name := range labels {
		if !validName(name) || strings.Contains(name, ":") {
			return nil, status.Errorf(status.InvalidArg, "label name %q of metric family %q is not one of Prometheus: "+
				"letters, digits and '_', no digit first", name, f.name)
		}
		if f.kind == Histogram && name == "le" {
			return nil, status.Errorf(status.InvalidArg,
				"histogram %q cannot have a label named le: its buckets have it", f.name)
		}
	}
	if f.kind == Histogram {
		for i, b := range buckets {
			if math.IsNaN(b) || i > 0 && buckets[i-1] >= b {
				return nil, status.Errorf(status.InvalidArg, "histogram %q needs buckets, ascending", f.name)
			}
		}
	} else if len(buckets) > 0 {
		return nil, status.Errorf(status.InvalidArg,
			"metric family %q is a %s, and only histograms have buckets", f.name, f.kind)
	}
	key := writeLabels(labels)
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	m := f.metrics[key]
	if m == nil {
		m = &Metric{f: f, labels: key}
		if f.kind == Histogram {
			m.bounds = slices.DeleteFunc(slices.Clone(buckets), func(b float64) bool { return math.IsInf(b, 1) })
			m.counts = make([]uint64, len(m.bounds)+1)
		}
		f.metrics[key] = m
	}
	m.users++
	return m, nil
}

// Close releases the metric.
func (m *Metric) Close() {
	m.f.g.mu.Lock()
	defer m.f.g.mu.Unlock()
	if m.users--; m.users == 0 {
		delete(m.f.metrics, m.labels)
		m.f.sweep()
	}
}

// Increment adds to a counter or a gauge. Errors: InvalidArg for a negative amount on a counter, and for a histogram.
func (m *Metric) Increment(by float64) error {
	if m.f.kind == Histogram || m.f.kind == Counter && by < 0 {
		return status.Errorf(status.InvalidArg, "%s %q cannot be incremented by %v", m.f.kind, m.f.name, by)
	}
	m.f.g.mu.Lock()
	defer m.f.g.mu.Unlock()
	m.value += by
	return nil
}

// Set sets a gauge.
func (m *Metric) Set(to float64) error {
	if m.f.kind != Gauge {
		return status.Errorf(status.Unsupported, "%s %q cannot be set", m.f.kind, m.f.name)
	}
	m.f.g.mu.Lock()
	defer m.f.g.mu.Unlock()
	m.value = to
	return nil
}

// Observe adds a sample to a histogram.
func (m *Metric) Observe(v float64) error {
	if m.f.kind != Histogram {
		return status.Errorf(status.Unsupported, "%s %q cannot observe", m.f.kind, m.f.name)
	}
	m.f.g.mu.Lock()
	defer m.f.g.mu.Unlock()
	m.counts[sort.SearchFloat64s(m.bounds, v)]++
	m.samples++
	m.value += v
	return nil
}

// Value returns a counter's or a gauge's value. Errors: Unsupported for a histogram.
func (m *Metric) Value() (float64, error) {
	if m.f.kind == Histogram {
		return 0, status.Errorf(status.Unsupported, "histogram %q has no single value", m.f.name)
	}
	m.f.g.mu.Lock()
	defer m.f.g.mu.Unlock()
	return m.value, nil
}

// Append appends the text of all families, by name.
func (g *Registry) Append(b []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.families)) {
		f := g.families[name]
		b = append(b, "# HELP "+name+" "...)
		b = append(b, helpEscape.Replace(valid(f.help))...)
		b = append(b, "\n# TYPE "+name+" "+string(f.kind)+"\n"...)
		for _, key := range slices.Sorted(maps.Keys(f.metrics)) {
			b = f.metrics[key].append(b)
		}
	}
	return b
}

func (m *Metric) append(b []byte) []byte {
	if m.f.kind != Histogram {
		return line(b, m.f.name, m.labels, "", m.value)
	}
	b = line(b, m.f.name+"_count", m.labels, "", float64(m.samples))
	b = line(b, m.f.name+"_sum", m.labels, "", m.value)
	sum := uint64(0)
	for i, n := range m.counts {
		sum += n
		le := "+Inf"
		if i < len(m.bounds) {
			le = number(m.bounds[i])
		}
		b = line(b, m.f.name+"_bucket", m.labels, `le="`+le+`"`, float64(sum))
	}
	return b
}

func line(b []byte, name, labels, more string, v float64) []byte {
	b = append(b, name...)
	if all := strings.Trim(labels+","+more, ","); all != "" {
		b = append(b, "{"+all+"}"...)
	}
	return append(b, " "+number(v)+"\n"...)
}

func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case math.IsNaN(v):
		return "NaN"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

var (
	helpEscape  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	valueEscape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// valid replaces what is not UTF-8, with which Prometheus would take no metric at all.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// writeLabels formats labels for the place between the braces, sorted by name.
func writeLabels(labels map[string]string) string {
	var all []string
	for _, name := range slices.SortedFunc(maps.Keys(labels), cmp.Compare) {
		all = append(all, name+`="`+valueEscape.Replace(valid(labels[name]))+`"`)
	}
	return strings.Join(all, ",")
}
