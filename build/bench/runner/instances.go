package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// instanceCase compares two models of one server of ours: how much better side 0 does than side 1.
type instanceCase struct {
	what    string
	model   [2]string
	proto   string
	tensors string
	clients int
	figure  string
	limit   float64
	atLeast bool
	// A small difference of two small figures shows only in the median of many pairs: that many short ones a round, in place of one
	// of the asked length. 0: one.
	short int
}

// shortSeconds is the window of a short pair's loads, and shortWarm the warm-up before it: the server has been running for long.
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
	return []instanceCase{
		{"mlp, dynamic batching against none", [2]string{"mlp_1", "mlp_plain"}, "http", mlpInput, 64, instanceRate, 1.5, true, 0},
		{"mlp, an idle batcher against none", [2]string{"mlp_1", "mlp_plain"}, "http", mlpInput, 1, instanceCPU, 1.05, false, 8},
		{"mlp, two instances against one", [2]string{"mlp_2", "mlp_1"}, "http", mlpInput, 64, instanceRate, 1, true, 4},
		{"mlp, two instances against one, no batching", [2]string{"mlp_plain_2", "mlp_plain"}, "http", mlpInput, 64, instanceRate, 1, true, 0},
		{"mlp, four instances against one", [2]string{"mlp_4", "mlp_1"}, "http", mlpInput, 64, instanceRate, 1, true, 4},
		{"mlp, two instances against one", [2]string{"mlp_2", "mlp_1"}, "http", mlpInput, 16, instanceRate, 1, true, 4},
		{"mlp, an idle batcher against none, in process", [2]string{"mlp_1", "mlp_plain"}, inProcess, mlpInput, 1, instanceCPU, 1.05, false, 0},
		{"convolutions, two one-thread instances against one, in process", [2]string{"conv_2", "conv_1"}, inProcess, convTensor, 4, instanceRate, 1.85, true, 0},
		{"convolutions, two one-thread instances against one, over HTTP", [2]string{"conv_2", "conv_1"}, "http", convTensor, 8, instanceRate, 1.85, true, 0},
	}
}

// pairs are what was measured of the instance cases, in their order.
type pairs [][2][]loadPoint

// measureInstances runs the instance cases on one server, the two sides of a case in turn.
func measureInstances(ctx context.Context, o options, rep *report) error {
	if o.mlp == "" {
		return nil
	}
	repository, err := instanceRepository(ctx, o.work, o.mlp)
	if err != nil {
		return err
	}
	s, err := nereid(o.binary, o.work).start(ctx, repository)
	if err != nil {
		return err
	}
	defer s.stop()
	cases := instanceCases()
	rep.instances = make(pairs, len(cases))
	for round := range o.repeat {
		for i, c := range cases {
			for pair := range max(1, c.short) {
				for turn := range 2 {
					side := (turn + round + pair) % 2
					p, err := o.instance(ctx, c, side, s, repository)
					if err != nil {
						return fmt.Errorf("%s, model %s: %w", c.what, c.model[side], err)
					}
					rep.instances[i][side] = append(rep.instances[i][side], p)
				}
			}
		}
	}
	return nil
}

// instance measures one side of a case once.
func (o *options) instance(ctx context.Context, c instanceCase, side int, s *server, repository string) (loadPoint, error) {
	if c.proto == inProcess {
		return o.embed(ctx, repository, c.model[side], c.tensors, c.clients)
	}
	l := load{c.what, c.proto, c.tensors, c.model[side], c.model[side], "same", nil}
	if c.short > 0 {
		return o.loadAfter(ctx, shortWarm, l, 0, s, c.clients, shortSeconds, "none")
	}
	return o.load(ctx, l, 0, s, c.clients, o.seconds, "none")
}

// instanceRepository writes the models of the instance cases. Their inputs and outputs are all given: a configuration
// that leaves them out is completed from the model, and so gets a dynamic batcher, as with Triton.
func instanceRepository(ctx context.Context, work, mlp string) (string, error) {
	conv := filepath.Join(work, "conv.onnx")
	if err := makeConv(ctx, conv); err != nil {
		return "", err
	}
	var models []modelFolder
	for _, m := range []struct {
		name, file, config string
		count              int
	}{
		{"mlp_plain", mlp, mlpConfig, 1},
		{"mlp_plain_2", mlp, mlpConfig, 2},
		{"mlp_1", mlp, mlpConfig + "dynamic_batching { }\n", 1},
		{"mlp_2", mlp, mlpConfig + "dynamic_batching { }\n", 2},
		{"mlp_4", mlp, mlpConfig + "dynamic_batching { }\n", 4},
		{"conv_1", conv, convConfig, 1},
		{"conv_2", conv, convConfig, 2},
	} {
		f, err := onnxFolder(m.name, onCPU(m.config, m.count), m.file)
		if err != nil {
			return "", err
		}
		models = append(models, f)
	}
	root := filepath.Join(work, "instances")
	return root, writeRepository(root, models...)
}

// markdown is the table of the instance cases; "" if they were not measured.
func (p pairs) markdown() string {
	if len(p) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nInstances and batching, ours against ours; a case with more pairs than the others has windows of %g s after %s:\n\n", shortSeconds, shortWarm)
	b.WriteString("| case | clients | pairs | req/s | against | µs | against |\n|---|---|---|---|---|---|---|\n")
	rate, us := func(p loadPoint) float64 { return p.Rate }, func(p loadPoint) float64 { return p.ServerUS }
	for i, c := range instanceCases() {
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s |\n", c.what, c.clients, len(p[i][0]), spreadOf(p[i][0], rate).text("%.0f"), spreadOf(p[i][1], rate).text("%.0f"),
			spreadOf(p[i][0], us).text("%.1f"), spreadOf(p[i][1], us).text("%.1f"))
	}
	return b.String()
}

// bars compares the instance cases with what they are to reach.
func (p pairs) bars() (list []bar) {
	if len(p) == 0 {
		return nil
	}
	figures := map[string]func(loadPoint) float64{
		instanceRate: func(p loadPoint) float64 { return p.Rate }, instanceCPU: func(p loadPoint) float64 { return p.ServerUS },
	}
	for i, c := range instanceCases() {
		if v, ok := pairRatio(&p[i], figures[c.figure]); ok {
			list = append(list, bar{what: fmt.Sprintf("%s, %d clients, %s", c.what, c.clients, c.figure), got: v.median, limit: c.limit, atLeast: c.atLeast, unit: "times"})
		}
	}
	return list
}
