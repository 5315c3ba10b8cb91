package main

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"nereid/engine/system/proc"
)

var (
	toReady    = figure{"start to ready, ms", "%.0f"}
	restMemory = figure{"RSS at rest, MB", "%.0f"}
	restCPU    = figure{"CPU at rest, % of a core", "%.1f"}
)

// runStart measures the time from exec to ready, and memory and CPU time at rest, with an empty repository.
func (b *bench) runStart(ctx context.Context) error {
	programs, err := b.programs(ctx)
	if err != nil {
		return err
	}
	c := contest{name: "start, empty repository"}
	for _, p := range programs {
		c.sides = append(c.sides, func(ctx context.Context) ([]value, error) {
			s, err := p.start(ctx, filepath.Join(b.work, "empty"))
			if err != nil {
				return nil, err
			}
			defer s.stop()
			settle(ctx, time.Second)
			before, err := proc.Tree(s.cmd.Process.Pid)
			if err != nil {
				return nil, err
			}
			settle(ctx, 2*time.Second)
			after, err := proc.Tree(s.cmd.Process.Pid)
			return []value{{toReady, milliseconds(s.toReady)}, {restMemory, after.RSSMB},
				{restCPU, (after.CPU - before.CPU) / 2 * 100}}, err
		})
	}
	return b.compare(ctx, b.repeat, c)
}

// recordingPairs is how many pairs show a difference of a few percent.
const recordingPairs = 20

// runHistory measures what recording the history costs.
func (b *bench) runHistory(ctx context.Context) error {
	return b.withAndWithout(ctx, "history", "identity-http")
}

// runRecord measures what recording the requests costs.
func (b *bench) runRecord(ctx context.Context) error {
	return b.withAndWithout(ctx, "record-requests", "identity-http", "identity-grpc", "mlpdb-http", "mlpdb-grpc")
}

// withAndWithout measures ours with an option and without, under the same loads.
func (b *bench) withAndWithout(ctx context.Context, option string, names ...string) error {
	repository, err := b.ourRepository()
	if err != nil {
		return err
	}
	var programs []*program
	for _, value := range []string{"true", "false"} {
		p := nereid(b.binary, filepath.Join(b.work, option+value), "--"+option+"="+value)
		p.name += "-" + option + "-" + value
		programs = append(programs, p)
	}
	servers, err := startAll(ctx, programs, []string{repository, repository})
	if err != nil {
		return err
	}
	defer stopAll(servers)
	var cases []contest
	for _, l := range loads() {
		if !slices.Contains(names, l.name) {
			continue
		}
		c := contest{name: option + ", against none, " + caseName(l.name, 64)}
		for _, s := range servers {
			c.sides = append(c.sides, func(ctx context.Context) ([]value, error) {
				return b.load(ctx, l, l.models[0], s, 64, window{"1s", 2}, "none")
			})
		}
		cases = append(cases, c)
	}
	return b.compare(ctx, recordingPairs, cases...)
}
