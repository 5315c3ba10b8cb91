package python_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const sharedFloats = 1 << 18 // 1 MiB

// sharedRig is a server with a client's region: an input, then room for two outputs.
type sharedRig struct {
	*rig
	path string
	mem  *os.File
	pool tensor.Pool
}

func newSharedRig(t *testing.T, cfg, source string) *sharedRig {
	t.Helper()
	g := &sharedRig{rig: serve(t, nil, map[string]string{"m/config.pbtxt": cfg, "m/1/model.py": source}).ready()}
	var err error
	if g.mem, err = os.CreateTemp("/dev/shm", "nereid-test-"); err != nil {
		t.Fatal(err)
	}
	g.path = g.mem.Name()
	t.Cleanup(func() {
		if err := os.Remove(g.path); err != nil {
			t.Error(err)
		}
		if err := g.mem.Close(); err != nil {
			t.Error(err)
		}
	})
	g.resize(3 * 4 * sharedFloats)
	g.register()
	return g
}

func (g *sharedRig) resize(n int64) {
	g.t.Helper()
	if err := g.mem.Truncate(n); err != nil {
		g.t.Fatal(err)
	}
}

func (g *sharedRig) register() {
	g.t.Helper()
	if err := g.SharedMemory().RegisterSystem("r", filepath.Base(g.path), 0, 3*4*sharedFloats, shm.Self); err != nil {
		g.t.Fatal(err)
	}
}

// set fills the input with a number.
func (g *sharedRig) set(v float32) {
	g.t.Helper()
	b := make([]byte, 4*sharedFloats)
	for i := 0; i < len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], math.Float32bits(v))
	}
	if _, err := g.mem.WriteAt(b, 0); err != nil {
		g.t.Fatal(err)
	}
}

// output returns the number in the n-th output, which must be the same everywhere.
func (g *sharedRig) output(n int) float32 {
	g.t.Helper()
	b := make([]byte, 4*sharedFloats)
	if _, err := g.mem.ReadAt(b, int64(n)*int64(len(b))); err != nil {
		g.t.Fatal(err)
	}
	for i := 4; i < len(b); i += 4 {
		if !slices.Equal(b[i:i+4], b[:4]) {
			g.t.Fatalf("output %d has different numbers at 0 and %d", n, i/4)
		}
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}

// ask makes a request with tensors in the region, as the front ends do. outputs are those that go to the region.
func (g *sharedRig) ask(outputs ...string) (*infer.Request, error) {
	q := infer.New()
	q.ModelName, q.Version = "m", infer.LatestVersion
	buf, err := g.SharedMemory().Read(q, &g.pool, shm.Range{Region: "r", Size: 4 * sharedFloats}, tensor.FP32,
		&shm.Quota{})
	if err != nil {
		q.Release()
		return nil, err
	}
	q.Own(buf)
	q.Inputs = append(q.Inputs, tensor.Tensor{Name: "IN", DataType: tensor.FP32, Shape: []int64{sharedFloats},
		Data: buf.Bytes(), Buf: buf})
	for i, name := range outputs {
		slot, err := g.SharedMemory().Slot(shm.Range{Region: "r", Offset: uint64(i+1) * 4 * sharedFloats,
			Size: 4 * sharedFloats})
		if err != nil {
			g.t.Fatal(err)
		}
		q.Outputs = append(q.Outputs, infer.RequestedOutput{Name: name, Shared: slot})
	}
	return q, nil
}

// must stores the next response in the region and fails the test on an error. final: it is the last one.
func (g *sharedRig) must(q *infer.Request, err error) *infer.Request {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
	return q
}

func (g *sharedRig) next(q *infer.Request) (final bool, err error) {
	g.t.Helper()
	resp, err := q.Next(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Release()
	if resp.Err != nil {
		return resp.Final, resp.Err
	}
	return resp.Final, shm.Store(q, resp)
}

// run sends a request and waits for its only response.
func (g *sharedRig) run(q *infer.Request) error {
	g.t.Helper()
	defer q.Release()
	if err := g.Infer(g.t.Context(), q); err != nil {
		return err
	}
	_, err := g.next(q)
	return err
}

// A model's inputs are its own, also if the client's tensors are in system shared memory.
func TestInputsFromSharedMemory(t *testing.T) {
	begun, gate := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "gate")
	g := newSharedRig(t,
		strings.Replace(config(""), "output [", `output [ { name: "MORE" data_type: TYPE_FP32 dims: [ -1 ] },`,
			1), code(`
y = x
if x[0] == 2: y = x + 1
if x[0] == 3: x += 10
if x[0] == 4:
    self.kept = x
if x[0] == 5: y = self.kept
if x[0] == 6:
    open(`+strconv.Quote(begun)+`, "w").close()
    while not os.path.exists(`+strconv.Quote(gate)+`): time.sleep(0.001)
if x[0] == 7: os._exit(3)
if x[0] == 8: y = x[: len(x) // 2]
responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", y), pb_utils.Tensor("MORE", x)]))
continue
`, ""))
	for _, tt := range []struct {
		name           string
		in, out, after float32
	}{
		{"B050 an input that is passed through", 1, 1, 1},
		{"B050 a result", 2, 3, 2},
		{"D031 a model that writes into its input", 3, 13, 3},
		{"D031 a model that keeps its input", 4, 4, 4},
		{"D031 what it has kept, with another input", 5, 4, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.set(tt.in)
			if err := g.run(g.must(g.ask("OUT", "MORE"))); err != nil {
				t.Fatal(err)
			}
			if out, in := g.output(1), g.output(0); out != tt.out || in != tt.after {
				t.Errorf("the output is %v, the input %v after it; want %v, %v", out, in, tt.out, tt.after)
			}
			if more, want := g.output(2), map[bool]float32{true: 13, false: tt.in}[tt.in == 3]; more != want {
				t.Errorf("the second output in the region is %v, want %v", more, want)
			}
		})
	}
	t.Run("C6 unregistered while the request runs", func(t *testing.T) {
		g.set(6)
		q := g.must(g.ask("OUT"))
		done := make(chan error)
		go func() { done <- g.run(q) }()
		until(t, "the execution has begun", func() bool { return os.Remove(begun) == nil })
		if err := g.SharedMemory().Unregister(shm.System, "r"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || g.output(1) != 6 {
			t.Errorf("%v, the output is %v", err, g.output(1))
		}
		if _, err := g.ask(); status.CodeOf(err) != status.NotFound {
			t.Errorf("an unregistered region: %v", err)
		}
		g.register()
	})
	t.Run("C5 shrunk before and behind the execution", func(t *testing.T) {
		g.set(1)
		q := g.must(g.ask("OUT"))
		g.resize(4096)
		if err := g.run(q); status.CodeOf(err) != status.InvalidArg {
			t.Errorf("an output that has no room any more: %v", err)
		}
		if _, err := g.ask(); status.CodeOf(err) != status.InvalidArg {
			t.Errorf("an input that is not there any more: %v", err)
		}
		g.resize(3 * 4 * sharedFloats)
	})
	t.Run("C7 an output that does not fit, and one that is smaller", func(t *testing.T) {
		g.set(1)
		q := g.must(g.ask())
		slot, err := g.SharedMemory().Slot(shm.Range{Region: "r", Offset: 4 * sharedFloats, Size: 4*sharedFloats - 4})
		if err != nil {
			t.Fatal(err)
		}
		q.Outputs = append(q.Outputs, infer.RequestedOutput{Name: "OUT", Shared: slot})
		if err := g.run(q); err == nil || !strings.Contains(err.Error(), "to hold the results") {
			t.Errorf("%v", err)
		}
		g.set(8)
		if err := g.run(g.must(g.ask("OUT"))); err != nil {
			t.Error(err)
		}
	})
	t.Run("D2 a request whose input is in the memory of a process that has ended", func(t *testing.T) {
		g.set(1)
		waiting := g.must(g.ask("OUT"))
		g.set(7)
		if err := g.run(g.must(g.ask())); status.CodeOf(err) != status.Unavailable {
			t.Errorf("the one that ends the process: %v", err)
		}
		g.set(2)
		const want = 1 // the value when the request came
		if err := g.run(waiting); err != nil || g.output(1) != want {
			t.Errorf("%v, the output is %v, want %v", err, g.output(1), want)
		}
	})
	t.Run("D057 requests that never come leave nothing", func(t *testing.T) {
		before := footprintOf(t, os.Getpid())
		for range 300 {
			g.must(g.ask("OUT")).Release()
		}
		after := footprintOf(t, os.Getpid())
		if after.shared > before.shared+8<<10 {
			t.Errorf("the server has %v after 300 requests of 1 MiB, and had %v", after, before)
		}
	})
}

// Each response of a decoupled model goes to the region.
func TestDecoupledOutputsToSharedMemory(t *testing.T) {
	g := newSharedRig(t, config("model_transaction_policy { decoupled: true }"), `
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            sender = request.get_response_sender()
            for y in (x, x + 1, x):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", y)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`)
	g.set(5)
	q := g.must(g.ask("OUT"))
	defer q.Release()
	if err := g.Infer(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	for _, want := range []float32{5, 6, 5} {
		if final, err := g.next(q); final || err != nil || g.output(1) != want {
			t.Fatalf("%v, %v: the output is %v, want %v", final, err, g.output(1), want)
		}
	}
	if final, err := g.next(q); !final || err != nil {
		t.Errorf("%v, %v; want the end", final, err)
	}
}
