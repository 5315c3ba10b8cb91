package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"nereid/engine/system/proc"
)

// pythonLoads are the loads on Python models; both servers run the same files with the same Python.
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

// pythonAdd is a model that makes its output, as most do, where the identity hands its input on.
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

// pythonRepository writes the models. ours: with one that calls our builtin identity, which the reference does not have.
func pythonRepository(root string, ours bool) error {
	python := func(name, config, code string) modelFolder {
		return modelFolder{name: name, config: "backend: \"python\"\n" + config, file: "model.py", data: []byte(code)}
	}
	models := []modelFolder{
		python("identity_py", pythonTensors, pythonIdentity),
		python("identity_batch", pythonTensors+"dynamic_batching { }\n", pythonIdentity),
		python("big_py", strings.ReplaceAll(pythonTensors, "dims: 16", "dims: -1"), pythonIdentity),
		python("add_py", strings.ReplaceAll(pythonTensors, "dims: 16", "dims: -1"), pythonAdd),
		python("bls_py", pythonCalls, strings.Replace(pythonBLS, "TARGET", "identity_py", 1)),
	}
	if ours {
		models = append(models,
			python("bls_identity", pythonCalls, strings.Replace(pythonBLS, "TARGET", "identity", 1)),
			modelFolder{name: "identity", config: "backend: \"identity\"\n" + pythonTensors})
	}
	return writeRepository(root, models...)
}

// pythonPoints are what is measured of Python models beside loads; side 0 is ours, side 1 the reference.
type pythonPoints struct {
	bls      [2][]float64 // µs a call of identity_py
	builtin  []float64    // µs a call of our identity
	load     [2][]float64 // s from the load request to its answer
	unload   [2][]float64 // s from the unload request until the model's process is gone
	imported []float64    // s that python3 takes to import numpy
}

// measurePython runs everything about Python models, the two servers in turn.
func measurePython(ctx context.Context, o options, rep *report) error {
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
	if err := measurePythonLoads(ctx, o, programs, folders, rep); err != nil {
		return err
	}
	if o.wants("python-start") {
		return measurePythonStart(ctx, o, programs, folders, &rep.python)
	}
	return nil
}

func measurePythonLoads(ctx context.Context, o options, programs []*program, folders []string, rep *report) error {
	var wanted []load
	for _, l := range pythonLoads() {
		if o.wants(l.name) {
			wanted = append(wanted, l)
		}
	}
	if len(wanted) == 0 && !o.wants("python-bls") {
		return nil
	}
	servers, err := startAll(ctx, programs, folders)
	if err != nil {
		return err
	}
	defer stopAll(servers)
	if err := o.pairs(ctx, wanted, programs, servers, rep); err != nil {
		return err
	}
	if o.wants("python-bls") {
		return measurePythonBLS(ctx, o, servers, &rep.python)
	}
	return nil
}

func measurePythonBLS(ctx context.Context, o options, servers []*server, points *pythonPoints) error {
	for round := range o.repeat {
		for turn := range servers {
			side := (turn + round) % len(servers)
			us, err := blsCall(ctx, servers[side], "bls_py")
			if err != nil {
				return err
			}
			points.bls[side] = append(points.bls[side], us)
		}
		us, err := blsCall(ctx, servers[0], "bls_identity")
		if err != nil {
			return err
		}
		points.builtin = append(points.builtin, us)
	}
	return nil
}

// post sends a JSON body and returns the answer's. A status other than 200 is an error.
func post(ctx context.Context, s *server, path, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr("http")+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, resp.StatusCode, text)
	}
	return text, err
}

// blsCall returns what one call of another model costs, in µs.
func blsCall(ctx context.Context, s *server, model string) (float64, error) {
	text, err := post(ctx, s, "/v2/models/"+model+"/infer", fmt.Sprintf(`{"inputs":[{"name":"CALLS","shape":[1],"datatype":"INT32","data":[%d]}]}`, blsCalls))
	if err != nil {
		return 0, err
	}
	var answer struct{ Outputs []struct{ Data []float64 } }
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, err
	}
	return answer.Outputs[0].Data[0], nil
}

// measurePythonStart loads and unloads a Python model on servers in explicit mode.
func measurePythonStart(ctx context.Context, o options, programs []*program, folders []string, points *pythonPoints) error {
	explicit := make([]*program, len(programs))
	for side, p := range programs {
		own := *p
		own.argv = append(append([]string{}, p.argv...), "--model-control-mode=explicit")
		explicit[side] = &own
	}
	servers, err := startAll(ctx, explicit, folders)
	if err != nil {
		return err
	}
	defer stopAll(servers)
	rest := make([]int, len(servers)) // processes without the model; the first round warms up and counts them
	for round := range o.repeat + 1 {
		for turn := range servers {
			side := (turn + round) % len(servers)
			load, unload, err := loadCycle(ctx, servers[side], &rest[side])
			if err != nil {
				return fmt.Errorf("%s: %w", programs[side].name, err)
			}
			if round > 0 {
				points.load[side] = append(points.load[side], load)
				points.unload[side] = append(points.unload[side], unload)
			}
		}
		began := time.Now()
		cmd := exec.CommandContext(ctx, filepath.Join(o.work, "venv", "bin", "python3"), "-c", "import numpy")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("import numpy: %w: %s", err, bytes.TrimSpace(out))
		}
		points.imported = append(points.imported, time.Since(began).Seconds())
	}
	return nil
}

// loadCycle loads and unloads identity_py, and returns the seconds of each. rest is how many processes the server has
// without it; 0: that is to be found out.
func loadCycle(ctx context.Context, s *server, rest *int) (load, unload float64, err error) {
	began := time.Now()
	if _, err := post(ctx, s, "/v2/repository/models/identity_py/load", ""); err != nil {
		return 0, 0, err
	}
	load = time.Since(began).Seconds()
	began = time.Now()
	if _, err := post(ctx, s, "/v2/repository/models/identity_py/unload", ""); err != nil {
		return 0, 0, err
	}
	if *rest == 0 {
		settle(ctx, 6*time.Second)
		u, err := proc.Tree(s.cmd.Process.Pid)
		*rest = len(u.Processes)
		return 0, 0, err
	}
	for time.Since(began) < time.Minute {
		u, err := proc.Tree(s.cmd.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		if len(u.Processes) <= *rest {
			return load, time.Since(began).Seconds(), nil
		}
		settle(ctx, 2*time.Millisecond)
	}
	return 0, 0, fmt.Errorf("the model's process is there a minute after its unload")
}

func median(v []float64) spread { return spreadOf(v, func(x float64) float64 { return x }) }

// bars are those that loads do not have.
func (p *pythonPoints) bars() []bar {
	var list []bar
	if len(p.builtin) > 0 {
		list = append(list, bar{what: "BLS, a call of the builtin identity", got: median(p.builtin).median, limit: 60, unit: "µs"})
	}
	if len(p.load[0]) > 0 {
		list = append(list,
			bar{what: "start of a Python model", got: median(p.load[0]).median, limit: 0.3 + median(p.imported).median, unit: "s (0.3 and the import of numpy)"},
			bar{what: "stop of a Python model", got: median(p.unload[0]).median, limit: 0.2, unit: "s"})
	}
	return list
}

func (p *pythonPoints) markdown() string {
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
	line("BLS, a call of a Python model, µs", "%.1f", p.bls[0], p.bls[1])
	line("BLS, a call of the builtin identity, µs", "%.1f", p.builtin, nil)
	line("start, s", "%.3f", p.load[0], p.load[1])
	line("stop, s", "%.3f", p.unload[0], p.unload[1])
	line("import of numpy alone, s", "%.3f", p.imported, p.imported)
	return b.String()
}
