package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// instanceCase compares two models of one server of ours: side 0 is to be better than side 1.
type instanceCase struct {
	what    string
	model   [2]string
	proto   string
	tensors string
	clients int
	figure  string
	limit   float64
	atLeast bool
	// short is the number of pairs per round with short windows, in place of one with the usual window. A small
	// difference of two small figures shows only in the median of many pairs. 0: one pair with the usual window.
	short int
}

// The window of a short pair's loads, and the warm-up before it: the server has been running for long.
const (
	shortSeconds = 0.25
	shortWarm    = "100ms"
)

// inProcess in place of a protocol: no load generator shares the cores.
const inProcess = "in process"

const (
	instanceRate = "rate"
	instanceCPU  = "server CPU a request"
)

// instanceCases are what several instances, and the batcher, are to gain.
func instanceCases() []instanceCase {
	batcher, one := [2]string{"mlp_1", "mlp_plain"}, 1
	conv := [2]string{"conv_2", "conv_1"}
	const twoInstances = "convolutions, two one-thread instances against one, "
	return []instanceCase{
		{"mlp, dynamic batching against none", batcher, "http", mlpInput, 64, instanceRate, 1.5, true, 0},
		{"mlp, an idle batcher against none", batcher, "http", mlpInput, one, instanceCPU, 1.05, false, 8},
		{"mlp, two instances against one", [2]string{"mlp_2", "mlp_1"}, "http", mlpInput, 64, instanceRate, 1, true, 4},
		{"mlp, two instances against one, no batching", [2]string{"mlp_plain_2", "mlp_plain"}, "http", mlpInput, 64,
			instanceRate, 1, true, 0},
		{"mlp, four instances against one", [2]string{"mlp_4", "mlp_1"}, "http", mlpInput, 64, instanceRate, 1, true,
			4},
		{"mlp, two instances against one", [2]string{"mlp_2", "mlp_1"}, "http", mlpInput, 16, instanceRate, 1, true, 4},
		{"mlp, an idle batcher against none, in process", batcher, inProcess, mlpInput, one, instanceCPU, 1.05, false,
			0},
		{twoInstances + "in process", conv, inProcess, convTensor, 4, instanceRate, 1.85, true, 0},
		{twoInstances + "over HTTP", conv, "http", convTensor, 8, instanceRate, 1.85, true, 0},
	}
}

// instanceExperiment runs the instance cases on one server.
type instanceExperiment struct{ points []pair } // in the order of the cases

func (e *instanceExperiment) cases() []string { return []string{"instances"} }

func (e *instanceExperiment) run(ctx context.Context, o *options) error {
	repository, err := instanceRepository(ctx, o)
	if err != nil {
		return err
	}
	s, err := nereid(o.binary, o.work).start(ctx, repository)
	if err != nil {
		return err
	}
	defer s.stop()
	cases := instanceCases()
	e.points = make([]pair, len(cases))
	for round := range o.repeat {
		for i, c := range cases {
			for k := range max(1, c.short) {
				for turn := range 2 {
					side := (turn + round + k) % 2
					p, err := c.measure(ctx, o, side, s, repository)
					if err != nil {
						return fmt.Errorf("%s, model %s: %w", c.what, c.model[side], err)
					}
					e.points[i].add(side, p)
				}
			}
		}
	}
	return nil
}

// measure measures one side of a case once.
func (c *instanceCase) measure(ctx context.Context, o *options, side int, s *server, repository string) (loadPoint,
	error) {
	if c.proto == inProcess {
		return o.embed(ctx, repository, c.model[side], c.tensors, c.clients)
	}
	l := load{c.what, c.proto, c.tensors, c.model[side], c.model[side], "same", nil}
	if c.short > 0 {
		return o.loadAfter(ctx, shortWarm, l, 0, s, c.clients, shortSeconds, "none")
	}
	return o.load(ctx, l, 0, s, c.clients, o.seconds, "none")
}

// embed runs a model in another process together with its callers (build/bench/embedded).
func (o *options) embed(ctx context.Context, repository, model, input string, callers int) (loadPoint, error) {
	return printed(exec.CommandContext(ctx, o.embedded, "-r", repository, "-m", model, "-in", input,
		"-c", strconv.Itoa(callers), "-d", fmt.Sprint(o.seconds, "s")))
}

// printed runs a program that prints a loadPoint.
func printed(cmd *exec.Cmd) (p loadPoint, err error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return p, json.Unmarshal(out, &p)
}

// instanceRepository writes the models of the instance cases. Their configurations give all inputs and outputs: one
// that leaves them out is completed from the model and so gets a dynamic batcher, as with Triton.
func instanceRepository(ctx context.Context, o *options) (string, error) {
	conv := filepath.Join(o.work, "conv.onnx")
	if err := makeConv(ctx, conv); err != nil {
		return "", err
	}
	var models []modelFolder
	const batched = mlpConfig + "dynamic_batching { }\n"
	for _, m := range []struct {
		name, file, config string
		count              int
	}{
		{"mlp_plain", o.mlp, mlpConfig, 1},
		{"mlp_plain_2", o.mlp, mlpConfig, 2},
		{"mlp_1", o.mlp, batched, 1},
		{"mlp_2", o.mlp, batched, 2},
		{"mlp_4", o.mlp, batched, 4},
		{"conv_1", conv, convConfig, 1},
		{"conv_2", conv, convConfig, 2},
	} {
		f, err := onnxFolder(m.name, onCPU(m.config, m.count), m.file)
		if err != nil {
			return "", err
		}
		models = append(models, f)
	}
	root := filepath.Join(o.work, "instances")
	return root, writeRepository(root, models...)
}

func (e *instanceExperiment) table() string {
	if len(e.points) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nInstances and batching, ours against ours; a case with more pairs than the others has windows "+
		"of %g s after %s:\n\n| case | clients | pairs | req/s | against | µs | against |\n"+
		"|---|---|---|---|---|---|---|\n",
		shortSeconds, shortWarm)
	for i, c := range instanceCases() {
		p := &e.points[i]
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s |\n", c.what, c.clients, len(p[0]), p.text(0, rate, "%.0f"),
			p.text(1, rate, "%.0f"), p.text(0, serverUS, "%.1f"), p.text(1, serverUS, "%.1f"))
	}
	return b.String()
}

func (e *instanceExperiment) bars() (list []bar) {
	if len(e.points) == 0 {
		return nil
	}
	for i, c := range instanceCases() {
		of := rate
		if c.figure == instanceCPU {
			of = serverUS
		}
		if v, ok := e.points[i].ratio(of); ok {
			list = append(list, bar{what: fmt.Sprintf("%s, %d clients, %s", c.what, c.clients, c.figure),
				got: v.median, limit: c.limit, atLeast: c.atLeast, unit: "times"})
		}
	}
	return list
}
