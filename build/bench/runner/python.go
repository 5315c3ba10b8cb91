package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nereid/engine/client"
	"nereid/engine/system/proc"
)

// pythonLoads are the loads on Python models. Both servers run the same files with the same Python.
func pythonLoads() []load {
	all, some, few := []int{1, 16, 64}, []int{1, 4, 16}, []int{1, 4}
	both := func(model string) [2]string { return [2]string{model, model} }
	return []load{
		{"python-http", "http", identityInput, both("identity_py"), "identity", all},
		{"python-grpc", "grpc", identityInput, both("identity_py"), "identity", all},
		{"python-batch-http", "http", identityInput, both("identity_batch"), "identity", []int{64}},
		{"python-1mb-shm", "shm", bigInput, both("big_py"), "identity", some},
		{"python-1mb-shm-add", "shm", bigInput, both("add_py"), "version", some},
		{"python-1mb-http", "http", bigInput, both("big_py"), "identity", few},
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

// The cases of Python models other than the loads.
const (
	blsPython   = "python-bls of a Python model"
	blsBuiltin  = "python-bls of the builtin identity"
	pythonStart = "python-start"
	numpyImport = "python-start: import of numpy alone"
)

var (
	blsCall   = figure{"a call, µs", "%.1f"}
	startTime = figure{"from the load request to its response, s", "%.3f"}
	stopTime  = figure{"from the unload request to the exit of the process, s", "%.3f"}
	seconds   = figure{"s", "%.3f"}
)

// runPython measures Python models on both servers.
func (b *bench) runPython(ctx context.Context) error {
	root := filepath.Join(b.work, "python")
	p := nereid(b.binary, root)
	// The reference's Python: same version of numpy.
	p.env = append(p.env, "PATH="+filepath.Join(b.work, "venv", "bin")+":"+os.Getenv("PATH"))
	programs := []*program{p}
	if !b.alone {
		r, err := reference(ctx, b.work, "")
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
	if slices.ContainsFunc(append(namesOf(pythonLoads()), blsPython), b.wants) {
		if err := b.comparePython(ctx, programs, folders); err != nil {
			return err
		}
	}
	if b.wants(pythonStart) {
		return b.comparePythonStarts(ctx, programs, folders)
	}
	return nil
}

// comparePython measures the loads, and calls between models.
func (b *bench) comparePython(ctx context.Context, programs []*program, folders []string) error {
	servers, err := startAll(ctx, programs, folders)
	if err != nil {
		return err
	}
	defer stopAll(servers)
	if err := b.compareLoads(ctx, pythonLoads(), servers); err != nil {
		return err
	}
	calls := func(s *server, model string) side {
		return func(ctx context.Context) ([]value, error) {
			us, err := ask[float64](ctx, s, model, client.Of("CALLS", []int32{blsCalls}))
			return []value{{blsCall, us}}, err
		}
	}
	c := contest{name: blsPython}
	for _, s := range servers {
		c.sides = append(c.sides, calls(s, "bls_py"))
	}
	return b.compare(ctx, b.repeat, c,
		contest{name: blsBuiltin, sides: []side{calls(servers[0], "bls_identity")}})
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

// comparePythonStarts loads and unloads a Python model on servers in explicit mode.
func (b *bench) comparePythonStarts(ctx context.Context, programs []*program, folders []string) error {
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
	c := contest{name: pythonStart}
	for _, s := range servers {
		if _, err := loadCycle(ctx, s, math.MaxInt); err != nil { // warms up
			return err
		}
		settle(ctx, 6*time.Second)
		idle, err := proc.Tree(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		c.sides = append(c.sides, func(ctx context.Context) ([]value, error) {
			return loadCycle(ctx, s, len(idle.Processes))
		})
	}
	numpy := func(ctx context.Context) ([]value, error) {
		began := time.Now()
		cmd := exec.CommandContext(ctx, filepath.Join(b.work, "venv", "bin", "python3"), "-c", "import numpy")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
		}
		return []value{{seconds, time.Since(began).Seconds()}}, nil
	}
	return b.compare(ctx, b.repeat, c, contest{name: numpyImport, sides: []side{numpy}})
}

// loadCycle loads and unloads identity_py, and waits until the server has no more processes than idle.
func loadCycle(ctx context.Context, s *server, idle int) ([]value, error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := c.Load(ctx, "identity_py", client.LoadOptions{}); err != nil {
		return nil, err
	}
	load := time.Since(began).Seconds()
	began = time.Now()
	if err := c.Unload(ctx, "identity_py"); err != nil {
		return nil, err
	}
	for time.Since(began) < time.Minute {
		u, err := proc.Tree(s.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		if len(u.Processes) <= idle {
			return []value{{startTime, load}, {stopTime, time.Since(began).Seconds()}}, nil
		}
		settle(ctx, 2*time.Millisecond)
	}
	return nil, errors.New("the model's process still runs a minute after its unload")
}
