package python_test

import (
	"strings"
	"testing"
)

// Endless output of a model is cut, and does not block the model.
func TestEndlessOutputIsCut(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
for i in range(20000):
    print("line %d of the model's output" % i)
sys.stderr.write("x" * 1000000 + "\n")
y = x`, ""),
	}).ready()
	if a := r.one(request("m", map[string][]float32{"IN": {1}})); a.err != nil {
		t.Fatal(a.err)
	}
	r.stop()
	text := r.log.String()
	t.Run("D8 output is cut", func(t *testing.T) {
		if n := strings.Count(text, "of the model's output"); n < 500 || n > 10000 {
			t.Errorf("%d of 20000 lines are in the log, want about 1000", n)
		}
		if !strings.Contains(text, "lines were dropped") {
			t.Error("the log does not say that lines were dropped")
		}
		if len(text) > 4<<20 {
			t.Errorf("the log has %d bytes", len(text))
		}
	})
}

// A model that exhausts its descriptors or threads harms only itself.
func TestModelThatExhaustsItsLimits(t *testing.T) {
	r := serve(t, map[string]string{"open-files-limit": "200", "memory-limit-byte-size": "2000000000"},
		map[string]string{
			"m/config.pbtxt": config(""),
			"m/1/model.py": code(`
if x[0] == 1:
    self.files = [open("/dev/null") for _ in range(1000)]
if x[0] == 2:
    stop = threading.Event()
    threads = []
    try:
        for _ in range(10000):
            threads.append(threading.Thread(target=stop.wait, daemon=True))
            threads[-1].start()
    finally:
        stop.set()
y = x`, ""),
			"n/config.pbtxt": config(`parameters { key: "OPEN_FILES_LIMIT" value { string_value: "50" } }`),
			"n/1/model.py": code(
				`import resource; y = np.array([resource.getrlimit(resource.RLIMIT_NOFILE)[0]], np.float32)`, ""),
			"bad/config.pbtxt": config(`parameters { key: "MEMORY_LIMIT_BYTE_SIZE" value { string_value: "much" } }`),
			"bad/1/model.py":   code("y = x", ""),
		})
	for _, tt := range []struct {
		name string
		what float32
		text string
	}{
		{"D5 descriptors", 1, "Too many open files"},
		{"D5 threads", 2, "can't start new thread"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a := r.one(request("m", map[string][]float32{"IN": {tt.what}})); a.err == nil ||
				!strings.Contains(a.err.Error(), tt.text) {
				t.Errorf("%v, want an error with %q", a.err, tt.text)
			}
			if a := r.one(request("m", map[string][]float32{"IN": {0}})); a.err != nil {
				t.Errorf("the next request: %v", a.err)
			}
		})
	}
	if a := r.one(request("n", map[string][]float32{"IN": {0}})); a.err != nil || a.floats("OUT")[0] != 50 {
		t.Errorf("the limit of a model's parameter: %v %v", a.floats("OUT"), a.err)
	}
	if s, _ := r.Model("bad"); len(s.Versions) != 1 ||
		!strings.Contains(s.Versions[0].Reason, `"much" is not a positive number`) {
		t.Errorf("a limit that is none: %+v", s.Versions)
	}
}

// Many requests with 100000 floats reuse the shared memory, which does not grow.
func TestArenaDoesNotGrowWithRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := serve(t, map[string]string{"shm-default-byte-size": "65536", "shm-growth-byte-size": "65536"},
		map[string]string{
			"m/config.pbtxt": config(""),
			"m/1/model.py": code(`
if x[0] == -1:
    y = np.array([sum(int(l.split()[1]) for l in open("/proc/self/smaps") if l.startswith("Pss_Shmem"))], np.float32)
else:
    y = x * 2`, ""),
		}).ready()
	in := make([]float32, 100000)
	shared := func() float32 { return r.one(request("m", map[string][]float32{"IN": {-1}})).floats("OUT")[0] }
	var first float32
	for i := range 300 {
		a := r.one(request("m", map[string][]float32{"IN": in}))
		if a.err != nil || len(a.floats("OUT")) != len(in) {
			t.Fatal(a.err)
		}
		if i == 20 {
			first = shared()
		}
	}
	t.Run("D055 D057 what is shared does not grow with the requests", func(t *testing.T) {
		if last := shared(); last > first*1.5+1000 {
			t.Errorf("%v kB are shared after 300 requests, and %v were after 20", last, first)
		}
	})
}
