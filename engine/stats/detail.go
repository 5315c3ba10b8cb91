package stats

import (
	"slices"
	"time"

	"nereid/engine/infer"
)

// Phase is a latency of requests that is kept in more detail than as a sum.
type Phase uint8

// The phases. FirstResponse is the time from a request's arrival to the first response of a decoupled model.
const (
	Request Phase = iota
	Queue
	ComputeInput
	ComputeInfer
	ComputeOutput
	CacheHit
	CacheMiss
	FirstResponse

	NumPhases
)

// Detail is what is kept of latencies in addition to their sums. Each costs about ten nanoseconds per request, and
// summaries cost tens of kilobytes for each model version that is used.
type Detail struct {
	// Summaries keeps the last minute of all phases but FirstResponse: --metrics-config summary_latencies=true.
	Summaries bool
	// Histograms counts all phases but those of the cache in buckets: --metrics-config histogram_latencies=true.
	Histograms bool
}

// Kind selects the latencies that a version has.
type Kind struct {
	// Cached: it has latencies of the cache, and none of whole requests, which would lack the time that the cache takes
	// after the response.
	Cached    bool
	Decoupled bool // it has latencies of first responses
	// Buckets are the upper bounds of histograms that differ from the default, ascending and in the unit of
	// HistogramFamily.
	Buckets map[Phase][]float64
}

// HistogramFamily returns the name that a phase's histogram has in the metrics, the unit of its bounds, and its
// default bounds. The name is "" for phases without a histogram. FirstResponse's are Triton's, the others were
// proposed for Triton.
func HistogramFamily(p Phase) (name string, unit time.Duration, bounds []float64) {
	const us = time.Microsecond
	switch p {
	case Request:
		return "nv_inference_request_duration_histogram_us", us, []float64{1000, 5000, 25000, 50000, 100000}
	case Queue:
		return "nv_inference_queue_duration_histogram_us", us, []float64{100, 1000, 5000, 10000, 50000}
	case ComputeInput:
		return "nv_inference_compute_input_duration_histogram_us", us, []float64{100, 500, 1000, 5000, 10000}
	case ComputeInfer:
		return "nv_inference_compute_infer_duration_histogram_us", us, []float64{1000, 5000, 25000, 50000, 100000}
	case ComputeOutput:
		return "nv_inference_compute_output_duration_histogram_us", us, []float64{100, 500, 1000, 5000, 10000}
	case FirstResponse:
		return "nv_inference_first_response_histogram_ms", time.Millisecond, []float64{100, 500, 2000, 5000}
	}
	return "", 0, nil
}

// Bounded is a histogram with given upper bounds.
type Bounded struct {
	Total
	Unit   time.Duration // of the bounds
	Bounds []float64     // ascending; must not be changed
	Counts []uint64      // not cumulative; the last one is for latencies above all bounds
}

func (b *Bounded) observe(d time.Duration) {
	b.add(d)
	i, v := 0, float64(d)/float64(b.Unit)
	for i < len(b.Bounds) && v > b.Bounds[i] {
		i++
	}
	b.Counts[i]++
}

// Summary holds the quantiles of a phase in the last minute.
type Summary struct {
	Total               // since the epoch began
	Quantiles []float64 // in microseconds, in the order of the given shares; NaN without latencies in the window
}

// Distributions are the detailed latencies of a version. Detail and Kind decide which it has.
type Distributions struct {
	HasSummary, HasHistogram [NumPhases]bool
	Summaries                [NumPhases]Summary
	Histograms               [NumPhases]Bounded
}

// detail holds the detailed latencies of a version. Version.mu guards it.
type detail struct {
	windows    [NumPhases]*window
	histograms [NumPhases]*Bounded
}

func (d *detail) observe(p Phase, now infer.Stamp, took time.Duration) {
	if w := d.windows[p]; w != nil {
		w.observe(now, took)
	}
	if h := d.histograms[p]; h != nil {
		h.observe(took)
	}
}

// configure adds and removes windows and histograms for a version of kind k. It keeps those that stay the same.
func (d *detail) configure(keep Detail, k Kind) {
	for p := range NumPhases {
		has := true
		switch p {
		case Request:
			has = !k.Cached
		case CacheHit, CacheMiss:
			has = k.Cached
		case FirstResponse:
			has = k.Decoupled
		}
		switch {
		case !has || !keep.Summaries || p == FirstResponse:
			d.windows[p] = nil
		case d.windows[p] == nil:
			d.windows[p] = &window{}
		}
		name, unit, bounds := HistogramFamily(p)
		if given, ok := k.Buckets[p]; ok {
			bounds = given
		}
		switch old := d.histograms[p]; {
		case !has || !keep.Histograms || name == "":
			d.histograms[p] = nil
		case old == nil || !slices.Equal(old.Bounds, bounds):
			d.histograms[p] = &Bounded{Unit: unit, Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
		}
	}
}

// SetKind sets the kind of the version, before its first request and after a reload. A histogram whose buckets have
// changed starts again.
func (v *Version) SetKind(k Kind) {
	v.cached.Store(k.Cached)
	if v.keep == (Detail{}) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.detail == nil {
		v.detail = &detail{}
	}
	v.detail.configure(v.keep, k)
}

// Distributions copies the detailed latencies into dst, and reuses its memory. shares (0 to 1) choose the quantiles.
func (v *Version) Distributions(shares []float64, dst *Distributions) {
	now := infer.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	for p := range NumPhases {
		var w *window
		var h *Bounded
		if v.detail != nil {
			w, h = v.detail.windows[p], v.detail.histograms[p]
		}
		if dst.HasSummary[p] = w != nil; w != nil {
			s := &dst.Summaries[p]
			s.Total, s.Quantiles = w.total, w.quantiles(now, shares, s.Quantiles[:0])
		}
		if dst.HasHistogram[p] = h != nil; h != nil {
			c := &dst.Histograms[p]
			c.Total, c.Unit, c.Bounds, c.Counts = h.Total, h.Unit, h.Bounds, append(c.Counts[:0], h.Counts...)
		}
	}
}

// Distributions copies the detailed latencies of a version into dst: see Version.Distributions. It reports whether the
// version exists.
func (g *Registry) Distributions(model string, version int64, shares []float64, dst *Distributions) bool {
	g.mu.Lock()
	v := g.versions[key{model, version}]
	g.mu.Unlock()
	if v != nil {
		v.Distributions(shares, dst)
	}
	return v != nil
}
