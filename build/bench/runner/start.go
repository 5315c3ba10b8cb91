package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"nereid/engine/system/proc"
)

// startExperiment measures the time from exec to ready, and memory and CPU time at rest, with an empty repository.
type startExperiment struct{ points [2][]startPoint }

type startPoint struct {
	toReady time.Duration
	rssMB   float64
	idleCPU float64 // percent of one core
}

func startReady(p startPoint) float64 { return milliseconds(p.toReady) }
func startRSS(p startPoint) float64   { return p.rssMB }
func startCPU(p startPoint) float64   { return p.idleCPU }

func (e *startExperiment) cases() []string { return []string{"start"} }

func (e *startExperiment) run(ctx context.Context, o *options) error {
	programs, err := o.programs(ctx)
	if err != nil {
		return err
	}
	for range o.repeat {
		for side, p := range programs {
			s, err := p.start(ctx, filepath.Join(o.work, "empty"))
			if err != nil {
				return err
			}
			settle(ctx, time.Second)
			before, err := proc.Tree(s.cmd.Process.Pid)
			if err != nil {
				return err
			}
			settle(ctx, 2*time.Second)
			after, err := proc.Tree(s.cmd.Process.Pid)
			s.stop()
			if err != nil {
				return err
			}
			e.points[side] = append(e.points[side], startPoint{s.toReady, after.RSSMB,
				(after.CPU - before.CPU) / 2 * 100})
		}
	}
	return ctx.Err()
}

func (e *startExperiment) table() string {
	if len(e.points[0]) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nEmpty repository:\n\n| | start to ready, ms | RSS at rest, MB | CPU at rest, % |\n" +
		"|---|---|---|---|\n")
	for side, name := range []string{"ours", "reference"} {
		if p := e.points[side]; len(p) > 0 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, spreadOf(p, startReady).text("%.0f"),
				spreadOf(p, startRSS).text("%.0f"), spreadOf(p, startCPU).text("%.1f"))
		}
	}
	return b.String()
}

func (e *startExperiment) bars() []bar {
	p := e.points[0]
	if len(p) == 0 {
		return nil
	}
	return []bar{
		atMost(150, "ms", spreadOf(p, startReady).median, "start to ready, empty repository"),
		atMost(60, "MB", spreadOf(p, startRSS).median, "RSS at rest, no models"),
		{what: "CPU at rest", got: spreadOf(p, startCPU).median, limit: 1, unit: "%"},
	}
}
