package terminal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"nereid/app/command"
	"nereid/engine/inferencepb"
)

// counts are the statistics of a version of a model. Times are sums in nanoseconds, over successful requests.
type counts struct {
	name, version                   string
	ok, failed, executions          uint64
	latency, queue, compute, hitsNs uint64
	hits                            uint64
}

func readCounts(s *inferencepb.ModelStatistics) counts {
	i := s.GetInferenceStats()
	return counts{
		name: s.GetName(), version: s.GetVersion(),
		ok: i.GetSuccess().GetCount(), failed: i.GetFail().GetCount(), executions: s.GetExecutionCount(),
		latency: i.GetSuccess().GetNs(), queue: i.GetQueue().GetNs(),
		compute: i.GetComputeInput().GetNs() + i.GetComputeInfer().GetNs() + i.GetComputeOutput().GetNs(),
		hits:    i.GetCacheHit().GetCount(), hitsNs: i.GetCacheHit().GetNs(),
	}
}

// since returns what was counted after before. A model that was loaded again counts from 0.
func (c counts) since(before counts) counts {
	if c.ok < before.ok || c.failed < before.failed || c.executions < before.executions || c.latency < before.latency ||
		c.queue < before.queue || c.compute < before.compute || c.hits < before.hits {
		return c
	}
	d := c
	d.ok, d.failed, d.executions = c.ok-before.ok, c.failed-before.failed, c.executions-before.executions
	d.latency, d.queue, d.compute = c.latency-before.latency, c.queue-before.queue, c.compute-before.compute
	d.hits = c.hits - before.hits
	return d
}

// row is a version of a model in the JSON of stats and top. Times are means of successful requests in milliseconds.
type row struct {
	Name       string  `json:"name"`
	Version    string  `json:"version"`
	Requests   uint64  `json:"requests"` // successful
	Failed     uint64  `json:"failed"`
	Executions uint64  `json:"executions"`
	CacheHits  uint64  `json:"cache_hits"`
	PerSecond  float64 `json:"requests_per_second,omitempty"` // of top
	LatencyMs  float64 `json:"latency_ms"`
	QueueMs    float64 `json:"queue_ms"`
	ComputeMs  float64 `json:"compute_ms"`
}

// row returns the means. seconds is how long was counted; 0: not known.
func (c counts) row(seconds float64) row {
	mean := func(ns uint64) float64 {
		if c.ok == 0 {
			return 0
		}
		return float64(ns) / float64(c.ok) / 1e6
	}
	r := row{Name: c.name, Version: c.version, Requests: c.ok, Failed: c.failed, Executions: c.executions,
		CacheHits: c.hits, LatencyMs: mean(c.latency), QueueMs: mean(c.queue), ComputeMs: mean(c.compute)}
	if seconds > 0 {
		r.PerSecond = float64(c.ok) / seconds
	}
	return r
}

func (r row) cells() []string {
	ms := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	return []string{printable(r.Name), r.Version, n(r.Requests), n(r.Failed), n(r.Executions), n(r.CacheHits),
		ms(r.LatencyMs), ms(r.QueueMs), ms(r.ComputeMs)}
}

var statsHeader = []string{"MODEL", "VERSION", "REQUESTS", "FAILED", "EXECUTIONS", "CACHE HITS", "LATENCY ms",
	"QUEUE ms", "COMPUTE ms"}

// counts asks the server for the statistics of a model, or of all if model is "".
func (s *session) counts(ctx context.Context, model string) ([]counts, error) {
	all, err := s.client.Statistics(ctx, model, "")
	if err != nil {
		return nil, s.lacks(ctx, err, "statistics")
	}
	var out []counts
	for _, m := range all.GetModelStats() {
		out = append(out, readCounts(m))
	}
	slices.SortFunc(out, func(a, b counts) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(len(a.version), len(b.version)),
			cmp.Compare(a.version, b.version))
	})
	return out, nil
}

// Stats runs "nereid stats".
func Stats(ctx context.Context, e *command.Env, args []string) int {
	return runVerb(ctx, e, verb{
		name: "stats", args: "[MODEL]", most: 1,
		about: "Prints how many requests each model has answered, and the mean times of the successful ones.",
		run: func(ctx context.Context, s *session, args []string) error {
			all, err := s.counts(ctx, append(args, "")[0])
			if err != nil {
				return err
			}
			list, rows := []row{}, [][]string{statsHeader}
			for _, c := range all {
				r := c.row(0)
				list, rows = append(list, r), append(rows, r.cells())
			}
			return s.print(list, rows)
		},
	}, args)
}

// Top runs "nereid top".
func Top(ctx context.Context, e *command.Env, args []string) int {
	seconds, count := 1.0, 0
	return runVerb(ctx, e, verb{
		name: "top", args: "[MODEL]", most: 1,
		about: "Shows what each model does now, the busiest first: requests a second and mean times.\n" +
			"On a terminal the table is refreshed in place; else, and with --json, each interval is printed.",
		options: []command.Option{
			command.Opt("-d, --interval", "SECONDS", "between two looks; default 1", &seconds),
			command.Opt("-n, --count", "N", "ends after so many intervals; default: an interrupt ends it", &count),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if !(seconds > 0 && seconds <= 86400) {
				return fmt.Errorf("--interval %v: want above 0 and at most 86400", seconds)
			}
			return s.top(ctx, append(args, "")[0], time.Duration(seconds*float64(time.Second)), count)
		},
	}, args)
}

func (s *session) top(ctx context.Context, model string, interval time.Duration, count int) error {
	live := !s.asJSON && command.IsTerminal(s.Stdout)
	before, err := s.counts(ctx, model)
	if err != nil {
		return err
	}
	start := time.Now()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil // that is how it ends
		case <-tick.C:
		}
		now, err := s.counts(ctx, model)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		at := time.Now()
		if live {
			fmt.Fprintf(s.Stdout, "\x1b[H\x1b[2Jnereid top  %s  %s\n\n", s.url, at.Format(time.TimeOnly))
		}
		if err := s.printTop(before, now, at.Sub(start).Seconds()); err != nil {
			return err
		}
		if n == count {
			return nil
		}
		before, start = now, at
	}
}

// printTop prints what was counted between two looks.
func (s *session) printTop(before, now []counts, seconds float64) error {
	list := []row{}
	for _, c := range now {
		i := slices.IndexFunc(before, func(b counts) bool { return b.name == c.name && b.version == c.version })
		if i >= 0 {
			c = c.since(before[i])
		}
		list = append(list, c.row(seconds))
	}
	slices.SortStableFunc(list, func(a, b row) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	if s.asJSON {
		b, err := json.Marshal(map[string]any{"time": time.Now().UTC().Format(time.RFC3339), "models": list})
		if err == nil {
			_, err = fmt.Fprintf(s.Stdout, "%s\n", b)
		}
		return err
	}
	header := append(slices.Clone(statsHeader[:2]), append([]string{"REQUESTS/s"}, statsHeader[3:]...)...)
	rows := [][]string{header}
	for _, r := range list {
		cells := r.cells()
		cells[2] = strconv.FormatFloat(r.PerSecond, 'f', 1, 64)
		rows = append(rows, cells)
	}
	return writeTable(s.Stdout, rows)
}
