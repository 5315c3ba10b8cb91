package tunecmd

import (
	"strings"
	"testing"
	"time"

	"nereid/app/tune"
)

func TestALoadThatFailsLeavesTheGainsOfOthers(t *testing.T) {
	r := &result{names: []string{"m"}, models: []modelFolder{{folder: "/some models/m"}}, space: tune.Space{
		Axes: []tune.Axis{tune.NewAxis("m", tune.Threads, []int{1}, 0), tune.NewAxis("", tune.Load, []int{1, 8}, 1)}}}
	measured := func(rate float64) tune.Measurement {
		return tune.Measurement{Throughput: rate, P99: time.Second, Stable: true}
	}
	was := r.space.Start()[0]
	r.found = &tune.Result{Trials: []tune.Trial{
		{Candidate: tune.Candidate{was, 0}, Measurement: measured(10)},
		{Candidate: tune.Candidate{was, 1}, Measurement: tune.Measurement{Failed: "out of memory"}},
		{Candidate: tune.Candidate{1 - was, 0}, Measurement: measured(20)},
		{Candidate: tune.Candidate{1 - was, 1}, Measurement: measured(20)},
	}}
	got := r.gains()
	if len(got) != 2 || got[0].Rate != 2 || got[0].P99 != 1 || got[0].Failed != "" || !got[0].Stable {
		t.Fatalf("%+v", got)
	}
	if got[1].Rate != 0 || got[1].Failed != "the present configuration cannot be measured: out of memory" {
		t.Errorf("%+v", got[1])
	}
	if want := "'--model-repository=/some models' -m m --max"; !strings.Contains(got[0].Apply, want) {
		t.Errorf("%s, want %s", got[0].Apply, want)
	}
}
