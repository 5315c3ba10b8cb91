// Command embedded serves a repository in its own process through the Go API, without any port, and calls one model in
// closed loops. It measures scheduling and execution alone: no load generator and no sockets use the cores. It prints
// one JSON object: rate in requests/s, p50_ms, and server_us, the CPU time of the whole process per request in
// microseconds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"nereid/app/perf"
	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/infer"
	"nereid/engine/system/proc"
	"nereid/engine/tensor"
)

func main() {
	var o options
	flag.StringVar(&o.repository, "r", "", "model repository")
	flag.StringVar(&o.model, "m", "", "model")
	flag.StringVar(&o.input, "in", "", "its one input: NAME:DTYPE:d,d,..")
	flag.IntVar(&o.callers, "c", 1, "callers, one request each at a time")
	flag.DurationVar(&o.warm, "w", time.Second, "warm-up")
	flag.DurationVar(&o.window, "d", 4*time.Second, "measured window")
	flag.Parse()
	got, err := measure(context.Background(), o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(got)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "embedded:", err)
		os.Exit(1)
	}
}

type options struct {
	repository, model, input string
	callers                  int
	warm, window             time.Duration
}

type point struct {
	Rate     float64 `json:"rate"`
	P50MS    float64 `json:"p50_ms"`
	ServerUS float64 `json:"server_us"`
}

func measure(ctx context.Context, o options) (p point, err error) {
	name, shape, err := perf.ParseShape(o.input)
	name, dtype, ok := strings.Cut(name, ":")
	if err != nil || !ok {
		return p, fmt.Errorf("input %q: want NAME:DTYPE:d,d,.. such as INPUT0:FP32:1,16", o.input)
	}
	model := perf.Model{Name: o.model,
		Inputs: []perf.IO{{Name: name, DataType: tensor.ParseDataType(dtype), Shape: shape}}}
	data, err := perf.Generate(&model, perf.InputOptions{})
	if err != nil {
		return p, err
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 2) // as the server does
	}
	eng, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{o.repository},
			Backends:     []backend.Backend{onnxruntime.New(onnxruntime.Options{})},
		},
	})
	if err != nil {
		return p, err
	}
	defer eng.Close(ctx)
	if err := eng.Start(ctx); err != nil {
		return p, err
	}
	callers := float64(o.callers)
	load := perf.Options{Target: target{eng}, Model: model, Data: data,
		Load:          perf.Load{Concurrency: &perf.Range{Start: callers, End: callers, Step: 1}},
		WindowOptions: perf.WindowOptions{Window: o.warm, MaxTrials: 1}}
	if _, err := perf.Run(ctx, load); err != nil {
		return p, err
	}
	cpu := proc.OwnCPU()
	load.Window = o.window
	load.Events.Window = func(_ float64, w *perf.Point) {
		p = point{Rate: w.Rate(w.Requests), P50MS: w.Latency.Quantile(.5).Seconds() * 1e3,
			ServerUS: (proc.OwnCPU() - cpu) * 1e6 / float64(w.Requests)}
	}
	_, err = perf.Run(ctx, load)
	return p, err
}

// target calls a model through the Go API.
type target struct{ eng *engine.Engine }

// Infer implements perf.Target.
func (t target) Infer(ctx context.Context, _ int, given *perf.Request, c *perf.Call) error {
	r := infer.New()
	defer r.Release()
	r.ModelName = given.Model
	for i := range given.Inputs {
		in := &given.Inputs[i]
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: in.Name, DataType: in.DataType, Shape: in.Shape, Data: in.Data})
	}
	if err := t.eng.Infer(ctx, r); err != nil {
		return err
	}
	resp, err := r.Next(ctx)
	if err != nil {
		return err
	}
	defer resp.Release()
	if resp.Err == nil && len(resp.Outputs) == 0 {
		return errors.New("a response without outputs")
	}
	c.First = time.Now()
	c.End, c.Responses = c.First, 1
	return resp.Err
}

// Close implements perf.Target.
func (target) Close() error { return nil }
