package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var b bench
	flag.StringVar(&b.only, "only", "",
		"cases to run, separated by commas, each a name or its beginning; empty: all")
	flag.IntVar(&b.repeat, "repeat", 5, "interleaved pairs per case; medians are reported")
	flag.Float64Var(&b.seconds, "seconds", 4, "measured window of one load")
	flag.Func("clients", "numbers of clients instead of each case's own", b.setClients)
	flag.StringVar(&b.report, "report", "", "folder for bench-DATE-TIME.md; empty: print only")
	flag.StringVar(&b.work, "work", ".cache/bench", "folder for the reference and the repositories")
	flag.StringVar(&b.binary, "nereid", "build/bin/nereid", "our server")
	flag.StringVar(&b.loadgen, "loadgen", "build/bin/loadgen", "the load generator")
	flag.StringVar(&b.mlp, "mlp", "models-sample/mlp/1/model.onnx", "the 784-512-512-10 network")
	flag.BoolVar(&b.alone, "alone", false, "measure ours only, without the reference")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	only, report, work, binary, loadgen, mlp string
	clients                                  []int
	repeat                                   int
	seconds                                  float64
	alone                                    bool
}

// bench is a run with what was measured so far.
type bench struct {
	options
	results results
}

func (o *options) setClients(list string) error {
	for f := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a positive integer", f)
		}
		o.clients = append(o.clients, n)
	}
	return nil
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
type experiment struct {
	cases []string // the beginnings of their names
	run   func(context.Context) error
}

// experiments returns all experiments in the report's order.
func (b *bench) experiments() []experiment {
	return []experiment{
		{namesOf(loads()), b.runLoads},
		{[]string{"start"}, b.runStart},
		{[]string{"history"}, b.runHistory},
		{[]string{"record-requests"}, b.runRecord},
		{[]string{"echo-http", "echo-grpc", "echo-grpc-go"}, b.runEcho},
		{[]string{"idle"}, b.runIdle},
		{[]string{"instances"}, b.runInstances},
		{[]string{"conv"}, b.runConv},
		{append(namesOf(pythonLoads()), blsPython, pythonStart), b.runPython},
		{[]string{libraryHTTP, libraryWorker}, b.runLibrary},
		{[]string{boundHTTP}, b.runBound},
		{[]string{ocrHTTP}, b.runOCR},
		{[]string{"recovery"}, b.runRecovery},
	}
}

func (b *bench) run(ctx context.Context) error {
	var err error
	if b.work, err = filepath.Abs(b.work); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(b.work, "empty"), 0o755); err != nil {
		return err
	}
	started := time.Now()
	head := reportHead(started, &b.options)
	for _, e := range b.experiments() {
		if slices.ContainsFunc(e.cases, b.wants) {
			if err := e.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", e.cases[0], err)
			}
		}
	}
	if len(b.results) == 0 {
		return fmt.Errorf("no case matches -only %s", b.only)
	}
	text := head + b.results.report()
	fmt.Print(text)
	if b.report == "" {
		return nil
	}
	if err := os.MkdirAll(b.report, 0o755); err != nil {
		return err
	}
	path := filepath.Join(b.report, "bench-"+started.Format("2006-01-02-1504")+".md")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "written:", path)
	return nil
}

// side measures one side of a case once.
type side func(ctx context.Context) ([]value, error)

// contest is a case whose sides are measured in turn. Side 0 is ours; -alone may leave the other one out.
type contest struct {
	name  string
	sides []side
	pairs int // in each round; 0 is 1
}

// compare measures those cases that are wanted, and begins each time with another side.
func (b *bench) compare(ctx context.Context, rounds int, cases ...contest) error {
	cases = slices.DeleteFunc(cases, func(c contest) bool { return !b.wants(c.name) })
	for round := range rounds {
		for _, c := range cases {
			for turn := range max(1, c.pairs) * len(c.sides) {
				pair := turn / len(c.sides)
				side := (turn + pair + round) % len(c.sides)
				got, err := c.sides[side](ctx)
				if err != nil {
					return fmt.Errorf("%s, side %d: %w", c.name, side, err)
				}
				b.results.add(c.name, side, got...)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d done\n", round+1, rounds)
	}
	return ctx.Err()
}

// settle waits, so that a server comes to rest.
func settle(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
