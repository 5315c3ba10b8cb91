package model

import (
	"log/slog"
	"maps"
	"math"
	"slices"

	"nereid/engine/inferencepb"
	"nereid/engine/stats"
)

// metricTags are the labels that metric_tags adds to the model's metrics. Triton puts an underscore before their names.
func metricTags(cfg *inferencepb.ModelConfig) []string {
	var tags []string
	for _, name := range slices.Sorted(maps.Keys(cfg.GetMetricTags())) {
		tags = append(tags, "_"+name, cfg.GetMetricTags()[name])
	}
	return tags
}

// kindOf says which latencies the statistics of a version have in detail. cached: the response cache keeps its answers.
func kindOf(cfg *inferencepb.ModelConfig, cached bool, log *slog.Logger) stats.Kind {
	k := stats.Kind{Cached: cached, Decoupled: cfg.GetModelTransactionPolicy().GetDecoupled(),
		Buckets: map[stats.Phase][]float64{}}
	for _, m := range cfg.GetModelMetrics().GetMetricControl() {
		family, known := m.GetMetricIdentifier().GetFamily(), false
		for p := range stats.NumPhases {
			if name, _, _ := stats.HistogramFamily(p); name == family {
				known = true
				k.Buckets[p] = slices.DeleteFunc(slices.Clone(m.GetHistogramOptions().GetBuckets()),
					func(v float64) bool {
						return math.IsInf(v, 1) // every histogram has it
					})
			}
		}
		if !known {
			log.Warn("model_metrics names a metric family that has no buckets to set", "model", cfg.GetName(), "family",
				family)
		}
	}
	return k
}
