package python_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nereid/engine"
)

// A model whose initialize or finalize never ends does not delay other models, and its process can be ended.
func TestEndlessInitializeAndFinalize(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	folder := t.TempDir()
	endless := func(method, file string) string {
		return `
def ` + method + `:
    with open(` + strconv.Quote(filepath.Join(folder, file)) + `, "w") as f:
        f.write("%d\n" % os.getpid())
    while True: pass`
	}
	begun := func(t *testing.T, file string) (pid int) {
		t.Helper()
		until(t, file+" has begun", func() bool {
			b, err := os.ReadFile(filepath.Join(folder, file))
			text, whole := strings.CutSuffix(string(b), "\n")
			if err != nil || !whole {
				return false
			}
			pid, err = strconv.Atoi(text)
			return err == nil
		})
		return pid
	}
	r := serve(t, map[string]string{"stub-timeout-seconds": "10"}, map[string]string{
		"m/config.pbtxt":     config(""),
		"m/1/model.py":       code("y = x", endless("finalize(self)", "finalize")),
		"other/config.pbtxt": config(""),
		"other/1/model.py":   code(dyingModel, ""),
	}).ready()
	r.write("n/config.pbtxt", config(""))
	r.write("n/1/model.py", code("y = x", endless("initialize(self, args)", "initialize")))
	healthy := func(t *testing.T) {
		t.Helper()
		if !r.Live() {
			t.Error("the server is not live")
		}
		pidOf(t, r, "other")
	}
	if err := r.UnloadModel(t.Context(), "m", false); err != nil {
		t.Fatal(err)
	}
	leaving := begun(t, "finalize") // continues during the rest of the test
	t.Run("D3 initialize without an end", func(t *testing.T) {
		ctx, giveUp := context.WithCancel(t.Context())
		loaded := make(chan error, 1)
		go func() { loaded <- r.LoadModel(ctx, "n", engine.LoadParameters{}) }()
		pid := begun(t, "initialize")
		healthy(t)
		giveUp()
		if err := <-loaded; err == nil || !strings.Contains(err.Error(), "context canceled") {
			t.Errorf("LoadModel = %v, want that it was given up", err)
		}
		until(t, "the process is gone", func() bool { return !alive(pid) })
		healthy(t)
	})
	t.Run("D3 finalize without an end", func(t *testing.T) {
		healthy(t)
		until(t, "the process is gone", func() bool { return !alive(leaving) })
		healthy(t)
	})
}
