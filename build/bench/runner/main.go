package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.only, "only", "",
		"cases to run, separated by commas, each a name or its beginning; empty: all")
	flag.IntVar(&o.repeat, "repeat", 5, "interleaved pairs per case; medians are reported")
	flag.Float64Var(&o.seconds, "seconds", 4, "measured window of one load")
	flag.StringVar(&o.clients, "clients", "", "numbers of clients instead of each case's own")
	flag.StringVar(&o.report, "report", "", "folder for bench-DATE.md; empty: print only")
	flag.StringVar(&o.work, "work", ".cache/bench", "folder for the reference and the repositories")
	flag.StringVar(&o.binary, "nereid", "build/bin/nereid", "our server")
	flag.StringVar(&o.loadgen, "loadgen", "build/bin/loadgen", "the load generator")
	flag.StringVar(&o.embedded, "embedded", "build/bin/embedded", "the program that calls models in its own process")
	flag.StringVar(&o.mlp, "mlp", "models-sample/mlp/1/model.onnx", "the 784-512-512-10 network")
	flag.BoolVar(&o.alone, "alone", false, "measure ours only, without the reference")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	only, clients, report, work, binary, loadgen, embedded, mlp string
	repeat                                                      int
	seconds                                                     float64
	alone                                                       bool
}

// wants reports whether the case of that name was asked for.
func (o *options) wants(name string) bool {
	for w := range strings.SplitSeq(o.only, ",") {
		if strings.HasPrefix(name, strings.TrimSpace(w)) {
			return true
		}
	}
	return false
}

// experiment is a group of cases that are set up together.
type experiment interface {
	// cases are the names that -only may select.
	cases() []string
	run(ctx context.Context, o *options) error
	// table is the Markdown of what was measured; "" for nothing.
	table() string
	bars() []bar
}

// experiments returns all experiments in the report's order.
func experiments() []experiment {
	loads := new(loadExperiment)
	return []experiment{
		loads, new(startExperiment), new(historyExperiment), new(echoExperiment), new(idleExperiment),
		new(instanceExperiment), new(convExperiment), &pythonExperiment{loads: loads}, new(recoveryExperiment),
	}
}

func bench(ctx context.Context, o *options) error {
	var err error
	if o.work, err = filepath.Abs(o.work); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(o.work, "empty"), 0o755); err != nil {
		return err
	}
	started, all, ran := time.Now(), experiments(), false
	head := reportHead(started, o)
	for _, e := range all {
		if !slices.ContainsFunc(e.cases(), o.wants) {
			continue
		}
		ran = true
		if err := e.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", e.cases()[0], err)
		}
	}
	if !ran {
		return fmt.Errorf("no case matches -only %s", o.only)
	}
	text := head + tables(all)
	fmt.Print(text)
	if o.report == "" {
		return nil
	}
	if err := os.MkdirAll(o.report, 0o755); err != nil {
		return err
	}
	path := filepath.Join(o.report, "bench-"+started.Format("2006-01-02")+".md")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "written:", path)
	return nil
}

// inTurn calls measure once per round for each side, and begins with another side each round.
func inTurn(rounds, sides int, measure func(side int) error) error {
	for round := range rounds {
		for turn := range sides {
			if err := measure((turn + round) % sides); err != nil {
				return fmt.Errorf("side %d: %w", (turn+round)%sides, err)
			}
		}
	}
	return nil
}

// settle waits, so that a server comes to rest.
func settle(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
