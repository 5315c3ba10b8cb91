package perf

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/client"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

// clock is a Target on the fake clock: each request takes what takes says.
type clock struct {
	takes func(n int, under int) time.Duration // n-th request, with so many under way
	fails func(n int) error

	mu    sync.Mutex
	n     int
	under int
	most  int
	sent  []time.Time
	seqs  []client.Sequence
	ids   map[string]int
}

func (c *clock) Infer(ctx context.Context, _ int, r *Request, call *Call) error {
	c.mu.Lock()
	n := c.n
	c.n++
	c.under++
	under := c.under
	c.most = max(c.most, under)
	c.sent = append(c.sent, time.Now())
	c.seqs = append(c.seqs, r.Sequence)
	if c.ids == nil {
		c.ids = map[string]int{}
	}
	c.ids[r.ID]++
	c.mu.Unlock()
	timer := time.NewTimer(c.takes(n, under))
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	call.First = time.Now()
	call.End = call.First
	call.Responses = 1
	call.Last = &client.Response{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under--
	if err == nil && c.fails != nil {
		err = c.fails(n)
	}
	return err
}

func (c *clock) Close() error { return nil }

func always(d time.Duration) func(int, int) time.Duration {
	return func(int, int) time.Duration { return d }
}

// plain is a model with one input, and its data.
func plain(t *testing.T) (Model, *Data) {
	t.Helper()
	m := Model{Name: "m", MaxBatchSize: 8, Inputs: []IO{{Name: "IN", DataType: tensor.FP32, Shape: []int64{2}}}}
	d, err := Generate(&m, InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m, d
}

// options are those of a run on the fake clock.
func options(t *testing.T, target Target) Options {
	m, d := plain(t)
	return Options{
		Target: target, Model: m, Data: d, Seed: 1,
		Load: Load{TimersOnly: true}, WindowOptions: WindowOptions{Window: time.Second},
	}
}

func one(n float64) *Range { return &Range{Start: n, End: n, Step: 1} }

func run1(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// about reports whether two figures differ by no more than a part.
func about(got, want, part float64) bool { return math.Abs(got-want) <= part*math.Abs(want) }

func TestClosedLoop(t *testing.T) {
	t.Run("F001 each level has its number of requests in flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &clock{takes: always(10 * time.Millisecond)}
			o := options(t, c)
			o.Concurrency = &Range{Start: 1, End: 5, Step: 2}
			r := run1(t, o)
			var levels []float64
			for _, p := range r.Points {
				levels = append(levels, p.Level)
				if want := p.Level * 100; !p.Stable || !about(p.Throughput(), want, .02) ||
					!about(float64(p.Latency.Mean()), 1e7, .01) {
					t.Errorf("level %v: %v/s at %v, stable %v; want %v/s at 10 ms", p.Level, p.Throughput(),
						p.Latency.Mean(), p.Stable, want)
				}
			}
			if !slices.Equal(levels, []float64{1, 3, 5}) || c.most != 5 || c.under != 0 {
				t.Errorf("levels %v, %d under way at most and %d at the end; want 1, 3, 5, then 5 and 0", levels,
					c.most, c.under)
			}
			for id, n := range c.ids {
				if n != 1 {
					t.Errorf("%d requests have the ID %s", n, id)
				}
			}
		})
	})
	t.Run("F001 F007 without an end until the latency threshold", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &clock{takes: func(_, under int) time.Duration { return time.Duration(under) * 10 * time.Millisecond }}
			o := options(t, c)
			o.Concurrency, o.Threshold = &Range{Start: 1, Step: 1}, 35*time.Millisecond
			r := run1(t, o)
			if len(r.Points) != 3 || r.Beyond == nil || r.Beyond.Level != 4 || !r.Beyond.Over {
				t.Errorf("%d points, and beyond %+v; want three and level 4, over the threshold", len(r.Points),
					r.Beyond)
			}
		})
	})
	t.Run("rows of a batch count as inferences", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := options(t, &clock{takes: always(10 * time.Millisecond)})
			o.Concurrency, o.Batch = one(1), 4
			if p := run1(t, o).Points[0]; !about(p.Throughput(), 400, .02) {
				t.Errorf("%v rows a second, want 400", p.Throughput())
			}
		})
	})
}

func TestOpenLoop(t *testing.T) {
	t.Run("F002 a constant rate, whether or not requests are answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			c := &clock{takes: always(2999 * time.Millisecond)} // far slower than the rate
			o := options(t, c)
			o.Rate, o.Requests = one(8), 40
			run1(t, o)
			for i, at := range c.sent {
				if want := time.Duration(i+1) * 125 * time.Millisecond; at.Sub(begin).Round(time.Microsecond) != want {
					t.Fatalf("request %d was sent after %v, want %v", i, at.Sub(begin), want)
				}
			}
			if len(c.sent) != 40 || c.most != 24 {
				t.Errorf("%d requests, %d under way; want 40 and 24", len(c.sent), c.most)
			}
		})
	})
	t.Run("F002 gaps of a Poisson process have the rate's mean and deviation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &clock{takes: always(0)}
			o := options(t, c)
			o.Rate, o.Poisson, o.Requests = one(100), true, 4000
			run1(t, o)
			var sum, squares float64
			for i := 1; i < len(c.sent); i++ {
				gap := c.sent[i].Sub(c.sent[i-1]).Seconds()
				sum += gap
				squares += gap * gap
			}
			n := float64(len(c.sent) - 1)
			mean := sum / n
			if deviation := math.Sqrt(squares/n - mean*mean); !about(mean, .01, .05) || !about(deviation, .01, .1) {
				t.Errorf("gaps of %v s, deviating by %v; want 0.01 both", mean, deviation)
			}
		})
	})
}

func TestOpenLoopSchedules(t *testing.T) {
	t.Run("F003 intervals are repeated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gaps, err := ParseIntervals([]byte("100000\n200000\n500000\n"))
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			c := &clock{takes: always(time.Millisecond)}
			o := options(t, c)
			o.Intervals, o.Requests = gaps, 6
			p := run1(t, o).Points[0]
			var at []time.Duration
			for _, s := range c.sent {
				at = append(at, s.Sub(begin)/time.Millisecond)
			}
			if !slices.Equal(at, []time.Duration{100, 300, 800, 900, 1100, 1600}) || !about(p.Level, 3.75, .001) {
				t.Errorf("sent at %v ms, at a rate of %v", at, p.Level)
			}
		})
	})
	t.Run("F004 a fixed schedule is used once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			c := &clock{takes: always(time.Millisecond)}
			o := options(t, c)
			o.Schedule = []time.Duration{time.Second, time.Second, 2500 * time.Millisecond}
			p := run1(t, o).Points[0]
			if len(c.sent) != 3 || p.Requests != 3 || c.sent[2].Sub(begin) != 2500*time.Millisecond ||
				c.sent[0] != c.sent[1] {
				t.Errorf("sent at %v, counted %d", c.sent, p.Requests)
			}
		})
	})
	t.Run("F004 entries of a fixed schedule are started in its order", func(t *testing.T) {
		const n = 1000
		o := options(t, &clock{takes: always(0)})
		o.Keep, o.Schedule = true, make([]time.Duration, n) // all are due at once
		o.Data = &Data{Streams: [][]Step{{}}}
		for i := range n {
			o.Data.Streams[0] = append(o.Data.Streams[0],
				Step{Inputs: []client.Tensor{client.Of("IN", []float32{float32(i), 0})}})
		}
		starts := make([]time.Time, n)
		for _, r := range run1(t, o).Experiments[0].Records {
			v, err := client.Values[float32](&r.Inputs[0])
			if err != nil {
				t.Fatal(err)
			}
			starts[int(v[0])] = r.Start
		}
		for i := 1; i < n; i++ {
			if starts[i].Before(starts[i-1]) {
				t.Fatalf("entry %d was started %v before the one before", i, starts[i-1].Sub(starts[i]))
			}
		}
	})
	t.Run("latency counts from when a request was due", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// The first request takes a second, and nothing else is sent meanwhile: those that wait pay for it.
			c := &clock{takes: func(n, _ int) time.Duration {
				if n == 0 {
					return time.Second
				}
				return 0
			}}
			o := options(t, c)
			o.Rate, o.Requests, o.MaxInFlight = one(100), 100, 1
			p := run1(t, o).Points[0]
			if got := p.Latency.Mean(); !about(got.Seconds(), .505, .01) || p.Delayed < 98 ||
				!about(p.mean(p.Wait).Seconds(), .01, .01) {
				t.Errorf("mean latency %v, %d delayed, %v from sending; want 505 ms, 99 and 10 ms", got, p.Delayed,
					p.mean(p.Wait))
			}
		})
	})
}

func TestWindows(t *testing.T) {
	t.Run("F008 time windows", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := options(t, &clock{takes: always(10 * time.Millisecond)})
			o.Concurrency, o.Window = one(2), 700*time.Millisecond
			p := run1(t, o).Points[0]
			// A request that ends together with a window may be in this window or in none.
			if p.Windows != 3 || p.Elapsed != 2100*time.Millisecond || !about(float64(p.Requests), 420, .02) {
				t.Errorf("%d windows of %v with %d requests; want 3 of 2.1s together with 420", p.Windows, p.Elapsed,
					p.Requests)
			}
		})
	})
	for name, tt := range map[string]struct {
		takes time.Duration
		want  time.Duration // of a window
	}{
		"F008 count windows of at least a second": {10 * time.Millisecond, time.Second},
		"F008 count windows that are longer":      {100 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := options(t, &clock{takes: always(tt.takes)})
				o.Concurrency, o.WindowCount = one(1), 50
				p := run1(t, o).Points[0]
				if got := p.Elapsed / time.Duration(p.Windows); !about(got.Seconds(), tt.want.Seconds(), .03) ||
					p.Requests < 150 {
					t.Errorf("windows of %v with %d requests together, want %v and 150 at least", got, p.Requests,
						tt.want)
				}
			})
		})
	}
}

func TestWindowsAgree(t *testing.T) {
	// uneven takes 10 ms, and every other second 20 ms, so that windows of a second never agree.
	uneven := func() *clock {
		begin := time.Now()
		return &clock{takes: func(int, int) time.Duration {
			if int(time.Since(begin).Seconds())%2 == 1 {
				return 20 * time.Millisecond
			}
			return 10 * time.Millisecond
		}}
	}
	t.Run("F009 windows that do not agree", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			o := options(t, uneven())
			o.Concurrency, o.MaxTrials = &Range{Start: 1, End: 4, Step: 1}, 7
			r := run1(t, o)
			if len(r.Points) != 0 || r.Beyond == nil || r.Beyond.Stable || r.Beyond.Windows != 7 ||
				time.Since(begin) < 7*time.Second {
				t.Errorf("points %v, beyond %+v after %v; want the first level alone, not stable, after seven windows",
					r.Points, r.Beyond, time.Since(begin))
			}
		})
	})
	t.Run("F009 a wider stability", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := options(t, uneven())
			o.Concurrency, o.Stability = one(1), 110
			if p := run1(t, o).Points; len(p) != 1 || p[0].Windows != 3 {
				t.Errorf("points %+v, want one of three windows", p)
			}
		})
	})
	t.Run("F009 a percentile as the decisive latency", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// One of twenty takes ten times as long, which the average does not show much and the 99th percentile does.
			c := &clock{takes: func(n, _ int) time.Duration {
				if n%20 == 19 {
					return 100 * time.Millisecond
				}
				return 10 * time.Millisecond
			}}
			o := options(t, c)
			o.Concurrency, o.Threshold, o.Stability = one(4), 50*time.Millisecond, 50
			if r := run1(t, o); len(r.Points) != 1 {
				t.Errorf("by the average: %+v", r.Beyond)
			}
			o.Percentile = 99
			r := run1(t, o)
			if r.Beyond == nil || !r.Beyond.Over || !about(r.Beyond.Decisive().Seconds(), .1, .02) {
				t.Errorf("by the 99th percentile: points %d, beyond %+v", len(r.Points), r.Beyond)
			}
		})
	})
	t.Run("F009 only the throughput, for asynchronous calls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// The server answers ever later, and as many a second.
			begin := time.Now()
			o := options(t, &clock{takes: func(int, int) time.Duration { return time.Since(begin) / 2 }})
			o.Rate, o.ThroughputOnly, o.Stability, o.MaxTrials = one(50), true, 30, 10
			if r := run1(t, o); len(r.Points) != 1 {
				t.Errorf("not stable: %+v", r.Beyond)
			}
			begin = time.Now()
			o.ThroughputOnly, o.MaxTrials = false, 3
			if r := run1(t, o); len(r.Points) != 0 {
				t.Errorf("stable by latency too: %+v", r.Points)
			}
		})
	})
	t.Run("F010 a number of requests after warm-up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &clock{takes: always(10 * time.Millisecond)}
			o := options(t, c)
			o.Concurrency, o.Requests, o.Warmup = one(3), 31, 12
			p := run1(t, o).Points[0]
			if p.Requests != 31 || c.n != 43 || p.Windows != 1 || !p.Stable {
				t.Errorf("%d counted of %d in %d windows, want 31 of 43 in one", p.Requests, c.n, p.Windows)
			}
		})
	})
}

// counters is a Server whose counters stand for the requests that a clock has had.
type counters struct{ c *clock }

func (s counters) Statistics(_ context.Context, model, _ string) (*inferencepb.ModelStatisticsResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	n := uint64(s.c.n)
	d := func(ns uint64) *inferencepb.StatisticDuration {
		return &inferencepb.StatisticDuration{Count: n, Ns: n * ns}
	}
	return &inferencepb.ModelStatisticsResponse{ModelStats: []*inferencepb.ModelStatistics{{Name: model, Version: "1",
		InferenceCount: n, ExecutionCount: n / 2,
		InferenceStats: &inferencepb.InferStatistics{Success: d(9000), Queue: d(1000), ComputeInput: d(2000),
			ComputeInfer: d(3000), ComputeOutput: d(500)}}}}, nil
}

// hanging is counters that do not answer any more after so many calls.
type hanging struct {
	counters
	after, n int
}

func (h *hanging) Statistics(ctx context.Context, model, version string) (*inferencepb.ModelStatisticsResponse, error) {
	if h.n++; h.n > h.after {
		<-ctx.Done()
		return nil, errors.New("no answer")
	}
	return h.counters.Statistics(ctx, model, version)
}

func TestServerStatisticsOfTheWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{takes: always(10 * time.Millisecond)}
		o := options(t, c)
		o.Concurrency, o.Requests, o.Warmup, o.Server = one(2), 20, 10, counters{c}
		o.Model.Composing = []ModelVersion{{Name: "part"}}
		s := run1(t, o).Points[0].Server
		if s.Inferences != 20 || s.Executions != 10 || s.Success.Count != 20 || s.Queue.Mean() != time.Microsecond ||
			s.Accounted() != 6500 ||
			len(s.Composing) != 1 || s.Composing[0].Success.Count != 20 || s.Composing[0].Model.Name != "part" {
			t.Errorf("statistics %+v", s)
		}
	})
}

func TestRunEnds(t *testing.T) {
	t.Run("with the first request that fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("broken")
			c := &clock{takes: always(10 * time.Millisecond), fails: func(n int) error {
				if n == 30 {
					return broken
				}
				return nil
			}}
			o := options(t, c)
			o.Concurrency = one(4)
			r, err := Run(t.Context(), o)
			if !errors.Is(err, broken) || c.n > 40 || len(r.Points) != 0 || c.under != 0 {
				t.Errorf("Run = %+v, %v after %d requests", r, err, c.n)
			}
		})
	})
	t.Run("when it is cancelled, with what was measured", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 7500*time.Millisecond)
			defer cancel()
			c := &clock{takes: always(10 * time.Millisecond)}
			o := options(t, c)
			o.Concurrency, o.Window = &Range{Start: 1, End: 9, Step: 1}, 2*time.Second
			r, err := Run(ctx, o)
			if !errors.Is(err, context.DeadlineExceeded) || len(r.Points) != 2 || r.Points[0].Interrupted ||
				!r.Points[1].Interrupted ||
				!about(float64(r.Points[1].Requests), 300, .02) || c.under != 0 {
				t.Errorf("Run = %+v, %v; want a whole level and 1.5 s of the next", r, err)
			}
		})
	})
	t.Run("when it is cancelled, without waiting for a server that hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			o := options(t, &clock{takes: always(time.Hour)})
			o.Concurrency = one(2)
			if _, err := Run(ctx, o); err == nil || time.Since(begin) != time.Second+grace {
				t.Errorf("Run = %v after %v", err, time.Since(begin))
			}
		})
	})
	t.Run("when it is cancelled, without waiting for statistics of a server that hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			c := &clock{takes: always(10 * time.Millisecond)}
			o := options(t, c)
			o.Concurrency, o.Window, o.Server = one(2), 2*time.Second, &hanging{counters: counters{c}, after: 3}
			r, err := Run(ctx, o)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 4*time.Second+grace ||
				len(r.Points) != 1 || !about(float64(r.Points[0].Requests), 400, .02) {
				t.Errorf("Run = %d points, %v after %v", len(r.Points), err, time.Since(begin))
			}
		})
	})
	t.Run("with responses that differ from validation_data", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := options(t, &clock{takes: always(time.Millisecond)})
			o.Concurrency = one(1)
			o.Data.Streams[0][0].Want = []client.Tensor{client.Of("OUT", []float32{1})}
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `no output "OUT"`) {
				t.Errorf("Run = %v", err)
			}
		})
	})
}

func TestOptionsThatAreWrong(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*Options)
		want string
	}{
		{"F007 no end and no threshold", func(o *Options) { o.Concurrency = &Range{Start: 1, Step: 1} },
			"no latency threshold"},
		{"F007 halves without a threshold", func(o *Options) {
			o.Concurrency,
				o.Binary = &Range{Start: 1, End: 4, Step: 1}, true
		}, "binary search wants"},
		{"halves of intervals", func(o *Options) {
			o.Intervals, o.Binary, o.Threshold = []time.Duration{time.Millisecond}, true, time.Second
		}, "binary search wants"},
		{"halves of a schedule", func(o *Options) {
			o.Schedule, o.Binary, o.Threshold = []time.Duration{0}, true, time.Second
		}, "binary search wants"},
		{"F010 a number of requests for a schedule", func(o *Options) {
			o.Schedule, o.Requests = []time.Duration{0, 1}, 1
		}, "no number of requests"},
		{"F010 more requests before a schedule than it has", func(o *Options) {
			o.Schedule, o.Warmup = []time.Duration{0}, 2
		}, "no number of requests"},
		{"no load", func(*Options) {}, "0 are given"},
		{"two loads", func(o *Options) { o.Concurrency, o.Rate = one(1), one(1) }, "2 are given"},
		{"F010 a number of requests for a range", func(o *Options) {
			o.Concurrency,
				o.Requests = &Range{Start: 1, End: 4, Step: 1}, 100
		}, "wants one level"},
		{"F010 a number of requests for a range without an end", func(o *Options) {
			o.Concurrency, o.Threshold, o.Requests = &Range{Start: 1, Step: 1}, time.Second, 100
		}, "wants one level"},
		{"F010 fewer requests than clients", func(o *Options) { o.Concurrency, o.Requests = one(8), 7 }, "fewer"},
		{"a batch for a model without one", func(o *Options) {
			o.Concurrency, o.Batch, o.Model.MaxBatchSize = one(1), 2,
				0
		}, "does not batch"},
		{"a batch that is too large", func(o *Options) { o.Concurrency, o.Batch = one(1), 9 }, "takes 8 rows at most"},
		{"F015 too few IDs for the sequences", func(o *Options) {
			o.Concurrency, o.Model.Sequence, o.Sequences = one(4), true, SequenceOptions{FirstID: 5, EndID: 8}
		}, "range of 3 sequence IDs is smaller than the 4"},
		{"F015 IDs up to the largest number", func(o *Options) {
			o.Concurrency, o.Model.Sequence, o.Sequences = one(2), true, SequenceOptions{FirstID: math.MaxUint64}
		}, "range of 1 sequence IDs is smaller than the 2"},
		{"F015 IDs with an end for a concurrency without one", func(o *Options) {
			o.Concurrency, o.Threshold = &Range{Start: 1, Step: 1}, time.Hour
			o.Model.Sequence, o.Sequences = true, SequenceOptions{FirstID: 1, EndID: 4}
		}, "bounds a concurrency without an end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options(t, &clock{takes: always(0)})
			tt.set(&o)
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestSearch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		r      Range
		binary bool
		limit  float64 // levels up to it are within
		want   []float64
	}{
		{name: "F007 linear", r: Range{1, 8, 3}, limit: 99, want: []float64{1, 4, 7}},
		{name: "F007 linear to the limit", r: Range{1, 8, 1}, limit: 2, want: []float64{1, 2, 3}},
		{name: "F007 fractions of a rate, to the end", r: Range{.1, .5, .1}, limit: 99,
			want: []float64{.1, .2, .3, .4, .5}},
		{name: "F007 halves", r: Range{1, 64, 1}, binary: true, limit: 20,
			want: []float64{1, 64, 32, 16, 24, 20, 22, 21}},
		{name: "F007 halves until the step", r: Range{1, 64, 8}, binary: true, limit: 20,
			want: []float64{1, 64, 32, 16, 24}},
		{name: "F007 halves of rates", r: Range{1, 2, .25}, binary: true, limit: 1.6, want: []float64{1, 2, 1.5, 1.75}},
		{name: "F007 halves until numbers are next to each other", r: Range{1, 1 + 4e-16, 1e-30}, binary: true,
			limit: 1, want: []float64{1, 1, 1}},
		{name: "F007 halves, all within", r: Range{1, 64, 1}, binary: true, limit: 99, want: []float64{1, 64}},
		{name: "F007 halves, none within", r: Range{2, 64, 1}, binary: true, limit: 1, want: []float64{2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []float64
			err := search(t.Context(), tt.r, tt.binary, func(_ context.Context, level float64) (bool, error) {
				got = append(got, level)
				return level <= tt.limit, nil
			})
			same := len(got) == len(tt.want)
			for i := 0; same && i < len(got); i++ {
				same = about(got[i], tt.want[i], 1e-9)
			}
			if err != nil || !same {
				t.Errorf("levels %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestSequences(t *testing.T) {
	// whole checks that every sequence begins once, ends once and has nothing behind its end.
	whole := func(t *testing.T, seqs []client.Sequence) (lengths []int) {
		t.Helper()
		live := map[uint64]int{}
		for i, s := range seqs {
			if s.Start != (live[s.ID] == 0) || s.ID == 0 {
				t.Fatalf("request %d of sequence %d has start %v, with %d before it", i, s.ID, s.Start, live[s.ID])
			}
			live[s.ID]++
			if s.End {
				lengths = append(lengths, live[s.ID])
				delete(live, s.ID)
			}
		}
		if len(live) > 0 {
			t.Errorf("sequences that were not ended: %v", live)
		}
		return lengths
	}
	setUp := func(t *testing.T) (*clock, Options) {
		c := &clock{takes: func(n, _ int) time.Duration { return time.Duration(1+n%7) * time.Millisecond }}
		o := options(t, c)
		o.Model.Sequence = true
		return c, o
	}
	t.Run("F015 a concurrency of sequences, with IDs of a range", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, o := setUp(t)
			o.Concurrency, o.Sequences = one(3), SequenceOptions{Length: 10, Variation: 20, Given: true, FirstID: 7,
				EndID: 11}
			p := run1(t, o).Points[0]
			lengths := whole(t, c.seqs)
			slices.Sort(lengths)
			if lengths[len(lengths)-1] != 12 || lengths[3] != 8 || p.Sequences < 50 { // the first three were cut short
				t.Errorf("lengths %v, %d counted; want 8 to 12", lengths, p.Sequences)
			}
			for _, s := range c.seqs {
				if s.ID < 7 || s.ID >= 11 {
					t.Fatalf("ID %d is out of the range", s.ID)
				}
			}
		})
	})
	t.Run("F019 requests that only end sequences are exported, and not counted", func(t *testing.T) {
		for name, load := range map[string]Load{
			"concurrency": {Concurrency: one(3), TimersOnly: true}, "rate": {Rate: one(40), TimersOnly: true},
		} {
			synctest.Test(t, func(t *testing.T) {
				c, o := setUp(t)
				o.Load, o.Keep, o.Requests, o.Sequences = load, true, 50, SequenceOptions{Length: 1000}
				r := run1(t, o)
				p, records := r.Points[0], r.Experiments[0].Records
				if p.Requests != 50 || len(records) != c.n || c.n <= 50 {
					t.Errorf("%s: %d counted, %d exported and %d sent; want 50, and all that were sent", name,
						p.Requests, len(records), c.n)
				}
			})
		}
	})
	t.Run("F015 a rate of sequences' requests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, o := setUp(t)
			o.Rate, o.Sequences = one(200), SequenceOptions{Count: 4}
			p := run1(t, o).Points[0]
			lengths := whole(t, c.seqs)
			if !about(p.Throughput(), 200, .02) || c.most > 4 || slices.Max(lengths) != 20 {
				t.Errorf("%v/s, %d under way, lengths %v; want 200, 4 and 20", p.Throughput(), c.most, lengths)
			}
		})
	})
	t.Run("F015 given data: a stream is a sequence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, o := setUp(t)
			step := o.Data.Streams[0][0]
			o.Data = &Data{Given: true, Streams: [][]Step{{step, step, step, step}, {step, step}}}
			o.Concurrency, o.Requests = one(1), 18
			run1(t, o)
			if got := whole(t, c.seqs); !slices.Equal(got, []int{4, 2, 4, 2, 4, 2}) {
				t.Errorf("lengths %v", got)
			}
		})
	})
}
