package metrics

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"nereid/engine/stats"
)

// counter is one of Triton's families with one sample per model version.
type counter struct {
	name, help string
	latency    bool // absent with counter_latencies=false
	value      func(s *stats.Snapshot) uint64
}

func micros(t stats.Total) uint64 { return t.Ns / 1000 }

// counters are the families in the order of Triton's output, without the first two.
var counters = []counter{
	{"nv_inference_count", "Number of inferences performed (does not include cached requests)",
		false, func(s *stats.Snapshot) uint64 { return s.Inferences }},
	{"nv_inference_exec_count", "Number of model executions performed (does not include cached requests)",
		false, func(s *stats.Snapshot) uint64 { return s.Executions }},
	{"nv_inference_request_duration_us",
		"Cumulative inference request duration in microseconds (includes cached requests)",
		true, func(s *stats.Snapshot) uint64 { return micros(s.Success) }},
	{"nv_inference_queue_duration_us",
		"Cumulative inference queuing duration in microseconds (includes cached requests)",
		true, func(s *stats.Snapshot) uint64 { return micros(s.Queue) }},
	{"nv_inference_compute_input_duration_us",
		"Cumulative compute input duration in microseconds (does not include cached requests)",
		true, func(s *stats.Snapshot) uint64 { return micros(s.Input) }},
	{"nv_inference_compute_infer_duration_us",
		"Cumulative compute inference duration in microseconds (does not include cached requests)",
		true, func(s *stats.Snapshot) uint64 { return micros(s.Infer) }},
	{"nv_inference_compute_output_duration_us",
		"Cumulative inference compute output duration in microseconds (does not include cached requests)",
		true, func(s *stats.Snapshot) uint64 { return micros(s.Output) }},
	{"input_byte_size_counter", "Cumulative input byte size of all requests received by the model",
		false, func(s *stats.Snapshot) uint64 { return s.InputBytes }},
}

// models writes the families of model versions.
func (e *Exporter) models(w *writer) {
	w.perVersion("nv_inference_request_success", "Number of successful inference requests, all batch sizes", "counter",
		e.snapshots, func(s *stats.Snapshot) string { return whole(s.Success.Count) })
	w.family("nv_inference_request_failure", "Number of failed inference requests, all batch sizes", "counter")
	for i := range e.snapshots {
		s := &e.snapshots[i]
		for reason := range stats.NumReasons {
			w.of(s, "nv_inference_request_failure", "model", s.Model, "reason", reason.String(), "version", version(s))
			w.end(whole(s.Failures[reason]))
		}
	}
	for _, c := range counters {
		if !c.latency || !e.o.OmitCounterLatencies {
			value := func(s *stats.Snapshot) string { return whole(c.value(s)) }
			w.perVersion(c.name, c.help, "counter", e.snapshots, value)
		}
	}
	w.perVersion("nv_inference_pending_request_count",
		"Instantaneous number of pending requests awaiting execution per-model.", "gauge",
		e.snapshots, func(s *stats.Snapshot) string { return whole(s.Pending) })
	w.perVersion("nv_model_load_duration_secs", "Model load time in seconds", "gauge",
		e.snapshots, func(s *stats.Snapshot) string { return float(s.LoadTime.Seconds()) })
}

// The histogram has one bound per octave. They are bounds of stats.Histogram too, so that the counts are exact.
const (
	firstBound = 14 // 2^14 ns, about 16 us
	lastBound  = 36 // 2^36 ns, about 69 s
)

// histogram writes the histogram of the time that successful requests take in the server.
func (e *Exporter) histogram(w *writer) {
	const name = "nereid_inference_request_duration_seconds"
	w.family(name, "Time of successful inference requests in the server, in seconds", "histogram")
	for i := range e.snapshots {
		s := &e.snapshots[i]
		sum, from := uint64(0), 0
		for bound := firstBound; bound <= lastBound; bound++ {
			to := stats.Bucket(1 << bound)
			for _, n := range s.Latency[from:to] {
				sum += n
			}
			from = to
			le := float(time.Duration(1 << bound).Seconds())
			w.of(s, name+"_bucket", "model", s.Model, "version", version(s), "le", le)
			w.end(whole(sum))
		}
		for _, n := range s.Latency[from:] {
			sum += n
		}
		w.of(s, name+"_bucket", "model", s.Model, "version", version(s), "le", "+Inf")
		w.end(whole(sum))
		w.sample(name+"_sum", s, float(float64(s.Success.Ns)/float64(time.Second)))
		w.sample(name+"_count", s, whole(sum))
	}
}

func version(s *stats.Snapshot) string { return strconv.FormatInt(s.Version, 10) }

// whole formats an integer.
func whole[T int | int64 | uint64](v T) string { return fmt.Sprint(v) }

// float formats a number for Prometheus: the shortest form, or "+Inf" or "NaN".
func float(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
