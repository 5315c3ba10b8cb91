package custom

import (
	"math"
	"testing"
)

func TestBucketsOfHistograms(t *testing.T) {
	var g Registry
	f, err := g.Family("sizes", "help", Histogram)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][]float64{{2, 1}, {1, 1, 2}, {math.NaN()}, {1, math.NaN()}, {math.Inf(1), 1}} {
		if _, err := f.Metric(nil, wrong); err == nil {
			t.Errorf("buckets %v were accepted", wrong)
		}
	}
	if _, err := f.Metric(nil, nil); err != nil {
		t.Errorf("a histogram that has only +Inf: %v", err)
	}
}

// One line that is not valid would make Prometheus refuse all metrics.
func TestLabelsThatPrometheusRefuses_E027(t *testing.T) {
	var g Registry
	h, err := g.Family("sizes", "he\xffp", Histogram)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Metric(map[string]string{"le": "1"}, []float64{2}); err == nil {
		t.Error("a histogram may have a label le beside that of its buckets")
	}
	c, err := g.Family("total", "help", Counter)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Metric(map[string]string{"le": "a\xffb"}, nil); err != nil {
		t.Errorf("a counter with a label le: %v", err)
	}
	const want = "# HELP sizes he\uFFFDp\n# TYPE sizes histogram\n# HELP total help\n# TYPE total counter\n" +
		"total{le=\"a\uFFFDb\"} 0\n"
	if got := string(g.Append(nil)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
