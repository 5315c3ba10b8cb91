package python_test

import (
	"context"
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
	"nereid/engine/status"
)

// dyingModel is a model that does what its first number says. OUT is its process's number.
const dyingModel = `
what = int(x[0])
if what == 1: os.kill(os.getpid(), signal.SIGSEGV)
if what == 2: os.kill(os.getpid(), signal.SIGKILL)
if what == 3: os._exit(3)
if what == 4: os.abort()
if what == 5:
    while True: pass
if what == 6: sys.exit("gone")
if what == 7: raise ValueError("not this one")
if what == 8:
    hog = [np.zeros(1 << 26, np.uint8) for _ in range(64)]
if what == 9:
    if os.fork() == 0:
        time.sleep(3600)
if what == 10: os.close(3); time.sleep(3600)
y = np.array([os.getpid()], np.float32)
`

// pidOf waits for a process of the model and returns its number.
func pidOf(t *testing.T, r *rig, model string) int {
	t.Helper()
	var a answer
	until(t, model+" is not being started", func() bool {
		a = r.one(request(model, map[string][]float32{"IN": {0}}))
		return status.CodeOf(a.err) != status.Unavailable
	})
	if a.err != nil || len(a.floats("OUT")) != 1 {
		t.Fatalf("%s does not answer: %v", model, a.err)
	}
	return int(a.floats("OUT")[0])
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestProcessEndFailsOnlyItsRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Run("queued", func(t *testing.T) { testDeaths(t, false) })
	t.Run("on the caller's goroutine", func(t *testing.T) { testDeaths(t, true) })
}

func testDeaths(t *testing.T, waits bool) {
	r := serve(t, map[string]string{"execute-timeout-seconds": "8", "memory-limit-byte-size": "1500000000"},
		map[string]string{
			"m/config.pbtxt":     config(""),
			"m/1/model.py":       code(dyingModel, ""),
			"other/config.pbtxt": config(""),
			"other/1/model.py":   code(dyingModel, ""),
		}).ready()
	r.waits = waits
	other := pidOf(t, r, "other")
	for _, tt := range []struct {
		name string
		what float32
		text string // of the error; "": there is none
		code status.Code
		dies bool
	}{
		{"D056 D2 SIGSEGV", 1, "the process of model instance 'm_0' ended while it had the request: it was ended " +
			"by signal 11", status.Unavailable, true},
		{"D2 SIGKILL", 2, "it was ended by signal 9", status.Unavailable, true},
		{"D2 os._exit", 3, "it ended with exit status 3", status.Unavailable, true},
		{"D2 abort", 4, "it was ended by signal 6", status.Unavailable, true},
		{"D3 an endless loop", 5, "took longer than 8s to execute a batch; its process was ended", status.Unavailable,
			true},
		{"D1 sys.exit", 6, "SystemExit: gone", status.Internal, false},
		{"D1 an exception", 7, "Failed to process the request(s) for model 'm_0', message: ValueError: not this " +
			"one\n\nAt:\n  ", status.Internal, false},
		{"D4 more memory than the limit", 8, "MemoryError", status.Internal, false},
		{"D2 the socket closed", 10, "the process of model instance 'm_0' ended", status.Unavailable, true},
		{"a child that stays behind", 9, "", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := pidOf(t, r, "m")
			start := time.Now()
			a := r.one(request("m", map[string][]float32{"IN": {tt.what}}))
			failed := time.Since(start)
			switch {
			case tt.text == "" && a.err != nil, tt.text != "" &&
				(a.err == nil || !strings.Contains(a.err.Error(), tt.text) || status.CodeOf(a.err) != tt.code):
				t.Errorf("after %v: %v; want %v: …%s…", time.Since(start), a.err, tt.code, tt.text)
			}
			after := pidOf(t, r, "m") // waits for the next process
			if tt.dies {
				t.Logf("failed after %v, answers again after %v", failed, time.Since(start)-failed)
			}
			if (after != before) != tt.dies {
				t.Errorf("the process is %d, and was %d; dies: %v", after, before, tt.dies)
			}
			if tt.dies && alive(before) {
				t.Errorf("process %d is still there", before)
			}
			if ok, _ := r.ModelReady("m", infer.LatestVersion); !ok {
				t.Error("the model is not ready although it answers")
			}
			if now := pidOf(t, r, "other"); now != other {
				t.Errorf("the other model's process is %d and was %d", now, other)
			}
		})
	}
}

// A process ends with its children, and a model that is being restarted is not ready.
func TestRestartedModelIsNotReadyBefore(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
if x[0] == 1:
    import subprocess
    child = subprocess.Popen(["sleep", "3600"])
    y = np.array([child.pid], np.float32)
elif x[0] == 2:
    os._exit(1)
else:
    y = x`, `
def initialize(self, args):
    print("here again")
    while os.path.exists(`+strconv.Quote(gate)+`):
        time.sleep(0.01)`),
	}).ready()
	child := int(r.one(request("m", map[string][]float32{"IN": {1}})).floats("OUT")[0])
	if child == 0 || !alive(child) {
		t.Fatalf("the child is not there: %d", child)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a := r.one(request("m", map[string][]float32{"IN": {2}})); status.CodeOf(a.err) != status.Unavailable {
		t.Errorf("%v, want Unavailable", a.err)
	}
	if ok, _ := r.ModelReady("m", infer.LatestVersion); ok {
		t.Error("the model is ready while its process is being started")
	}
	until(t, "the index says why", func() bool {
		rows := r.RepositoryIndex(false)
		return len(rows) == 1 && rows[0].State == "UNAVAILABLE" &&
			strings.Contains(rows[0].Reason, "is being started again")
	})
	until(t, "the child is gone", func() bool { return !alive(child) })
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	until(t, "it answers after the restart", func() bool {
		a := r.one(request("m", map[string][]float32{"IN": {5}}))
		return a.err == nil && a.floats("OUT")[0] == 5
	})
	m, _ := r.Model("m")
	if all := m.Versions[0].Model.Processes(); len(all) != 1 || all[0].Instance != "m_0" || !alive(all[0].PID) ||
		all[0].Ends != 1 || all[0].Quarantined ||
		all[0].Err != nil || all[0].MemoryBytes < 1<<20 || all[0].Since.IsZero() {
		t.Errorf("the process after the restart: %+v", all)
	}
	until(t, "the output of the new process is there", func() bool { // it does not come by the socket of the answers
		all := m.Versions[0].Model.Processes()
		return len(all) == 1 && slices.Contains(all[0].Output, "here again")
	})
}

// The process of a passive instance, which takes no requests, does not make a model ready.
func TestPassiveInstancesDoNotMakeAModelReady_D056(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	passive := config("instance_group [ { count: 1 passive: true }, { count: 1 } ]")
	r := serve(t, nil, map[string]string{
		"ends/config.pbtxt": passive,
		"ends/1/model.py": code("os._exit(1)", `
def initialize(self, args):
    while os.path.exists(`+strconv.Quote(gate)+`):
        time.sleep(0.01)`),
		"says/config.pbtxt": passive,
		"says/1/model.py": code("y = x", `
def initialize(self, args):
    self.passive = args["model_instance_name"].startswith("says_0")
def is_ready(self):
    return self.passive`),
	})
	if failures := r.StartFailures(); len(failures) > 0 {
		t.Fatal(failures)
	}
	if ok, _ := r.ModelReady("says", infer.LatestVersion); ok {
		t.Error("the answer of the passive instance's is_ready counts")
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = r.one(request("ends", map[string][]float32{"IN": {0}}))
	if ok, _ := r.ModelReady("ends", infer.LatestVersion); ok {
		t.Error("the model is ready while only its passive instance has a process")
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
}

// A model whose process fails to start each time is not started any more after some tries.
func TestProcessThatEndsTooOftenIsNotRestarted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the back-off's time")
	}
	gate := filepath.Join(t.TempDir(), "gate")
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code("os._exit(1)", `
def initialize(self, args):
    if os.path.exists(`+strconv.Quote(gate)+`):
        os._exit(7)`),
	}).ready()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.one(request("m", map[string][]float32{"IN": {0}}))
	until(t, "it is given up", func() bool {
		return strings.Contains(r.log.String(),
			"failed to start too often and is not started again")
	})
	if a := r.one(request("m", map[string][]float32{"IN": {0}})); status.CodeOf(a.err) != status.Unavailable ||
		!strings.Contains(a.err.Error(), "is not started again") {
		t.Errorf("%v, want Unavailable", a.err)
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	r.write("m/1/model.py", code("y = x", ""))
	if err := r.Reload(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if a := r.one(request("m", map[string][]float32{"IN": {5}})); a.err != nil || a.floats("OUT")[0] != 5 {
		t.Errorf("after the reload: %v %v", a.floats("OUT"), a.err)
	}
}

// killedServerVar is the environment variable with which the test program is a server that is to be killed.
const killedServerVar = "NEREID_TEST_LAIR"

// D10: when a server is killed, its models' processes and their children end.
func TestKilledServerLeavesNoProcesses(t *testing.T) {
	if folder := os.Getenv(killedServerVar); folder != "" {
		serveUntilKilled(t, folder)
		return
	}
	interpreter(t)
	folder, objects := t.TempDir(), sharedObjects(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledServerLeavesNoProcesses$")
	cmd.Env = append(os.Environ(), killedServerVar+"="+folder, "TMPDIR="+folder) // a killed process does not clean up
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var pids []int
	until(t, "the server serves", func() bool {
		b, _ := os.ReadFile(filepath.Join(folder, "pids"))
		text, whole := strings.CutSuffix(string(b), "\n")
		select {
		case err := <-ended:
			t.Fatalf("the server ended: %v", err)
		default:
		}
		for _, s := range strings.Fields(text) {
			n, err := strconv.Atoi(s)
			if err == nil && whole {
				pids = append(pids, n)
			}
		}
		return whole
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the server ended by itself")
	}
	if len(pids) != 2 {
		t.Fatalf("the server had processes %v, want a worker and its child", pids)
	}
	t.Run("D10 the processes of a killed server go", func(t *testing.T) {
		began := time.Now()
		for _, pid := range pids {
			until(t, "the process "+strconv.Itoa(pid)+" is gone", func() bool { return !alive(pid) })
		}
		took := time.Since(began)
		t.Logf("gone after %v", took)
		if soak() && took > 2*time.Second { // elsewhere the machine may be busy
			t.Errorf("gone after %v, want at most 2 s", took)
		}
		if n := sharedObjects(t); n > objects {
			t.Errorf("%d objects of shared memory, %d before", n, objects)
		}
	})
}

// serveUntilKilled serves a model with a child until the process is killed.
func serveUntilKilled(t *testing.T, folder string) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
import subprocess
y = np.array([os.getpid(), subprocess.Popen(["sleep", "3600"]).pid], np.float32)`, ""),
	}).ready()
	pids := r.one(request("m", map[string][]float32{"IN": {1}})).floats("OUT")
	text := strconv.Itoa(int(pids[0])) + " " + strconv.Itoa(int(pids[1])) + "\n"
	if err := os.WriteFile(filepath.Join(folder, "new"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(folder, "new"), filepath.Join(folder, "pids")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	<-ctx.Done() // killed before that
}

// A server that stops leaves no process, no descriptor and no file in shared memory.
func TestClosedServerLeavesNothing(t *testing.T) {
	shm := func() map[string]bool {
		entries, err := os.ReadDir("/dev/shm")
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]bool{}
		for _, e := range entries {
			if strings.Contains(e.Name(), "nereid-") {
				all[e.Name()] = true
			}
		}
		return all
	}
	fds := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before, had := shm(), 0
	for i := range 3 {
		r := serve(t, nil, map[string]string{
			"m/config.pbtxt": config("instance_group [ { count: 2 } ]"),
			"m/1/model.py":   code(dyingModel, ""),
		}).ready()
		pid := pidOf(t, r, "m")
		r.stop()
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
		if i == 0 {
			had = fds() // with those that the first use of the runtime opens forever
		}
		until(t, fmt.Sprintf("round %d leaves no more descriptors than the first, %d", i, had),
			func() bool { return fds() <= had })
	}
	for name := range shm() {
		if !before[name] { // others belong to other processes
			until(t, "/dev/shm/"+name+" is gone", func() bool { return !shm()[name] })
		}
	}
}
