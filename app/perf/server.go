package perf

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/engine/client"
	"nereid/engine/inferencepb"
)

// Duration is a sum of times and their number.
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

// ServerStats is what the server counted for a model, for all versions together unless one was given.
type ServerStats struct {
	Model                  ModelVersion
	Inferences, Executions uint64
	Success, Fail, Queue   Duration
	Input, Infer, Output   Duration // of computing
	CacheHit, CacheMiss    Duration
	Composing              []ServerStats // of the composing models
}

// Server has statistics; every client.Client is one.
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

// each combines two statistics counter by counter.
func (s *ServerStats) each(o *ServerStats, n func(a, b uint64) uint64, d func(a, b Duration) Duration) *ServerStats {
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
		out.Composing = append(out.Composing, *s.Composing[i].each(&part, n, d))
	}
	return out
}

// plus adds the counters of another period.
func (s *ServerStats) plus(o *ServerStats) *ServerStats {
	return s.each(o, func(a, b uint64) uint64 { return a + b }, Duration.plus)
}

// minus is what was counted since o.
func (s *ServerStats) minus(o *ServerStats) *ServerStats { return s.each(o, sub, Duration.minus) }

// Compute is input, infer and output together, with the count of infer.
func (s *ServerStats) Compute() Duration {
	return Duration{Count: s.Infer.Count, Sum: s.Input.Sum + s.Infer.Sum + s.Output.Sum}
}

// Accounted is the average time that the server's counters cover.
func (s *ServerStats) Accounted() time.Duration {
	return s.Queue.Mean() + s.Compute().Mean() + s.CacheHit.Mean() + s.CacheMiss.Mean()
}

// Gauge is a metric by GPU.
type Gauge map[string]Reading

// Reading summarizes several readings of one value.
type Reading struct {
	Count           int
	Sum, Max, First float64
}

// The metrics of the server's GPUs, by the server's names.
const (
	GPUUtilization = "nv_gpu_utilization" // a fraction
	GPUPower       = "nv_gpu_power_usage" // watts
	GPUUsedMemory  = "nv_gpu_memory_used_bytes"
	GPUTotalMemory = "nv_gpu_memory_total_bytes"
)

// Metrics are gauges by the server's names.
type Metrics map[string]Gauge

func (m Metrics) add(name, gpu string, r Reading) {
	if m[name] == nil {
		m[name] = Gauge{}
	}
	m[name][gpu] = m[name][gpu].merge(r)
}

func (m Metrics) merge(o Metrics) {
	for name, gauge := range o {
		for gpu, r := range gauge {
			m.add(name, gpu, r)
		}
	}
}

func (r Reading) merge(o Reading) Reading {
	switch {
	case r.Count == 0:
		return o
	case o.Count == 0:
		return r
	}
	return Reading{Count: r.Count + o.Count, Sum: r.Sum + o.Sum, Max: max(r.Max, o.Max), First: r.First}
}

// Mean is the average of the readings.
func (r Reading) Mean() float64 {
	if r.Count == 0 {
		return 0
	}
	return r.Sum / float64(r.Count)
}

// ParseMetrics reads the metrics of the GPUs from Prometheus's text format. It skips other metrics.
func ParseMetrics(text io.Reader) (Metrics, error) {
	m := Metrics{}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), "{")
		if !ok || !slices.Contains([]string{GPUUtilization, GPUPower, GPUUsedMemory, GPUTotalMemory}, name) {
			continue
		}
		end := strings.LastIndexByte(rest, '}')
		if end < 0 {
			return m, fmt.Errorf("metric %s: the labels in %q do not end", name, lines.Text())
		}
		_, gpu, ok := strings.Cut(rest[:end], `gpu_uuid="`)
		gpu, _, closed := strings.Cut(gpu, `"`)
		fields := strings.Fields(rest[end+1:])
		if !ok || !closed || len(fields) == 0 {
			return m, fmt.Errorf("metric %s: %q has no gpu_uuid or no value", name, lines.Text())
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return m, fmt.Errorf("metric %s: %q is no number", name, fields[0])
		}
		m.add(name, gpu, Reading{Count: 1, Sum: v, Max: v, First: v})
	}
	return m, lines.Err()
}

// Scrape returns a function that reads the metrics at a URL.
func Scrape(ctx context.Context, c *http.Client, url string) func() (Metrics, error) {
	return func() (Metrics, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.Do(req)
		if err != nil {
			return nil, fmt.Errorf("the server's metrics: %w", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the server's metrics: GET %s answers %s", url, resp.Status)
		}
		return ParseMetrics(resp.Body)
	}
}
