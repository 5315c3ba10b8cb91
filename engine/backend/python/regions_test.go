package python_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// process returns the number of the process of the model's only instance.
func (g *sharedRig) process() int {
	g.t.Helper()
	pid := 0
	until(g.t, "the model has a process", func() bool {
		m, ok := g.Model("m")
		if !ok || len(m.Versions) == 0 || m.Versions[0].Model == nil {
			return false
		}
		for _, p := range m.Versions[0].Model.Processes() {
			pid = p.PID
		}
		return pid != 0
	})
	return pid
}

// maps reports whether the model's process maps the region's object, or has it open.
func (g *sharedRig) maps() bool {
	g.t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(g.process()))
	text, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil {
		g.t.Fatal(err)
	}
	if strings.Contains(string(text), g.path) {
		return true
	}
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range open {
		if to, err := os.Readlink(filepath.Join(proc, "fd", f.Name())); err == nil && strings.HasPrefix(to, g.path) {
			return true
		}
	}
	return false
}

func (g *sharedRig) want(out float32, outputs ...string) {
	g.t.Helper()
	if err := g.run(g.must(g.ask(outputs...))); err != nil {
		g.t.Fatal(err)
	}
	if got := g.output(1); got != out {
		g.t.Errorf("the output is %v, want %v", got, out)
	}
}

// TestRegions: what the model's process reads in its client's memory is the request's input and nothing else.
func TestRegions(t *testing.T) {
	g := newSharedRig(t, config(""), code(`
y = x
if x[0] == 2: self.array = x
if x[0] == 3: y = self.array
if x[0] == 4:
    x += 1
if x[0] == 5:
    self.response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)])
    responses.append(self.response)
    continue
if x[0] == 6: y = self.response.output_tensors()[0].as_numpy()
if x[0] == 7: raise ValueError("seven")
if x[0] == 8:
    self.request = request
if x[0] == 9: y = pb_utils.get_input_tensor_by_name(self.request, "IN").as_numpy()
if x[0] == 10: y = x[::-1]
if x[0] == 13:
    y = x + 1
    x[:] = 99
if x[0] == 12: self.array = self.response = self.request = None
if x[0] == 11: y = np.concatenate([x[1:], x[:1]])
`, ""))
	for _, tt := range []struct {
		name    string
		in, out float32
	}{
		{"B050 passed through", 1, 1},
		{"D031 an array that is kept", 2, 2},
		{"what was kept, when the client's memory has changed", 3, 2},
		{"D031 written into", 4, 5},
		{"after that", 1, 1},
		{"written into, and answered with something else", 13, 14},
		{"after that too", 1, 1},
		{"a response that is kept", 5, 5},
		{"what was kept of that", 6, 5},
		{"a request that is kept", 8, 8},
		{"what was kept of it", 9, 8},
		{"a view backwards", 10, 10},
		{"a new array", 11, 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.t = t
			g.set(tt.in)
			g.want(tt.out, "OUT")
			if in := g.output(0); in != tt.in {
				t.Errorf("the input is %v after it, want %v", in, tt.in)
			}
			if !g.maps() {
				t.Error("the process does not map the region")
			}
		})
	}
	g.t = t
	t.Run("an output that goes into the response", func(t *testing.T) {
		g.t = t
		g.set(1)
		q := g.must(g.ask())
		defer q.Release()
		if err := g.Infer(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		resp, err := q.Next(t.Context())
		if err != nil || resp.Err != nil || len(resp.Outputs) != 1 || len(resp.Outputs[0].Data) != 4*sharedFloats {
			t.Fatalf("%v, %v; want an output of 1 MiB", resp, err)
		}
		resp.Release()
	})
	t.Run("classes of an output", func(t *testing.T) {
		g.t = t
		q := g.must(g.ask("OUT"))
		q.Outputs[0].Classification = 1
		defer q.Release()
		if err := g.Infer(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		resp, err := q.Next(t.Context())
		if err != nil || resp.Err != nil || resp.Outputs[0].Data == nil {
			t.Fatalf("%v, %v; want the values, which who makes the classes looks at", resp, err)
		}
		resp.Release()
	})
	t.Run("an output in the input's place", func(t *testing.T) {
		g.t = t
		g.set(1)
		q := g.must(g.ask())
		slot, err := g.SharedMemory().Slot(shm.Range{Region: "r", Size: 4 * sharedFloats})
		if err != nil {
			t.Fatal(err)
		}
		q.Outputs = append(q.Outputs, infer.RequestedOutput{Name: "OUT", Shared: slot})
		if err := g.run(q); err != nil || g.output(0) != 1 {
			t.Errorf("%v, the output is %v", err, g.output(0))
		}
	})
	t.Run("an exception", func(t *testing.T) {
		g.t = t
		g.set(7)
		if err := g.run(g.must(g.ask("OUT"))); err == nil || !strings.Contains(err.Error(), "ValueError: seven") {
			t.Error(err)
		}
	})
	t.Run("C6 the process lets go what is unregistered", func(t *testing.T) {
		g.t = t
		g.set(12) // the model lets go what it has kept
		g.want(12, "OUT")
		if err := g.SharedMemory().Unregister(shm.System, "r"); err != nil {
			t.Fatal(err)
		}
		until(t, "the process has no part of the region", func() bool { return !g.maps() })
		g.register()
		g.set(1)
		g.want(1, "OUT")
	})
	t.Run("a model that makes inputs its own gets copies", func(t *testing.T) {
		g.t = t
		for range 8 {
			g.set(4)
			g.want(5, "OUT")
		}
		g.set(1)
		g.want(1, "OUT") // by now the server knows
		if err := g.SharedMemory().Unregister(shm.System, "r"); err != nil {
			t.Fatal(err)
		}
		until(t, "the process has no part of the region", func() bool { return !g.maps() })
		g.register()
		g.want(1, "OUT")
		if g.maps() {
			t.Error("the process maps the region still")
		}
	})
}

// Requests that are there at once have the same input, and what one of them makes of it is its own.
func TestRegionsAtOnce(t *testing.T) {
	for _, tt := range []struct{ name, more string }{
		{"one after the other", ""},
		{"in a batch", "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 100000 preferred_batch_size: [ 4 ] }"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun, gate := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "gate")
			g := newSharedRig(t, config(tt.more), `
import os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        if not os.path.exists(`+strconv.Quote(begun)+`):
            open(`+strconv.Quote(begun)+`, "w").close()
            while not os.path.exists(`+strconv.Quote(gate)+`): time.sleep(0.001)
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            x += 1
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
        return responses
`)
			g.set(5)
			ask := func() *infer.Request {
				q := g.must(g.ask())
				if tt.more != "" {
					q.Inputs[0].Shape = []int64{1, sharedFloats}
				}
				return q
			}
			var wg sync.WaitGroup
			run := func(q *infer.Request) {
				defer q.Release()
				resp, err := q.Next(t.Context())
				if err != nil || resp.Err != nil {
					t.Errorf("%v, %v", resp, err)
					return
				}
				defer resp.Release()
				a := read(resp)
				if v := a.floats("OUT"); len(v) != sharedFloats || v[0] != 6 || v[sharedFloats-1] != 6 {
					t.Errorf("the output begins with %v, want 6", v[:1])
				}
			}
			start := func() {
				q := ask()
				if err := g.Infer(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				wg.Go(func() { run(q) })
			}
			start()
			until(t, "the first execution has begun", func() bool { _, err := os.Stat(begun); return err == nil })
			for range 3 {
				start()
			}
			g.writeAt(gate)
			wg.Wait()
			if g.output(0) != 5 {
				t.Errorf("the client's memory has %v, want 5", g.output(0))
			}
		})
	}
}

// The process has no descriptor by which it, or code of its model's, could write into a client's memory.
func TestRegionIsReadOnly(t *testing.T) {
	g := newSharedRig(t, config(""), code(`
y = np.zeros_like(x)
for fd in os.listdir("/proc/self/fd"):
    try:
        if not os.readlink("/proc/self/fd/" + fd).startswith("/dev/shm/nereid-test-"): continue
        y += 1 - y
        os.pwrite(int(fd), b"\xff" * 64, 0)
        y = x + 99
        break
    except OSError: pass
`, ""))
	g.set(5)
	g.want(1, "OUT")
	if in := g.output(0); in != 5 {
		t.Errorf("the input is %v after it, want 5", in)
	}
}

// C5: a client that shrinks its memory while a model reads it there ends the model's process, and nothing else.
func TestRegionShrunkMeanwhile(t *testing.T) {
	begun, gate := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "gate")
	g := newSharedRig(t, config(""), code(`
if x[0] == 6:
    open(`+strconv.Quote(begun)+`, "w").close()
    while not os.path.exists(`+strconv.Quote(gate)+`): time.sleep(0.001)
y = x + 1
`, ""))
	g.set(6)
	q := g.must(g.ask())
	done := make(chan error)
	go func() { done <- g.run(q) }()
	until(t, "the execution has begun", func() bool { return os.Remove(begun) == nil })
	g.resize(4096)
	g.writeAt(gate)
	if err := <-done; status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "signal 7") {
		t.Errorf("%v; want that the process ended by SIGBUS", err)
	}
	g.resize(3 * 4 * sharedFloats)
	g.set(1)
	g.want(2, "OUT")
}

// What a model keeps of a request that it leaves without a response is its own as well: the request ends with an error.
func TestRegionsWithoutResponse(t *testing.T) {
	g := newSharedRig(t, config(""), code(`
y = x
if x[0] == 2:
    self.array = x
    responses.append(None)
    continue
if x[0] == 3: y = self.array
`, ""))
	g.set(2)
	if err := g.run(g.must(g.ask("OUT"))); err == nil {
		t.Error("a request without a response has no error")
	}
	g.set(3)
	g.want(2, "OUT")
}

// C5: a request whose client has shrunk its memory before the model got it fails, and not those of the same batch.
func TestRegionShrunkInABatch(t *testing.T) {
	begun, gate := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "gate")
	g := newSharedRig(t, config("max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 100000 preferred_batch_size: [ 3 ] }"), code(`
y = x + len(requests)
if x[0, 0] == 6:
    open(`+strconv.Quote(begun)+`, "w").close()
    while not os.path.exists(`+strconv.Quote(gate)+`): time.sleep(0.001)
`, ""))
	other, err := os.CreateTemp("/dev/shm", "nereid-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	defer os.Remove(other.Name())
	if err := other.Truncate(4 * sharedFloats); err != nil {
		t.Fatal(err)
	}
	if err := g.SharedMemory().RegisterSystem("other", filepath.Base(other.Name()), 0, 4*sharedFloats); err != nil {
		t.Fatal(err)
	}
	start := func(region string) *infer.Request {
		t.Helper()
		q := infer.New()
		q.ModelName, q.Version = "m", infer.LatestVersion
		buf, err := g.SharedMemory().Read(q, &g.pool, shm.Range{Region: region, Size: 4 * sharedFloats}, tensor.FP32, &shm.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		q.Own(buf)
		q.Inputs = append(q.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.FP32, Shape: []int64{1, sharedFloats}, Data: buf.Bytes(), Buf: buf})
		if err := g.Infer(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		return q
	}
	g.set(6)
	first := start("r")
	defer first.Release()
	until(t, "the first execution has begun", func() bool { _, err := os.Stat(begun); return err == nil })
	all := []*infer.Request{start("r"), start("other"), start("r")}
	if err := other.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	g.writeAt(gate)
	if _, err := g.next(first); err != nil {
		t.Fatal(err)
	}
	for i, q := range all {
		defer q.Release()
		resp, err := q.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if status.CodeOf(resp.Err) != status.InvalidArg {
				t.Errorf("the request of the client that has shrunk its memory: %v", resp.Err)
			}
		} else if resp.Err != nil {
			t.Errorf("request %d of the batch: %v", i, resp.Err)
		} else if v := read(resp).floats("OUT"); len(v) != sharedFloats || v[0] != 8 {
			t.Errorf("request %d of the batch has the wrong output", i)
		}
		resp.Release()
	}
}

// A decoupled model's first responses leave its input alone until the last one, also where the client has them stored there.
func TestRegionsWithOutputsOverTheInput(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	g := newSharedRig(t, config("model_transaction_policy { decoupled: true }"), `
import os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x + 1)]))
            while not os.path.exists(`+strconv.Quote(gate)+`): time.sleep(0.001)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x + 2)]), flags=1)
`)
	g.set(5)
	q := g.must(g.ask())
	defer q.Release()
	slot, err := g.SharedMemory().Slot(shm.Range{Region: "r", Size: 4 * sharedFloats})
	if err != nil {
		t.Fatal(err)
	}
	q.Outputs = append(q.Outputs, infer.RequestedOutput{Name: "OUT", Shared: slot})
	if err := g.Infer(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		if _, err := g.next(q); err != nil {
			t.Fatal(err)
		}
		if got := g.output(0); got != float32(6+want) {
			t.Errorf("response %d is %v, want %d", want, got, 6+want)
		}
		g.writeAt(gate)
	}
}
