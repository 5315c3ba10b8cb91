package tune

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Measurement is the figures of a candidate.
type Measurement struct {
	Throughput              float64 // rows per second
	Avg, P50, P90, P95, P99 time.Duration
	Queue, Compute          time.Duration // the server's averages
	CPU                     float64       // cores that the server used
	CPUUnknown              bool          `json:",omitempty"` // too little was measured; CPU is then an upper bound
	Memory                  int64         // bytes of the server's processes
	AvailableMemory         int64         // bytes that the machine had left
	GPUMemory               int64         // bytes, of all GPUs
	GPUFree                 int64
	GPUUtilization          float64 // percent, the average of the GPUs
	GPUPower                float64 // watts, of all GPUs
	Requests                uint64
	Stable                  bool // the windows agreed
	// Models are the figures of each model if several are measured at the same time. The fields above are then the sum
	// of the throughputs and the highest latencies. Figures of the machine are the same for each model.
	Models []Measurement `json:",omitempty"`
	Failed string        // why there are no figures: the configuration cannot be loaded
}

// Metric is a figure of a measurement, by model_analyzer's name.
type Metric string

// The metrics.
const (
	Throughput     Metric = "perf_throughput" // infer/s
	LatencyAvg     Metric = "perf_latency_avg"
	LatencyP90     Metric = "perf_latency_p90"
	LatencyP95     Metric = "perf_latency_p95"
	LatencyP99     Metric = "perf_latency_p99" // ms, as the other latencies
	RAM            Metric = "cpu_used_ram"     // MB, as all memory
	RAMLeft        Metric = "cpu_free_ram"
	CPU            Metric = "cpu_utilization" // percent of one core
	GPUMemory      Metric = "gpu_used_memory"
	GPUFree        Metric = "gpu_free_memory"
	GPUUtilization Metric = "gpu_utilization" // percent
	GPUPower       Metric = "gpu_power_usage" // watts
)

// metrics says of each metric whether a higher value is better, and returns its value.
var metrics = map[Metric]struct {
	up bool
	of func(m *Measurement) float64
}{
	Throughput:     {true, func(m *Measurement) float64 { return m.Throughput }},
	LatencyAvg:     {false, func(m *Measurement) float64 { return milliseconds(m.Avg) }},
	LatencyP90:     {false, func(m *Measurement) float64 { return milliseconds(m.P90) }},
	LatencyP95:     {false, func(m *Measurement) float64 { return milliseconds(m.P95) }},
	LatencyP99:     {false, func(m *Measurement) float64 { return milliseconds(m.P99) }},
	RAM:            {false, func(m *Measurement) float64 { return megabytes(m.Memory) }},
	RAMLeft:        {true, func(m *Measurement) float64 { return megabytes(m.AvailableMemory) }},
	CPU:            {false, func(m *Measurement) float64 { return 100 * m.CPU }},
	GPUMemory:      {false, func(m *Measurement) float64 { return megabytes(m.GPUMemory) }},
	GPUFree:        {true, func(m *Measurement) float64 { return megabytes(m.GPUFree) }},
	GPUUtilization: {true, func(m *Measurement) float64 { return m.GPUUtilization }},
	GPUPower:       {false, func(m *Measurement) float64 { return m.GPUPower }},
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func megabytes(n int64) float64 { return float64(n) / 1e6 }

// Metrics returns the names of the metrics, sorted.
func Metrics() []Metric { return slices.Sorted(maps.Keys(metrics)) }

// Of returns the value of a metric in its unit; 0 for an unknown one.
func (m *Measurement) Of(name Metric) float64 {
	if metric, ok := metrics[name]; ok {
		return metric.of(m)
	}
	return 0
}

// Constraint is a limit of a metric.
type Constraint struct {
	Metric   Metric
	Min, Max float64 // in the metric's unit; 0: no limit
}

// Goal compares measurements.
type Goal struct {
	// Weights are the objectives. A candidate that is twice as good in one metric counts as much as one that is twice
	// as good in another metric of the same weight.
	Weights     map[Metric]float64
	Constraints []Constraint
}

// Check returns the first fault of a goal.
func (g *Goal) Check() error {
	if len(g.Weights) == 0 {
		return fmt.Errorf("there is no objective; want one or more of %s", nameList())
	}
	for m, w := range g.Weights {
		if !slices.Contains(Metrics(), m) {
			return fmt.Errorf("objective %q: want one of %s", m, nameList())
		}
		if !(w > 0) || math.IsInf(w, 0) {
			return fmt.Errorf("objective %s: the weight %v must be above 0", m, w)
		}
	}
	for _, c := range g.Constraints {
		if !slices.Contains(Metrics(), c.Metric) {
			return fmt.Errorf("constraint %q: want one of %s", c.Metric, nameList())
		}
		if !(c.Min >= 0) || !(c.Max >= 0) || c.Min == 0 && c.Max == 0 || c.Max > 0 && c.Min > c.Max {
			return fmt.Errorf("constraint %s: want a min or a max above 0, the min below the max", c.Metric)
		}
	}
	return nil
}

func nameList() string {
	var names []string
	for _, m := range Metrics() {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

// Score returns the weighted mean of the logarithms of the objectives, so that a difference of 0.01 is about one
// percent. over is by how much the constraints are exceeded, also as a logarithm; 0 if all are kept. A failed
// measurement scores minus infinity.
//
// For several models the score is the mean of theirs, so that an improvement of a slow model counts as much as that of
// a fast one. All models must keep the constraints.
func (g *Goal) Score(m *Measurement) (score, over float64) {
	if m.Failed != "" {
		return math.Inf(-1), math.Inf(1)
	}
	if n := float64(len(m.Models)); n > 0 {
		for i := range m.Models {
			s, o := g.Score(&m.Models[i])
			score += s / n
			over += o / n
		}
		return score, over
	}
	for _, c := range g.Constraints {
		v := max(m.Of(c.Metric), tiny)
		if c.Max > 0 && v > c.Max {
			over += math.Log(v / c.Max)
		}
		if v < c.Min {
			over += math.Log(c.Min / v)
		}
	}
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(g.Weights)) { // the sum of floats depends on the order
		w, v := g.Weights[name], math.Log(max(m.Of(name), tiny))
		if !metrics[name].up {
			v = -v
		}
		score += w * v
		sum += w
	}
	return score / sum, over
}

// tiny stands for 0 in a logarithm.
const tiny = 1e-6

// noise is the largest difference of scores that means nothing: measurements do not repeat better.
const noise = .01

// Together joins the measurements of models that were measured at the same time, at least one. A single measurement is
// returned unchanged.
func Together(list []Measurement) Measurement {
	out := list[0]
	if len(list) == 1 {
		return out
	}
	for i := range list[1:] {
		m := &list[i+1]
		out.Throughput += m.Throughput
		out.Requests += m.Requests
		out.Stable = out.Stable && m.Stable
		for _, d := range []struct{ to, of *time.Duration }{{&out.Avg, &m.Avg}, {&out.P50, &m.P50}, {&out.P90, &m.P90},
			{&out.P95, &m.P95}, {&out.P99, &m.P99},
			{&out.Queue, &m.Queue}, {&out.Compute, &m.Compute}} {
			*d.to = max(*d.to, *d.of)
		}
	}
	out.Models = list
	return out
}

// Keeps reports whether a measurement keeps all constraints.
func (g *Goal) Keeps(m *Measurement) bool {
	_, over := g.Score(m)
	return over == 0
}

// better reports whether a is better than b by more than noise: it keeps the constraints and b does not, or it exceeds
// them less, or it scores higher.
func (g *Goal) better(a, b *Measurement) bool {
	as, ao := g.Score(a)
	bs, bo := g.Score(b)
	switch {
	case ao == 0 && bo == 0:
		return as > bs+noise
	case ao == 0 || bo == 0:
		return ao == 0
	case math.IsInf(ao, 1):
		return false
	}
	return ao < bo-noise
}
