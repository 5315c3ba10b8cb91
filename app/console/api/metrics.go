package api

// Metrics answers GET /api/metrics: what port 8002 shows at this moment.
type Metrics struct {
	Families List[MetricFamily] `json:"families"`
}

// MetricFamily is one metric with its values.
type MetricFamily struct {
	Name string `json:"name"`
	Help string `json:"help"`
	// Type is "counter", "gauge", "histogram", "summary" or "untyped".
	Type string `json:"type"`
	// Query is PromQL that shows the metric in a useful form, such as the rate of a counter.
	Query string `json:"query"`
	// Samples are the first 100 values, without the buckets of histograms.
	Samples List[MetricSample] `json:"samples"`
	// Total is how many values there are, without the buckets.
	Total int `json:"total"`
}

// MetricSample is a value of a metric. Value is a text, because JSON lacks NaN and infinity.
type MetricSample struct {
	// Name is that of the family, or of a histogram or a summary the family's with "_sum" or "_count".
	Name   string            `json:"name"`
	Labels List[MetricLabel] `json:"labels"`
	Value  string            `json:"value"`
}

// MetricLabel is a label of a value.
type MetricLabel struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
