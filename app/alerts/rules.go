package alerts

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"nereid/app/history"
	"nereid/store"
)

// Kind is what an alert is about.
type Kind string

// The kinds. Version is that of a comparison with what served before; the others are those of rules with a limit.
const (
	Failures Kind = "failures" // limit: a share of the requests
	P99      Kind = "p99"      // limit: microseconds
	Restarts Kind = "restarts" // limit: a number within ten minutes
	Queue    Kind = "queue"    // limit: a number of requests
	Memory   Kind = "memory"   // limit: bytes
	Version  Kind = "version"  // no limit
	Refused  Kind = "refused"  // limit: a share of all requests; of the server, so its alerts have no model
)

// Kinds are the kinds of a model, in the order in which they are shown.
var Kinds = []Kind{Failures, P99, Restarts, Queue, Memory, Version}

// Server is in place of a model's name in the rules of the server. It has one kind, Refused.
const Server = ""

// Rule is what the user decided about one kind of alert.
type Rule struct {
	Off   bool    `json:"off,omitempty"`
	Limit float64 `json:"limit,omitempty"` // 0: it follows from the model's past
}

// Rules are those of one model. The zero value has all kinds on, with limits that follow from the past.
type Rules struct {
	Rules map[Kind]Rule `json:"rules,omitempty"` // absent: the zero Rule
	// SilencedUntilMS: until then alerts are shown in lists only. Milliseconds since 1970.
	SilencedUntilMS int64 `json:"silencedUntilMs,omitempty"`
}

// Check returns why rules of a model, or of the Server, cannot be kept, nil if they can.
func (r Rules) Check(model string) error {
	kinds := Kinds
	if model == Server {
		kinds = []Kind{Refused}
	}
	for k, rule := range r.Rules {
		switch {
		case !slices.Contains(kinds, k):
			return fmt.Errorf("there is no alert of kind %q; the kinds are %v", k, kinds)
		case math.IsNaN(rule.Limit) || math.IsInf(rule.Limit, 0) || rule.Limit < 0:
			return fmt.Errorf("the limit of %q must be above 0, or 0 for the one that follows from the past", k)
		case (k == Failures || k == Refused) && rule.Limit >= 1:
			return fmt.Errorf("the limit of %s is a share and must be below 1, such as 0.05", k)
		case k == Version && rule.Limit != 0:
			return fmt.Errorf("the comparison of versions has no limit that can be set")
		}
	}
	return nil
}

// Limits that hold without a past.
const (
	leastFailures = 0.05
	mostFailures  = 0.2
	mostRefused   = 0.1
	leastRestarts = 3
	leastQueue    = 10
	leastMemory   = 64 << 20 // above what the model takes usually
	leastSlower   = 5_000.0  // microseconds above the usual p99
)

// baseline returns the limits that follow from a model's recorded past. A limit that needs a past is missing without
// one.
//
// The past is the last week by the hour, without the last hour; for a new model the last six hours by the minute.
// Medians and 90th percentiles are taken over these periods, so that an incident in a few of them changes little.
//
//   - failures: three times the median share, from 5 % to 20 %. So a model that always fails a third of its requests
//     keeps its alert.
//   - p99: twice the median of the p99s, at least 1.25 times their 90th percentile, and 5 ms above the median
//   - queue: four times the 90th percentile of the mean length, at least 10; by Little's law the mean length is the
//     time that all requests waited, divided by the time in which they did
//   - memory: 1.5 times the median of a week, and 64 MiB above it
//
// The Server has no recorded past of what it refused: its limit is fixed.
func baseline(ctx context.Context, s *store.Store, model string, now time.Time) (map[Kind]float64, error) {
	if model == Server {
		return map[Kind]float64{Refused: mostRefused}, nil
	}
	out := map[Kind]float64{Failures: leastFailures, Restarts: leastRestarts}
	points, step, err := past(ctx, s, model, now)
	if err != nil {
		return nil, err
	}
	if len(points) > 0 {
		var failed, p99, queue []float64
		for i := range points {
			p := &points[i]
			failed = append(failed, float64(failures(p))/float64(counted(p)))
			queue = append(queue, float64(p.QueueNS)/float64(step))
			if len(p.Latency) > 0 {
				p99 = append(p99, float64(p.Histogram().Quantile(0.99))/1000)
			}
		}
		for _, list := range [][]float64{failed, p99, queue} {
			slices.Sort(list)
		}
		out[Failures] = min(max(3*median(failed), leastFailures), mostFailures)
		out[Queue] = max(4*quantile(queue, 0.9), leastQueue)
		if len(p99) > 0 {
			out[P99] = max(2*median(p99), 1.25*quantile(p99, 0.9), median(p99)+leastSlower)
		}
	}
	gauges, err := s.Gauges(ctx, history.Memory, model, now.Add(-7*24*time.Hour).UnixMicro(),
		now.Add(-5*time.Minute).UnixMicro())
	if err != nil {
		return nil, err
	}
	if len(gauges) >= 10 {
		var means []float64
		for _, g := range gauges {
			means = append(means, g.Mean)
		}
		slices.Sort(means)
		out[Memory] = max(1.5*median(means), median(means)+leastMemory)
	}
	return out, nil
}

// past returns the periods of a model's past that have enough requests, and how long each is; none if they are too few.
func past(ctx context.Context, s *store.Store, model string, now time.Time) ([]store.Sample, time.Duration, error) {
	for _, p := range []struct {
		from, to, step time.Duration
		requests       int64
		periods        int
	}{
		{7 * 24 * time.Hour, time.Hour, time.Hour, 50, 6},
		{6 * time.Hour, 2 * time.Minute, time.Minute, 20, 10},
	} {
		got, err := s.Samples(ctx, store.SampleQuery{Model: model, FromUS: now.Add(-p.from).UnixMicro(),
			ToUS: now.Add(-p.to).UnixMicro(), Step: p.step})
		if err != nil {
			return nil, 0, err
		}
		enough := slices.DeleteFunc(got.Points, func(x store.Sample) bool { return counted(&x) < p.requests })
		if len(enough) >= p.periods {
			return enough, got.Step, nil
		}
	}
	return nil, 0, nil
}

// failures returns the failed requests of a sample, without those that clients cancelled.
func failures(p *store.Sample) int64 { return p.Failures.Total() - p.Failures.Canceled }

// counted returns the requests of a sample, without those that clients cancelled.
func counted(p *store.Sample) int64 { return p.Requests - p.Failures.Canceled }
