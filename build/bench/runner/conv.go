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

const (
	convScript  = "build/bench/conv.py"
	convPython  = ".cache/venv/bin/python"
	convTensor  = "image:FP32:1,3,64,64"
	convClients = 4

	// One thread, and no dynamic batcher: the inputs and outputs are given, so that nothing is completed.
	convConfig = `backend: "onnxruntime"
max_batch_size: 8
input { name: "image" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] }
output { name: "scores" data_type: TYPE_FP32 dims: 10 }
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
`
)

// convPoints are what a convolution model does on our server, on ONNX Runtime alone, and on our scheduler and backend in
// one process with its caller: one thread each, one picture at a time. The server shares the cores with its clients, so
// that the last says what running a model through us costs, and the first what a user of this machine sees.
type convPoints [3][]loadPoint

// measureConv runs the two in turn.
func measureConv(ctx context.Context, o options, rep *report) error {
	root := filepath.Join(o.work, "conv")
	model := filepath.Join(o.work, "conv.onnx")
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
	s, err := nereid(o.binary, o.work).start(ctx, root)
	if err != nil {
		return err
	}
	defer s.stop()
	l := load{"conv", "grpc", convTensor, "conv", "", "same", nil}
	if _, err := o.load(ctx, l, 0, s, convClients, 0.5, "same"); err != nil {
		return fmt.Errorf("convolutions: %w", err)
	}
	for round := range o.repeat {
		for turn := range rep.conv {
			side := (turn + round) % len(rep.conv)
			var p loadPoint
			switch side {
			case 0:
				p, err = o.load(ctx, l, 0, s, convClients, o.seconds, "none")
			case 1:
				p, err = rawConv(ctx, model, o.seconds)
			case 2:
				p, err = o.embed(ctx, root, "conv", convTensor, 1)
			}
			if err != nil {
				return fmt.Errorf("convolutions: %w", err)
			}
			rep.conv[side] = append(rep.conv[side], p)
		}
	}
	return nil
}

// makeConv writes the convolution model.
func makeConv(ctx context.Context, path string) error {
	if out, err := exec.CommandContext(ctx, convPython, convScript, "make", path).CombinedOutput(); err != nil {
		return fmt.Errorf("make the convolution model: %w: %s", err, out)
	}
	return nil
}

// rawConv runs the model on ONNX Runtime alone.
func rawConv(ctx context.Context, model string, seconds float64) (loadPoint, error) {
	return printed(exec.CommandContext(ctx, convPython, convScript, "run", model, "1", fmt.Sprint(seconds)))
}

// printed runs a program that measures and prints a loadPoint.
func printed(cmd *exec.Cmd) (p loadPoint, err error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return p, json.Unmarshal(out, &p)
}

func (c *convPoints) markdown() string {
	if len(c[0]) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nA residual network of convolutions, one thread, against ONNX Runtime alone (Python, without a server):\n\n" +
		"| | pictures/s | CPU µs each |\n|---|---|---|\n")
	for side, name := range []string{fmt.Sprintf("ours, gRPC, %d clients", convClients), "ONNX Runtime alone", "ours in process, one caller"} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, spreadOf(c[side], func(p loadPoint) float64 { return p.Rate }).text("%.1f"),
			spreadOf(c[side], func(p loadPoint) float64 { return p.ServerUS }).text("%.0f"))
	}
	return b.String()
}

func (c *convPoints) bars() (list []bar) {
	rate := func(p loadPoint) float64 { return p.Rate }
	for _, one := range []struct {
		what string
		side int
	}{{"convolutions, rate in process against ONNX Runtime alone", 2}, {"convolutions, rate over gRPC against ONNX Runtime alone", 0}} {
		if v, ok := pairRatio(&[2][]loadPoint{c[one.side], c[1]}, rate); ok {
			list = append(list, bar{what: one.what, got: v.median, limit: 0.97, atLeast: true, unit: "times"})
		}
	}
	return list
}

// embed runs the model in a process of its own, with its callers (build/bench/embedded).
func (o *options) embed(ctx context.Context, repository, model, input string, callers int) (loadPoint, error) {
	return printed(exec.CommandContext(ctx, o.embedded, "-r", repository, "-m", model, "-in", input, "-c", strconv.Itoa(callers), "-d", fmt.Sprint(o.seconds, "s")))
}
