package metrics

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/stats"
	"nereid/engine/tensor"
)

// detailed returns the statistics of three models: one with three requests, one with a cache miss and a cache hit, and
// a decoupled one with a stream of two responses.
func detailed(keep stats.Detail) *stats.Registry {
	g := stats.NewRegistry(keep)
	plain, cached, decoupled := g.Version("plain", 1), g.Version("cached", 1), g.Version("tokens", 3)
	plain.SetKind(stats.Kind{})
	cached.SetKind(stats.Kind{Cached: true})
	decoupled.SetKind(stats.Kind{Decoupled: true, Buckets: map[stats.Phase][]float64{stats.FirstResponse: {-1, 0, 1,
		2.5}}})
	executed := func(v *stats.Version, us ...time.Duration) {
		at := infer.Now()
		step := func(i int) infer.Stamp { at += infer.Stamp(us[i] * time.Microsecond); return at }
		r, b := infer.NewDetached(), infer.NewBatch()
		b.Requests, b.Rows, r.Batch = append(b.Requests, r), 1, b
		r.Times.Arrived, r.Times.Queued = at, at
		r.Times.Taken = step(0)
		r.Times.Input = step(1)
		r.Times.Output = step(2)
		r.Times.Finished = step(3)
		v.Finished(r, &infer.Response{Final: true}, stats.Other)
	}
	executed(plain, 7, 2, 50, 1)
	executed(plain, 120, 3, 1000, 2)
	executed(plain, 70, 3, 6000, 0)
	executed(cached, 5, 1, 20, 1)
	cached.CacheMiss(75 * time.Microsecond)
	hit := infer.NewDetached()
	hit.Times.Arrived, hit.Times.Finished = infer.Now(), infer.Now()
	cached.Finished(hit, &infer.Response{Final: true}, stats.Other)
	cached.CacheHit(19 * time.Microsecond)
	stream := infer.NewDetached()
	stream.Times.Arrived = infer.Now() - infer.Stamp(time.Hour)
	decoupled.Responded(stream, &infer.Response{Outputs: make([]tensor.Tensor, 1)})
	decoupled.Responded(stream, &infer.Response{Final: true})
	return g
}

func TestLatencies(t *testing.T) {
	text := func(t *testing.T, keep stats.Detail, quantiles ...Quantile) string {
		t.Helper()
		e, err := New(Options{Source: detailed(keep), OmitOwn: true, OmitCPU: true, OmitCounterLatencies: true,
			Quantiles: quantiles, Proc: procFolder(t), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Append(nil))
	}
	both := text(t, stats.Detail{Summaries: true, Histograms: true})
	has := func(t *testing.T, text string, lines ...string) {
		t.Helper()
		if all := strings.Join(lines, "\n") + "\n"; !strings.Contains(text, all) {
			t.Errorf("no lines\n%s in\n%s", all, text)
		}
	}
	t.Run("E014 first responses of decoupled models", func(t *testing.T) {
		has(t, both, "# HELP nv_inference_first_response_histogram_ms Duration from request to first response in "+
			"milliseconds",
			"# TYPE nv_inference_first_response_histogram_ms histogram",
			`nv_inference_first_response_histogram_ms_count{model="tokens",version="3"} 1`)
		has(t, both, `nv_inference_first_response_histogram_ms_bucket{model="tokens",version="3",le="-1"} 0`,
			`nv_inference_first_response_histogram_ms_bucket{model="tokens",version="3",le="0"} 0`,
			`nv_inference_first_response_histogram_ms_bucket{model="tokens",version="3",le="1"} 0`,
			`nv_inference_first_response_histogram_ms_bucket{model="tokens",version="3",le="2.5"} 0`,
			`nv_inference_first_response_histogram_ms_bucket{model="tokens",version="3",le="+Inf"} 1`)
		if strings.Contains(both, `first_response_histogram_ms_count{model="plain"`) {
			t.Error("a model with one response has a histogram of first ones")
		}
	})
	t.Run("E015 summaries", func(t *testing.T) {
		has(t, both, "# HELP nv_inference_compute_infer_summary_us Cumulative compute inference duration in "+
			"microseconds (does not include cached requests)",
			"# TYPE nv_inference_compute_infer_summary_us summary",
			`nv_inference_compute_infer_summary_us_count{model="cached",version="1"} 1`)
		has(t, both, `nv_inference_compute_infer_summary_us_count{model="plain",version="1"} 3`,
			`nv_inference_compute_infer_summary_us_sum{model="plain",version="1"} 7050`,
			`nv_inference_compute_infer_summary_us{model="plain",version="1",quantile="0.5"} 1003`,
			// the middle of 1000 to 1007
			`nv_inference_compute_infer_summary_us{model="plain",version="1",quantile="0.9"} 5983`,
			`nv_inference_compute_infer_summary_us{model="plain",version="1",quantile="0.95"} 5983`,
			`nv_inference_compute_infer_summary_us{model="plain",version="1",quantile="0.99"} 5983`,
			`nv_inference_compute_infer_summary_us{model="plain",version="1",quantile="0.999"} 5983`,
			`nv_inference_compute_infer_summary_us_count{model="tokens",version="3"} 0`,
			`nv_inference_compute_infer_summary_us_sum{model="tokens",version="3"} 0`,
			`nv_inference_compute_infer_summary_us{model="tokens",version="3",quantile="0.5"} Nan`)
		for _, p := range []string{"request", "queue", "compute_input", "compute_infer", "compute_output"} {
			has(t, both, `nv_inference_`+p+`_summary_us_count{model="plain",version="1"} 3`)
		}
		if strings.Contains(both, `nv_inference_request_summary_us_count{model="cached"`) {
			t.Error("a cached model has a summary of whole requests")
		}
	})
	t.Run("E016 summaries of the cache", func(t *testing.T) {
		has(t, both, "# HELP nv_cache_hit_summary_per_model Summary of cache hit counts/durations per model, in "+
			"microseconds.", "# TYPE nv_cache_hit_summary_per_model summary",
			`nv_cache_hit_summary_per_model_count{model="cached",version="1"} 1`,
			`nv_cache_hit_summary_per_model_sum{model="cached",version="1"} 19`,
			`nv_cache_hit_summary_per_model{model="cached",version="1",quantile="0.5"} 19`)
		has(t, both, `nv_cache_miss_summary_per_model_count{model="cached",version="1"} 1`,
			`nv_cache_miss_summary_per_model_sum{model="cached",version="1"} 75`,
			`nv_cache_miss_summary_per_model{model="cached",version="1",quantile="0.5"} 75`)
		has(t, both, `nv_inference_queue_summary_us_count{model="cached",version="1"} 2`) // hits too
	})
	t.Run("E017 chosen quantiles", func(t *testing.T) {
		has(t, text(t, stats.Detail{Summaries: true}, Quantile{0.75, 0.01}, Quantile{0.1, 0.1}),
			`nv_inference_queue_summary_us_sum{model="plain",version="1"} 197`,
			`nv_inference_queue_summary_us{model="plain",version="1",quantile="0.75"} 120`,
			`nv_inference_queue_summary_us{model="plain",version="1",quantile="0.1"} 7`,
			`nv_inference_queue_summary_us_count{model="tokens",version="3"} 0`)
	})
	t.Run("E018 histograms of all phases", func(t *testing.T) {
		has(t, both, "# TYPE nv_inference_compute_infer_duration_histogram_us histogram",
			`nv_inference_compute_infer_duration_histogram_us_count{model="cached",version="1"} 1`)
		has(t, both, `nv_inference_compute_infer_duration_histogram_us_count{model="plain",version="1"} 3`,
			`nv_inference_compute_infer_duration_histogram_us_sum{model="plain",version="1"} 7050`,
			`nv_inference_compute_infer_duration_histogram_us_bucket{model="plain",version="1",le="1000"} 2`,
			`nv_inference_compute_infer_duration_histogram_us_bucket{model="plain",version="1",le="5000"} 2`,
			`nv_inference_compute_infer_duration_histogram_us_bucket{model="plain",version="1",le="25000"} 3`)
		for _, p := range []string{"request", "queue", "compute_input", "compute_infer", "compute_output"} {
			has(t, both, `nv_inference_`+p+`_duration_histogram_us_bucket{model="plain",version="1",le="+Inf"} 3`)
		}
	})
	t.Run("E017 only what was asked for", func(t *testing.T) {
		for keep, without := range map[stats.Detail][]string{
			{}:                 {"histogram", "summary", "duration_us"},
			{Summaries: true}:  {"histogram"},
			{Histograms: true}: {"summary"},
		} {
			for _, word := range without {
				if got := text(t, keep); strings.Contains(got, word) {
					t.Errorf("%+v: %q in\n%s", keep, word, got)
				}
			}
		}
	})
}

// A scrape is complete also if a model is unloaded between its two reads of the statistics.
func TestLatenciesDuringUnload(t *testing.T) {
	g := detailed(stats.Detail{Summaries: true, Histograms: true})
	e, err := New(Options{Source: leaving{g}, OmitOwn: true, OmitCPU: true, Proc: procFolder(t)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if text := string(e.Append(nil)); strings.Contains(text, "summary") || strings.Contains(text, "histogram") {
			t.Errorf("a model that has left has latencies:\n%s", text)
		}
	}
}

type leaving struct{ *stats.Registry }

func (l leaving) Distributions(model string, version int64, _ []float64, dst *stats.Distributions) bool {
	l.Remove(model, version)
	return l.Registry.Distributions(model, version, nil, dst)
}
