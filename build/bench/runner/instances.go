package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// embedSide is a side that runs a model in one process with its callers.
func (b *bench) embedSide(repository, model, input string, callers int) side {
	return func(ctx context.Context) ([]value, error) {
		return printed(exec.CommandContext(ctx, b.loadgen, "-i", "embedded", "-r", repository, "-json", "-m", model,
			"-in", input, "-c", strconv.Itoa(callers), "-d", fmt.Sprint(b.seconds, "s")), rate, serverUS)
	}
}

const (
	convScript = "build/bench/conv.py"
	venvPython = ".cache/venv/bin/python"
	convInput  = "image:FP32:1,3,64,64"

	// One thread, and no dynamic batcher: the inputs and outputs are given, so that nothing is completed.
	convConfig = `backend: "onnxruntime"
max_batch_size: 8
input { name: "image" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] }
output { name: "scores" data_type: TYPE_FP32 dims: 10 }
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
`
)

// makeConv writes the convolution model.
func makeConv(ctx context.Context, path string) error {
	if out, err := exec.CommandContext(ctx, venvPython, convScript, "make", path).CombinedOutput(); err != nil {
		return fmt.Errorf("make the convolution model: %w: %s", err, out)
	}
	return nil
}

// runConv compares a convolution model, one thread and one picture at a time, with ONNX Runtime alone in Python. The
// server shares the cores with its clients: its case says what a user of this machine sees. The case in process, with
// our scheduler and backend beside one caller, says what running a model through us costs.
func (b *bench) runConv(ctx context.Context) error {
	const clients = 4
	root, model := filepath.Join(b.work, "conv"), filepath.Join(b.work, "conv.onnx")
	if err := makeConv(ctx, model); err != nil {
		return err
	}
	folder, err := onnxFolder("conv", onCPU(convConfig, 1), model)
	if err != nil {
		return err
	}
	if err := writeRepository(root, folder); err != nil {
		return err
	}
	s, err := nereid(b.binary, b.work).start(ctx, root)
	if err != nil {
		return err
	}
	defer s.stop()
	l := load{proto: "grpc", tensors: convInput, check: "same"}
	if err := b.verify(ctx, l, "conv", s, clients); err != nil {
		return err
	}
	alone := func(ctx context.Context) ([]value, error) {
		return printed(exec.CommandContext(ctx, venvPython, convScript, "run", model, "1", fmt.Sprint(b.seconds)),
			rate, serverUS)
	}
	return b.compare(ctx, b.repeat,
		contest{name: caseName("conv over gRPC, against ONNX Runtime alone", clients),
			sides: []side{b.loadSide(l, "conv", s, clients), alone}},
		contest{name: "conv in process, against ONNX Runtime alone",
			sides: []side{b.embedSide(root, "conv", convInput, 1), alone}})
}

// instanceCase compares two models of one server of ours.
type instanceCase struct {
	what    string
	models  [2]string
	proto   string // "": in process, so that no load generator shares the cores
	tensors string
	clients int

	// The bar: what several instances, or the batcher, are to gain.
	figure figure
	kind   limit
	limit  float64

	// short is the number of pairs per round with short windows, in place of one with the usual window. A small
	// difference of two small figures shows only in the median of many pairs. 0: one pair with the usual window.
	short int
}

func (c *instanceCase) name() string { return caseName("instances: "+c.what, c.clients) }

func instanceCases() []instanceCase {
	batcher, conv := [2]string{"mlp_1", "mlp_plain"}, [2]string{"conv_2", "conv_1"}
	two, four, plain := [2]string{"mlp_2", "mlp_1"}, [2]string{"mlp_4", "mlp_1"}, [2]string{"mlp_plain_2", "mlp_plain"}
	return []instanceCase{
		{"mlp, dynamic batching against none", batcher, "http", mlpInput, 64, rate, ratioAtLeast, 1.5, 0},
		{"mlp, an idle batcher against none", batcher, "http", mlpInput, 1, serverUS, ratioAtMost, 1.05, 8},
		{"mlp, two instances against one", two, "http", mlpInput, 64, rate, ratioAtLeast, 1, 4},
		{"mlp, two instances against one, no batching", plain, "http", mlpInput, 64, rate, ratioAtLeast, 1, 0},
		{"mlp, four instances against one", four, "http", mlpInput, 64, rate, ratioAtLeast, 1, 4},
		{"mlp, two instances against one", two, "http", mlpInput, 16, rate, ratioAtLeast, 1, 4},
		{"mlp, an idle batcher against none, in process", batcher, "", mlpInput, 1, serverUS, ratioAtMost, 1.05, 0},
		{"convolutions, two one-thread instances against one, in process", conv, "", convInput, 4, rate, ratioAtLeast,
			1.85, 0},
		{"convolutions, two one-thread instances against one", conv, "http", convInput, 8, rate, ratioAtLeast, 1.85, 0},
	}
}

// runInstances runs the instance cases on one server.
func (b *bench) runInstances(ctx context.Context) error {
	repository, err := b.instanceRepository(ctx)
	if err != nil {
		return err
	}
	s, err := nereid(b.binary, b.work).start(ctx, repository)
	if err != nil {
		return err
	}
	defer s.stop()
	var cases []contest
	for _, c := range instanceCases() {
		l, w := load{proto: c.proto, tensors: c.tensors}, window{"1s", b.seconds}
		if c.short > 0 {
			w = window{"100ms", 0.25} // the server has been running for long
		}
		of := contest{name: c.name(), pairs: c.short}
		for _, model := range c.models {
			one := func(ctx context.Context) ([]value, error) {
				return b.load(ctx, l, model, s, c.clients, w, "none")
			}
			if c.proto == "" {
				one = b.embedSide(repository, model, c.tensors, c.clients)
			}
			of.sides = append(of.sides, one)
		}
		cases = append(cases, of)
	}
	return b.compare(ctx, b.repeat, cases...)
}

// instanceRepository writes the models of the instance cases. Their configurations give all inputs and outputs: one
// that leaves them out is completed from the model and so gets a dynamic batcher, as with Triton.
func (b *bench) instanceRepository(ctx context.Context) (string, error) {
	conv := filepath.Join(b.work, "conv.onnx")
	if err := makeConv(ctx, conv); err != nil {
		return "", err
	}
	var models []modelFolder
	const batched = mlpConfig + "dynamic_batching { }\n"
	for _, m := range []struct {
		name, file, config string
		count              int
	}{
		{"mlp_plain", b.mlp, mlpConfig, 1},
		{"mlp_plain_2", b.mlp, mlpConfig, 2},
		{"mlp_1", b.mlp, batched, 1},
		{"mlp_2", b.mlp, batched, 2},
		{"mlp_4", b.mlp, batched, 4},
		{"conv_1", conv, convConfig, 1},
		{"conv_2", conv, convConfig, 2},
	} {
		f, err := onnxFolder(m.name, onCPU(m.config, m.count), m.file)
		if err != nil {
			return "", err
		}
		models = append(models, f)
	}
	root := filepath.Join(b.work, "instances")
	return root, writeRepository(root, models...)
}
