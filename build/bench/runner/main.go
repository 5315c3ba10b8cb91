package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nereid/engine/system/proc"
)

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "cases to run, separated by commas, each a name or its beginning; empty: all")
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
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	only, clients, report, work, binary, loadgen, embedded, mlp string
	repeat                                                      int
	seconds                                                     float64
	alone                                                       bool
	cached                                                      bool // our server has a response cache
}

// load is one kind of request, sent to a model of each server.
type load struct {
	name, proto, tensors string
	ours, theirs         string // models
	check                string
	clients              []int
}

const (
	identityInput = "INPUT0:FP32:1,16"
	mlpInput      = "input:FP32:1,784"
)

func loads() []load {
	all, most := []int{1, 16, 64}, []int{1, 64}
	return []load{
		{"identity-http", "http", identityInput, "identity", "identity_cached", "identity", all},
		{"identity-json", "json", identityInput, "identity", "identity_cached", "identity", all},
		{"identity-grpc", "grpc", identityInput, "identity", "identity_cached", "identity", all},
		{"cached-http", "http", identityInput, "identity_cached", "identity_cached", "identity", all},
		{"cached-json", "json", identityInput, "identity_cached", "identity_cached", "identity", most},
		{"cached-grpc", "grpc", identityInput, "identity_cached", "identity_cached", "identity", all},
		{"mlp-http", "http", mlpInput, "mlp", "mlp_py_plain", "same", all},
		{"mlpdb-http", "http", mlpInput, "mlp_db", "mlp_py", "same", all},
		{"mlpdb-grpc", "grpc", mlpInput, "mlp_db", "mlp_py", "same", most},
	}
}

// wants says whether the case of that name was asked for.
func (o *options) wants(name string) bool {
	if o.only == "" {
		return true
	}
	for _, w := range strings.Split(o.only, ",") {
		if strings.HasPrefix(name, strings.TrimSpace(w)) {
			return true
		}
	}
	return false
}

func bench(ctx context.Context, o options) error {
	work, err := filepath.Abs(o.work)
	if err != nil {
		return err
	}
	o.work = work
	if err := os.MkdirAll(filepath.Join(work, "empty"), 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(o.mlp); err != nil {
		fmt.Fprintln(os.Stderr, "bench: no mlp network, its cases are left out:", err)
		o.mlp = ""
	}
	ours, err := cachingNereid(ctx, o.binary, work)
	if o.cached = err == nil; !o.cached {
		fmt.Fprintln(os.Stderr, "bench: our server has no response cache, the cached cases are left out:", err)
		ours = nereid(o.binary, work)
	}
	programs := []*program{ours}
	if !o.alone {
		p, err := reference(ctx, work, o.mlp)
		if err != nil {
			return err
		}
		programs = append(programs, p)
	}
	rep := newReport(o)
	if o.wants("start") {
		if err := measureStart(ctx, o, programs, rep); err != nil {
			return err
		}
	}
	if err := measureLoads(ctx, o, programs, rep); err != nil {
		return err
	}
	if slices.ContainsFunc(echoLibraries, func(library string) bool { return o.wants("echo-" + library) }) {
		if err := measureEcho(ctx, o, rep); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(pythonLoads(), func(l load) bool { return o.wants(l.name) }) || o.wants("python-bls") || o.wants("python-start") {
		if err := measurePython(ctx, o, rep); err != nil {
			return fmt.Errorf("models in Python: %w", err)
		}
	}
	if o.wants("idle") {
		if err := measureIdle(ctx, o, rep); err != nil {
			return err
		}
	}
	if o.wants("history") {
		if err := measureHistory(ctx, o, rep); err != nil {
			return err
		}
	}
	if o.wants("instances") {
		if err := measureInstances(ctx, o, rep); err != nil {
			return err
		}
	}
	if o.wants("conv") {
		if err := measureConv(ctx, o, rep); err != nil {
			return err
		}
	}
	if o.wants("recovery") {
		if err := measureRecovery(ctx, o, rep); err != nil {
			return err
		}
	}
	if rep.empty() {
		return fmt.Errorf("no case matches -only %s", o.only)
	}
	return rep.finish(o)
}

// measureStart measures exec to ready, memory and CPU time at rest, with an empty repository.
func measureStart(ctx context.Context, o options, programs []*program, rep *report) error {
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
			rep.addStart(side, startPoint{s.toReady, after.RSSMB, (after.CPU - before.CPU) / 2 * 100})
		}
	}
	return ctx.Err()
}

// measureLoads runs the load cases, the two servers in turn.
func measureLoads(ctx context.Context, o options, programs []*program, rep *report) error {
	var wanted []load
	for _, l := range loads() {
		if o.wants(l.name) && (o.mlp != "" || l.tensors != mlpInput) && (o.cached || l.ours != "identity_cached") {
			wanted = append(wanted, l)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	ours, err := ourRepository(o.work, o.mlp, o.cached)
	if err != nil {
		return err
	}
	servers, err := startAll(ctx, programs, []string{ours, filepath.Join(o.work, "repo")})
	if err != nil {
		return err
	}
	defer stopAll(servers)
	return o.pairs(ctx, wanted, programs, servers, rep)
}

// pairs runs loads on the servers in turn. Each is run once before it counts, with its answers' values checked.
func (o *options) pairs(ctx context.Context, wanted []load, programs []*program, servers []*server, rep *report) error {
	for _, l := range wanted {
		for side, s := range servers {
			if _, err := o.load(ctx, l, side, s, 16, 0.5, l.check); err != nil {
				return fmt.Errorf("%s on %s: %w", l.name, programs[side].name, err)
			}
		}
	}
	for round := range o.repeat {
		for _, l := range wanted {
			clients, err := o.clientsOf(l)
			if err != nil {
				return err
			}
			for _, c := range clients {
				for turn := range servers {
					side := (turn + round) % len(servers)
					p, err := o.load(ctx, l, side, servers[side], c, o.seconds, "none")
					if err != nil {
						return fmt.Errorf("%s on %s, %d clients: %w", l.name, programs[side].name, c, err)
					}
					rep.addLoad(l.name, c, side, p)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d done\n", round+1, o.repeat)
	}
	return nil
}

// historyPairs is how many pairs tell a difference of a few percent.
const historyPairs = 20

// measureHistory measures what recording the history costs: ours with it and without, in turn, under the same load.
func measureHistory(ctx context.Context, o options, rep *report) error {
	repository, err := ourRepository(o.work, "", false)
	if err != nil {
		return err
	}
	l := load{"history", "http", identityInput, "identity", "identity", "identity", nil}
	var programs []*program
	for _, value := range []string{"true", "false"} {
		p := nereid(o.binary, filepath.Join(o.work, "history"+value))
		p.name += "-history-" + value
		p.argv = append(p.argv, "--history="+value)
		programs = append(programs, p)
	}
	servers, err := startAll(ctx, programs, []string{repository, repository})
	if err != nil {
		return err
	}
	defer stopAll(servers)
	for n := range historyPairs {
		for turn := range servers {
			side := (turn + n) % len(servers)
			p, err := o.load(ctx, l, side, servers[side], 64, 2, "none")
			if err != nil {
				return fmt.Errorf("history, side %d: %w", side, err)
			}
			rep.history[side] = append(rep.history[side], p)
		}
	}
	return nil
}

func (o *options) clientsOf(l load) ([]int, error) {
	if o.clients == "" {
		return l.clients, nil
	}
	var list []int
	for _, f := range strings.Split(o.clients, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-clients: %q is no positive integer", f)
		}
		list = append(list, n)
	}
	return list, nil
}

// loadPoint is what loadgen prints, as far as it is used here.
type loadPoint struct {
	Rate     float64  `json:"rate"`
	P50MS    float64  `json:"p50_ms"`
	P99MS    float64  `json:"p99_ms"`
	ServerUS float64  `json:"server_us"`
	OtherCPU float64  `json:"other_cpu"`
	RSSMB    float64  `json:"rss_mb"`
	Errors   uint64   `json:"errors"`
	Faults   []string `json:"faults"`
}

// load runs loadgen once. Any wrong or failed answer is an error.
func (o *options) load(ctx context.Context, l load, side int, s *server, clients int, seconds float64, check string) (loadPoint, error) {
	return o.loadAfter(ctx, "1s", l, side, s, clients, seconds, check)
}

// loadAfter is load with another warm-up than one second.
func (o *options) loadAfter(ctx context.Context, warm string, l load, side int, s *server, clients int, seconds float64, check string) (loadPoint, error) {
	model := l.ours
	if side == 1 {
		model = l.theirs
	}
	proto := []string{"-i", l.proto}
	if l.proto == "shm" {
		proto = []string{"-i", "http", "-shm", "OUTPUT0"}
	}
	cmd := exec.CommandContext(ctx, o.loadgen, append(proto, "-json", "-u", s.addr(l.proto), "-m", model, "-in", l.tensors,
		"-c", strconv.Itoa(clients), "-w", warm, "-d", fmt.Sprintf("%gs", seconds), "-check", check,
		"-pid", strconv.Itoa(s.cmd.Process.Pid))...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	runErr := cmd.Run()
	var p loadPoint
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		return p, errors.Join(runErr, errors.New(strings.TrimSpace(errOut.String())))
	}
	if p.Errors > 0 {
		return p, fmt.Errorf("%d requests failed: %s", p.Errors, strings.Join(p.Faults, "; "))
	}
	return p, runErr
}

func settle(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
