package options

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/metrics"
)

// metricsConfig reads "<setting>=<value>", a value of --metrics-config. Triton ignores settings and values that it does
// not understand; here they are refused.
func (c *Config) metricsConfig(v string) error {
	setting, value, ok := strings.Cut(v, "=")
	if !ok || setting == "" || value == "" || strings.Contains(setting, ",") {
		return fmt.Errorf("the format is <setting>=<value>, got %q", v)
	}
	var err error
	switch setting {
	case "counter_latencies":
		err = not(&c.Metrics.OmitCounterLatencies)(value)
	case "histogram_latencies":
		err = boolean(&c.Engine.Latencies.Histograms)(value)
	case "summary_latencies":
		err = boolean(&c.Engine.Latencies.Summaries)(value)
	case "summary_quantiles":
		c.Metrics.Quantiles, err = parseQuantiles(value)
	default:
		return fmt.Errorf("%q is no setting of metrics; there are counter_latencies, histogram_latencies, "+
			"summary_latencies and summary_quantiles", setting)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	return nil
}

// parseQuantiles reads <quantile>:<error>,... and keeps the order, which the metrics keep too. It refuses equal
// quantiles, whose samples would have the same labels.
func parseQuantiles(v string) ([]metrics.Quantile, error) {
	var all []metrics.Quantile
	for pair := range strings.SplitSeq(v, ",") {
		share, fault, ok := strings.Cut(pair, ":")
		q, err := strconv.ParseFloat(share, 64)
		e, err2 := strconv.ParseFloat(fault, 64)
		if !ok || err != nil || err2 != nil || math.IsNaN(q+e) || q < 0 || q > 1 || e < 0 || e > 1 {
			return nil, fmt.Errorf("%q is not of the form <quantile>:<error> with numbers from 0 to 1, such as "+
				"0.95:0.001",
				pair)
		}
		if slices.ContainsFunc(all, func(other metrics.Quantile) bool { return other.Share == q }) {
			return nil, fmt.Errorf("the quantile %v is there twice; give each one once", q)
		}
		all = append(all, metrics.Quantile{Share: q, Error: e})
	}
	return all, nil
}
