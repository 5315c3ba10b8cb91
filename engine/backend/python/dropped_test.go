package python_test

import (
	"context"
	"strings"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/status"
)

const breakOffHelpers = `import asyncio, threading
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

def answer(request, flags=0):
    out = pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())
    request.get_response_sender().send(pb_utils.InferenceResponse([out]), flags)

`

// breakOffTasks answers in coroutines; an input says what a request does.
const breakOffTasks = breakOffHelpers + `
class TritonPythonModel:
    def initialize(self, args):
        self.tasks = set()

    async def one(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        await asyncio.sleep(0)
        if x[0] == 2:
            answer(request)
        if x[0] in (1, 2, 9):
            raise ValueError("task of %d" % x.flat[0])
        if x[0] == 3:
            raise SystemExit(7)
        if x[0] == 4:
            return
        if x[0] == 5:
            answer(request)
            return
        answer(request, FINAL)

    async def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if x[0] == 6:
                await self.one(request)
                raise ValueError("after the last response")
            if x[0] == 7:
                await asyncio.sleep(0)
                raise ValueError("in execute")
            if x[0] == 8:
                raise KeyboardInterrupt()
            if x[0] == 9:
                await asyncio.gather(self.one(request), return_exceptions=True)
                answer(request, FINAL)
                continue
            task = asyncio.ensure_future(self.one(request))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
`
const breakOffThreads = breakOffHelpers + `
def work(request):
    x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
    if x[0] == 11:
        raise ValueError("in a thread")
    answer(request, FINAL)

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if x[0] != 10:
                threading.Thread(target=work, args=(request,)).start()
`

// answersOf returns the number of responses with outputs, and the error among them.
func answersOf(all []answer) (n int, err error) {
	for _, a := range all {
		if len(a.outputs) > 0 {
			n++
		}
		if a.err != nil {
			err = a.err
		}
	}
	return n, err
}

// A request of a decoupled model ends with an error when no code can answer it any more. The others of its batch are
// answered.
func TestDecoupledModelsThatBreakOff(t *testing.T) {
	decoupled := config("model_transaction_policy { decoupled: true }")
	r := serve(t, nil, map[string]string{
		"async/config.pbtxt": decoupled, "async/1/model.py": breakOffTasks,
		"batch/config.pbtxt": decoupled +
			"max_batch_size: 3 dynamic_batching { max_queue_delay_microseconds: 60000000 }",
		"batch/1/model.py":  breakOffTasks,
		"sync/config.pbtxt": decoupled, "sync/1/model.py": breakOffThreads,
	}).ready()
	for _, tt := range []struct {
		name, model string
		in          float32
		responses   int    // before the end
		err         string // of the end; "": it has none
	}{
		{"a task", "async", 1, 0, "task of 1"},
		{"a task that has answered", "async", 2, 1, "task of 2"},
		{"a task that exits", "async", 3, 0, "SystemExit: 7"},
		{"a task that gives up", "async", 4, 0, "no final response"},
		{"a task without a final response", "async", 5, 1, ""},
		{"after the final response", "async", 6, 1, ""},
		{"execute", "async", 7, 0, "in execute"},
		{"execute is interrupted", "async", 8, 0, "KeyboardInterrupt"},
		{"the model goes on", "async", 9, 1, ""},
		{"nothing", "sync", 10, 0, "no final response"},
		{"a thread", "sync", 11, 0, "in a thread"},
		{"a thread that answers", "sync", 12, 1, ""},
	} {
		t.Run("D038 "+tt.name, func(t *testing.T) {
			n, err := answersOf(r.all(request(tt.model, map[string][]float32{"IN": {tt.in}})))
			if n != tt.responses || (err == nil) != (tt.err == "") {
				t.Fatalf("%d responses and the error %v, want %d and %q", n, err, tt.responses, tt.err)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.err) || status.CodeOf(err) != status.Internal) {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
		})
	}
	t.Run("D038 the others of the batch", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		var all []*infer.Request
		for _, v := range []float32{0, 1, 0} {
			q := request("batch", map[string][]float32{"IN": {v}})
			q.Inputs[0].Shape = []int64{1, 1}
			if err := r.Infer(ctx, q); err != nil {
				t.Fatal(err)
			}
			all = append(all, q)
		}
		for i, q := range all {
			resp, err := q.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if (resp.Err != nil) != (i == 1) {
				t.Errorf("request %d has the error %v", i, resp.Err)
			}
			resp.Release()
			q.Release()
		}
	})
}
