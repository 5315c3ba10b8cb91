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
