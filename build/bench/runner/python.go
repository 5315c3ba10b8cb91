package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"nereid/engine/client"
	"nereid/engine/system/proc"
)

// pythonLoads are the loads on Python models. Both servers run the same files with the same Python.
func pythonLoads() []load {
	all, some, few := []int{1, 16, 64}, []int{1, 4, 16}, []int{1, 4}
	return []load{
		{"python-http", "http", identityInput, "identity_py", "identity_py", "identity", all},
		{"python-grpc", "grpc", identityInput, "identity_py", "identity_py", "identity", all},
		{"python-batch-http", "http", identityInput, "identity_batch", "identity_batch", "identity", []int{64}},
		{"python-1mb-shm", "shm", bigTensor, "big_py", "big_py", "identity", some},
		{"python-1mb-shm-add", "shm", bigTensor, "add_py", "add_py", "version", some},
		{"python-1mb-http", "http", bigTensor, "big_py", "big_py", "identity", few},
	}
}

const pythonIdentity = `import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        out = []
        for request in requests:
            x = pb.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", x)]))
        return out
`

// pythonAdd makes a new output, as most models do; pythonIdentity returns its input.
var pythonAdd = strings.Replace(pythonIdentity, `"OUTPUT0", x`, `"OUTPUT0", x + 1`, 1)

// pythonBLS times CALLS requests to another model, one after the other.
const pythonBLS = `import time

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        calls = int(pb.get_input_tensor_by_name(request, "CALLS").as_numpy()[0])
        x = np.arange(16, dtype=np.float32).reshape(1, 16)
        began = time.perf_counter()
        for _ in range(calls):
            call = pb.InferenceRequest(
                model_name="TARGET", requested_output_names=["OUTPUT0"], inputs=[pb.Tensor("INPUT0", x)]
            )
            response = call.exec()
            if response.has_error():
                return pb.InferenceResponse(error=response.error())
            y = pb.get_output_tensor_by_name(response, "OUTPUT0").as_numpy()
        took = (time.perf_counter() - began) / calls * 1e6
        if not np.array_equal(x, y):
            return pb.InferenceResponse(error=pb.TritonError("the answer is wrong"))
        return pb.InferenceResponse([pb.Tensor("US", np.array([took]))])
`

const (
	pythonTensors = `max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }
`
	pythonCalls = `input { name: "CALLS" data_type: TYPE_INT32 dims: 1 }
output { name: "US" data_type: TYPE_FP64 dims: 1 }
`
	// blsCalls is how many calls one request makes.
	blsCalls = 2000
)

// pythonRepository writes the models. ours adds one that calls our builtin identity, which the reference does not have.
func pythonRepository(root string, ours bool) error {
	python := func(name, config, code string) modelFolder {
		return modelFolder{name: name, config: "backend: \"python\"\n" + config, file: "model.py", data: []byte(code)}
	}
	big := strings.ReplaceAll(pythonTensors, "dims: 16", "dims: -1")
	models := []modelFolder{
		python("identity_py", pythonTensors, pythonIdentity),
		python("identity_batch", pythonTensors+"dynamic_batching { }\n", pythonIdentity),
		python("big_py", big, pythonIdentity),
		python("add_py", big, pythonAdd),
		python("bls_py", pythonCalls, strings.Replace(pythonBLS, "TARGET", "identity_py", 1)),
	}
	if ours {
		models = append(models,
			python("bls_identity", pythonCalls, strings.Replace(pythonBLS, "TARGET", "identity", 1)),
			modelFolder{name: "identity", config: "backend: \"identity\"\n" + pythonTensors})
	}
	return writeRepository(root, models...)
}

// pythonExperiment measures Python models, the two servers in turn. Side 0 is ours, side 1 the reference.
type pythonExperiment struct {
	loads    *loadExperiment // whose table has the loads
	bls      [2][]float64    // µs per call of identity_py
	builtin  []float64       // µs per call of our identity
	load     [2][]float64    // s from the load request to its response
	unload   [2][]float64    // s from the unload request until the model's process is gone
	imported []float64       // s that python3 takes to import numpy
}

func (e *pythonExperiment) cases() []string {
	return append(namesOf(pythonLoads()), "python-bls", "python-start")
}

func (e *pythonExperiment) run(ctx context.Context, o *options) error {
	root := filepath.Join(o.work, "python")
	p := nereid(o.binary, root)
	// The reference's Python: same version of numpy.
	p.env = append(p.env, "PATH="+filepath.Join(o.work, "venv", "bin")+":"+os.Getenv("PATH"))
	programs := []*program{p}
	if !o.alone {
		r, err := reference(ctx, o.work, "")
		if err != nil {
			return err
		}
		programs = append(programs, r)
	}
	folders := []string{filepath.Join(root, "ours"), filepath.Join(root, "theirs")}
	for side := range programs {
		if err := pythonRepository(folders[side], side == 0); err != nil {
			return err
		}
	}
	if err := e.runLoads(ctx, o, programs, folders); err != nil {
		return err
	}
	if o.wants("python-start") {
		return e.runStarts(ctx, o, programs, folders)
	}
	return nil
}

func (e *pythonExperiment) runLoads(ctx context.Context, o *options, programs []*program, folders []string) error {
	wanted := o.wanted(pythonLoads())
	if len(wanted) == 0 && !o.wants("python-bls") {
		return nil
	}
	servers, err := startAll(ctx, programs, folders)
	if err != nil {
		return err
	}
	defer stopAll(servers)
	if err := e.loads.measure(ctx, o, wanted, servers); err != nil || !o.wants("python-bls") {
		return err
	}
	return inTurn(o.repeat, len(servers), func(side int) error {
		us, err := blsCall(ctx, servers[side], "bls_py")
		if err != nil {
			return err
		}
		e.bls[side] = append(e.bls[side], us)
		if side == 0 {
			us, err = blsCall(ctx, servers[side], "bls_identity")
			e.builtin = append(e.builtin, us)
		}
		return err
	})
}

// blsCall returns what one call of another model costs, in µs.
func blsCall(ctx context.Context, s *server, model string) (float64, error) {
	return ask[float64](ctx, s, model, client.Of("CALLS", []int32{blsCalls}))
}

// ask sends a request of one input and returns the first element of the response's first output.
func ask[T client.Element](ctx context.Context, s *server, model string, in client.Tensor) (first T, err error) {
	c, err := s.client()
	if err != nil {
		return first, err
	}
	r, err := c.Infer(ctx, &client.Request{Model: model, Inputs: []client.Tensor{in}})
	if err != nil {
		return first, err
	}
	if len(r.Outputs) == 0 {
		return first, errors.New("a response without outputs")
	}
	values, err := client.Values[T](&r.Outputs[0])
	if err == nil && len(values) == 0 {
		err = errors.New("an empty output")
	}
	if err != nil {
		return first, err
	}
	return values[0], nil
}

// runStarts loads and unloads a Python model on servers in explicit mode.
func (e *pythonExperiment) runStarts(ctx context.Context, o *options, programs []*program, folders []string) error {
	explicit := make([]*program, len(programs))
	for side, p := range programs {
		changed := *p
		changed.argv = append(append([]string{}, p.argv...), "--model-control-mode=explicit")
		explicit[side] = &changed
	}
	servers, err := startAll(ctx, explicit, folders)
	if err != nil {
		return err
	}
	defer stopAll(servers)
	idle := make([]int, len(servers)) // processes without the model; the first round warms up and counts them
	for round := range o.repeat + 1 {
		for turn := range servers {
			side := (turn + round) % len(servers)
			load, unload, err := loadCycle(ctx, servers[side], &idle[side])
			if err != nil {
				return fmt.Errorf("%s: %w", programs[side].name, err)
			}
			if round > 0 {
				e.load[side] = append(e.load[side], load)
				e.unload[side] = append(e.unload[side], unload)
			}
		}
		began := time.Now()
		cmd := exec.CommandContext(ctx, filepath.Join(o.work, "venv", "bin", "python3"), "-c", "import numpy")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("import numpy: %w: %s", err, bytes.TrimSpace(out))
		}
		e.imported = append(e.imported, time.Since(began).Seconds())
	}
	return nil
}

// loadCycle loads and unloads identity_py, and returns the seconds of each. idle is the number of the server's
// processes without it; if it is 0, loadCycle finds it out.
func loadCycle(ctx context.Context, s *server, idle *int) (load, unload float64, err error) {
	c, err := s.client()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := c.Load(ctx, "identity_py", client.LoadOptions{}); err != nil {
		return 0, 0, err
	}
	load = time.Since(began).Seconds()
	began = time.Now()
	if err := c.Unload(ctx, "identity_py"); err != nil {
		return 0, 0, err
	}
	if *idle == 0 {
		settle(ctx, 6*time.Second)
		u, err := proc.Tree(s.cmd.Process.Pid)
		*idle = len(u.Processes)
		return 0, 0, err
	}
	for time.Since(began) < time.Minute {
		u, err := proc.Tree(s.cmd.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		if len(u.Processes) <= *idle {
			return load, time.Since(began).Seconds(), nil
		}
		settle(ctx, 2*time.Millisecond)
	}
	return 0, 0, errors.New("the model's process still runs a minute after its unload")
}

func (e *pythonExperiment) bars() []bar {
	var list []bar
	if len(e.builtin) > 0 {
		list = append(list, atMost(60, "µs", median(e.builtin).median, "BLS, a call of the builtin identity"))
	}
	if len(e.load[0]) > 0 {
		limit := 0.3 + median(e.imported).median
		list = append(list,
			atMost(limit, "s (0.3 and the import of numpy)", median(e.load[0]).median, "start of a Python model"),
			atMost(0.2, "s", median(e.unload[0]).median, "stop of a Python model"))
	}
	return list
}

func (e *pythonExperiment) table() string {
	var b strings.Builder
	line := func(what, format string, ours, theirs []float64) {
		if len(ours) == 0 {
			return
		}
		other := "–"
		if len(theirs) > 0 {
			other = median(theirs).text(format)
		}
		if b.Len() == 0 {
			b.WriteString("\nPython models:\n\n| | ours | reference |\n|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, median(ours).text(format), other)
	}
	line("BLS, a call of a Python model, µs", "%.1f", e.bls[0], e.bls[1])
	line("BLS, a call of the builtin identity, µs", "%.1f", e.builtin, nil)
	line("start, s", "%.3f", e.load[0], e.load[1])
	line("stop, s", "%.3f", e.unload[0], e.unload[1])
	line("import of numpy alone, s", "%.3f", e.imported, e.imported)
	return b.String()
}
