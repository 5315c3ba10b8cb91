package tune

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Measurement is what a candidate showed.
type Measurement struct {
	Throughput              float64 // rows a second
	Avg, P50, P90, P95, P99 time.Duration
	Queue, Compute          time.Duration // the server's averages
	CPU                     float64       // cores that the server used
	Memory                  int64         // bytes of the server's processes
	AvailableMemory         int64         // bytes that the machine had left
	GPUMemory               int64         // bytes, of all GPUs
	GPUFree                 int64
	GPUUtilization          float64 // percent, the average of the GPUs
	GPUPower                float64 // watts, of all GPUs
	Requests                uint64
	Stable                  bool // the windows agreed
	// Models are the figures of each model, if several are measured at the same time; the others are then the sum of their
	// throughputs and the highest of their latencies. What they share is the same in each.
	Models []Measurement `json:",omitempty"`
	Failed string        // why there are no figures: the configuration cannot be loaded
}

// Metric is one figure of a measurement, by the name that model_analyzer gives it.
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

const mega = 1e6

// Metrics are the names of the metrics, sorted.
func Metrics() []Metric {
	return []Metric{RAMLeft, RAM, CPU, GPUFree, GPUPower, GPUMemory, GPUUtilization, LatencyAvg, LatencyP90, LatencyP95, LatencyP99, Throughput}
}

// up tells whether more of a metric is better.
func (name Metric) up() bool {
	switch name {
	case Throughput, RAMLeft, GPUFree, GPUUtilization:
		return true
	}
	return false
}

// Of is the value of a metric in its unit.
func (m *Measurement) Of(name Metric) float64 {
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	switch name {
	case Throughput:
		return m.Throughput
	case LatencyAvg:
		return ms(m.Avg)
	case LatencyP90:
		return ms(m.P90)
	case LatencyP95:
		return ms(m.P95)
	case LatencyP99:
		return ms(m.P99)
	case RAM:
		return float64(m.Memory) / mega
	case RAMLeft:
		return float64(m.AvailableMemory) / mega
	case CPU:
		return 100 * m.CPU
	case GPUMemory:
		return float64(m.GPUMemory) / mega
	case GPUFree:
		return float64(m.GPUFree) / mega
	case GPUUtilization:
		return m.GPUUtilization
	case GPUPower:
		return m.GPUPower
	}
	return 0
}

// Constraint is a bound that a metric must keep.
type Constraint struct {
	Metric   Metric
	Min, Max float64 // in the metric's unit; 0: no bound
}

// Goal says which measurements are good.
type Goal struct {
	// Weights of the metrics that are to be high or low. A candidate that is so many times better in one metric is worth as much
	// as one that is so many times better in another of the same weight.
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

// Score is how good a measurement is: the sum of its metrics' logarithms by their weights, so that a difference of 0.01 is
// about one percent. over is by how much it breaks constraints in the same measure, 0 for one that keeps them all.
// A measurement that failed scores minus infinity.
//
// Of several models it is the mean of theirs: one that becomes twice as good is worth as much as any other that does, however
// much faster that is. All of them must keep the constraints.
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
	for _, name := range g.objectives() {
		w, v := g.Weights[name], math.Log(max(m.Of(name), tiny))
		if !name.up() {
			v = -v
		}
		score += w * v
		sum += w
	}
	return score / sum, over
}

// objectives are the metrics with a weight, in order: sums of floats depend on it.
func (g *Goal) objectives() []Metric {
	if len(g.Weights) == 1 {
		for m := range g.Weights {
			return []Metric{m}
		}
	}
	return slices.Sorted(maps.Keys(g.Weights))
}

// tiny stands for 0 in a logarithm.
const tiny = 1e-6

// noise is the difference of scores that says nothing: measurements repeat no better.
const noise = .01

// Together is the measurement of models that were measured at the same time: each with its own throughput and latencies, and what
// they share. There must be one at least; of one it is that one.
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
		for _, d := range []struct{ to, of *time.Duration }{{&out.Avg, &m.Avg}, {&out.P50, &m.P50}, {&out.P90, &m.P90}, {&out.P95, &m.P95}, {&out.P99, &m.P99},
			{&out.Queue, &m.Queue}, {&out.Compute, &m.Compute}} {
			*d.to = max(*d.to, *d.of)
		}
	}
	out.Models = list
	return out
}

// Keeps tells whether a measurement keeps every constraint.
func (g *Goal) Keeps(m *Measurement) bool {
	_, over := g.Score(m)
	return over == 0
}

// better tells whether a is better than b by more than noise: it keeps the constraints while b does not, or comes
// nearer to keeping them, or scores higher.
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
