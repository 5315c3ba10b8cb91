package onnxruntime_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/gpumem"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// fakeDriver is a driver of two GPUs whose memory is host memory. It copies only memory that it allocated.
type fakeDriver struct {
	mu      sync.Mutex
	memory  map[int][][]byte // guarded by mu, as all below: by GPU, -1 for pinned memory
	traffic gpumem.Traffic
	copies  int
	fail    bool // copies within a GPU fail
}

func (c *fakeDriver) take(gpu, n int) (uintptr, []byte, func() error, error) {
	b := make([]byte, n+256)
	at := 256 - int(uintptr(unsafe.Pointer(&b[0]))%256)
	b = b[at : at+n : at+n]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory[gpu] = append(c.memory[gpu], b)
	return uintptr(unsafe.Pointer(&b[0])), b, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, x := range c.memory[gpu] {
			if &x[0] == &b[0] {
				c.memory[gpu] = append(c.memory[gpu][:i], c.memory[gpu][i+1:]...)
				return nil
			}
		}
		return errors.New("it was given back before")
	}, nil
}

func (c *fakeDriver) Pin(n int) (uintptr, func() error, error) {
	at, _, free, err := c.take(-1, n)
	return at, free, err
}

func (c *fakeDriver) Allocate(gpu, n int) (uintptr, func() error, error) {
	at, _, free, err := c.take(gpu, n)
	return at, free, err
}

// at returns memory of a GPU by its address. The caller holds mu. ONNX Runtime's memory is allowed too.
func (c *fakeDriver) at(gpu int, address uintptr, n int) []byte {
	for g, all := range c.memory {
		for _, b := range all {
			base := uintptr(unsafe.Pointer(&b[0]))
			if address >= base && address < base+uintptr(len(b)) {
				if g != gpu || address+uintptr(n) > base+uintptr(len(b)) {
					return nil
				}
				return b[address-base:][:n]
			}
		}
	}
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), n)
}

func (c *fakeDriver) Copy(gpu int, list []gpumem.Copy) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail {
		return errors.New("CUDA says no")
	}
	for _, x := range list {
		to, from := c.at(gpu, x.To, x.Size), c.at(gpu, x.From, x.Size)
		if to == nil || from == nil {
			return fmt.Errorf("%+v is not all memory of GPU %d", x, gpu)
		}
		copy(to, from)
		c.traffic.Within += int64(x.Size)
	}
	c.copies++
	return nil
}

func (c *fakeDriver) Traffic() gpumem.Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.traffic
}

// region is the memory of a client.
type region struct {
	c    *fakeDriver
	gpu  int
	b    []byte
	free func() error
}

func (c *fakeDriver) Import(_ [shm.HandleSize]byte, device int64, size uint64) (shm.Memory, error) {
	_, b, free, err := c.take(int(device), int(size))
	return &region{c, int(device), b, free}, err
}

func (r *region) ReadAt(p []byte, off int64) (int, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.traffic.ToHost += int64(len(p))
	if n := copy(p, r.b[off:]); n < len(p) {
		return n, io.EOF
	}
	return len(p), nil
}

func (r *region) WriteAt(p []byte, off int64) (int, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.traffic.FromHost += int64(len(p))
	return copy(r.b[off:], p), nil
}

func (r *region) Close() error     { return r.free() }
func (r *region) Address() uintptr { return uintptr(unsafe.Pointer(&r.b[0])) }
func (r *region) CopyFrom(address uintptr, n int, off int64) error {
	return r.c.Copy(r.gpu, []gpumem.Copy{{To: r.Address() + uintptr(off), From: address, Size: n}})
}

const regionSize = 64 << 10

// gpuRig is a backend on the GPUs of a fakeDriver, with the regions "r0" and "r1" on them.
type gpuRig struct {
	*fakeDriver
	b       *onnxruntime.Backend
	memory  *gpumem.Memory
	regions *shm.Registry
	pool    tensor.Pool
}

func fakeGPUs(t *testing.T, pinned, device int64) *gpuRig {
	t.Helper()
	open(t) // skips where there is no library
	c := &fakeDriver{memory: map[int][][]byte{}}
	m := gpumem.New(gpumem.Options{Driver: c, PinnedBytes: pinned, DeviceBytes: map[int]int64{0: device, 1: device},
		Log: slog.New(slog.DiscardHandler)})
	b := onnxruntime.New(onnxruntime.Options{Library: os.Getenv("NEREID_ONNXRUNTIME_LIBRARY"), Threads: 2, GPUMemory: m,
		CacheFolder: "../../../.cache/onnxruntime"})
	b.FakeGPUs()
	o := &gpuRig{fakeDriver: c, b: b, memory: m,
		regions: shm.New(shm.Options{CUDA: c, OnDevice: func(string, int64, int) bool { return true }})}
	for gpu := range 2 {
		if err := o.regions.RegisterCUDA(fmt.Sprintf("r%d", gpu), make([]byte, shm.HandleSize), int64(gpu),
			regionSize); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if s := m.Stats(); s.Pinned.Used != 0 || s.Devices[0].Used != 0 || s.Devices[1].Used != 0 {
			t.Errorf("at the end the pools are still used: %+v", s)
		}
		m.Close()
		if err := o.regions.Close(); err != nil {
			t.Error(err)
		}
		for gpu, left := range c.memory {
			if len(left) > 0 {
				t.Errorf("%d pieces of memory of GPU %d are left", len(left), gpu)
			}
		}
	})
	return o
}

// content returns the content of a region.
func (o *gpuRig) content(gpu int) []byte { return o.fakeDriver.memory[gpu][0] }

// instance loads a model on GPU 0.
func (o *gpuRig) instance(t *testing.T, s backend.Spec) backend.Instance {
	t.Helper()
	m, err := o.b.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(),
		backend.Placement{Name: "m_0_0_gpu0", Kind: inferencepb.ModelInstanceGroup_KIND_GPU})
	if err != nil {
		t.Fatal(err)
	}
	if u := m.(backend.DeviceMemoryUser); !u.UsesDeviceMemory(0) || u.UsesDeviceMemory(1) {
		t.Error("the model has use for memory of GPU 0 alone")
	}
	t.Cleanup(func() {
		if err := errors.Join(inst.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return inst
}

// input adds an input to r, in a region of a GPU, or in host memory for gpu -1.
func (o *gpuRig) input(t *testing.T, r *infer.Request, x tensor.Tensor, gpu, at int) {
	t.Helper()
	if gpu >= 0 {
		copy(o.content(gpu)[at:], x.Data)
		buf, err := o.regions.Read(r, &o.pool, shm.Range{Region: fmt.Sprintf("r%d", gpu), Offset: uint64(at),
			Size: uint64(len(x.Data))}, x.DataType, &shm.Quota{})
		if err != nil {
			t.Fatal(err)
		}
		r.Own(buf)
		x.Data, x.Buf = buf.Bytes(), buf
	}
	r.Inputs = append(r.Inputs, x)
}

// output requests an output, in a region of a GPU, or in the response for gpu -1.
func (o *gpuRig) output(t *testing.T, r *infer.Request, name string, gpu, at, size int) {
	t.Helper()
	out := infer.RequestedOutput{Name: name}
	if gpu >= 0 {
		slot, err := o.regions.Slot(shm.Range{Region: fmt.Sprintf("r%d", gpu), Offset: uint64(at), Size: uint64(size)})
		if err != nil {
			t.Fatal(err)
		}
		out.Shared = slot
	}
	r.Outputs = append(r.Outputs, out)
}

// gpuModel is a model whose outputs the test can compute.
type gpuModel struct {
	name    string
	spec    func(t *testing.T) backend.Spec
	outputs []string
	make    func(rng *rand.Rand, rows, width int64) []tensor.Tensor
	want    func(in []tensor.Tensor) [][]byte // by output; nil: the request fails
}

func gpuMemoryModels() []gpuModel {
	row := []int64{16}
	random := func(rng *rand.Rand, name string, dt tensor.DataType, shape ...int64) tensor.Tensor {
		n, _ := tensor.ByteSize(dt, shape)
		return tensor.Tensor{Name: name, DataType: dt, Shape: shape, Data: fill(int(n), rng.Uint64())}
	}
	return []gpuModel{
		{"outputs of known sizes", func(t *testing.T) backend.Spec {
			return sample(t, "add_sub", config(16, []tensorIO{{"INPUT0", tensor.Int32, row},
				{"INPUT1", tensor.Int32, row}},
				[]tensorIO{{"OUTPUT0", tensor.Int32, row}, {"OUTPUT1", tensor.Int32, row}}))
		}, []string{"OUTPUT0", "OUTPUT1"}, func(rng *rand.Rand, rows, _ int64) []tensor.Tensor {
			return []tensor.Tensor{random(rng, "INPUT0", tensor.Int32, rows, 16),
				random(rng, "INPUT1", tensor.Int32, rows, 16)}
		}, func(in []tensor.Tensor) [][]byte {
			out := make([][]byte, 2)
			for i := 0; i < len(in[0].Data); i += 4 {
				a, b := binary.NativeEndian.Uint32(in[0].Data[i:]), binary.NativeEndian.Uint32(in[1].Data[i:])
				out[0] = binary.NativeEndian.AppendUint32(out[0], a+b)
				out[1] = binary.NativeEndian.AppendUint32(out[1], a-b)
			}
			return out
		}},
		{"an output of unknown size, and large", func(t *testing.T) backend.Spec {
			return sample(t, "identity_fp32", config(16, []tensorIO{{"INPUT0", tensor.FP32, []int64{-1}}},
				[]tensorIO{{"OUTPUT0", tensor.FP32, []int64{-1}}}))
		}, []string{"OUTPUT0"}, func(rng *rand.Rand, rows, width int64) []tensor.Tensor {
			return []tensor.Tensor{random(rng, "INPUT0", tensor.FP32, rows, width)}
		}, func(in []tensor.Tensor) [][]byte { return [][]byte{in[0].Data} }},
		{"an output of another shape than the file says", func(t *testing.T) backend.Spec {
			return sample(t, "other_shape",
				config(16, []tensorIO{{"x", tensor.FP32, []int64{3}}}, []tensorIO{{"y", tensor.FP32, []int64{3}}}))
		}, []string{"y"}, func(rng *rand.Rand, rows, _ int64) []tensor.Tensor {
			return []tensor.Tensor{random(rng, "x", tensor.FP32, rows, 3)}
		}, func(in []tensor.Tensor) [][]byte {
			var out []byte
			for d := in[0].Data; len(d) > 0; d = d[12:] {
				out = append(append(out, d[:4]...), d[8:12]...)
			}
			return [][]byte{out}
		}},
		{"runs that fail", func(t *testing.T) backend.Spec {
			return sample(t, "table", config(16, []tensorIO{{"index", tensor.Int64, []int64{1}}},
				[]tensorIO{{"value", tensor.FP32, []int64{1}}}))
		}, []string{"value"}, func(rng *rand.Rand, rows, _ int64) []tensor.Tensor {
			v := make([]int64, rows)
			for i := range v {
				v[i] = rng.Int64N(4)
			}
			if rng.IntN(8) == 0 {
				v[0] = 44
			}
			return []tensor.Tensor{ints("index", []int64{rows, 1}, v...)}
		}, func(in []tensor.Tensor) [][]byte {
			var out []byte
			for d := in[0].Data; len(d) > 0; d = d[8:] {
				if d[0] == 44 {
					return nil
				}
				out = binary.NativeEndian.AppendUint32(out, math.Float32bits(10+float32(d[0])))
			}
			return [][]byte{out}
		}},
	}
}

// expectation is a request of the random test with its expected result.
type expectation struct {
	r       *infer.Request
	resp    *infer.Response
	outputs []string
	want    [][]byte
	slots   []slotAt // by output
	tight   bool     // a slot is too small
}

type slotAt struct{ gpu, at, size int }

// The inputs and outputs of thousands of random batches are in host memory or in regions on two GPUs, with pools of any
// size. Each request must get its own values in the requested place, no other part of a region may change, and all
// memory must be free at the end.
func TestTensorsOnGPUs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for k, tt := range gpuMemoryModels() {
		for n, pools := range [][2]int64{{1 << 20, 1 << 20}, {8 << 10, 4 << 10}, {0, 0}, {1 << 20, 1 << 20}, {0, 0}} {
			filled := n > 2
			t.Run(fmt.Sprintf("%s, pools of %v, runs filled up: %t", tt.name, pools, filled), func(t *testing.T) {
				o := fakeGPUs(t, pools[0], pools[1])
				if filled {
					o.b.FillRuns()
				}
				inst := o.instance(t, tt.spec(t))
				rng := rand.New(rand.NewPCG(uint64(k), uint64(pools[0])))
				var waiting []expectation
				var was [2][]byte // before those that wait
				for round := range 400 {
					base := round % 2 * regionSize / 2
					next := o.batch(t, rng, tt, base)
					before := [2][]byte{bytes.Clone(o.content(0)), bytes.Clone(o.content(1))}
					var b infer.Batch
					for _, a := range next {
						b.Requests = append(b.Requests, a.r)
						b.Rows += a.r.BatchSize
					}
					if err := inst.Execute(t.Context(), &b); err != nil {
						t.Fatal(err)
					}
					for i := range next {
						var err error
						if next[i].resp, err = next[i].r.Next(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					o.check(t, waiting, was, regionSize/2-base)
					waiting, was = next, before
					if rng.IntN(2) == 0 { // else they are read after the next run
						o.check(t, waiting, was, base)
						waiting = nil
					}
				}
				o.check(t, waiting, was, regionSize/2)
				s := o.memory.Stats()
				t.Logf("%+v", s)
				if pools[0] == 1<<20 && (s.BoundInputs == 0 && !filled || s.Traffic.Within == 0) {
					t.Error("nothing stayed on the GPU")
				}
			})
		}
	}
}

// batch makes random requests. Their tensors are in the half of the regions that starts at base.
func (o *gpuRig) batch(t *testing.T, rng *rand.Rand, m gpuModel, base int) []expectation {
	var free [2]int
	place := func(size int) (gpu, at int) {
		gpu = []int{-1, 0, 0, 0, 1}[rng.IntN(5)]
		if gpu < 0 {
			return gpu, 0
		}
		at = (free[gpu] + 255) &^ 255
		if rng.IntN(4) == 0 {
			at += 8 // as no kernel may have it
		}
		if at+size > regionSize/2 {
			return -1, 0
		}
		free[gpu] = at + size
		return gpu, base + at
	}
	width := []int64{1, 7, 64, 500}[rng.IntN(4)]
	everywhere := rng.IntN(2) == 0 // all on GPU 0
	var all []expectation
	for range 1 + rng.IntN(3) {
		rows := 1 + rng.IntN(3)
		r := infer.New()
		r.BatchSize, r.OnDevice = rows, true
		a := expectation{r: r, outputs: m.outputs}
		in := m.make(rng, int64(rows), width)
		a.want = m.want(in)
		var places []slotAt
		for _, x := range in {
			gpu, at := place(len(x.Data))
			for everywhere && gpu != 0 && free[0]+len(x.Data)+300 < regionSize/2 {
				gpu, at = place(len(x.Data))
			}
			places = append(places, slotAt{gpu, at, len(x.Data)})
			o.input(t, r, x, gpu, at)
		}
		for i, name := range m.outputs {
			size := 4 * rows // of those that fail
			if a.want != nil {
				size = len(a.want[i])
			}
			gpu, at := place(size + 8)
			s := slotAt{gpu, at, size + rng.IntN(2)*8}
			switch {
			case i < len(places) && places[i].gpu >= 0 && rng.IntN(4) == 0 &&
				size <= places[i].size: // where an input is
				s = places[i]
			case gpu >= 0 && rng.IntN(10) == 0 && size > 0:
				s.size, a.tight = size-1, true
			}
			a.slots = append(a.slots, s)
			o.output(t, r, name, s.gpu, s.at, s.size)
		}
		all = append(all, a)
	}
	return all
}

// check stores the responses, as a front end does, and checks them. before is the content of the regions before the
// run, which uses the half that starts at base.
func (o *gpuRig) check(t *testing.T, all []expectation, before [2][]byte, base int) {
	t.Helper()
	for _, a := range all {
		err := a.resp.Err
		if err == nil {
			err = shm.Store(a.r, a.resp)
		}
		switch {
		case a.want == nil || a.tight:
			if err == nil {
				t.Fatalf("an answer to what cannot be: %+v", a)
			}
			if a.tight && a.want != nil && status.CodeOf(err) != status.Internal {
				t.Fatalf("%v", err)
			}
		case err != nil:
			t.Fatalf("%v, for %+v", err, a)
		}
		for i, s := range a.slots {
			switch {
			case s.gpu >= 0 && err == nil:
				if got := o.content(s.gpu)[s.at:][:len(a.want[i])]; !bytes.Equal(got, a.want[i]) {
					t.Fatalf("output %d in %+v is %v, want %v", i, s, got, a.want[i])
				}
				copy(before[s.gpu][s.at:], a.want[i])
			case s.gpu >= 0: // perhaps some of it
				copy(before[s.gpu][s.at:][:s.size], o.content(s.gpu)[s.at:][:s.size])
			case err == nil:
				if got := a.resp.Output(a.outputs[i]); got == nil || !bytes.Equal(got.Data, a.want[i]) {
					t.Fatalf("output %d is %+v, want %v", i, got, a.want[i])
				}
			}
		}
		a.resp.Release()
		a.r.Release()
	}
	for gpu := range 2 {
		if len(all) > 0 && !bytes.Equal(o.content(gpu)[base:][:regionSize/2], before[gpu][base:][:regionSize/2]) {
			t.Fatalf("memory of GPU %d that is nobody's output was written", gpu)
		}
	}
}

// The byte counters show how each tensor was transferred.
func TestTransfersOfTensorsOnGPUs(t *testing.T) {
	off := &inferencepb.ModelOptimizationPolicy_PinnedMemoryBuffer{}
	const row = 64 // bytes
	for _, tt := range []struct {
		name           string
		requests       int
		inputs, output slotAt // of the first request; those of the next lie 1024 bytes further
		optimize       *inferencepb.ModelOptimizationPolicy
		device         int64 // the pool's size; 0: 1 MiB
		inHost         bool  // requests are not marked OnDevice
		bound          [2]int64
		traffic        gpumem.Traffic
		pinned         int64 // blocks that are expectation for
	}{
		{name: "both where they are", requests: 1, inputs: slotAt{0, 0, 0}, output: slotAt{0, 4096, row},
			bound: [2]int64{2 * row, row}},
		{name: "an output with room to spare", requests: 1, inputs: slotAt{0, 0, 0}, output: slotAt{0, 4096, 1000},
			bound: [2]int64{2 * row, row}},
		{name: "an input that no kernel may read where it is", requests: 1, inputs: slotAt{0, 4, 0},
			output: slotAt{0, 4096, row}, bound: [2]int64{0, row}, traffic: gpumem.Traffic{Within: 2 * row}},
		{name: "an output that no kernel may write where it goes", requests: 1, inputs: slotAt{0, 0, 0},
			output: slotAt{0, 4100, row}, bound: [2]int64{2 * row, 0}, traffic: gpumem.Traffic{Within: row}},
		{name: "an output where an input is", requests: 1, inputs: slotAt{0, 0, 0}, output: slotAt{0, 0, row},
			bound: [2]int64{2 * row, 0}, traffic: gpumem.Traffic{Within: row}},
		{name: "a batch", requests: 3, inputs: slotAt{0, 0, 0}, output: slotAt{0, 8192, row},
			traffic: gpumem.Traffic{Within: 9 * row}},
		{name: "C071 a batch for which the pool has no room", requests: 3, inputs: slotAt{0, 0, 0},
			output: slotAt{0, 8192, row}, device: 256, traffic: gpumem.Traffic{ToHost: 3 * row, Within: 6 * row},
			pinned: 1},
		{name: "another card's", requests: 1, inputs: slotAt{1, 0, 0}, output: slotAt{1, 4096, row},
			traffic: gpumem.Traffic{ToHost: 2 * row, FromHost: row}, pinned: 3},
		{name: "inputs alone", requests: 1, inputs: slotAt{0, 0, 0}, output: slotAt{-1, 0, 0},
			bound: [2]int64{2 * row, 0}, pinned: 1},
		{name: "the output alone", requests: 1, inputs: slotAt{-1, 0, 0}, output: slotAt{0, 0, row},
			bound: [2]int64{0, row}, pinned: 2},
		{name: "somebody looks on", requests: 1, inputs: slotAt{-1, 0, 0}, output: slotAt{0, 0, row}, inHost: true,
			traffic: gpumem.Traffic{FromHost: row}, pinned: 3},
		{name: "C088 the host's through pinned memory", requests: 2, inputs: slotAt{-1, 0, 0}, output: slotAt{-1, 0, 0},
			pinned: 3},
		{name: "C088 input_pinned_memory is off", requests: 2, inputs: slotAt{-1, 0, 0}, output: slotAt{-1, 0, 0},
			optimize: &inferencepb.ModelOptimizationPolicy{InputPinnedMemory: off}, pinned: 1},
		{name: "C088 output_pinned_memory is off", requests: 2, inputs: slotAt{-1, 0, 0}, output: slotAt{-1, 0, 0},
			optimize: &inferencepb.ModelOptimizationPolicy{OutputPinnedMemory: off}, pinned: 2},
		{name: "C088 both are off", requests: 2, inputs: slotAt{-1, 0, 0}, output: slotAt{-1, 0, 0},
			optimize: &inferencepb.ModelOptimizationPolicy{InputPinnedMemory: off, OutputPinnedMemory: off}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := fakeGPUs(t, 256, cmp.Or(tt.device, 1<<20)) // pinned memory has room for one
			model := gpuMemoryModels()[0]
			s := model.spec(t)
			s.Config.Output = s.Config.Output[:1]
			s.Config.Optimization = tt.optimize
			inst := o.instance(t, s)
			rng := rand.New(rand.NewPCG(1, 1))
			var b infer.Batch
			var all []expectation
			for k := range tt.requests {
				r := infer.New()
				r.BatchSize, r.OnDevice = 1, !tt.inHost
				in := model.make(rng, 1, 0)
				a := expectation{r: r, want: model.want(in)[:1], outputs: model.outputs[:1], slots: []slotAt{tt.output}}
				for i, x := range in {
					o.input(t, r, x, tt.inputs.gpu, tt.inputs.at+1024*k+256*i)
				}
				a.slots[0].at += 1024 * k
				o.output(t, r, "OUTPUT0", a.slots[0].gpu, a.slots[0].at, a.slots[0].size)
				b.Requests, b.Rows, all = append(b.Requests, r), b.Rows+1, append(all, a)
			}
			before := [2][]byte{bytes.Clone(o.content(0)), bytes.Clone(o.content(1))}
			was := o.memory.Stats()
			if err := inst.Execute(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			for i := range all {
				var err error
				if all[i].resp, err = all[i].r.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			o.check(t, all, before, 0)
			now := o.memory.Stats()
			now.Traffic.ToHost -= was.Traffic.ToHost
			now.Traffic.FromHost -= was.Traffic.FromHost
			if got := [2]int64{now.BoundInputs, now.BoundOutputs}; got != tt.bound || now.Traffic != tt.traffic {
				t.Errorf("bound %v, copied %+v; want %v, %+v", got, now.Traffic, tt.bound, tt.traffic)
			}
			if expectation := now.Pinned.Misses + min(1, tt.pinned); expectation != tt.pinned {
				t.Errorf("pinned memory was expectation for %d times, want %d", expectation, tt.pinned)
			}
		})
	}
}

// gpuRequest returns a request of one row that accepts tensors on GPUs.
func gpuRequest() *infer.Request {
	r := infer.New()
	r.BatchSize, r.OnDevice = 1, true
	return r
}

// A failed copy on the GPU fails the request with CUDA's error text. The next request succeeds.
func TestFailedGPUCopyFailsTheRequest(t *testing.T) {
	o := fakeGPUs(t, 1<<20, 1<<20)
	model := gpuMemoryModels()[0]
	inst := o.instance(t, model.spec(t))
	for _, fails := range []bool{true, false} {
		o.fail = fails
		r := gpuRequest()
		in := model.make(rand.New(rand.NewPCG(1, 1)), 1, 0)
		for i, x := range in {
			o.input(t, r, x, 0, 1024*i+8)
		}
		resp := alone(t, inst, r)
		switch {
		case fails && (status.CodeOf(resp.Err) != status.InvalidArg ||
			!strings.Contains(resp.Err.Error(), "input 'INPUT0' cannot be read where it is: CUDA says no")):
			t.Errorf("%v", resp.Err)
		case !fails && (resp.Err != nil || !bytes.Equal(resp.Output("OUTPUT0").Data, model.want(in)[0])):
			t.Errorf("afterwards: %v", resp.Err)
		}
		resp.Release()
		r.Release()
	}
}

// If ONNX Runtime refuses GPU memory, the request fails with its error text. Requests with tensors in host memory still
// succeed on the same instance.
func TestRefusedGPUMemoryFailsTheRequest(t *testing.T) {
	o := fakeGPUs(t, 1<<20, 1<<20)
	o.b.FakeGPUsWithoutMemory()
	model := gpuMemoryModels()[0]
	inst := o.instance(t, model.spec(t))
	for k := range 20 {
		r := gpuRequest()
		in := model.make(rand.New(rand.NewPCG(1, 1)), 1, 0)
		for i, x := range in {
			o.input(t, r, x, k%2-1, 1024*i)
		}
		resp := alone(t, inst, r)
		switch {
		case k%2 == 1 && (status.CodeOf(resp.Err) != status.Internal ||
			!strings.HasPrefix(resp.Err.Error(), "onnx runtime error ")):
			t.Errorf("%v: %v", status.CodeOf(resp.Err), resp.Err)
		case k%2 == 0 && (resp.Err != nil || !bytes.Equal(resp.Output("OUTPUT0").Data, model.want(in)[0])):
			t.Errorf("from the host: %v", resp.Err)
		}
		if k == 1 {
			t.Log(resp.Err)
		}
		resp.Release()
		r.Release()
	}
}

// Runs with outputs in place, left on the GPU and in host memory must not leak memory.
func TestRunsWithGPUMemoryDoNotLeak(t *testing.T) {
	if race || testing.Short() {
		t.Skip("resident memory is measured, over seconds")
	}
	if os.Getenv("NEREID_TEST_ALONE") == "" { // what other tests left in this process may be released during the runs
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunsWithGPUMemoryDoNotLeak$", "-test.v")
		cmd.Env = append(os.Environ(), "NEREID_TEST_ALONE=1", "GOMAXPROCS=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestRunsWithGPUMemoryDoNotLeak")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	o := fakeGPUs(t, 1<<20, 1<<20)
	model := gpuMemoryModels()[1] // its output's size is not known: ONNX Runtime's memory
	inst := o.instance(t, model.spec(t))
	rng := rand.New(rand.NewPCG(1, 1))
	run := func() {
		r := gpuRequest()
		in := model.make(rng, 1, 2000)
		o.input(t, r, in[0], 0, 256*rng.IntN(2))
		o.output(t, r, "OUTPUT0", rng.IntN(2)-1, 16384, 8000)
		resp := alone(t, inst, r)
		if err := shm.Store(r, resp); err != nil || resp.Err != nil {
			t.Fatal(err, resp.Err)
		}
		resp.Release()
		r.Release()
	}
	var samples []int64
	for i := range 11000 {
		run()
		if i >= 1000 && i%500 == 0 {
			debug.FreeOSMemory()
			samples = append(samples, resident(t))
		}
	}
	grows := slope(samples) / 500
	t.Logf("%.0f bytes a run", grows)
	if grows > 100 { // an output has 8000 bytes
		t.Errorf("resident memory grows by %.0f bytes a run; %d", grows, samples)
	}
}
