package main

import (
	"strings"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		name   string
		points []float64
		want   spread
	}{
		{name: "none"},
		{name: "odd", points: []float64{3, 1, 2}, want: spread{2, 1, 3}},
		{name: "even", points: []float64{4, 1, 2, 3}, want: spread{2.5, 1, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := spreadOf(tt.points, func(x float64) float64 { return x }); got != tt.want {
				t.Errorf("spreadOf(%v) = %v, want %v", tt.points, got, tt.want)
			}
		})
	}
}

func TestReportComparesPairs(t *testing.T) {
	loads, start := new(loadExperiment), new(startExperiment)
	for i := range 3 {
		k := float64(i + 1) // the machine gets faster; the ratio within a pair stays
		loads.add("mlpdb-http", 64, 0, loadPoint{Rate: 3000 * k, ServerUS: 30})
		loads.add("mlpdb-http", 64, 1, loadPoint{Rate: 1000 * k, ServerUS: 60})
	}
	start.points[0] = []startPoint{{toReady: 100 * time.Millisecond, rssMB: 70}}
	text := tables([]experiment{loads, start})
	for _, want := range []string{
		"| mlpdb-http | 64 | 6000 [3000–9000] | 2000 [1000–3000] | 3.00 | 30.0 | 60.0 | 0.50 |",
		"| mlpdb-http, 64 clients, server CPU | ≤ 28 µs | 30 | **missed** | ≤ 0.36 | 0.50, **missed** |",
		"| mlpdb-http, 64 clients, rate against the reference | ≥ 2.6 times | 3 | held |",
		"| start to ready, empty repository | ≤ 150 ms | 100 | held |",
		"| RSS at rest, no models | ≤ 60 MB | 70 | **missed** |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}
