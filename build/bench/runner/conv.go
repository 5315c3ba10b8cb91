package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	convScript  = "build/bench/conv.py"
	venvPython  = ".cache/venv/bin/python"
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

// convExperiment runs a convolution model, one thread and one picture at a time, on our server, on ONNX Runtime alone,
// and on our scheduler and backend in one process with its caller. The server shares the cores with its clients: the
// third side says what running a model through us costs, the first what a user of this machine sees.
type convExperiment struct{ points [3][]loadPoint }

func (e *convExperiment) cases() []string { return []string{"conv"} }

func (e *convExperiment) run(ctx context.Context, o *options) error {
	root, model := filepath.Join(o.work, "conv"), filepath.Join(o.work, "conv.onnx")
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
		return err
	}
	return inTurn(o.repeat, len(e.points), func(side int) (err error) {
		var p loadPoint
		switch side {
		case 0:
			p, err = o.load(ctx, l, 0, s, convClients, o.seconds, "none")
		case 1:
			p, err = printed(exec.CommandContext(ctx, venvPython, convScript, "run", model, "1", fmt.Sprint(o.seconds)))
		case 2:
			p, err = o.embed(ctx, root, "conv", convTensor, 1)
		}
		e.points[side] = append(e.points[side], p)
		return err
	})
}

// makeConv writes the convolution model.
func makeConv(ctx context.Context, path string) error {
	if out, err := exec.CommandContext(ctx, venvPython, convScript, "make", path).CombinedOutput(); err != nil {
		return fmt.Errorf("make the convolution model: %w: %s", err, out)
	}
	return nil
}

func (e *convExperiment) table() string {
	if len(e.points[0]) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nA residual network of convolutions, one thread, against ONNX Runtime alone (Python, without a " +
		"server):\n\n| | pictures/s | CPU µs each |\n|---|---|---|\n")
	ours := fmt.Sprintf("ours, gRPC, %d clients", convClients)
	for side, name := range []string{ours, "ONNX Runtime alone", "ours in process, one caller"} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, spreadOf(e.points[side], rate).text("%.1f"),
			spreadOf(e.points[side], serverUS).text("%.0f"))
	}
	return b.String()
}

func (e *convExperiment) bars() (list []bar) {
	for _, ours := range []struct {
		how  string
		side int
	}{{"in process", 2}, {"over gRPC", 0}} {
		p := pair{e.points[ours.side], e.points[1]}
		if v, ok := p.ratio(rate); ok {
			list = append(list, atLeast(0.97, "times", v.median, "convolutions, rate %s against ONNX Runtime alone",
				ours.how))
		}
	}
	return list
}
