package tune

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGoal_F032(t *testing.T) {
	m := Measurement{Throughput: 1000, Avg: 2 * time.Millisecond, P90: 3 * time.Millisecond, P95: 4 * time.Millisecond,
		P99: 5 * time.Millisecond,
		CPU: 1.5, Memory: 200e6, AvailableMemory: 800e6, GPUMemory: 300e6, GPUFree: 700e6, GPUUtilization: 60,
		GPUPower: 90}
	for name, want := range map[Metric]float64{Throughput: 1000, LatencyAvg: 2, LatencyP90: 3, LatencyP95: 4,
		LatencyP99: 5, CPU: 150, RAM: 200,
		RAMLeft: 800, GPUMemory: 300, GPUFree: 700, GPUUtilization: 60, GPUPower: 90} {
		if got := m.Of(name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
		g := Goal{Weights: map[Metric]float64{name: 1}, Constraints: []Constraint{{Metric: name, Min: want, Max: want}}}
		if err := g.Check(); err != nil || !g.Keeps(&m) {
			t.Errorf("%s from %v to %v is not kept: %v", name, want, want, err)
		}
		for _, c := range []Constraint{{Metric: name, Max: want / 2}, {Metric: name, Min: 2 * want}} {
			g.Constraints = []Constraint{c}
			if _, over := g.Score(&m); math.Abs(over-math.Log(2)) > 1e-9 {
				t.Errorf("%+v is broken by %v, want log 2", c, over)
			}
		}
	}
	if len(Metrics()) != 12 || !slices.IsSorted(Metrics()) {
		t.Errorf("metrics %v", Metrics())
	}
	for _, tt := range []struct {
		goal Goal
		want string
	}{
		{Goal{}, "there is no objective"},
		{Goal{Weights: map[Metric]float64{"speed": 1}}, `objective "speed"`},
		{Goal{Weights: map[Metric]float64{Throughput: 0}}, "the weight 0"},
		{Goal{Weights: map[Metric]float64{Throughput: math.NaN()}}, "the weight NaN"},
		{Goal{Weights: map[Metric]float64{Throughput: 1}, Constraints: []Constraint{{Metric: "x", Max: 1}}},
			`constraint "x"`},
		{Goal{Weights: map[Metric]float64{Throughput: 1}, Constraints: []Constraint{{Metric: RAM}}},
			"want a min or a max"},
		{Goal{Weights: map[Metric]float64{Throughput: 1}, Constraints: []Constraint{{Metric: RAM, Min: 2, Max: 1}}},
			"want a min or a max"},
	} {
		if err := tt.goal.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check(%+v) = %v, want %q", tt.goal, err, tt.want)
		}
	}
}

func TestRank(t *testing.T) {
	s := &Space{Axes: []Axis{{Model: "m", Field: Instances, Values: []int{1, 2, 3, 4}},
		{Field: Load, Values: []int{1, 2}}}}
	trial := func(i, load int, throughput, p99 float64, failed string) Trial {
		return Trial{Candidate{i, load}, Measurement{Throughput: throughput, P99: time.Duration(p99 * 1e6),
			Failed: failed}}
	}
	trials := []Trial{
		trial(0, 0, 100, 5, ""), trial(0, 1, 120, 5, ""), trial(1, 0, 199, 8, ""), trial(1, 1, 500, 50, ""),
		trial(2, 0, 200, 9, ""), trial(3, 0, 0, 0, "no memory"), trial(3, 1, 900, 90, ""),
	}
	g := &Goal{Weights: map[Metric]float64{Throughput: 1}, Constraints: []Constraint{{Metric: LatencyP99, Max: 10}}}
	var got []string
	for _, r := range Rank(s, g, trials) {
		got = append(got, s.Key(r.Candidate))
	}
	// 199 and 200 are the same throughput, so that the lower p99 decides; what breaks the constraint comes last.
	want := []string{"m.instance_count=2 load=1", "m.instance_count=3 load=1", "m.instance_count=1 load=2",
		"m.instance_count=4 load=2"}
	if !slices.Equal(got, want) {
		t.Errorf("Rank = %q, want %q", got, want)
	}
	if b, ok := Best(s, g, trials); !ok || s.Key(b.Candidate) != want[0] {
		t.Errorf("Best = %+v, %v", b, ok)
	}
	if b, ok := Best(s, g, trials[3:4]); ok {
		t.Errorf("the best breaks a constraint: %+v", b)
	}
	if b, ok := Best(s, g, trials[5:6]); ok {
		t.Errorf("the best has failed: %+v", b)
	}
	if b, ok := Baseline(s, g, trials); !ok || b.Throughput != 120 {
		t.Errorf("Baseline = %+v, %v", b, ok)
	}
	if _, ok := Baseline(s, g, trials[2:]); ok {
		t.Error("there is a baseline of configurations that are not present")
	}
}

func TestNewAxis(t *testing.T) {
	for _, tt := range []struct {
		field   Field
		values  []int
		present int
		want    Axis
	}{
		{Instances, []int{4, 1, 2, 2}, 2, Axis{Values: []int{1, 2, 4}, Start: 1}},
		{Instances, []int{1, 4}, 3, Axis{Values: []int{1, 3, 4}, Start: 1, Present: true}},
		{Threads, []int{0, 2, 1}, 0, Axis{Values: []int{1, 2, 0}, Start: 2}},
		{Threads, []int{2, 0}, 1, Axis{Values: []int{1, 2, 0}, Start: 0, Present: true}},
		{Delay, []int{0, NoBatching}, 100, Axis{Values: []int{NoBatching, 0, 100}, Start: 2, Present: true}},
	} {
		values := slices.Clone(tt.values)
		tt.want.Model, tt.want.Field = "m", tt.field
		if got := NewAxis("m", tt.field, values, tt.present); !reflect.DeepEqual(got, tt.want) ||
			!slices.Equal(values, tt.values) {
			t.Errorf("NewAxis(%s, %v, %d) = %+v, want %+v; the values are %v", tt.field, tt.values, tt.present, got,
				tt.want, values)
		}
	}
}

func TestSpace(t *testing.T) {
	load := Axis{Field: Load, Values: []int{1, 2}}
	for _, tt := range []struct {
		axes []Axis
		want string
	}{
		{nil, "the last axis"},
		{[]Axis{load, {Field: Instances, Values: []int{1}}}, "the last axis"},
		{[]Axis{{Model: "m", Field: Instances, Values: []int{1}, Start: 1}, load}, "m.instance_count: the start 1"},
		{[]Axis{{Model: "m", Field: Instances, Values: []int{2, 1}}, load}, "do not rise"},
		{[]Axis{{Model: "m", Field: Threads, Values: []int{0, 1}}, load}, "do not rise"},
		{[]Axis{{Model: "m", Field: Threads, Values: []int{1, 0}}, load}, ""},
	} {
		err := (&Space{tt.axes}).Check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check(%v) = %v, want %q", tt.axes, err, tt.want)
		}
	}
}

// Of several models the slow one counts as much as the fast one, and each must keep the constraints.
func TestGoalOfSeveralModels_F029(t *testing.T) {
	of := func(throughput float64, p99 time.Duration) Measurement {
		return Measurement{Throughput: throughput, P99: p99, Memory: 100e6, Stable: true, Requests: 10}
	}
	both := func(fast, slow float64, p99 time.Duration) Measurement {
		return Together([]Measurement{of(fast, time.Millisecond), of(slow, p99)})
	}
	g := Goal{Weights: map[Metric]float64{Throughput: 1}, Constraints: []Constraint{{Metric: LatencyP99, Max: 50},
		{Metric: RAM, Max: 200}}}
	now, sum, fair, late := both(10000, 20, 40*time.Millisecond), both(12000, 10, 40*time.Millisecond),
		both(9900, 30, 40*time.Millisecond), both(10000, 90, 80*time.Millisecond)
	if now.Throughput != 10020 || now.P99 != 40*time.Millisecond || now.Requests != 20 || now.Memory != 100e6 ||
		len(now.Models) != 2 {
		t.Errorf("together: %+v", now)
	}
	score := func(m Measurement) float64 {
		s, over := g.Score(&m)
		if over != 0 {
			t.Errorf("%+v breaks constraints by %v", m, over)
		}
		return s
	}
	if !(score(sum) < score(now) && score(now) < score(fair)) {
		t.Errorf("scores %v, %v, %v: want what is better for both first, not what has the higher sum", score(sum),
			score(now), score(fair))
	}
	if g.Keeps(&late) {
		t.Error("a model breaks the latency budget, and the others hide it")
	}
	if one := of(5, 1); !reflect.DeepEqual(Together([]Measurement{one}), one) {
		t.Errorf("of one: %+v", Together([]Measurement{one}))
	}
}
