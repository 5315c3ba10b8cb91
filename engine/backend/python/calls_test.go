package python_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// callerOf returns a model whose body calls another model.
func callerOf(body string) string { return code(body, "") }

func TestBLS(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"inc/config.pbtxt":    config(""),
		"inc/1/model.py":      code("y = x + 1", ""),
		"bad/config.pbtxt":    config(""),
		"bad/1/model.py":      code(`raise pb_utils.TritonModelException("no, no")`, ""),
		"repeat/config.pbtxt": config("model_transaction_policy { decoupled: true }"),
		"repeat/1/model.py": `import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            for v in x:
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([v], np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
`,
		"sync/config.pbtxt": config(""),
		"sync/1/model.py": callerOf(`
q = pb_utils.InferenceRequest(model_name="inc", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x)])
resp = q.exec()
if resp.has_error(): raise pb_utils.TritonModelException(resp.error().message())
y = pb_utils.get_output_tensor_by_name(resp, "OUT").as_numpy() * 2`),
		"failing/config.pbtxt": config(""),
		"failing/1/model.py": callerOf(`
name = ["bad", "nowhere", "repeat"][int(x[0])]
q = pb_utils.InferenceRequest(model_name=name, requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x)])
resp = q.exec()
raise pb_utils.TritonModelException("it said: " + (resp.error().message() if resp.has_error() else "nothing"))`),
		"streaming/config.pbtxt": config(""),
		"streaming/1/model.py": callerOf(`
q = pb_utils.InferenceRequest(model_name="repeat", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x)])
total, n = 0, 0
for resp in q.exec(decoupled=True):
    if resp.has_error(): raise pb_utils.TritonModelException(resp.error().message())
    if len(resp.output_tensors()) > 0:
        n += 1
        total += pb_utils.get_output_tensor_by_name(resp, "OUT").as_numpy()[0]
y = np.array([n, total], np.float32)`),
		"async/config.pbtxt": config(""),
		"async/1/model.py": `import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    async def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            calls = [pb_utils.InferenceRequest(model_name="inc", requested_output_names=["OUT"],
                inputs=[pb_utils.Tensor("IN", x * i)]).async_exec() for i in range(5)]
            done = await asyncio.gather(*calls)
            y = sum(pb_utils.get_output_tensor_by_name(d, "OUT").as_numpy() for d in done)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", y)]))
        return responses
`,
		"self/config.pbtxt": config("instance_group [ { count: 1 }, { count: 1 passive: true } ]"),
		"self/1/model.py": callerOf(`
q = pb_utils.InferenceRequest(model_name="self", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x)])
resp = q.exec()
raise pb_utils.TritonModelException(resp.error().message())`),
		"ping/config.pbtxt": config(""),
		"ping/1/model.py": callerOf(`
resp = pb_utils.InferenceRequest(model_name="pong", requested_output_names=["OUT"],
    inputs=[pb_utils.Tensor("IN", x)]).exec()
raise pb_utils.TritonModelException(resp.error().message())`),
		"pong/config.pbtxt": config(""),
		"pong/1/model.py": callerOf(`
resp = pb_utils.InferenceRequest(model_name="ping", requested_output_names=["OUT"],
    inputs=[pb_utils.Tensor("IN", x)]).exec()
raise pb_utils.TritonModelException(resp.error().message())`),
		"rank/config.pbtxt": config("instance_group [ { count: 3 } ]"),
		"rank/1/model.py": callerOf(`
y = x
if x[0] < 2:
    resp = pb_utils.InferenceRequest(model_name="rank", requested_output_names=["OUT"],
        inputs=[pb_utils.Tensor("IN", x + 1)]).exec()
    if resp.has_error(): raise pb_utils.TritonModelException(resp.error().message())
    y = pb_utils.get_output_tensor_by_name(resp, "OUT").as_numpy() + 10`),
	}).ready()
	many := make([]float32, 100000)
	for i := range many {
		many[i] = float32(i % 7)
	}
	for _, tt := range []struct {
		name, model string
		in, want    []float32
		text        string // of the error
	}{
		{"C052 D040 exec", "sync", []float32{1, 2}, []float32{4, 6}, ""},
		{"D040 async_exec in an async execute", "async", []float32{1, 10}, []float32{15, 105}, ""},
		{"D036 D041 a stream of responses", "streaming", []float32{1, 2, 3, 4}, []float32{4, 10}, ""},
		{"D041 a stream of no responses", "streaming", []float32{}, []float32{0, 0}, ""},
		{"D040 an error of the other model", "failing", []float32{0}, nil, "TritonModelException: no, no"},
		{"D040 a model that is not there", "failing", []float32{1}, nil, "Model 'nowhere' is not ready"},
		{"D041 a decoupled model without decoupled=True", "failing", []float32{2}, nil, "decoupled=True"},
		{"D9 a model that calls itself", "self", []float32{1}, nil, "would wait for itself"},
		{"D9 two models that call each other", "ping", []float32{1}, nil, "would wait for itself"},
		{"a model that calls itself on other instances", "rank", []float32{0}, []float32{22}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := r.one(request(tt.model, map[string][]float32{"IN": tt.in}))
			if tt.text != "" {
				if a.err == nil || !strings.Contains(a.err.Error(), tt.text) {
					t.Errorf("%v, want an error with %q", a.err, tt.text)
				}
				return
			}
			if a.err != nil || !slices.Equal(a.floats("OUT"), tt.want) {
				t.Errorf("%v, %v; want %v", a.floats("OUT"), a.err, tt.want)
			}
		})
	}
	if a := r.one(request("sync", map[string][]float32{"IN": many})); a.err != nil ||
		len(a.floats("OUT")) != len(many) || a.floats("OUT")[6] != 14 {
		t.Errorf("a large tensor: %v", a.err)
	}
}

// A model may stop waiting for a call, so that its event loop is closed when the response comes. This does no harm.
func TestResponseAfterTheEventLoopIsClosed(t *testing.T) {
	release := filepath.Join(t.TempDir(), "release")
	r := serve(t, nil, map[string]string{
		"held/config.pbtxt": config(""),
		"held/1/model.py": code(`
while not os.path.exists(`+strconv.Quote(release)+`): time.sleep(0.001)
y = x + 1`, ""),
		"impatient/config.pbtxt": config(""),
		"impatient/1/model.py": callerOf(`
import asyncio
def call():
    return pb_utils.InferenceRequest(model_name="held", requested_output_names=["OUT"],
        inputs=[pb_utils.Tensor("IN", x)])
async def give_up(): call().async_exec()
asyncio.run(give_up())
open(` + strconv.Quote(release) + `, "w").close()
resp = call().exec() # answered after the other
if resp.has_error(): raise pb_utils.TritonModelException(resp.error().message())
y = pb_utils.get_output_tensor_by_name(resp, "OUT").as_numpy()`),
	}).ready()
	if a := r.one(request("impatient", map[string][]float32{"IN": {1}})); a.err != nil ||
		!slices.Equal(a.floats("OUT"), []float32{2}) {
		t.Errorf("%v, %v; want [2]", a.floats("OUT"), a.err)
	}
}

// A response that cannot be encoded is not sent. The model may send another one.
func TestSenderMaySendAfterAnInvalidResponse(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"texts/config.pbtxt": config("model_transaction_policy { decoupled: true }"),
		"texts/1/model.py": `import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            bad = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(["\ud800"], np.object_))])
            try:
                sender.send(bad, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            except UnicodeEncodeError as problem:
                error = pb_utils.TritonError("no text: " + problem.reason)
                sender.send(pb_utils.InferenceResponse(error=error),
                    flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`}).ready()
	if a := r.one(request("texts", map[string][]float32{"IN": {1}})); a.err == nil || !strings.Contains(a.err.Error(),
		"no text: surrogates not allowed") {
		t.Errorf("%v, want the error that the model sent", a.err)
	}
}

// After the final response a sender takes nothing more: the model gets an error, and the client no second end.
func TestNothingIsSentAfterTheFinalResponse_D6(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config("model_transaction_policy { decoupled: true }"),
		"m/1/model.py": `import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender, final = request.get_response_sender(), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            one, refused = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]), []
            if x[0] == 1:
                error = pb_utils.TritonError("; ".join(self.refused))
                sender.send(pb_utils.InferenceResponse(error=error), final)
                continue
            sender.send(one, final)
            for more in (one, 0), (None, final), (one, final):
                try:
                    sender.send(*more)
                except pb_utils.TritonModelException as problem:
                    refused.append(str(problem))
            self.refused = refused
`}).ready()
	if a := r.one(request("m", map[string][]float32{"IN": {5}})); a.err != nil || a.floats("OUT")[0] != 5 || !a.final {
		t.Errorf("%v, %v, final %v; want 5 as the only response", a.floats("OUT"), a.err, a.final)
	}
	const closed = "Unable to send response. Response sender has been closed."
	want := closed + "; " + closed + "; " + closed
	if a := r.one(request("m", map[string][]float32{"IN": {1}})); a.err == nil || a.err.Error() != want {
		t.Errorf("%v, want %s", a.err, want)
	}
}

// A model may change its array between two responses of a stream. The responses that were sent do not change.
func TestStreamedResponsesKeepTheirData(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"counts/config.pbtxt": config("model_transaction_policy { decoupled: true }"),
		"counts/1/model.py": code(`
sender = request.get_response_sender()
for i in range(5):
    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
    x += 1
sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
continue`, ""),
	}).ready()
	for _, n := range []int{1, 5000} {
		q := request("counts", map[string][]float32{"IN": make([]float32, n)})
		if err := r.Infer(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		until(t, "all is sent", q.Answered)
		for i := range 5 {
			resp, err := q.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := read(resp).floats("OUT"); len(got) != n || got[0] != float32(i) || got[n-1] != float32(i) {
				t.Errorf("%d floats, response %d: %d floats, the first %v", n, i, len(got), got[:min(len(got), 1)])
			}
		}
		q.Release()
	}
}

func TestDecoupledPythonModels(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"tokens/config.pbtxt": config("model_transaction_policy { decoupled: true }"),
		"tokens/1/model.py": `import threading, time
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        self.left = 0
        self.lock = threading.Lock()
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().copy()
            with self.lock: self.left += 1
            args = (request.get_response_sender(), int(x[0]), int(x[1]))
            threading.Thread(target=self.stream, args=args, daemon=True).start()
    def stream(self, sender, n, size):
        for i in range(n):
            if sender.is_cancelled():
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                break
            out = pb_utils.Tensor("OUT", np.full([size], i, np.float32))
            sender.send(pb_utils.InferenceResponse([out], parameters={"i": i}))
        else:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        with self.lock: self.left -= 1
    def finalize(self):
        while self.left: time.sleep(0.001)
`}).ready()
	t.Run("D035 a stream from a thread", func(t *testing.T) {
		all := r.all(request("tokens", map[string][]float32{"IN": {5, 2}}))
		if len(all) != 6 || all[5].err != nil || len(all[5].outputs) != 0 {
			t.Fatalf("%d responses (%v), want 5 and the empty final one", len(all), all)
		}
		for i, a := range all[:5] {
			if !slices.Equal(a.floats("OUT"),
				[]float32{float32(i), float32(i)}) || len(a.params) != 1 || a.params[0].Int != int64(i) {
				t.Errorf("response %d: %v %v", i, a.floats("OUT"), a.params)
			}
		}
	})
	t.Run("a reader that is slow", func(t *testing.T) {
		// 60 responses of 1 MB are more than the server buffers: the sender has to wait, and no byte is lost.
		q := request("tokens", map[string][]float32{"IN": {60, 1 << 18}})
		defer q.Release()
		if err := r.Infer(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		other := r.all(request("tokens", map[string][]float32{"IN": {1, 1}}))
		if len(other) != 2 {
			t.Errorf("another stream beside it: %d responses", len(other))
		}
		for i := range 61 {
			resp, err := q.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			a := read(resp)
			if i < 60 && (a.err != nil || a.final || len(a.floats("OUT")) != 1<<18 ||
				a.floats("OUT")[1<<18-1] != float32(i)) {
				t.Fatalf("response %d: %v, final %v, %d numbers", i, a.err, a.final, len(a.floats("OUT")))
			}
			if i == 60 && !a.final {
				t.Error("no final response after 60")
			}
		}
	})
	t.Run("D033 A23 D7 is_cancelled", func(t *testing.T) {
		q := request("tokens", map[string][]float32{"IN": {1 << 30, 1}})
		defer q.Release()
		if err := r.Infer(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		resp, err := q.Next(t.Context())
		if err != nil || resp.Err != nil {
			t.Fatal(err, resp)
		}
		resp.Release()
		q.Cancel()
		for {
			resp, err := q.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			last := resp.Final
			resp.Release()
			if last {
				break
			}
		}
	})
	t.Run("many streams at once", func(t *testing.T) {
		var qs []*infer.Request
		for range 50 {
			q := request("tokens", map[string][]float32{"IN": {20, 10}})
			if err := r.Infer(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			qs = append(qs, q)
		}
		for n, q := range qs {
			i := 0
			for {
				resp, err := q.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				a := read(resp)
				if a.final {
					break
				}
				if a.floats("OUT")[0] != float32(i) {
					t.Fatalf("stream %d: response %d is %v", n, i, a.floats("OUT")[0])
				}
				i++
			}
			if i != 20 {
				t.Errorf("stream %d: %d responses", n, i)
			}
			q.Release()
		}
	})
}

func TestInvalidResponsesFailTheRequest(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": `import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        what = int(pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0])
        out = lambda name, a: pb_utils.InferenceResponse([pb_utils.Tensor(name, a)])
        one = np.ones([1], np.float32)
        if what == 0: return [out("OUT", one)]
        if what == 1: return []
        if what == 2: return [out("OUT", one), out("OUT", one)]
        if what == 3: return [out("OUT", one.astype(np.int64))]
        if what == 4: return [out("OTHER", one)]
        if what == 5: return None
        if what == 6: return ["what"]
        if what == 7:
            s = requests[0].get_response_sender()
            s.send(out("OUT", one))
            s.send(out("OUT", one + 1))
            s.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return None
        if what == 8:
            error = pb_utils.TritonError("mine", pb_utils.TritonError.NOT_FOUND)
            return [pb_utils.InferenceResponse([], error)]
        if what == 9: return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", one), pb_utils.Tensor("MORE", one)])]
        if what == 10: return [pb_utils.InferenceResponse([], pb_utils.TritonError("mine", -1))]
        if what == 11: raise Silent()
class Silent(Exception):
    def __str__(self): raise ValueError()
`}).ready()
	for _, tt := range []struct {
		name string
		what float32
		text string // of the error; "": there is none
		code status.Code
	}{
		{"all is well", 0, "", 0},
		{"D6 too few responses", 1, "Number of InferenceResponse objects", status.Internal},
		{"D6 too many responses", 2, "Number of InferenceResponse objects", status.Internal},
		{"C097 D6 another name", 4, "returned output 'OTHER', which its configuration does not have, and no output " +
			"'OUT'", status.Internal},
		{"D6 nothing", 5, "model 'm'", status.Internal},
		{"D6 no response objects", 6, "InferenceResponse", status.Internal},
		{"D6 the first of two responses of a model that is not decoupled counts", 7, "", 0},
		{"D037 a TritonError with a code", 8, "mine", status.NotFound},
		{"D037 a code that does not exist", 10, "mine", status.Internal},
		{"D038 an exception without a text", 11, "Silent: <MESSAGE UNAVAILABLE", status.Internal},
		{"an output that the configuration does not know beside those that it does", 9, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := r.one(request("m", map[string][]float32{"IN": {tt.what}}))
			switch {
			case tt.code == 0 && (a.err != nil || a.floats("OUT")[0] != 1):
				t.Errorf("%v, %v; want 1", a.floats("OUT"), a.err)
			case tt.code != 0 && (a.err == nil || !strings.Contains(a.err.Error(), tt.text) ||
				status.CodeOf(a.err) != tt.code):
				t.Errorf("%v, want %v: …%s…", a.err, tt.code, tt.text)
			}
			if a := r.one(request("m", map[string][]float32{"IN": {0}})); a.err != nil {
				t.Errorf("the next request: %v", a.err)
			}
		})
	}
	if strings.Contains(r.log.String(), "process ended") {
		t.Errorf("an invalid response ended the process: %s", r.log.String())
	}
}

// An output has the type that the model gave it, as in Triton. The log says so once for all instances.
func TestOutputsOfAnotherTypeArePassedOn_C097_D6(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config("instance_group { count: 2 kind: KIND_CPU }"),
		"m/1/model.py": `import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([7], np.int64))]) for r in requests]
`}).ready()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			a := r.one(request("m", map[string][]float32{"IN": {1}}))
			if a.err != nil || a.types["OUT"] != tensor.Int64 ||
				!bytes.Equal(a.outputs["OUT"], []byte{7, 0, 0, 0, 0, 0, 0, 0}) {
				t.Errorf("%v %v, %v; want INT64 7", a.types["OUT"], a.outputs["OUT"], a.err)
			}
		})
	}
	all.Wait()
	if n := strings.Count(r.log.String(), "another data type"); n != 1 {
		t.Errorf("the log says it %d times: %s", n, r.log.String())
	}
}

func TestAutoComplete(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	r := serve(t, nil, map[string]string{
		"m/1/model.py": `import os
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_max_batch_size(8)
        config.set_dynamic_batching()
        open(` + strconv.Quote(pids) + `, "a").write("%d\n" % os.getpid())
        return config
    def initialize(self, args):
        open(` + strconv.Quote(pids) + `, "a").write("%d\n" % os.getpid())
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", v * 3)]) for v in x]
`,
		"broken/config.pbtxt": config(""),
		"broken/1/model.py": `class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        raise KeyError("lost")
`})
	s, _ := r.Model("m")
	if s.Err != nil || len(s.Versions) == 0 || s.Versions[0].Reason != "" {
		t.Fatal(s.Err, s.Versions)
	}
	c := s.Config
	if c.GetMaxBatchSize() != 8 || c.GetDynamicBatching() == nil || len(c.GetInput()) != 1 ||
		c.GetInput()[0].GetDataType() != inferencepb.DataType_TYPE_FP32 {
		t.Errorf("D030 the completed configuration: %v", c)
	}
	q := request("m", nil)
	q.Inputs = append(q.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.FP32, Shape: []int64{2, 1},
		Data: []byte{0, 0, 128, 63, 0, 0, 0, 64}})
	if a := r.one(q); a.err != nil || !slices.Equal(a.floats("OUT"), []float32{3, 6}) {
		t.Errorf("%v %v", a.floats("OUT"), a.err)
	}
	b, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Fields(string(b)); len(lines) != 2 || lines[0] != lines[1] {
		t.Errorf("processes of auto_complete_config and initialize: %v, want the same", lines)
	}
	t.Run("D021 a broken auto_complete_config is the version's reason", func(t *testing.T) {
		if s, _ := r.Model("broken"); len(s.Versions) != 1 || !strings.Contains(s.Versions[0].Reason,
			"KeyError: 'lost'") {
			t.Errorf("versions %+v", s.Versions)
		}
	})
}

// load_model takes a configuration, and files with the same names as in a load request.
func TestModelLoadsAnotherWithFiles(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
source = `+strconv.Quote(code("y = x * 7", ""))+`
files = {
    0: {"file:3/model.py": source.encode()},
    1: {"file:../../m/1/model.py": b""},
    2: {"file:/tmp/model.py": b""},
    3: {"3/model.py": source},
}
config = json.dumps({
    "backend": "python",
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}],
})
pb_utils.load_model(model_name="new", config="" if x[0] == 4 else config, files=files[int(x[0]) % 4])
y = x`, ""),
	}).ready()
	ask := func(n float32) answer { return r.one(request("m", map[string][]float32{"IN": {n}})) }
	for _, n := range []float32{0, 3} {
		t.Run(fmt.Sprintf("D044 load_model with files, %v", n), func(t *testing.T) {
			if a := ask(n); a.err != nil {
				t.Fatal(a.err)
			}
			q := request("new", map[string][]float32{"IN": {1, 2}})
			q.Version = 3
			if a := r.one(q); a.err != nil || !slices.Equal(a.floats("OUT"), []float32{7, 14}) {
				t.Errorf("%v, %v; want [7 14]", a.floats("OUT"), a.err)
			}
			if err := r.UnloadModel(t.Context(), "new", false); err != nil {
				t.Error(err)
			}
		})
	}
	for n, text := range map[float32]string{1: "../../m/1/model.py", 2: "/tmp/model.py", 4: "config"} {
		t.Run(fmt.Sprintf("D044 B4 load_model with files that cannot be, %v", n), func(t *testing.T) {
			if a := ask(n); a.err == nil || !strings.Contains(a.err.Error(), text) {
				t.Errorf("%v, want an error with %s", a.err, text)
			}
		})
	}
}

// The load of a model would wait for the load_model or unload_model of the same model that its own code calls.
func TestModelThatLoadsItself_D044(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"first/config.pbtxt": config(""),
		"first/1/model.py": code("y = x", `
@staticmethod
def auto_complete_config(c):
    pb_utils.load_model(c.as_dict()["name"])
    return c`),
		"second/config.pbtxt": config(""),
		"second/1/model.py": code("y = x", `
def initialize(self, args):
    pb_utils.load_model(args["model_name"])`),
		"third/config.pbtxt": config(""),
		"third/1/model.py": code("y = x", `
def initialize(self, args):
    pb_utils.unload_model(args["model_name"])`),
	})
	failures := r.StartFailures()
	if len(failures) != 3 {
		t.Errorf("%d loads failed, want 3", len(failures))
	}
	for _, err := range failures {
		if !strings.Contains(err.Error(), "would wait for itself") {
			t.Error(err)
		}
	}
}

func TestModelsCallTheServer(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"other/config.pbtxt": config(""),
		"other/1/model.py":   code("y = x", ""),
		"m/config.pbtxt":     config(`parameters { key: "greeting" value { string_value: "hello" } }`),
		"m/1/model.py": code(`
what = int(x[0])
y = x
if what == 1: pb_utils.unload_model("other")
if what == 2: pb_utils.load_model("other")
if what == 3: pb_utils.load_model("nowhere")
if what == 4:
    self.counter.increment(2.5); y = np.array([self.counter.value()], np.float32)
if what == 5: self.gauge.set(-7)
if what == 11:
    def after(v):
        self.gauge.set(v)
        return self.gauge.value()
    inf = float("inf")
    ok = after(inf) == inf and after(-inf) == -inf and np.isnan(after(inf - inf))
    ok = ok and type(after(3)) is float and type(self.own.value()) is float
    self.own.increment(inf)
    ok = ok and self.own.value() == inf
    self.own.increment(-inf + inf)
    ok = ok and np.isnan(self.own.value())
    y = np.array([float(ok)], np.float32)
if what == 12:
    self.bounded.observe(3)
    try:
        self.times.Metric(labels={"b": "z"}, buckets=[float("nan")])
    except pb_utils.TritonModelException as e: y = np.array(["buckets, ascending" in str(e)], np.float32)
if what == 6:
    self.histogram.observe(3); self.histogram.observe(300)
if what == 7:
    for f in (pb_utils.Logger.log_info, pb_utils.Logger.log_warn, pb_utils.Logger.log_error): f("said in three ways")
    print("and printed", flush=True)
if what == 8: y = np.array([float(pb_utils.is_model_ready("other"))], np.float32)
if what == 9:
    a = self.args
    c = json.loads(a["model_config"])
    keys = ("model_name", "model_version", "model_instance_kind", "model_instance_device_id", "model_instance_name")
    ok = tuple(a[key] for key in keys) == ("m", "1", "CPU", "0", "m_0")
    ok = ok and os.path.basename(a["model_repository"]) == "m"
    ok = ok and c["parameters"]["greeting"]["string_value"] == "hello"
    ok = ok and pb_utils.get_model_dir() == os.path.join(a["model_repository"], "1")
    y = np.array([float(ok)], np.float32)
if what == 10:
    p = json.loads(request.parameters())
    ok = p == {"s": "text", "n": 5, "b": True} and request.request_id() == "id7"
    ok = ok and request.correlation_id() == 9 and request.timeout() == 60000000
    y = np.array([float(ok)], np.float32)
`, `
def initialize(self, args):
    self.args = args
    family = pb_utils.MetricFamily(name="my_count", description="What I count", kind=pb_utils.MetricFamily.COUNTER)
    self.counter = family.Metric(labels={"a": "1"})
    family = pb_utils.MetricFamily
    self.gauge = family(name="my_gauge", description="g", kind=family.GAUGE).Metric(labels={})
    self.histogram = family(name="my_time", description="t", kind=family.HISTOGRAM).Metric(
        labels={"b": "x"}, buckets=[1.0, 10.0])
    self.times = family(name="my_time", description="t", kind=family.HISTOGRAM)
    self.bounded = self.times.Metric(labels={"b": "y"}, buckets=[np.float32(1), np.int64(2), float("inf")])
    self.own = family(name="my_own", description="o", kind=family.COUNTER).Metric(labels={})`),
	}).ready()
	ask := func(n float32) answer { return r.one(request("m", map[string][]float32{"IN": {n}})) }
	text := func() string { return string(r.metrics.Append(nil)) }
	for _, tt := range []struct {
		name  string
		what  float32
		check func(a answer) string // returns what is wrong; "": nothing
	}{
		{"D044 is_model_ready", 8, func(a answer) string { return differ(a.floats("OUT"), 1) }},
		{"D044 unload_model", 1, func(answer) string {
			if ok, _ := r.ModelReady("other", infer.LatestVersion); ok {
				return "the model is ready after it was unloaded"
			}
			return ""
		}},
		{"D044 is_model_ready of one that is not", 8, func(a answer) string { return differ(a.floats("OUT"), 0) }},
		{"D044 load_model", 2, func(answer) string {
			if ok, _ := r.ModelReady("other", infer.LatestVersion); !ok {
				return "the model is not ready after it was loaded"
			}
			return ""
		}},
		{"D048 a counter", 4, func(a answer) string {
			return differ(a.floats("OUT"), 2.5) + lacks(text(),
				"# HELP my_count What I count\n# TYPE my_count counter\nmy_count{a=\"1\"} 2.5\n")
		}},
		{"D048 DV90 a gauge without its family", 5, func(answer) string { return lacks(text(), "my_gauge -7\n") }},
		{"D048 values that JSON does not have", 11, func(a answer) string { return differ(a.floats("OUT"), 1) }},
		{"D048 buckets of numpy with an infinity", 12, func(a answer) string {
			return differ(a.floats("OUT"), 1) + lacks(text(), `my_time_bucket{b="y",le="2"} 0`) +
				lacks(text(), `my_time_bucket{b="y",le="+Inf"} 1`)
		}},
		{"D048 a histogram", 6, func(answer) string {
			return lacks(text(), `my_time_bucket{b="x",le="10"} 1`) +
				lacks(text(), `my_time_bucket{b="x",le="+Inf"} 2`) + lacks(text(), `my_time_sum{b="x"} 303`)
		}},
		{"D047 the log", 7, func(answer) string {
			until(t, "the log has all lines", func() bool {
				return strings.Count(r.log.String(), "said in three ways") == 3 &&
					strings.Contains(r.log.String(), "and printed")
			})
			return lacks(r.log.String(), `level=ERROR msg="said in three ways"`)
		}},
		{"D022 D050 the arguments of initialize", 9, func(a answer) string { return differ(a.floats("OUT"), 1) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(tt.what)
			if a.err != nil {
				t.Fatal(a.err)
			}
			if wrong := tt.check(a); wrong != "" {
				t.Error(wrong)
			}
		})
	}
	t.Run("D044 load_model of a model that is not there", func(t *testing.T) {
		if a := ask(3); a.err == nil || !strings.Contains(a.err.Error(), "nowhere") {
			t.Errorf("%v, want an error that names the model", a.err)
		}
	})
	t.Run("D032 D033 what a request says", func(t *testing.T) {
		q := request("m", map[string][]float32{"IN": {10}})
		q.ID, q.Correlation.Number, q.Timeout = "id7", 9, 60e9
		q.Parameters = []infer.Parameter{{Name: "s", Kind: infer.StringParameter, Text: "text"},
			{Name: "n", Kind: infer.IntParameter, Int: 5}, {Name: "b", Kind: infer.BoolParameter, Bool: true}}
		if a := r.one(q); a.err != nil || differ(a.floats("OUT"), 1) != "" {
			t.Errorf("%v %v", a.floats("OUT"), a.err)
		}
	})
	if err := r.UnloadModel(t.Context(), "m", false); err != nil {
		t.Fatal(err)
	}
	until(t, "metrics go with their model", func() bool { return text() == "" })
}

func differ(got []float32, want float32) string {
	if len(got) != 1 || got[0] != want {
		return fmt.Sprintf("%v, want [%v]; ", got, want)
	}
	return ""
}

func lacks(text, part string) string {
	if strings.Contains(text, part) {
		return ""
	}
	return fmt.Sprintf("%q is not in\n%s", part, text)
}
