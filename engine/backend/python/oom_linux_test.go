package python_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// crowded is the environment variable by which the test program serves models in a control group whose memory ends.
const crowded = "NEREID_TEST_CROWDED"

// crowd is the memory of that group: what the test program, with the race detector too, and two models need is far less.
const crowd = 1 << 30

// D4: where memory ends, the kernel ends the model's process that takes it, and neither the server nor another model. The
// case of a limit that the process is given is in TestDeaths and needs no control group.
func TestOutOfMemory(t *testing.T) {
	if group := os.Getenv(crowded); group != "" {
		t.Run("D4 the kernel ends a process for want of memory", func(t *testing.T) { inCrowd(t, group) })
		return
	}
	interpreter(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOutOfMemory$", "-test.v")
	cmd.Env = append(os.Environ(), crowded+"="+memoryGroup(t, crowd))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestOutOfMemory/D4") {
		t.Fatalf("the server of the control group: %v\n%s", err, out)
	}
}

// memoryGroup makes a control group that has so many bytes. It skips where that is not allowed.
func memoryGroup(t *testing.T, most int64) string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skipf("this kernel has no control groups: %v", err)
	}
	root, path, limit := "/sys/fs/cgroup", "/", "memory.max"
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if slices.Contains(strings.Split(parts[1], ","), "memory") {
			root, path, limit = "/sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"
			break
		}
		if parts[0] == "0" {
			path = parts[2]
		}
	}
	var errs []error
	for ; ; path = filepath.Dir(path) { // one with processes of its own gives no memory to groups in it, its parents may
		outer := filepath.Join(root, path)
		_ = os.WriteFile(filepath.Join(outer, "cgroup.subtree_control"), []byte("+memory"), 0) // version 1 has none; else the limit says so
		group := filepath.Join(outer, "nereid-test-"+strconv.Itoa(os.Getpid()))
		err := os.Mkdir(group, 0o755)
		if err == nil {
			t.Cleanup(func() {
				until(t, "the control group is empty", func() bool { return os.Remove(group) == nil || !exists(group) })
			})
			err = os.WriteFile(filepath.Join(group, limit), []byte(strconv.FormatInt(most, 10)), 0)
		}
		if err == nil {
			// Swapping would only make it slow. Not every kernel counts it.
			_ = os.WriteFile(filepath.Join(group, "memory.swap.max"), []byte("0"), 0)
			_ = os.WriteFile(filepath.Join(group, "memory.memsw.limit_in_bytes"), []byte(strconv.FormatInt(most, 10)), 0)
			return group
		}
		if errs = append(errs, err); path == "/" {
			t.Skipf("no control group with a limit of memory can be made here, which takes root's rights or a delegated group: %v", errors.Join(errs...))
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// inCrowd serves two models in a control group, of which one takes all the memory that there is.
func inCrowd(t *testing.T, group string) {
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	hungry := strings.Replace(mortal, "what = int(x[0])", `what = int(x[0])
if what == 20: hog = [np.ones(1 << 24, np.uint8) for _ in range(1 << 12)]`, 1)
	r := serve(t, map[string]string{"memory-limit-byte-size": strconv.Itoa(1 << 50)}, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(hungry, `
def initialize(self, args):
    while os.path.exists(`+strconv.Quote(gate)+`):
        time.sleep(0.01)`),
		"other/config.pbtxt": config(""),
		"other/1/model.py":   code(mortal, ""),
	}).ready()
	before, other := pidOf(t, r, "m"), pidOf(t, r, "other")
	server, worker := score(t, os.Getpid()), score(t, before)
	if worker <= server && server < 1000 {
		t.Errorf("the kernel would end the server (oom_score_adj %d) before a model's process (%d)", server, worker)
	}
	r.writeAt(gate)
	a := r.one(request("m", map[string][]float32{"IN": {20}}))
	if status.CodeOf(a.err) != status.Unavailable || !strings.Contains(fmt.Sprint(a.err), "it was ended by signal 9 (killed): out of memory: the kernel ended it, when it had ") {
		t.Errorf("the request that took the memory: %v; want Unavailable, out of memory", a.err)
	}
	if ok, _ := r.ModelReady("m", infer.LatestVersion); ok {
		t.Error("the model is ready while its process is being started")
	}
	until(t, "the index says why", func() bool {
		return slices.ContainsFunc(r.RepositoryIndex(false), func(row *inferencepb.RepositoryIndexResponse_ModelIndex) bool {
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
	// The next end is told of as what it is.
	if a := r.one(request("m", map[string][]float32{"IN": {2}})); a.err == nil || strings.Contains(a.err.Error(), "out of memory") {
		t.Errorf("a process that ends itself by SIGKILL: %v", a.err)
	}
}

// Where the kernel has to end a process for want of memory, it begins with models'.
func TestModelsEndBeforeTheServer(t *testing.T) {
	r := serve(t, nil, map[string]string{"m/config.pbtxt": config(""), "m/1/model.py": code(mortal, "")}).ready()
	t.Run("D4 the kernel takes a model's process first", func(t *testing.T) {
		server, worker := score(t, os.Getpid()), score(t, pidOf(t, r, "m"))
		if worker <= server && server < 1000 {
			t.Errorf("oom_score_adj is %d for the model's process and %d for the server", worker, server)
		}
	})
}

// score reads a process's oom_score_adj.
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
