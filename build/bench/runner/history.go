package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// historyPairs is how many pairs show a difference of a few percent.
const historyPairs = 20

// historyExperiment measures what recording the history costs: ours with it (side 0) and without, under the same load.
type historyExperiment struct{ points pair }

func (e *historyExperiment) cases() []string { return []string{"history"} }

func (e *historyExperiment) run(ctx context.Context, o *options) error {
	repository, err := ourRepository(o)
	if err != nil {
		return err
	}
	l := load{"history", "http", identityInput, "identity", "identity", "identity", nil}
	var programs []*program
	for _, value := range []string{"true", "false"} {
		p := nereid(o.binary, filepath.Join(o.work, "history"+value), cacheOption, "--history="+value)
		p.name += "-history-" + value
		programs = append(programs, p)
	}
	servers, err := startAll(ctx, programs, []string{repository, repository})
	if err != nil {
		return err
	}
	defer stopAll(servers)
	return inTurn(historyPairs, 2, func(side int) error {
		p, err := o.load(ctx, l, side, servers[side], 64, 2, "none")
		e.points.add(side, p)
		return err
	})
}

func (e *historyExperiment) table() string {
	if len(e.points[0]) == 0 {
		return ""
	}
	return fmt.Sprintf("\nRecording the history, identity-http, 64 clients: %s µs a request with it, %s without; "+
		"ratio over %d pairs %s.\n", e.points.text(0, serverUS, "%.2f"), e.points.text(1, serverUS, "%.2f"),
		len(e.points[0]), e.points.ratioText(serverUS, "%.3f"))
}

func (e *historyExperiment) bars() []bar {
	v, ok := e.points.ratio(serverUS)
	if !ok {
		return nil
	}
	return []bar{atMost(2, "%", (v.median-1)*100, "recording the history, server CPU")}
}
