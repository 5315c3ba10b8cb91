package python_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Two models with one instance each call each other, for requests of two clients: neither call can begin.
func TestModelsThatWaitForEachOther(t *testing.T) {
	folder := t.TempDir()
	caller := func(self, other string) string {
		return code(`
y = x
if x[0] == 1:
    open(`+strconv.Quote(filepath.Join(folder, self))+`, "w").close()
    while not os.path.exists(`+strconv.Quote(filepath.Join(folder, other))+`):
        time.sleep(0.001)
    call = pb_utils.InferenceRequest(model_name="`+other+`", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x + 1)])
    answer = call.exec()
    if answer.has_error():
        responses.append(pb_utils.InferenceResponse(error=answer.error()))
        continue`, "")
	}
	r := serve(t, nil, map[string]string{
		"a/config.pbtxt": config(""), "a/1/model.py": caller("a", "b"),
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
