package metrics

import (
	"math"
	"strconv"
	"time"

	"nereid/engine/stats"
)

// summaryFamily returns the name and the help of a phase's summary, Triton's; "" for one that has none.
func summaryFamily(p stats.Phase) (name, help string) {
	switch p {
	case stats.Request:
		return "nv_inference_request_summary_us", "Summary of inference request duration in microseconds (includes cached requests)"
	case stats.Queue:
		return "nv_inference_queue_summary_us", "Summary of inference queuing duration in microseconds (includes cached requests)"
	case stats.ComputeInput:
		return "nv_inference_compute_input_summary_us", "Cumulative compute input duration in microseconds (does not include cached requests)"
	case stats.ComputeInfer:
		return "nv_inference_compute_infer_summary_us", "Cumulative compute inference duration in microseconds (does not include cached requests)"
	case stats.ComputeOutput:
		return "nv_inference_compute_output_summary_us", "Cumulative inference compute output duration in microseconds (does not include cached requests)"
	case stats.CacheHit:
		return "nv_cache_hit_summary_per_model", "Summary of cache hit counts/durations per model, in microseconds."
	case stats.CacheMiss:
		return "nv_cache_miss_summary_per_model", "Summary of cache miss counts/durations per model, in microseconds."
	}
	return "", ""
}

func histogramHelp(p stats.Phase) string {
	switch p {
	case stats.FirstResponse:
		return "Duration from request to first response in milliseconds"
	case stats.Request:
		return "Duration of inference requests in microseconds"
	case stats.Queue:
		return "Duration that inference requests wait in the queue in microseconds"
	case stats.ComputeInput:
		return "Duration of compute input of inference requests in microseconds"
	case stats.ComputeInfer:
		return "Duration of compute inference of inference requests in microseconds"
	}
	return "Duration of compute output of inference requests in microseconds"
}

// latencies writes the histograms and summaries of the versions that have them. Families without a sample are absent, as Triton's.
func (e *Exporter) latencies(w *writer) {
	source, ok := e.o.Source.(Distributor)
	if !ok {
		return
	}
	for len(e.details) < len(e.snapshots) {
		e.details = append(e.details, stats.Distributions{})
	}
	for i := range e.snapshots {
		if s := &e.snapshots[i]; !source.Distributions(s.Model, s.Version, e.shares, &e.details[i]) {
			e.details[i] = stats.Distributions{} // unloaded a moment ago
		}
	}
	e.bucketed(w, stats.FirstResponse)
	for p := range stats.FirstResponse {
		e.bucketed(w, p)
	}
	for p := range stats.FirstResponse {
		e.summarized(w, p)
	}
}

// bucketed writes a phase's histogram.
func (e *Exporter) bucketed(w *writer, p stats.Phase) {
	name, unit, _ := stats.HistogramFamily(p)
	first := true
	for i := range e.snapshots {
		s, h := &e.snapshots[i], &e.details[i].Histograms[p]
		if !e.details[i].HasHistogram[p] {
			continue
		}
		if first {
			w.family(name, histogramHelp(p), "histogram")
			first = false
		}
		w.sample(name+"_count", s, strconv.FormatUint(h.Count, 10))
		w.sample(name+"_sum", s, float(float64(h.Ns)/float64(unit)))
		sum := uint64(0)
		for k, n := range h.Counts {
			bound := math.Inf(1)
			if k < len(h.Bounds) {
				bound = h.Bounds[k]
			}
			sum += n
			w.of(s, name+"_bucket", "model", s.Model, "version", version(s), "le", float(bound))
			w.end(strconv.FormatUint(sum, 10))
		}
	}
}

// summarized writes a phase's summary.
func (e *Exporter) summarized(w *writer, p stats.Phase) {
	name, help := summaryFamily(p)
	first := true
	for i := range e.snapshots {
		s, d := &e.snapshots[i], &e.details[i].Summaries[p]
		if !e.details[i].HasSummary[p] {
			continue
		}
		if first {
			w.family(name, help, "summary")
			first = false
		}
		w.sample(name+"_count", s, strconv.FormatUint(d.Count, 10))
		w.sample(name+"_sum", s, strconv.FormatUint(d.Ns/uint64(time.Microsecond), 10))
		for k, v := range d.Quantiles {
			w.of(s, name, "model", s.Model, "version", version(s), "quantile", float(e.shares[k]))
			if math.IsNaN(v) {
				w.end("Nan") // in Triton's letters
				continue
			}
			w.end(float(v))
		}
	}
}
