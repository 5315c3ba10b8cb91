package model

import (
	"maps"
	"slices"

	"nereid/engine/inferencepb"
)

// metricTags are the labels that metric_tags adds to the model's metrics. Triton puts an underscore before their names.
func metricTags(cfg *inferencepb.ModelConfig) []string {
	var tags []string
	for _, name := range slices.Sorted(maps.Keys(cfg.GetMetricTags())) {
		tags = append(tags, "_"+name, cfg.GetMetricTags()[name])
	}
	return tags
}
