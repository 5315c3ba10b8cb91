package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

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

func namesOf(list []load) (names []string) {
	for _, l := range list {
		names = append(names, l.name)
	}
	return names
}

func (o *options) wanted(list []load) []load {
	return slices.DeleteFunc(list, func(l load) bool { return !o.wants(l.name) })
}

// loadExperiment compares the servers under loads. Its table also has the loads of Python models.
type loadExperiment struct {
	order  []caseKey
	points map[caseKey]*pair
}

type caseKey struct {
	name    string
	clients int
}

func (e *loadExperiment) cases() []string { return namesOf(loads()) }

func (e *loadExperiment) run(ctx context.Context, o *options) error {
	ours, err := ourRepository(o)
	if err != nil {
		return err
	}
	programs, err := o.programs(ctx)
	if err != nil {
		return err
	}
	servers, err := startAll(ctx, programs, []string{ours, filepath.Join(o.work, "repo")})
	if err != nil {
		return err
	}
	defer stopAll(servers)
	return e.measure(ctx, o, o.wanted(loads()), servers)
}

// measure runs loads on the servers in turn. Each is run once before it counts, with the values of its responses
// checked.
func (e *loadExperiment) measure(ctx context.Context, o *options, wanted []load, servers []*server) error {
	for _, l := range wanted {
		for side, s := range servers {
			if _, err := o.load(ctx, l, side, s, 16, 0.5, l.check); err != nil {
				return fmt.Errorf("%s, side %d: %w", l.name, side, err)
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
						return fmt.Errorf("%s, side %d, %d clients: %w", l.name, side, c, err)
					}
					e.add(l.name, c, side, p)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d done\n", round+1, o.repeat)
	}
	return nil
}

func (e *loadExperiment) add(name string, clients, side int, p loadPoint) {
	k := caseKey{name, clients}
	if e.points[k] == nil {
		if e.points == nil {
			e.points = map[caseKey]*pair{}
		}
		e.points[k] = &pair{}
		e.order = append(e.order, k)
	}
	e.points[k].add(side, p)
}

func (o *options) clientsOf(l load) ([]int, error) {
	if o.clients == "" {
		return l.clients, nil
	}
	var list []int
	for f := range strings.SplitSeq(o.clients, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-clients: %q is not a positive integer", f)
		}
		list = append(list, n)
	}
	return list, nil
}

// load runs loadgen once. Any wrong or failed response is an error.
func (o *options) load(ctx context.Context, l load, side int, s *server, clients int, seconds float64,
	check string) (loadPoint, error) {
	return o.loadAfter(ctx, "1s", l, side, s, clients, seconds, check)
}

// loadAfter is load after a warm-up of another length than one second.
func (o *options) loadAfter(ctx context.Context, warm string, l load, side int, s *server, clients int, seconds float64,
	check string) (loadPoint, error) {
	model := l.ours
	if side == 1 {
		model = l.theirs
	}
	args := []string{"-i", l.proto}
	if l.proto == "shm" {
		args = []string{"-i", "http", "-shm", "OUTPUT0"}
	}
	args = append(args, "-json", "-u", s.addr(l.proto), "-m", model, "-in", l.tensors, "-c", strconv.Itoa(clients),
		"-w", warm, "-d", fmt.Sprintf("%gs", seconds), "-check", check, "-pid", strconv.Itoa(s.cmd.Process.Pid))
	cmd := exec.CommandContext(ctx, o.loadgen, args...)
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

func (e *loadExperiment) table() string {
	if len(e.order) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| case | clients | ours req/s | reference req/s | ratio | ours µs | reference µs | ratio | " +
		"ours p50 / p99 ms | reference p50 / p99 ms | others' CPU |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range e.order {
		p := e.points[k]
		latency := func(side int) string {
			if len(p[side]) == 0 {
				return "–"
			}
			return fmt.Sprintf("%.3f / %.2f", spreadOf(p[side], p50).median, spreadOf(p[side], p99).median)
		}
		others := spreadOf(slices.Concat(p[0], p[1]), func(p loadPoint) float64 { return p.OtherCPU })
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %.2f, at most %.2f |\n", k.name, k.clients,
			p.text(0, rate, "%.0f"), p.text(1, rate, "%.0f"), p.ratioText(rate, "%.2f"),
			p.text(0, serverUS, "%.1f"), p.text(1, serverUS, "%.1f"), p.ratioText(serverUS, "%.2f"),
			latency(0), latency(1), others.median, others.high)
	}
	return b.String()
}

// loadBar is a bar on cases of the table.
type loadBar struct {
	name    string
	clients []int
	what    barKind
	limit   float64
	// recorded is the reference's figure on the machine on which a bar in µs was set; 0: the bar is a ratio.
	recorded float64
}

type barKind struct {
	name    string
	of      figure
	atLeast bool
}

func loadBars() []loadBar {
	cpu := barKind{"server CPU", serverUS, false} // µs per request; the others are ratios
	rate := barKind{"rate against the reference", rate, true}
	p99 := barKind{"p99 against the reference", p99, false}
	p50 := barKind{"p50 against the reference", p50, false}
	one, more, all := []int{1}, []int{16, 64}, []int{1, 16, 64}
	most, few := []int{64}, []int{1, 4, 16}
	return []loadBar{
		{"identity-http", most, cpu, 15, 25},
		{"identity-http", most, cpu, 11, 25},
		{"identity-grpc", most, cpu, 20, 34},
		{"identity-grpc", most, cpu, 16, 34},
		{"mlpdb-http", most, cpu, 28, 77},
		{"identity-http", more, rate, 1.6, 0},
		{"identity-json", more, rate, 1.8, 0},
		{"identity-grpc", more, rate, 1.6, 0},
		{"mlpdb-http", most, rate, 2.6, 0},
		{"identity-http", most, p99, 1, 0},
		{"identity-json", most, p99, 1, 0},
		{"identity-grpc", most, p99, 1, 0},
		{"identity-http", one, p50, 0.7, 0},
		{"identity-grpc", one, p50, 0.8, 0},
		{"cached-http", most, rate, 1.6, 0},
		{"cached-http", one, p50, 0.7, 0},
		{"cached-json", most, rate, 1.8, 0},
		{"cached-grpc", most, rate, 1.6, 0},
		{"cached-grpc", one, p50, 0.8, 0},
		{"python-http", all, rate, 1.5, 0},
		{"python-grpc", all, rate, 1.5, 0},
		{"python-http", all, p99, 1, 0},
		{"python-grpc", all, p99, 1, 0},
		{"python-1mb-shm", few, rate, 2, 0},
		{"python-1mb-shm-add", few, rate, 2, 0},
		{"python-1mb-http", []int{1, 4}, rate, 1.7, 0},
	}
}

func (e *loadExperiment) bars() (list []bar) {
	for _, l := range loadBars() {
		for _, clients := range l.clients {
			p := e.points[caseKey{l.name, clients}]
			if p == nil || len(p[0]) == 0 {
				continue
			}
			plural := "s"
			if clients == 1 {
				plural = ""
			}
			b := bar{limit: l.limit, atLeast: l.what.atLeast, unit: "times",
				what: fmt.Sprintf("%s, %d client%s, %s", l.name, clients, plural, l.what.name)}
			v, paired := p.ratio(l.what.of)
			switch {
			case l.recorded > 0:
				b.unit, b.got = "µs", spreadOf(p[0], l.what.of).median
				if paired {
					b.wantedShare, b.gotShare = l.limit/l.recorded, v.median
				}
			case paired:
				b.got = v.median
			default:
				continue
			}
			list = append(list, b)
		}
	}
	return list
}
