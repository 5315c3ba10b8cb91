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
}

// inProcess in place of a protocol: no load generator shares the cores.
const inProcess = "in process"

const (
	instanceRate = "rate"
	instanceCPU  = "server CPU a request"
)

// instanceCases are what several instances, and the batcher, are to gain.
func instanceCases() []instanceCase {
	return []instanceCase{
		{"mlp, dynamic batching against none", [2]string{"mlp_1", "mlp_plain"}, "http", mlpInput, 64, instanceRate, 1.5, true},
		{"mlp, an idle batcher against none", [2]string{"mlp_1", "mlp_plain"}, "http", mlpInput, 1, instanceCPU, 1.05, false},
		{"mlp, two instances against one", [2]string{"mlp_2", "mlp_1"}, "http", mlpInput, 64, instanceRate, 1, true},
		{"mlp, two instances against one, no batching", [2]string{"mlp_plain_2", "mlp_plain"}, "http", mlpInput, 64, instanceRate, 1, true},
		{"mlp, four instances against one", [2]string{"mlp_4", "mlp_1"}, "http", mlpInput, 64, instanceRate, 1, true},
		{"mlp, two instances against one", [2]string{"mlp_2", "mlp_1"}, "http", mlpInput, 16, instanceRate, 1, true},
		{"mlp, an idle batcher against none, in process", [2]string{"mlp_1", "mlp_plain"}, inProcess, mlpInput, 1, instanceCPU, 1.05, false},
		{"convolutions, two one-thread instances against one, in process", [2]string{"conv_2", "conv_1"}, inProcess, convTensor, 4, instanceRate, 1.85, true},
		{"convolutions, two one-thread instances against one, over HTTP", [2]string{"conv_2", "conv_1"}, "http", convTensor, 8, instanceRate, 1.85, true},
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
			for turn := range 2 {
				side := (turn + round) % 2
				var p loadPoint
				if c.proto == inProcess {
					p, err = o.embed(ctx, repository, c.model[side], c.tensors, c.clients)
				} else {
					l := load{c.what, c.proto, c.tensors, c.model[side], c.model[side], "same", nil}
					p, err = o.load(ctx, l, 0, s, c.clients, o.seconds, "none")
				}
				if err != nil {
					return fmt.Errorf("%s, model %s: %w", c.what, c.model[side], err)
				}
				rep.instances[i][side] = append(rep.instances[i][side], p)
			}
		}
	}
	return nil
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
	b.WriteString("\nInstances and batching, ours against ours:\n\n| case | clients | req/s | against | µs | against |\n|---|---|---|---|---|---|\n")
	rate, us := func(p loadPoint) float64 { return p.Rate }, func(p loadPoint) float64 { return p.ServerUS }
	for i, c := range instanceCases() {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s |\n", c.what, c.clients, spreadOf(p[i][0], rate).text("%.0f"), spreadOf(p[i][1], rate).text("%.0f"),
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
