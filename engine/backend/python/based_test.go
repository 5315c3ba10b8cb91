package python_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nereid/engine/backend/python"
)

func TestPythonBasedBackends(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{"mine/model.py", "python/model.py", "empty/readme.txt", "openvino/model.py"} {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, path), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var b *python.Backend = serve(t, nil, nil).backend
	for _, tt := range []struct {
		name, folder string
		want         []string
	}{
		{"D004 those that come with the server", "", []string{"fil", "oneflow", "pytorch"}},
		{"D001 D077 those of a folder, and ours", folder, []string{"fil", "mine", "oneflow", "openvino", "pytorch"}},
		{"D001 a folder that is not there", filepath.Join(folder, "nowhere"), []string{"fil", "oneflow", "pytorch"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, err := b.Based(tt.folder)
			var names []string
			for _, o := range all {
				names = append(names, o.Name())
			}
			if err != nil || !slices.Equal(names, tt.want) {
				t.Errorf("%v, %v; want %v", names, err, tt.want)
			}
		})
	}
}

func TestBatchesAndInstancesOfAPythonModel(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"list/config.pbtxt": config("max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 2000000 " +
			"preferred_batch_size: 2 }"),
		"list/1/model.py":  code("y = np.full([x.shape[0], 1], len(requests) * 100 + x.shape[0], np.float32)", ""),
		"two/config.pbtxt": config("instance_group [ { count: 2 } ]"),
		"two/1/model.py": code(`
open("%s/%s" % (self.folder, self.name), "w").write(str(os.getpid()))
until = time.monotonic() + 30
while len(os.listdir(self.folder)) < 2 and time.monotonic() < until: time.sleep(0.005)
y = np.array([len(set(open("%s/%s" % (self.folder, n)).read() for n in os.listdir(self.folder)))], np.float32)`, `
def initialize(self, args):
    self.name = args["model_instance_name"]
    self.folder = args["model_repository"] + "/.seen"
    os.makedirs(self.folder, exist_ok=True)`),
		"stream/config.pbtxt": config("model_transaction_policy { decoupled: true }"),
		"stream/1/model.py": `import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args): self.here = 0
    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            self.here += 1
            while self.here < 2: await asyncio.sleep(0.005)
            out = pb_utils.Tensor("OUT", np.array([self.here], np.float32))
            sender.send(pb_utils.InferenceResponse([out]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
	}).ready()
	both := func(name string, rows int) (got [2]answer) {
		done := make(chan struct{})
		ask := func(i int) {
			q := request(name, map[string][]float32{"IN": make([]float32, rows)})
			if name == "list" {
				q.Inputs[0].Shape = []int64{int64(rows), 1}
			}
			all := r.all(q)
			got[i] = all[len(all)-1]
		}
		go func() { defer close(done); ask(1) }()
		ask(0)
		<-done
		return got
	}
	t.Run("D023 a batch arrives as a list of requests", func(t *testing.T) {
		for _, a := range both("list", 1) {
			if a.err != nil || differ(a.floats("OUT"), 201) != "" || !slices.Equal(a.shapes["OUT"], []int64{1, 1}) {
				t.Errorf("%v %v %v, want 201: two requests, one row each", a.floats("OUT"), a.shapes["OUT"], a.err)
			}
		}
	})
	t.Run("D024 each instance has a process", func(t *testing.T) {
		for _, a := range both("two", 1) {
			if a.err != nil || differ(a.floats("OUT"), 2) != "" {
				t.Errorf("%v processes (%v), want 2", a.floats("OUT"), a.err)
			}
		}
	})
	t.Run("D046 two requests in one async execute", func(t *testing.T) {
		for _, a := range both("stream", 1) {
			if a.err != nil || differ(a.floats("OUT"), 2) != "" {
				t.Errorf("%v %v, want 2", a.floats("OUT"), a.err)
			}
		}
	})
}
