package machine

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/engine/metrics"
)

// shownSamples is how many values of a metric the page gets.
const shownSamples = 100

// MetricFamilies returns the metrics of the server with their values and a query for each.
func (s *Server) MetricFamilies(*http.Request) (out api.Metrics, err error) {
	if s.Metrics == nil {
		return out, rest.Errorf(api.CodeUnsupported, "this server has no metrics; leave out --allow-metrics=false")
	}
	var f *api.MetricFamily // the present one
	for line := range strings.Lines(string(s.Metrics())) {
		line = strings.TrimRight(line, "\n")
		if text, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(text, " ")
			out.Families = append(out.Families, api.MetricFamily{Name: name, Help: help, Type: "untyped"})
			f = &out.Families[len(out.Families)-1]
		} else if text, ok := strings.CutPrefix(line, "# TYPE "); ok && f != nil {
			_, f.Type, _ = strings.Cut(text, " ")
		} else if m, ok := metrics.ParseSample(line); ok && f != nil && m.Name != f.Name+"_bucket" {
			if f.Total++; len(f.Samples) < shownSamples {
				f.Samples = append(f.Samples, sampleOf(m))
			}
		}
	}
	for i := range out.Families {
		out.Families[i].Query = queryOf(&out.Families[i])
	}
	return out, nil
}

func sampleOf(m metrics.Sample) api.MetricSample {
	out := api.MetricSample{Name: m.Name, Value: m.Value}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		out.Labels = append(out.Labels, api.MetricLabel{Name: name, Value: m.Labels[name]})
	}
	return out
}

// queryOf returns a query in PromQL: the rate of a counter, the 99th percentile of a histogram, the mean of a summary
// (quantiles of several servers cannot be added up), and the value of others.
func queryOf(f *api.MetricFamily) string {
	switch f.Type {
	case "counter":
		return "rate(" + f.Name + "[5m])"
	case "histogram":
		return "histogram_quantile(0.99, rate(" + f.Name + "_bucket[5m]))"
	case "summary":
		return "rate(" + f.Name + "_sum[5m]) / rate(" + f.Name + "_count[5m])"
	}
	return f.Name
}
