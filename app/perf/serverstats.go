package perf

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nereid/engine/client"
	"nereid/engine/inferencepb"
)

// Duration is the sum of several times, and their number.
type Duration struct {
	Count uint64
	Sum   time.Duration
}

// Mean is the average; 0 for none.
func (d Duration) Mean() time.Duration {
	if d.Count == 0 {
		return 0
	}
	return d.Sum / time.Duration(d.Count)
}

func (d Duration) minus(o Duration) Duration {
	return Duration{Count: sub(d.Count, o.Count), Sum: max(0, d.Sum-o.Sum)}
}

func (d Duration) plus(o Duration) Duration {
	return Duration{Count: d.Count + o.Count, Sum: d.Sum + o.Sum}
}

// sub is a-b, or a if the counter was reset.
func sub(a, b uint64) uint64 {
	if a < b {
		return a
	}
	return a - b
}

// ServerStats is what the server counted for a model: for one version if it was given, else for all together.
type ServerStats struct {
	Model                  ModelVersion
	Inferences, Executions uint64
	Success, Fail, Queue   Duration
	Input, Infer, Output   Duration // the parts of the computation
	CacheHit, CacheMiss    Duration
	Composing              []ServerStats // of the composing models, if it is an ensemble
}

// Server is asked for its statistics; every client.Client is one.
type Server interface {
	Statistics(ctx context.Context, model, version string) (*inferencepb.ModelStatisticsResponse, error)
}

var _ Server = client.Client(nil)

// snapshot reads the counters of a model and of its composing models.
func snapshot(ctx context.Context, s Server, m *Model) (*ServerStats, error) {
	all, err := read(ctx, s, ModelVersion{m.Name, m.Version})
	if err != nil {
		return nil, err
	}
	for _, v := range m.Composing {
		part, err := read(ctx, s, v)
		if err != nil {
			return nil, err
		}
		all.Composing = append(all.Composing, *part)
	}
	return all, nil
}

func read(ctx context.Context, s Server, v ModelVersion) (*ServerStats, error) {
	answer, err := s.Statistics(ctx, v.Name, v.Version)
	if err != nil {
		return nil, fmt.Errorf("the statistics of model %q: %w", v.Name, err)
	}
	out := &ServerStats{Model: v}
	for _, m := range answer.GetModelStats() {
		i := m.GetInferenceStats()
		out = out.plus(&ServerStats{
			Model: v, Inferences: m.GetInferenceCount(), Executions: m.GetExecutionCount(),
			Success: duration(i.GetSuccess()), Fail: duration(i.GetFail()), Queue: duration(i.GetQueue()),
			Input: duration(i.GetComputeInput()), Infer: duration(i.GetComputeInfer()),
			Output:   duration(i.GetComputeOutput()),
			CacheHit: duration(i.GetCacheHit()), CacheMiss: duration(i.GetCacheMiss()),
		})
		if v.Version == "" && len(answer.GetModelStats()) == 1 {
			out.Model.Version = m.GetVersion()
		}
	}
	return out, nil
}

func duration(d *inferencepb.StatisticDuration) Duration {
	return Duration{Count: d.GetCount(), Sum: time.Duration(d.GetNs())}
}

// combine applies n and d to each pair of counters.
func (s *ServerStats) combine(o *ServerStats, n func(a, b uint64) uint64, d func(a, b Duration) Duration) *ServerStats {
	out := &ServerStats{
		Model: s.Model, Inferences: n(s.Inferences, o.Inferences), Executions: n(s.Executions, o.Executions),
		Success: d(s.Success, o.Success), Fail: d(s.Fail, o.Fail), Queue: d(s.Queue, o.Queue),
		Input: d(s.Input, o.Input), Infer: d(s.Infer, o.Infer), Output: d(s.Output, o.Output),
		CacheHit: d(s.CacheHit, o.CacheHit), CacheMiss: d(s.CacheMiss, o.CacheMiss),
	}
	for i := range s.Composing {
		part := ServerStats{}
		if k := slices.IndexFunc(o.Composing,
			func(p ServerStats) bool { return p.Model == s.Composing[i].Model }); k >= 0 {
			part = o.Composing[k]
		}
		out.Composing = append(out.Composing, *s.Composing[i].combine(&part, n, d))
	}
	return out
}

// plus adds the counters of another period.
func (s *ServerStats) plus(o *ServerStats) *ServerStats {
	return s.combine(o, func(a, b uint64) uint64 { return a + b }, Duration.plus)
}

// minus is what was counted since o.
func (s *ServerStats) minus(o *ServerStats) *ServerStats { return s.combine(o, sub, Duration.minus) }

// Compute is input, infer and output together, with the count of infer.
func (s *ServerStats) Compute() Duration {
	return Duration{Count: s.Infer.Count, Sum: s.Input.Sum + s.Infer.Sum + s.Output.Sum}
}

// Accounted is the average time that the server's counters cover.
func (s *ServerStats) Accounted() time.Duration {
	return s.Queue.Mean() + s.Compute().Mean() + s.CacheHit.Mean() + s.CacheMiss.Mean()
}
