package tune

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// surface is a synthetic server: what a configuration shows follows from a simple theory of queues, with parameters
// that are drawn by a seed.
type surface struct {
	cores           int
	fixed, row      float64 // seconds of an execution, and of each of its rows
	serial          float64 // the share of an execution that more threads do not shorten
	contention      float64 // what each thread beyond the cores costs
	overhead        float64 // seconds of a request outside of executions
	memory, perInst float64
	space           Space
}

func newSurface(seed uint64) *surface {
	r := rand.New(rand.NewPCG(seed, 1))
	log := func(low, high float64) float64 { return low * math.Pow(high/low, r.Float64()) }
	s := &surface{cores: 1 << r.IntN(6), fixed: log(50e-6, 20e-3), row: log(5e-6, 5e-3), serial: log(.05, 1),
		contention: log(.01, .5),
		overhead:   log(20e-6, 500e-6), memory: log(20e6, 500e6), perInst: log(5e6, 500e6)}
	loads := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	pick := func(f Field, values ...int) {
		s.space.Axes = append(s.space.Axes, Axis{Model: "m", Field: f, Values: values, Start: r.IntN(len(values))})
	}
	pick(MaxBatch, 1, 4, 16, 64, 128)
	pick(Delay, NoBatching, 0, 1000)
	pick(Instances, 1, 2, 3, 4, 6)
	pick(Threads, 1, 2, 4, 0)
	s.space.Axes = append(s.space.Axes, Axis{Field: Load, Values: loads, Start: 3})
	return s
}

// measure is what a candidate shows.
func (s *surface) measure(c Candidate) Measurement {
	batch, delay, n, threads := s.space.Value(c, 0), s.space.Value(c, 1), s.space.Value(c, 2), s.space.Value(c, 3)
	load := float64(s.space.LoadOf(c))
	if threads == 0 {
		threads = s.cores
	}
	speed := s.serial + (1-s.serial)/float64(min(threads, s.cores))
	busy := float64(n * threads)
	slow := max(1, busy/float64(s.cores)) * (1 + s.contention*max(0, busy/float64(s.cores)-1)/4)
	rows, wait := 1.0, 0.0
	if delay >= 0 {
		rows = min(float64(batch), max(1, load/float64(n)/2))
		wait = float64(delay) / 1e6
		if wait > 0 {
			rows = min(float64(batch), max(rows, load/float64(n)))
			if rows == float64(batch) {
				wait = 0 // full batches do not wait
			}
		}
	}
	work := (s.fixed + s.row*rows) * speed * slow
	capacity := rows * float64(n) / (work + wait)
	least := work + wait + s.overhead
	throughput := min(load/least, capacity*load/(load+.3*float64(n)*rows))
	latency := max(least, load/throughput)
	d := func(f float64) time.Duration { return time.Duration(latency * f * 1e9) }
	return Measurement{Throughput: throughput, Avg: d(1), P50: d(.95), P90: d(1.2), P95: d(1.4), P99: d(1.8),
		Stable: true,
		CPU:    min(float64(s.cores), busy), Memory: int64(s.memory + s.perInst*float64(n))}
}

func (s *surface) options(g Goal) Options {
	return Options{Space: s.space, Goal: g, Cores: s.cores, Measure: func(_ context.Context, c Candidate) (Measurement,
		error) {
		return s.measure(c), nil
	}}
}

// goals are drawn from the ways that people ask.
func (s *surface) goal(seed uint64) Goal {
	r := rand.New(rand.NewPCG(seed, 2))
	base := s.measure(s.space.Start())
	g := Goal{Weights: map[Metric]float64{Throughput: 1}}
	switch r.IntN(4) {
	case 0: // most throughput, at whatever latency
	case 1:
		g.Constraints = []Constraint{{Metric: LatencyP99, Max: base.Of(LatencyP99) * math.Pow(10, 2*r.Float64()-.7)}}
	case 2:
		g = Goal{Weights: map[Metric]float64{LatencyP99: 1}, Constraints: []Constraint{{Metric: Throughput,
			Min: base.Throughput * (.2 + 1.5*r.Float64())}}}
	case 3:
		g.Weights[LatencyP99] = .2 + r.Float64()
		g.Constraints = []Constraint{{Metric: RAM, Max: (s.memory + s.perInst*(1+7*r.Float64())) / 1e6}}
	}
	return g
}

// optimum is the highest score of all candidates that keep the constraints.
func (s *surface) optimum(g *Goal) (score float64, ok bool) {
	score = math.Inf(-1)
	c := make(Candidate, len(s.space.Axes))
	for {
		m := s.measure(c)
		if v, over := g.Score(&m); over == 0 {
			score, ok = max(score, v), true
		}
		i := 0
		for ; i < len(c); i++ {
			if c[i]++; c[i] < len(s.space.Axes[i].Values) {
				break
			}
			c[i] = 0
		}
		if i == len(c) {
			return score, ok
		}
	}
}

// Quick must reach 95 percent of the best that there is on most surfaces, within its budget and a hundredth of the
// space.
func TestF029_QuickFindsNearlyTheBest(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const surfaces = 1000
	good, met, feasible, most, all := 0, 0, 0, 0, 0
	for seed := range uint64(surfaces) {
		s := newSurface(seed)
		o := s.options(s.goal(seed))
		quick, err := Quick(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(quick.Trials) > DefaultBudget {
			t.Fatalf("seed %d: quick measured %d times, want at most %d", seed, len(quick.Trials), DefaultBudget)
		}
		most, all = max(most, len(quick.Trials)), all+len(quick.Trials)
		want, ok := s.optimum(&o.Goal)
		if !ok {
			continue // nothing keeps the constraints
		}
		feasible++ // Quick must find it
		got := Rank(&o.Space, &o.Goal, quick.Trials)[0]
		score, over := o.Goal.Score(&got.Measurement)
		if over > 0 {
			continue
		}
		met++
		if score >= want+math.Log(.95) {
			good++
		}
	}
	t.Logf("of %d surfaces with a solution quick solves %d, %d of them within 5 %%; it measures %.1f on average and "+
		"%d at most, of %d", feasible, met, good, float64(all)/surfaces, most, newSurface(0).space.Size())
	if feasible < surfaces/2 {
		t.Fatalf("only %d of %d surfaces have a solution: the test tests little", feasible, surfaces)
	}
	if float64(met) < .98*float64(feasible) || float64(good) < .8*float64(feasible) {
		t.Errorf("quick keeps the constraints on %d and is within 5 %% of brute on %d of %d surfaces", met, good,
			feasible)
	}
}

// A run that is cut short anywhere and goes on with what it measured is the same as one that was not.
func TestF035_ResumeIsTheSameRun(t *testing.T) {
	stop := errors.New("stop")
	for _, tt := range []struct {
		name   string
		search func(context.Context, Options) (*Result, error)
	}{{"quick", Quick}, {"brute", Brute}} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(40) {
				s := newSurface(seed)
				full := newSurface(seed)
				s.space.Axes = s.space.Axes[2:] // brute has many
				measure := func(c Candidate) Measurement {
					return full.measure(append(Candidate{full.space.Axes[0].Start, full.space.Axes[1].Start}, c...))
				}
				o := Options{Space: s.space, Goal: Goal{Weights: map[Metric]float64{Throughput: 1}},
					Measure: func(_ context.Context, c Candidate) (Measurement, error) { return measure(c), nil }}
				want, err := tt.search(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				for cut := 0; cut < len(want.Trials); cut += 1 + len(want.Trials)/7 {
					known, measured := map[string]Measurement{}, 0
					o.Known = known
					o.Measure = func(_ context.Context, c Candidate) (Measurement, error) {
						if measured == cut {
							return Measurement{}, stop
						}
						measured++
						known[o.Space.Key(c)] = measure(c)
						return known[o.Space.Key(c)], nil
					}
					part, err := tt.search(t.Context(), o)
					if !errors.Is(err, stop) || len(part.Trials) != cut || part.Ended {
						t.Fatalf("seed %d cut after %d: %d trials, ended %v, %v", seed, cut, len(part.Trials),
							part.Ended, err)
					}
					fresh := 0
					o.Measure = func(_ context.Context, c Candidate) (Measurement, error) {
						fresh++
						return measure(c),
							nil
					}
					got, err := tt.search(t.Context(), o)
					if err != nil || !reflect.DeepEqual(got, want) || fresh != len(want.Trials)-cut {
						t.Fatalf("seed %d cut after %d: the resumed run differs or measures %d again, want %d: %v",
							seed, cut, fresh, len(want.Trials)-cut, err)
					}
				}
			}
		})
	}
}
