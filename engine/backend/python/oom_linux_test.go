package python_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/worker/workertest"
)

// outOfMemoryVar is the environment variable with which the test program serves models in a control group that runs out
// of memory.
const outOfMemoryVar = "NEREID_TEST_CROWDED"

// groupBytes is the memory of that group. The test program and two models need much less, also with the race
// detector.
const groupBytes = 1 << 30

// D4: when memory runs out, the kernel kills the model's process that uses it, and neither the server nor another
// model. TestProcessEndFailsOnlyItsRequests has the case of a process that reaches its own limit.
func TestOutOfMemoryEndsOnlyTheModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if procs := os.Getenv(outOfMemoryVar); procs != "" {
		t.Run("D4 the kernel kills a process when memory is full", func(t *testing.T) { serveOutOfMemory(t, procs) })
		return
	}
	interpreter(t)
	group, err := workertest.NewGroup("nereid-test-"+strconv.Itoa(os.Getpid()), groupBytes)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { until(t, "the control group is gone", func() bool { return group.Remove() == nil }) })
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOutOfMemoryEndsOnlyTheModel$", "-test.v",
		"-test.timeout=5m")
	cmd.WaitDelay = 10 * time.Second // for a process that outlives the test program and has its output open
	cmd.Env = append(os.Environ(), outOfMemoryVar+"="+group.Procs())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOutOfMemoryEndsOnlyTheModel/D4") {
		t.Fatalf("the server of the control group: %v\n%s", err, out)
	}
}

// serveOutOfMemory serves two models in a control group. One of them allocates all memory.
func serveOutOfMemory(t *testing.T, procs string) {
	if err := os.WriteFile(procs, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	hungry := strings.Replace(dyingModel, "what = int(x[0])", `what = int(x[0])
if what == 20: hog = [np.ones(1 << 24, np.uint8) for _ in range(1 << 12)]`, 1)
	r := serve(t, map[string]string{"memory-limit-byte-size": strconv.Itoa(1 << 50)}, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(hungry, `
def initialize(self, args):
    while os.path.exists(`+strconv.Quote(gate)+`):
        time.sleep(0.01)`),
		"other/config.pbtxt": config(""),
		"other/1/model.py":   code(dyingModel, ""),
	}).ready()
	before, other := pidOf(t, r, "m"), pidOf(t, r, "other")
	server, worker := score(t, os.Getpid()), score(t, before)
	if worker <= server && server < 1000 {
		t.Errorf("the kernel would end the server (oom_score_adj %d) before a model's process (%d)", server, worker)
	}
	r.writeAt(gate)
	a := r.one(request("m", map[string][]float32{"IN": {20}}))
	if status.CodeOf(a.err) != status.Unavailable || !strings.Contains(fmt.Sprint(a.err),
		"it was ended by signal 9 (killed): out of memory: the kernel ended it, when it had ") {
		t.Errorf("the request that took the memory: %v; want Unavailable, out of memory", a.err)
	}
	if ok, _ := r.ModelReady("m", infer.LatestVersion); ok {
		t.Error("the model is ready while its process is being started")
	}
	until(t, "the index says why", func() bool {
		return slices.ContainsFunc(r.RepositoryIndex(false),
			func(row *inferencepb.RepositoryIndexResponse_ModelIndex) bool {
				return row.Name == "m" && row.State == "UNAVAILABLE" && strings.Contains(row.Reason, "out of memory")
			})
	})
	if now := pidOf(t, r, "other"); now != other {
		t.Errorf("the other model's process is %d and was %d", now, other)
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	after := pidOf(t, r, "m")
	if after == before || alive(before) {
		t.Errorf("the process is %d and was %d, which is there: %v", after, before, alive(before))
	}
	if ok, _ := r.ModelReady("m", infer.LatestVersion); !ok {
		t.Error("the model is not ready although it answers")
	}
	// The next end has another reason, which is reported.
	if a := r.one(request("m", map[string][]float32{"IN": {2}})); a.err == nil || strings.Contains(a.err.Error(),
		"out of memory") {
		t.Errorf("a process that ends itself by SIGKILL: %v", a.err)
	}
}

// When the kernel has to kill a process because memory has run out, it prefers those of models.
func TestKernelKillsModelsBeforeTheServer(t *testing.T) {
	r := serve(t, nil, map[string]string{"m/config.pbtxt": config(""), "m/1/model.py": code(dyingModel, "")}).ready()
	t.Run("D4 the kernel takes a model's process first", func(t *testing.T) {
		server, worker := score(t, os.Getpid()), score(t, pidOf(t, r, "m"))
		if worker <= server && server < 1000 {
			t.Errorf("oom_score_adj is %d for the model's process and %d for the server", worker, server)
		}
	})
}

// score returns a process's oom_score_adj.
func score(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
