// Command embedded serves a repository in its own process through the Go API, without any port, and calls one model in
// closed loops. It measures scheduling and execution alone: no load generator and no sockets use the cores. It prints
// one JSON object: rate in requests/s, p50_ms, and server_us, the CPU time of the whole process per request in
// microseconds.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
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
	in, err := parse(o.input)
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
	if _, err := calls(ctx, eng, o, in, o.warm); err != nil {
		return p, err
	}
	cpu, begin := proc.OwnCPU(), time.Now()
	took, err := calls(ctx, eng, o, in, o.window)
	if err != nil {
		return p, err
	}
	n, seconds := float64(len(took)), time.Since(begin).Seconds()
	slices.Sort(took)
	return point{
		Rate: n / seconds, P50MS: took[len(took)/2].Seconds() * 1e3, ServerUS: (proc.OwnCPU() - cpu) * 1e6 / n,
	}, nil
}

// calls has each caller send one request after the other until the window is over. It returns the times of all
// requests, at least one.
func calls(ctx context.Context, eng *engine.Engine, o options, in tensor.Tensor, window time.Duration) ([]time.Duration,
	error) {
	var wg sync.WaitGroup
	took, errs := make([][]time.Duration, o.callers), make([]error, o.callers)
	end := time.Now().Add(window)
	for i := range o.callers {
		wg.Go(func() {
			for errs[i] == nil && (len(took[i]) == 0 || time.Now().Before(end)) {
				begin := time.Now()
				errs[i] = call(ctx, eng, o.model, in)
				took[i] = append(took[i], time.Since(begin))
			}
		})
	}
	wg.Wait()
	return slices.Concat(took...), errors.Join(errs...)
}

func call(ctx context.Context, eng *engine.Engine, model string, in tensor.Tensor) error {
	r := infer.New()
	defer r.Release()
	r.ModelName = model
	r.Inputs = append(r.Inputs, in)
	if err := eng.Infer(ctx, r); err != nil {
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
	return resp.Err
}

// parse reads NAME:FP32:d,d,.. and fills the tensor with values from -1 to 1.
func parse(spec string) (t tensor.Tensor, err error) {
	name, shape, err := perf.ParseShape(spec)
	if err != nil {
		return t, err
	}
	name, ok := strings.CutSuffix(name, ":FP32")
	if !ok {
		return t, fmt.Errorf("input %q: want NAME:FP32:d,d,.. such as INPUT0:FP32:1,16", spec)
	}
	t.Name, t.DataType, t.Shape = name, tensor.FP32, shape
	n, err := tensor.Elements(t.Shape)
	if err != nil {
		return t, fmt.Errorf("input %q: %w", spec, err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range n {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(2*rng.Float32()-1))
	}
	return t, nil
}
