package python_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// graph returns an ensemble of one model, with the same inputs and outputs.
func graph(model, more string) string {
	return strings.Replace(config(more), `backend: "python"`, `platform: "ensemble"`, 1) + `
ensemble_scheduling { step [ { model_name: "` + model +
		`" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } ] }`
}

// meeting returns the body of a model. With the input 1 it waits until all models that meet in the folder do so too,
// and then calls another model with 2. With other inputs it responds at once.
func meeting(folder, self, calls string, others ...string) string {
	body := `
y = x
if x[0] == 1:
    open(` + strconv.Quote(filepath.Join(folder, self)) + `, "w").close()
    while not all(os.path.exists(os.path.join(` + strconv.Quote(folder) + `, name)) for name in ` + list(others) + `):
        time.sleep(0.001)
    answer = pb_utils.InferenceRequest(model_name="` + calls +
		`", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x + 1)]).exec()
    if answer.has_error():
        responses.append(pb_utils.InferenceResponse(error=answer.error()))
        continue`
	return code(body, "")
}

func list(names []string) string {
	for i, n := range names {
		names[i] = strconv.Quote(n)
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// meet starts a client's request in each of the models at once. All must be answered, at least one of them with an
// error that has text. Afterwards all models must be ready.
func meet(t *testing.T, r *rig, text string, models ...string) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	failed := 0
	for _, model := range models {
		wg.Go(func() {
			a := r.one(request(model, map[string][]float32{"IN": {1}}))
			mu.Lock()
			defer mu.Unlock()
			if a.err == nil {
				return
			}
			failed++
			if !strings.Contains(a.err.Error(), text) {
				t.Errorf("%s: %v; want …%s…", model, a.err, text)
			}
		})
	}
	wg.Wait()
	if failed == 0 {
		t.Error("all were answered")
	}
	for _, model := range models {
		if a := r.one(request(model, map[string][]float32{"IN": {5}})); a.err != nil {
			t.Errorf("%s afterwards: %v", model, a.err)
		}
	}
}

// Cycles through ensembles are found.
func TestCyclesThroughEnsembles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Run("D9 D040 one ensemble", func(t *testing.T) {
		folder := t.TempDir()
		r := serve(t, nil, map[string]string{
			"a/config.pbtxt": config(""), "a/1/model.py": meeting(folder, "a", "e", "b"),
			"b/config.pbtxt": config(""), "b/1/model.py": meeting(folder, "b", "a", "a"),
			"e/1/.keep": "", "e/config.pbtxt": graph("b", ""),
		}).ready()
		meet(t, r, "the models 'a' and 'b' wait for each other", "a", "b")
	})
	t.Run("D9 D040 ensembles of ensembles, and three models", func(t *testing.T) {
		folder := t.TempDir()
		r := serve(t, nil, map[string]string{
			"a/config.pbtxt": config(""), "a/1/model.py": meeting(folder, "a", "outer", "b", "c"),
			"b/config.pbtxt": config(""), "b/1/model.py": meeting(folder, "b", "f", "a", "c"),
			"c/config.pbtxt": config(""), "c/1/model.py": meeting(folder, "c", "a", "a", "b"),
			"inner/1/.keep": "", "inner/config.pbtxt": graph("b", ""),
			"outer/1/.keep": "", "outer/config.pbtxt": graph("inner", ""),
			"f/1/.keep": "", "f/config.pbtxt": graph("c", ""),
		}).ready()
		meet(t, r, "the models 'a' and 'b' and 'c' wait for each other", "a", "b", "c")
	})
	// The ensemble runs one request at a time. That one is executed by b, whose call waits for a; and a waits for the
	// ensemble.
	t.Run("D9 D040 a place in an ensemble", func(t *testing.T) {
		folder := t.TempDir()
		r := serve(t, nil, map[string]string{
			"a/config.pbtxt": config(""), "a/1/model.py": meeting(folder, "a", "e", "b"),
			"b/config.pbtxt": config("instance_group [ { count: 2 } ]"), "b/1/model.py": meeting(folder, "b", "a", "a"),
			"e/1/.keep": "", "e/config.pbtxt": strings.Replace(graph("b", ""), "ensemble_scheduling {",
				"ensemble_scheduling { max_inflight_requests: 1", 1),
		}).ready()
		meet(t, r, "wait for each other", "a", "e")
	})
	// A thread of d sends the stream that a reads. The execution of d is over.
	t.Run("D9 D041 a thread of a decoupled model", func(t *testing.T) {
		folder := t.TempDir()
		r := serve(t, nil, map[string]string{
			"a/config.pbtxt": config(""), "a/1/model.py": strings.Replace(strings.Replace(meeting(folder, "a", "d",
				"b"),
				").exec()", ").exec(decoupled=True)", 1), "    if answer.has_error()",
				"    answer = next(iter(answer))\n                if answer.has_error()", 1),
			"b/config.pbtxt": config(""), "b/1/model.py": meeting(folder, "b", "a", "a"),
			"d/config.pbtxt": config("model_transaction_policy { decoupled: true }"),
			"d/1/model.py": `import threading
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.answer, args=(request,)).start()
    def answer(self, request):
        tensor = pb_utils.get_input_tensor_by_name(request, "IN")
        answer = pb_utils.InferenceRequest(model_name="b", requested_output_names=["OUT"], inputs=[tensor]).exec()
        request.get_response_sender().send(answer, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
		}).ready()
		meet(t, r, "the models 'a' and 'b' and 'd' wait for each other", "a", "b")
	})
}

// A call that no code waits for blocks nothing. It is executed in its turn, also by the instance that made it.
func TestUnawaitedCallsAreNotCancelled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	folder := t.TempDir()
	at := func(name string) string { return strconv.Quote(filepath.Join(folder, name)) }
	const call = `pb_utils.InferenceRequest(model_name="m", requested_output_names=["OUT"], ` +
		`inputs=[pb_utils.Tensor("IN", x + 1)])`
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
import asyncio
y = x
async def begin(q): q.async_exec()
async def wait(q): return await q.async_exec()
def answered(q):
    answer = q.exec()
    if not answer.has_error(): open(`+at("thread")+`, "w").close()
if x[0] % 10 == 2: open(os.path.join(`+strconv.Quote(folder)+`, "called-%d" % x[0]), "w").close()
if x[0] == 1: asyncio.run(begin(`+call+`))
if x[0] == 11:
    asyncio.run(begin(`+call+`))
    while not os.path.exists(`+at("go on")+`): time.sleep(0.001)
if x[0] == 21: threading.Thread(target=answered, args=(`+call+`,)).start()
if x[0] == 31:
    answer = asyncio.run(wait(`+call+`))
    if answer.has_error():
        responses.append(pb_utils.InferenceResponse(error=answer.error()))
        continue
if x[0] == 41:
    made = []
    thread = threading.Thread(target=lambda: made.append(`+call+`.exec()))
    thread.start()
    thread.join()
    if made[0].has_error():
        responses.append(pb_utils.InferenceResponse(error=made[0].error()))
        continue
`, ""),
	}).ready()
	good := func(t *testing.T, v float32) {
		t.Helper()
		if a := r.one(request("m", map[string][]float32{"IN": {v}})); a.err != nil || a.floats("OUT")[0] != v {
			t.Errorf("%v: %v, %v", v, a.floats("OUT"), a.err)
		}
	}
	there := func(t *testing.T, name string) {
		t.Helper()
		until(t, name+" is there", func() bool {
			all, err := filepath.Glob(filepath.Join(folder, name))
			return err == nil && len(all) > 0
		})
	}
	t.Run("D040 async_exec without await", func(t *testing.T) {
		good(t, 1)
		there(t, "called-2")
	})
	t.Run("D040 async_exec without await, in a long execution", func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			good(t, 11)
		}()
		until(t, "it was checked more often than a cycle needs", func() bool {
			return strings.Count(r.log.String(), "a model's call is not answered yet") > 4
		})
		r.writeAt(filepath.Join(folder, "go on"))
		<-done
		there(t, "called-12")
	})
	t.Run("D040 async_exec without await, of requests that come together", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					good(t, 1)
				}
			})
		}
		wg.Wait()
	})
	t.Run("D040 exec on a thread that no code waits for", func(t *testing.T) {
		good(t, 21)
		there(t, "thread")
	})
	for name, v := range map[string]float32{"D9 D040 async_exec with await": 31,
		"D9 D040 exec on a thread that is waited for": 41} {
		t.Run(name, func(t *testing.T) {
			if a := r.one(request("m", map[string][]float32{"IN": {v}})); a.err == nil ||
				!strings.Contains(a.err.Error(), "the model 'm' waits for itself") {
				t.Errorf("%v, %v; want an error", a.floats("OUT"), a.err)
			}
		})
	}
	good(t, 5)
}
