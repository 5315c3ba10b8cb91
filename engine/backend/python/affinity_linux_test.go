package python_test

import (
	"slices"
	"testing"

	"nereid/engine"
	"nereid/engine/system/affinity"
)

// A model's process and its children run on the cores of the instance's host policy, also after a restart.
func TestHostPolicyOfAProcess_C065(t *testing.T) {
	all, err := affinity.Cores()
	if err != nil || len(all) < 2 {
		t.Skip("with one core there is nothing to choose")
	}
	last := all[len(all)-1:]
	// -1 ends the process. Other inputs return the cores of the process and those of a child.
	body := `
if x[0] < 0:
    os._exit(1)
import subprocess
child = subprocess.check_output([sys.executable, "-c", "import os; print(*sorted(os.sched_getaffinity(0)))"])
y = np.array(sorted(os.sched_getaffinity(0)) + [-1] + [int(n) for n in child.split()], np.float32)
`
	r := serveWith(t, nil, map[string]string{
		"pinned/config.pbtxt": config(`instance_group [ { kind: KIND_CPU host_policy: "last" } ]`),
		"pinned/1/model.py":   code(body, ""),
		"free/config.pbtxt":   config(""), "free/1/model.py": code(body, ""),
	}, func(o *engine.Options) { o.HostPolicies = map[string]affinity.Policy{"last": {Cores: last}} }).ready()
	want := func(cores []int) (v []float32) {
		for range 2 {
			if v != nil {
				v = append(v, -1)
			}
			for _, n := range cores {
				v = append(v, float32(n))
			}
		}
		return v
	}
	for _, tt := range []struct {
		model string
		cores []int
	}{{"pinned", last}, {"free", all}} {
		for range 2 {
			var got answer
			until(t, "the process is back", func() bool {
				got = r.one(request(tt.model, map[string][]float32{"IN": {1}}))
				return got.err == nil
			})
			if !slices.Equal(got.floats("OUT"), want(tt.cores)) {
				t.Errorf("%s has the cores %v, want %v", tt.model, got.floats("OUT"), want(tt.cores))
			}
			if a := r.one(request(tt.model, map[string][]float32{"IN": {-1}})); a.err == nil {
				t.Error("a process that ended has answered")
			}
		}
	}
}

// Instances of one model are initialized concurrently: here each waits for the other one.
func TestInstancesSideBySide_C066(t *testing.T) {
	serve(t, nil, map[string]string{
		"pair/config.pbtxt": config(`instance_group [ { kind: KIND_CPU count: 2 } ]`),
		"pair/1/model.py": code("y = x", `
def initialize(self, args):
    folder = os.path.join(args["model_repository"], "met")
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, args["model_instance_name"]), "w").close()
    end = time.monotonic() + 60
    while len(os.listdir(folder)) < 2:
        if time.monotonic() > end:
            raise pb_utils.TritonModelException("the other instance did not come")
        time.sleep(0.01)
`),
	}).ready()
}
