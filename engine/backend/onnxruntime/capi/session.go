package capi

/*
#include "capi.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Session is a loaded model. Several runners may run it concurrently.
type Session struct {
	c      *C.OrtSession
	shared C.int64_t // bytes of the shared memory that the session took when it was made
}

// sessions counts the open ones.
var sessions atomic.Int64

// NewSession loads a model file. options is an OrtSessionOptions, which the caller still owns.
func (l *Library) NewSession(path string, options unsafe.Pointer) (*Session, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	s := &Session{}
	if err := check(C.nrd_session(l.env, name, (*C.OrtSessionOptions)(options), &s.c, &s.shared)); err != nil {
		return nil, err
	}
	sessions.Add(1)
	return s, nil
}

// Close frees the model. Its runners must not be used afterwards.
func (s *Session) Close() {
	if s.c != nil {
		C.nrd_release_session(s.c)
		s.c = nil
		sessions.Add(-1)
	}
}

// Memory returns the bytes that the session holds: its weights, and with an arena also the memory of its runs. 0: not
// known.
func (s *Session) Memory() (int64, error) {
	var n C.int64_t
	err := check(C.nrd_memory(s.c, &n))
	return int64(n + max(s.shared, 0)), err
}

// DeviceMemory returns the bytes in use by the session's allocator for a CUDA device. It fails if the session does not
// use that device.
func (s *Session) DeviceMemory(device int) (int64, error) {
	var n C.int64_t
	err := check(C.nrd_device_memory(s.c, C.int(device), &n))
	return int64(n), err
}

// EndProfile ends what Profile began, and returns the path of the file.
func (s *Session) EndProfile() (string, error) {
	var path *C.char
	if err := check(C.nrd_end_profile(s.c, &path)); err != nil {
		return "", err
	}
	defer C.nrd_free_name(path)
	return C.GoString(path), nil
}

// Kind is a list of a model's tensors.
type Kind int

// The kinds of lists.
const (
	Inputs Kind = iota
	Outputs
	Initializers // the constants that an input of the same name overrides
)

// Tensor is the ONNXType of tensors, the only values that can be served.
const Tensor = C.ONNX_TYPE_TENSOR

// IO describes one input or output.
type IO struct {
	Name     string
	ONNXType int // if it is not Tensor, the following fields are not set
	Type     int // ONNXTensorElementDataType
	Dims     []int64
	DimNames []string // by dimension: the name of a variable dimension, or ""
}

// Signature returns one list, in the model's order.
func (s *Session) Signature(kind Kind) ([]IO, error) {
	var n C.size_t
	if err := check(C.nrd_count(s.c, C.int(kind), &n)); err != nil {
		return nil, err
	}
	list := make([]IO, n)
	for i := range list {
		if err := s.describe(kind, i, &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s *Session) describe(kind Kind, i int, io *IO) error {
	var (
		name            *C.char
		onnxType, dtype C.int
		rank            C.size_t
		info            *C.OrtTypeInfo
	)
	err := check(C.nrd_io(s.c, C.int(kind), C.size_t(i), &name, &onnxType, &dtype, &rank, &info))
	if name != nil {
		io.Name = C.GoString(name)
		C.nrd_free_name(name)
	}
	if info != nil {
		defer C.nrd_release_info(info)
	}
	if err != nil {
		return err
	}
	io.ONNXType, io.Type = int(onnxType), int(dtype)
	if io.ONNXType != Tensor || rank == 0 {
		return nil
	}
	if rank > C.NRD_MAX_RANK {
		return fmt.Errorf("%q has %d dimensions; at most %d are supported", io.Name, rank, C.NRD_MAX_RANK)
	}
	var dims [C.NRD_MAX_RANK]C.int64_t
	var names [C.NRD_MAX_RANK]*C.char
	if err := check(C.nrd_dims(info, &dims[0], &names[0], rank)); err != nil {
		return err
	}
	for k := range int(rank) {
		io.Dims = append(io.Dims, int64(dims[k]))
		io.DimNames = append(io.DimNames, C.GoString(names[k]))
	}
	return nil
}

// Runner runs a session, one run at a time. Runs allocate no Go memory. Only Terminate may be called concurrently.
type Runner struct {
	c       *C.nrd_runner
	in      []C.nrd_input
	given   []C.nrd_input
	out     []C.nrd_output
	inName  []*C.char // of the inputs in the next run
	outName []*C.char
	names   []*C.char // of all inputs and outputs
	nIn     int
	nOut    int
	device  bool // UseDevice has been called
	bound   bool // the next run has an input or output on the device
	pin     runtime.Pinner
}

// NewRunner returns a runner for runs with any of these inputs and outputs. config are run options.
func (s *Session) NewRunner(inputs, outputs []string, config map[string]string) (*Runner, error) {
	c := C.nrd_new_runner(s.c, C.size_t(len(inputs)), C.size_t(len(outputs)))
	if c == nil {
		return nil, fmt.Errorf("out of memory")
	}
	r := &Runner{c: c}
	r.in = unsafe.Slice(c.in, len(inputs))
	r.given = unsafe.Slice(c.given, len(outputs))
	r.out = unsafe.Slice(c.out, len(outputs))
	r.inName = unsafe.Slice(c.in_names, len(inputs))
	r.outName = unsafe.Slice(c.out_names, len(outputs))
	for _, n := range append(append([]string(nil), inputs...), outputs...) {
		r.names = append(r.names, C.CString(n))
	}
	err := check(C.nrd_init_runner(c, nil, nil))
	for key, value := range config {
		if err == nil {
			k, v := C.CString(key), C.CString(value)
			err = check(C.nrd_init_runner(c, k, v))
			C.free(unsafe.Pointer(k))
			C.free(unsafe.Pointer(v))
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// ONNX Runtime's names for the memory of NVIDIA's GPUs and of the host.
const (
	CUDA = "Cuda"
	CPU  = "Cpu"
)

// UseDevice allows inputs and outputs in the memory of a device, which the session must use. It is called at most once,
// before the first run.
func (r *Runner) UseDevice(memory string, device int) error {
	name := C.CString(memory)
	defer C.free(unsafe.Pointer(name))
	err := check(C.nrd_use_device(r.c, name, C.int(device)))
	r.device = err == nil
	return err
}

// Close frees the runner. Values from Keep stay valid.
func (r *Runner) Close() {
	if r.c == nil {
		return
	}
	if C.nrd_free_runner(r.c) != 0 {
		tidyLater()
	}
	for _, n := range r.names {
		C.free(unsafe.Pointer(n))
	}
	r.c, r.in, r.given, r.out, r.inName, r.outName, r.names = nil, nil, nil, nil, nil, nil, nil
}

// Reset removes all inputs and outputs, for the next run.
func (r *Runner) Reset() {
	r.pin.Unpin()
	r.nIn, r.nOut, r.bound = 0, 0, false
}

// AddInput adds input i of NewRunner's list to the next run. dtype is its ONNXTensorElementDataType, count its number
// of elements. data, with strings in Triton's format, is read in place and must not change during the run.
// cHeap promises that data is not Go memory and not strings. While its address and shape stay the same, ONNX Runtime's
// value for it is reused.
func (r *Runner) AddInput(i, dtype int, shape []int64, count int64, data []byte, cHeap bool) error {
	if len(shape) > C.NRD_MAX_RANK {
		return fmt.Errorf("%d dimensions; at most %d are supported", len(shape), C.NRD_MAX_RANK)
	}
	in := &r.in[r.nIn]
	r.inName[r.nIn] = r.names[i]
	setTensor(in, dtype, shape, count, data)
	in.keep, in.device = 0, 0
	switch {
	case len(data) == 0: // any address that is not null
		in.data = C.uintptr_t(uintptr(unsafe.Pointer(in)))
	case cHeap:
		in.keep = 1
	default:
		r.pin.Pin(unsafe.SliceData(data))
	}
	r.nIn++
	return nil
}

// AddDeviceInput is AddInput for an input of size bytes, above 0, in the device's memory. It needs UseDevice.
func (r *Runner) AddDeviceInput(i, dtype int, shape []int64, count int64, address uintptr, size int) error {
	if len(shape) > C.NRD_MAX_RANK || !r.device {
		return fmt.Errorf("%d dimensions of an input on a device (%v); at most %d are supported", len(shape), r.device,
			C.NRD_MAX_RANK)
	}
	in := &r.in[r.nIn]
	r.inName[r.nIn] = r.names[i]
	setTensor(in, dtype, shape, count, nil)
	in.keep, in.device, in.data, in.size = 1, 1, C.uintptr_t(address), C.uint64_t(size)
	r.nIn++
	r.bound = true
	return nil
}

// setTensor sets the type, shape and memory of a tensor.
func setTensor(c *C.nrd_input, dtype int, shape []int64, count int64, data []byte) {
	c._type, c.rank = C.int32_t(dtype), C.int32_t(len(shape))
	c.size, c.count = C.uint64_t(len(data)), C.uint64_t(count)
	c.data = C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
	for k, d := range shape {
		c.shape[k] = C.int64_t(d)
	}
}

// AddOutput requests output i of NewRunner's list from the next run.
func (r *Runner) AddOutput(i int) {
	r.outName[r.nOut] = r.names[len(r.in)+i]
	r.given[r.nOut].data, r.given[r.nOut].device = 0, 0
	r.nOut++
}

// AddDeviceOutput is AddOutput for an output that stays in the device's memory. It must not have strings. It needs
// UseDevice.
func (r *Runner) AddDeviceOutput(i int) {
	g := &r.given[r.nOut]
	r.AddOutput(i)
	g.device = 1
	r.bound = true
}

// AddDeviceOutputTo is AddOutputTo for memory of the device. It needs UseDevice.
func (r *Runner) AddDeviceOutputTo(i, dtype int, shape []int64, address uintptr, size int) {
	g := &r.given[r.nOut]
	r.AddDeviceOutput(i)
	setTensor(g, dtype, shape, 0, nil)
	g.data, g.size = C.uintptr_t(address), C.uint64_t(size)
}

// AddOutputTo is AddOutput for an output that the run writes to data, which must not be empty or Go memory. The run
// fails if the output has another shape.
func (r *Runner) AddOutputTo(i, dtype int, shape []int64, data []byte) {
	g := &r.given[r.nOut]
	r.AddOutput(i)
	setTensor(g, dtype, shape, 0, data)
}

// Run runs the model with the inputs and outputs added since Reset. On success the caller reads each output with
// Output, by its index in the order of AddOutput, and then calls Keep or Discard.
func (r *Runner) Run() error {
	if r.c == nil {
		return ErrClosed
	}
	var s *C.OrtStatus
	if r.bound {
		s = C.nrd_run_bound(r.c, C.size_t(r.nIn), C.size_t(r.nOut))
	} else {
		s = C.nrd_run(r.c, C.size_t(r.nIn), C.size_t(r.nOut))
	}
	r.pin.Unpin()
	if r.c.kept != 0 {
		tidyLater()
	}
	return check(s)
}

// Terminate stops the run in progress, and all later ones until Resume. Safe for concurrent use.
func (r *Runner) Terminate() error { return check(C.nrd_terminate(r.c, 1)) }

// Resume ends the effect of Terminate. It must not be called during a run.
func (r *Runner) Resume() error { return check(C.nrd_terminate(r.c, 0)) }

// Output is an output of a run. Shape and Data are ONNX Runtime's memory, valid until the value is released.
type Output struct {
	Type  int // ONNXTensorElementDataType
	Shape []int64
	Data  []byte // nil for strings and on a device
	Size  int    // in bytes; for strings in Triton's format
	// Address is the address in the device's memory, 0 for an output in host memory.
	Address uintptr
}

// Output describes output i of the last run.
func (r *Runner) Output(i int) Output {
	c := &r.out[i]
	o := Output{Type: int(c._type), Shape: unsafe.Slice((*int64)(c.shape), int(c.rank)), Size: int(c.size)}
	switch {
	case c.device != 0:
		o.Address = uintptr(c.data)
	case c.data != nil:
		o.Data = unsafe.Slice((*byte)(c.data), o.Size)
	}
	return o
}

// Strings writes string output i of the last run to buf, in Triton's format. buf has the output's Size.
func (r *Runner) Strings(i int, buf []byte) error {
	return check(C.nrd_strings(&r.out[i], unsafe.Pointer(unsafe.SliceData(buf))))
}

// DiscardAll discards the outputs of the last run that were neither kept nor discarded.
func (r *Runner) DiscardAll() {
	for i := range r.nOut {
		if r.out[i].value != nil {
			r.Discard(i)
		}
	}
}

// Value is an output that stays valid after its runner and session are closed.
type Value struct{ c *C.OrtValue }

// Keep returns output i of the last run. The caller must release it.
func (r *Runner) Keep(i int) Value {
	v := Value{r.out[i].value}
	r.out[i].value = nil
	return v
}

// Discard releases output i of the last run, at the latest in the next run.
func (r *Runner) Discard(i int) {
	if r.out[i].value == nil {
		return
	}
	stale := unsafe.Slice(r.c.stale, len(r.out))
	stale[r.c.stale_count] = r.out[i].value
	r.c.stale_count++
	r.out[i].value = nil
}

// Release frees the value. It must be called once, on any goroutine.
func (v Value) Release() {
	if C.nrd_release_value(v.c) != 0 {
		tidyLater()
	}
}

// Scratch is reusable memory outside Go's heap, aligned for vector instructions. The zero value is empty.
type Scratch struct {
	p unsafe.Pointer
	n int
}

// Get returns n bytes. The result of an earlier Get must not be used any more.
func (s *Scratch) Get(n int) ([]byte, error) {
	if n > s.n {
		s.Free()
		size := (n + n/4 + 63) &^ 63
		p := C.aligned_alloc(64, C.size_t(size))
		if p == nil {
			return nil, fmt.Errorf("out of memory for a batch of %d bytes", n)
		}
		s.p, s.n = p, size
	}
	return unsafe.Slice((*byte)(s.p), n), nil
}

// Cap returns the number of allocated bytes.
func (s *Scratch) Cap() int { return s.n }

// Free frees the memory.
func (s *Scratch) Free() {
	C.free(s.p)
	s.p, s.n = nil, 0
}
