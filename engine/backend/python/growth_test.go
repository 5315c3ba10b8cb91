package python_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nereid/engine/infer"
)

// soak reports whether the long cases run at full length, as in make soak.
func soak() bool { return os.Getenv("NEREID_SOAK") == "full" }

// footprint is what a process uses.
type footprint struct {
	rss, shared int64 // KiB; shared: of shared memory
	files       int
}

func (f footprint) String() string {
	return fmt.Sprintf("RSS %d KiB, of it shared %d KiB, %d descriptors", f.rss, f.shared, f.files)
}

// footprintOf reads the footprint of a process. Source of the format: proc(5).
func footprintOf(t *testing.T, pid int) footprint {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		t.Fatal(err)
	}
	var f footprint
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(fields[1], 10, 64) // only lines with a number are used
		switch fields[0] {
		case "VmRSS:":
			f.rss = n
		case "RssShmem:":
			f.shared = n
		}
	}
	entries, err := os.ReadDir(dir + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	f.files = len(entries)
	return f
}

// within fails the test if a process's memory has grown by more than KiB, or it has more descriptors, and both stay so
// for some time: what was closed last may take a moment to be released.
func (f footprint) within(t *testing.T, who string, pid int, kib int64) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(long); ; <-tick.C {
		now := footprintOf(t, pid)
		if now.rss <= f.rss+kib && now.shared <= f.shared+kib && now.files <= f.files {
			t.Logf("%s: %v; before: %v", who, now, f)
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s has grown: %v; before: %v", who, now, f)
			return
		}
	}
}

// sharedObjects returns the names of the objects in the system's shared memory.
func sharedObjects(t *testing.T) int {
	t.Helper()
	entries, err := filepath.Glob("/dev/shm/*nereid*")
	if err != nil {
		t.Fatal(err)
	}
	entries = slices.DeleteFunc(entries, func(path string) bool { // of other packages' tests
		return strings.HasPrefix(filepath.Base(path), "nereid_test_")
	})
	return len(entries)
}

// Loading and unloading many times leaks nothing.
func TestLoadCycles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cycles, first := 20, 5
	if soak() {
		cycles, first = 200, 20
	}
	r := serve(t, nil, map[string]string{"m/config.pbtxt": config(""), "m/1/model.py": code("y = x * 2", "")}).ready()
	unload := func() {
		if err := r.UnloadModel(t.Context(), "m", false); err != nil {
			t.Fatal(err)
		}
		until(t, "it is unloaded", func() bool {
			s, _ := r.Model("m")
			return s.Versions[0].State == "UNAVAILABLE"
		})
	}
	in := make([]float32, 100000)
	objects := sharedObjects(t)
	var before footprint
	var start, stop []time.Duration
	for i := range cycles {
		began := time.Now()
		unload()
		stop = append(stop, time.Since(began))
		if i == first {
			debug.FreeOSMemory()
			before = footprintOf(t, os.Getpid())
		}
		began = time.Now()
		if err := r.Reload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		start = append(start, time.Since(began))
		in[0] = float32(i)
		if a := r.one(request("m", map[string][]float32{"IN": in})); a.err != nil ||
			a.floats("OUT")[0] != float32(2*i) {
			t.Fatal(a.err)
		}
	}
	unload()
	t.Logf("start %v, stop %v (medians of %d)", middle(start), middle(stop), cycles)
	debug.FreeOSMemory()
	t.Run(fmt.Sprintf("D024 %d loads and unloads leave nothing", cycles), func(t *testing.T) {
		before.within(t, "the server", os.Getpid(), 20<<10)
		if n := sharedObjects(t); n > objects {
			t.Errorf("%d objects of shared memory, %d before", n, objects)
		}
		if ok, _ := r.ModelReady("m", infer.LatestVersion); ok {
			t.Error("it is ready although it is unloaded")
		}
	})
}

func middle[T cmp.Ordered](v []T) T {
	sorted := append([]T(nil), v...)
	for i := range sorted {
		for j := i; j > 0 && sorted[j] < sorted[j-1]; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	return sorted[len(sorted)/2]
}

// Memory, descriptors and shared memory do not grow with the number of requests: small and large tensors, texts, calls
// of another model, errors and streams.
func TestManyRequests(t *testing.T) {
	count := 3000
	if soak() {
		count = 1_000_000
	}
	if n, err := strconv.Atoi(os.Getenv("NEREID_SOAK_REQUESTS")); err == nil {
		count = n
	}
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
if x[0] == -1:
    raise ValueError("as asked")
if x[0] == -2:
    call = pb_utils.InferenceRequest(model_name="id", requested_output_names=["OUTPUT0"],
        inputs=[pb_utils.Tensor("INPUT0", x)])
    x = pb_utils.get_output_tensor_by_name(call.exec(), "OUTPUT0").as_numpy()
y = x + 1`, ""),
		"id/config.pbtxt": strings.NewReplacer(`"python"`, `"identity"`, `"IN"`, `"INPUT0"`, `"OUT"`,
			`"OUTPUT0"`).Replace(config("")),
		"id/1/.keep":     "",
		"s/config.pbtxt": config("model_transaction_policy { decoupled: true }"),
		"s/1/model.py": code(`
sender = request.get_response_sender()
for i in range(3):
    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
continue`, "") + "\n",
	}).ready()
	pids := func() []int {
		var all []int
		children, err := filepath.Glob("/proc/self/task/*/children")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range children {
			text, _ := os.ReadFile(file) // a thread may have ended
			for _, f := range strings.Fields(string(text)) {
				if n, err := strconv.Atoi(f); err == nil && isWorker(n) {
					all = append(all, n)
				}
			}
		}
		return all
	}
	big := make([]float32, 100000)
	ask := func(i int) error {
		model, in, want := "m", []float32{float32(i % 1000)}, float32(i%1000)+1
		switch {
		case i%1000 == 1:
			in = big
			want = 1
		case i%100 == 2:
			in = []float32{-1}
		case i%10 == 3:
			in, want = []float32{-2}, -1
		case i%50 == 4:
			model, want = "s", float32(i%1000)
		}
		all := r.all(request(model, map[string][]float32{"IN": in}))
		if in[0] == -1 {
			if all[0].err == nil {
				return errors.New("an exception is no error")
			}
			return nil
		}
		if all[0].err != nil || all[0].floats("OUT")[0] != want || model == "s" && len(all) != 4 {
			return fmt.Errorf("request %d of %s: %v %v, %d responses", i, model, all[0].err, all[0].floats("OUT"),
				len(all))
		}
		return nil
	}
	run := func(n int) { // by several clients, so that requests are queued and run as series
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					if err := ask(i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		if wg.Wait(); t.Failed() {
			t.FailNow()
		}
	}
	warm := count / 10
	run(warm)
	debug.FreeOSMemory()
	server, workers := footprintOf(t, os.Getpid()), map[int]footprint{}
	for _, pid := range pids() {
		workers[pid] = footprintOf(t, pid)
	}
	began := time.Now()
	run(count - warm)
	t.Logf("%d requests at %.0f/s", count-warm, float64(count-warm)/time.Since(began).Seconds())
	debug.FreeOSMemory()
	t.Run(fmt.Sprintf("D055 D057 %d requests leave memory and descriptors as they are", count), func(t *testing.T) {
		server.within(t, "the server", os.Getpid(), 20<<10)
		if len(workers) != 2 {
			t.Errorf("%d processes of Python, want 2", len(workers))
		}
		for pid, before := range workers {
			before.within(t, fmt.Sprintf("process %d", pid), pid, 4<<10)
		}
	})
}

// isWorker reports whether a process is a worker of a Python model.
func isWorker(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && strings.Contains(string(text), "nereid_worker.py")
}
