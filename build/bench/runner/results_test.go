package main

import (
	"strings"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   spread
	}{
		{name: "none"},
		{name: "odd", values: []float64{3, 1, 2}, want: spread{2, 1, 3}},
		{name: "even", values: []float64{4, 1, 2, 3}, want: spread{2.5, 1, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := spreadOf(tt.values); got != tt.want {
				t.Errorf("spreadOf(%v) = %v, want %v", tt.values, got, tt.want)
			}
		})
	}
}

func TestReportComparesPairs(t *testing.T) {
	var all results
	for i := range 3 {
		k := float64(i + 1) // the machine gets faster; the ratio within a pair stays
		all.add("mlpdb-http, 64 clients", 0, value{rate, 3000 * k}, value{serverUS, 30})
		all.add("mlpdb-http, 64 clients", 1, value{rate, 1000 * k}, value{serverUS, 60})
	}
	all.add("start, empty repository", 0, value{toReady, 100}, value{restMemory, 70})
	all.add("idle-http, 10000 connections", 0, value{idleMost, 3})
	all.add("instances: mlp, an idle batcher against none, 1 client", 0, value{serverUS, 3})
	all.add("instances: mlp, an idle batcher against none, 1 client", 1, value{serverUS, 3.5})
	all.add("instances: mlp, an idle batcher against none, in process, 1 client", 0, value{serverUS, 4})
	text := all.report()
	for _, want := range []string{
		"| mlpdb-http, 64 clients | requests/s | 6000 [3000–9000] | 2000 [1000–3000] | 3.00 |",
		"| mlpdb-http, 64 clients | server CPU, µs a request | 30.0 | 60.0 | 0.50 |",
		"| mlpdb-http, 64 clients: server CPU, µs a request | ≤ 28 | 30 | **missed** | ≤ 0.36 | 0.50, **missed** |",
		"| mlpdb-http, 64 clients: requests/s | ≥ 2.6 times | 3 | held | | |",
		"| start, empty repository: start to ready, ms | ≤ 150 | 100 | held |",
		"| start, empty repository: RSS at rest, MB | ≤ 60 | 70 | **missed** |",
		"| idle-http, 10000 connections: request, at most ms | ≤ 50 | 3 | held | | |",
		"| instances: mlp, an idle batcher against none, 1 client: server CPU, µs a request | ≤ 1.05 times | 0.857 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "in process, 1 client:") {
		t.Errorf("a case without pairs has a bar:\n%s", text)
	}
}
