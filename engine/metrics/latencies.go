package metrics

import (
	"math"
	"time"

	"nereid/engine/stats"
)

// summaryFamilies are Triton's names and help texts of the phases' summaries.
var summaryFamilies = [stats.FirstResponse]struct{ name, help string }{
	stats.Request: {"nv_inference_request_summary_us",
		"Summary of inference request duration in microseconds (includes cached requests)"},
	stats.Queue: {"nv_inference_queue_summary_us",
		"Summary of inference queuing duration in microseconds (includes cached requests)"},
	stats.ComputeInput: {"nv_inference_compute_input_summary_us",
		"Cumulative compute input duration in microseconds (does not include cached requests)"},
	stats.ComputeInfer: {"nv_inference_compute_infer_summary_us",
		"Cumulative compute inference duration in microseconds (does not include cached requests)"},
	stats.ComputeOutput: {"nv_inference_compute_output_summary_us",
		"Cumulative inference compute output duration in microseconds (does not include cached requests)"},
	stats.CacheHit: {"nv_cache_hit_summary_per_model",
		"Summary of cache hit counts/durations per model, in microseconds."},
	stats.CacheMiss: {"nv_cache_miss_summary_per_model",
		"Summary of cache miss counts/durations per model, in microseconds."},
}

// histogramHelp are the help texts of the phases' histograms.
var histogramHelp = map[stats.Phase]string{
	stats.FirstResponse: "Duration from request to first response in milliseconds",
	stats.Request:       "Duration of inference requests in microseconds",
	stats.Queue:         "Duration that inference requests wait in the queue in microseconds",
	stats.ComputeInput:  "Duration of compute input of inference requests in microseconds",
	stats.ComputeInfer:  "Duration of compute inference of inference requests in microseconds",
	stats.ComputeOutput: "Duration of compute output of inference requests in microseconds",
}

// latencies writes the histograms and summaries of the versions that have them. Families without a sample are absent,
// as in Triton.
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
			e.details[i] = stats.Distributions{} // it has just been unloaded
		}
	}
	e.histograms(w, stats.FirstResponse)
	for p := range stats.FirstResponse {
		e.histograms(w, p)
	}
	for p := range stats.FirstResponse {
		e.summaries(w, p)
	}
}

// histograms writes the family of a phase's histograms.
func (e *Exporter) histograms(w *writer, p stats.Phase) {
	name, unit, _ := stats.HistogramFamily(p)
	first := true
	for i := range e.snapshots {
		s, h := &e.snapshots[i], &e.details[i].Histograms[p]
		if !e.details[i].HasHistogram[p] {
			continue
		}
		if first {
			w.family(name, histogramHelp[p], "histogram")
			first = false
		}
		w.sample(name+"_count", s, whole(h.Count))
		w.sample(name+"_sum", s, float(float64(h.Ns)/float64(unit)))
		sum := uint64(0)
		for k, n := range h.Counts {
			bound := math.Inf(1)
			if k < len(h.Bounds) {
				bound = h.Bounds[k]
			}
			sum += n
			w.of(s, name+"_bucket", "model", s.Model, "version", version(s), "le", float(bound))
			w.end(whole(sum))
		}
	}
}

// summaries writes the family of a phase's summaries.
func (e *Exporter) summaries(w *writer, p stats.Phase) {
	name, help := summaryFamilies[p].name, summaryFamilies[p].help
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
		w.sample(name+"_count", s, whole(d.Count))
		w.sample(name+"_sum", s, whole(d.Ns/uint64(time.Microsecond)))
		for k, v := range d.Quantiles {
			w.of(s, name, "model", s.Model, "version", version(s), "quantile", float(e.shares[k]))
			if math.IsNaN(v) {
				w.end("Nan") // spelled as in Triton
				continue
			}
			w.end(float(v))
		}
	}
}
