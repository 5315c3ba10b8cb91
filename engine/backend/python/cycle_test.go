package python_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Two models with one instance each call each other, for requests of two clients. Neither call can begin.
func TestModelsThatWaitForEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	folder := t.TempDir()
	caller := func(self, other string) string {
		return code(`
y = x
if x[0] == 1:
    open(`+strconv.Quote(filepath.Join(folder, self))+`, "w").close()
    while not os.path.exists(`+strconv.Quote(filepath.Join(folder, other))+`):
        time.sleep(0.001)
    call = pb_utils.InferenceRequest(model_name="`+other+
			`", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x + 1)])
    answer = call.exec()
    if answer.has_error():
        responses.append(pb_utils.InferenceResponse(error=answer.error()))
        continue`, "")
	}
	passive := "instance_group [ { count: 1 }, { count: 1 passive: true } ]" // the second one executes no call
	r := serve(t, nil, map[string]string{
		"a/config.pbtxt": config(passive), "a/1/model.py": caller("a", "b"),
		"b/config.pbtxt": config(""), "b/1/model.py": caller("b", "a"),
	}).ready()
	answers := map[string]answer{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, model := range []string{"a", "b"} {
		wg.Go(func() {
			a := r.one(request(model, map[string][]float32{"IN": {1}}))
			mu.Lock()
			defer mu.Unlock()
			answers[model] = a
		})
	}
	wg.Wait()
	t.Run("D9 D040 calls that wait for each other are broken off", func(t *testing.T) {
		failed := 0
		for model, a := range answers {
			if a.err == nil {
				continue
			}
			failed++
			if !strings.Contains(a.err.Error(), "the models 'a' and 'b' wait for each other") {
				t.Errorf("%s: %v", model, a.err)
			}
		}
		if failed == 0 {
			t.Error("both were answered")
		}
	})
	for _, model := range []string{"a", "b"} {
		if a := r.one(request(model, map[string][]float32{"IN": {5}})); a.err != nil {
			t.Errorf("%s afterwards: %v", model, a.err)
		}
	}
}

// A cycle of three models: two calls wait for executions, and one for a call that waits. One call is cancelled, and
// then all requests are answered.
func TestThreeModelsThatWaitForEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	folder := t.TempDir()
	caller := func(begins, waits, next string) string {
		body := ""
		if begins != "" {
			body = `
if x[0] == 1:
    open(` + strconv.Quote(filepath.Join(folder, begins)) + `, "w").close()
    while not os.path.exists(` + strconv.Quote(filepath.Join(folder, waits)) + `):
        time.sleep(0.001)`
		}
		return code(`
y = x`+body+`
if x[0] < 9:
    call = pb_utils.InferenceRequest(model_name="`+next+
			`", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x + 1)])
    answer = call.exec()
    if answer.has_error():
        responses.append(pb_utils.InferenceResponse(error=answer.error()))
        continue`, "")
	}
	r := serve(t, nil, map[string]string{
		"a/config.pbtxt": config(""), "a/1/model.py": caller("a", "c", "b"),
		"b/config.pbtxt": config(""), "b/1/model.py": caller("", "", "c"),
		"c/config.pbtxt": config(""), "c/1/model.py": caller("c", "a", "a"),
	}).ready()
	answers := make(chan answer, 2)
	for _, model := range []string{"a", "c"} {
		go func() { answers <- r.one(request(model, map[string][]float32{"IN": {1}})) }()
	}
	t.Run("D9 a cycle of three models is broken", func(t *testing.T) {
		for range 2 {
			// One fails because of the cycle. By then the other may call a model that waits for it.
			if a := <-answers; a.err == nil || !strings.Contains(a.err.Error(),
				"wait for each other") && !strings.Contains(a.err.Error(), "would wait for itself") {
				t.Errorf("%v, %v; want an error about the cycle", a.floats("OUT"), a.err)
			}
		}
	})
	for _, model := range []string{"a", "b", "c"} {
		if a := r.one(request(model, map[string][]float32{"IN": {9}})); a.err != nil {
			t.Errorf("%s afterwards: %v", model, a.err)
		}
	}
}

// A call is not queued behind requests that wait for its response while another instance is free. Requests in a series
// (see TestSeries) hold only the instances that they would hold one by one.
func TestSeriesDoesNotDelayCallsToItsModel(t *testing.T) {
	call := func(model string) string {
		return code(`
y = x
if x[0] == 1:
    answer = pb_utils.InferenceRequest(model_name="`+model+
			`", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x * 0)]).exec()
    if answer.has_error():
        responses.append(pb_utils.InferenceResponse(error=answer.error()))
        continue`, "")
	}
	r := serve(t, nil, map[string]string{
		"a/config.pbtxt": config("instance_group [ { count: 2 } ]"), "a/1/model.py": call("b"),
		"b/config.pbtxt": config(""), "b/1/model.py": call("a"),
	}).ready()
	// One request holds an instance of a while it waits for b, and one holds b's instance while it waits for a. The
	// other instance of a serves that call. The other requests make a's queue long.
	var wg sync.WaitGroup
	for _, client := range []struct {
		model string
		in    float32
		n     int
	}{{"a", 1, 1}, {"b", 1, 1}, {"a", 0, 24}} {
		for range client.n {
			wg.Go(func() {
				for range 300 {
					a := r.one(request(client.model, map[string][]float32{"IN": {client.in}}))
					if a.err != nil {
						t.Errorf("%s with %v: %v", client.model, client.in, a.err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// Cycles through an ensemble are found too.
func TestModelThatCallsItselfThroughAnEnsemble(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
y = x
if x[0] > 0:
    answer = pb_utils.InferenceRequest(model_name="e", requested_output_names=["OUT"],
        inputs=[pb_utils.Tensor("IN", x - 1)]).exec()
    if answer.has_error():
        responses.append(pb_utils.InferenceResponse(error=answer.error()))
        continue
    y = pb_utils.get_output_tensor_by_name(answer, "OUT").as_numpy() + 10`, ""),
		"e/1/.keep": "",
		"e/config.pbtxt": strings.Replace(config(""), `backend: "python"`, `platform: "ensemble"`, 1) + `
ensemble_scheduling { step [ { model_name: "m" model_version: -1
	input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } ] }`,
	}).ready()
	t.Run("D9 a model that calls itself through an ensemble", func(t *testing.T) {
		if a := r.one(request("m", map[string][]float32{"IN": {1}})); a.err == nil || !strings.Contains(a.err.Error(),
			"would wait for itself") {
			t.Errorf("%v, %v; want an error", a.floats("OUT"), a.err)
		}
	})
	if a := r.one(request("e", map[string][]float32{"IN": {0}})); a.err != nil {
		t.Errorf("afterwards: %v", a.err)
	}
}

func TestIsReady(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	sync := `
def is_ready(self):
    return os.path.exists(` + strconv.Quote(gate) + `)`
	r := serve(t, nil, map[string]string{
		"plain/config.pbtxt":  config(""),
		"plain/1/model.py":    code("y = x", sync),
		"async/config.pbtxt":  config(""),
		"async/1/model.py":    code("y = x", strings.Replace(sync, "def is_ready", "async def is_ready", 1)),
		"wrong/config.pbtxt":  config(""),
		"wrong/1/model.py":    code("y = x", "def is_ready(self): return 5"),
		"raises/config.pbtxt": config(""),
		"raises/1/model.py":   code("y = x", "def is_ready(self): raise ValueError()"),
		"none/config.pbtxt":   config(""),
		"none/1/model.py":     code("y = x", ""),
	}).ready()
	check := func(want map[string]bool) {
		t.Helper()
		for model, ready := range want {
			if got, err := r.ModelReady(model, -1); err != nil || got != ready {
				t.Errorf("%s is ready: %v, %v; want %v", model, got, err, ready)
			}
		}
	}
	t.Run("D021 is_ready says no", func(t *testing.T) {
		check(map[string]bool{"plain": false, "async": false, "wrong": false, "raises": false, "none": true})
	})
	r.writeAt(gate)
	t.Run("D021 is_ready says yes", func(t *testing.T) {
		check(map[string]bool{"plain": true, "async": true, "wrong": false, "raises": false})
	})
}
