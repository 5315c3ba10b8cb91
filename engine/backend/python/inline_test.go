package python_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/engine/status"
)

// Requests that run on the caller's goroutine behave as all others.
func TestInlineExecution(t *testing.T) {
	begun, gate := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "gate")
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
y = np.array([threading.get_native_id() + 0.0], np.float32)
if x[0] == 1:
    open(`+strconv.Quote(begun)+`, "w").close()
    while not request.is_cancelled():
        time.sleep(0.001)
if x[0] == 2:
    open(`+strconv.Quote(begun)+`, "w").close()
    while True:
        pass
if x[0] == 3:
    open(`+strconv.Quote(begun)+`, "w").close()
    os._exit(9)`, `
def initialize(self, args):
    while os.path.exists(`+strconv.Quote(gate)+`):
        time.sleep(0.01)`),
	}).ready()
	r.waits = true
	start := func(ctx context.Context, what float32) <-chan error {
		q, done := request("m", map[string][]float32{"IN": {what}}), make(chan error, 1)
		q.Client = ctx
		go func() {
			defer q.Release()
			err := r.Infer(ctx, q)
			if err == nil {
				resp, nerr := q.Next(context.Background())
				if err = nerr; err == nil {
					err = resp.Err
					resp.Release()
				}
			}
			done <- err
		}()
		until(t, "the execution has begun", func() bool { return os.Remove(begun) == nil })
		return done
	}
	if a := r.one(request("m", map[string][]float32{"IN": {0}})); a.err != nil {
		t.Fatal(a.err)
	}
	t.Run("A23 D033 the client leaves", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		done := start(ctx, 1)
		leave()
		began := time.Now()
		err := <-done // its result does not matter
		t.Logf("noticed after %v: %v", time.Since(began), err)
	})
	t.Run("D2 a death is answered before the next process is there", func(t *testing.T) {
		r.writeAt(gate)
		done := start(t.Context(), 3)
		if err := <-done; status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(),
			"it ended with exit status 9") {
			t.Errorf("%v, want Unavailable", err)
		}
		if ok, _ := r.ModelReady("m", -1); ok {
			t.Error("the model is ready without a process")
		}
		if err := os.Remove(gate); err != nil {
			t.Fatal(err)
		}
		if a := r.one(request("m", map[string][]float32{"IN": {0}})); a.err != nil {
			t.Errorf("the next request: %v", a.err)
		}
	})
	t.Run("D3 an endless loop is ended with the model", func(t *testing.T) {
		done := start(t.Context(), 2)
		if err := r.UnloadModel(t.Context(), "m", false); err != nil {
			t.Fatal(err)
		}
		now, cancel := context.WithCancel(t.Context())
		cancel()
		r.Close(now) // without a drain
		if err := <-done; status.CodeOf(err) != status.Unavailable {
			t.Errorf("%v, want Unavailable", err)
		}
	})
}
