package ovapi

/*
#include "ov.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// IO describes an input or output.
type IO struct {
	Name     string
	DataType tensor.DataType
	Dims     []int64 // -1 for a variable dimension
	Unranked bool    // Dims says nothing
}

// port is an input or output of a compiled model.
type port struct {
	c  unsafe.Pointer
	dt tensor.DataType
}

// Runner runs a compiled model, one run at a time.
type Runner struct {
	l       *Library
	request unsafe.Pointer
	in, out []port
	scratch []scratch // one per input
	outputs []C.nrd_ov_output
	wanted  []int
	pin     runtime.Pinner
	fresh   bool // every input gets memory of its own, see Compile
}

// scratch is memory that an input's parts are put together in.
type scratch struct {
	p unsafe.Pointer
	n int
}

func (s *scratch) get(n int) (unsafe.Pointer, error) {
	if n > s.n || s.p == nil {
		s.free()
		size := (n + n/4 + 127) &^ 63
		if s.p = C.aligned_alloc(64, C.size_t(size)); s.p == nil {
			return nil, status.Errorf(status.Unavailable, "out of memory for an input of %d bytes", n)
		}
		s.n = size
	}
	return s.p, nil
}

func (s *scratch) free() {
	C.free(s.p)
	s.p, s.n = nil, 0
}

// NewRunner prepares runs with these inputs and outputs of the model, by any of their names.
func (c *Compiled) NewRunner(inputs, outputs []string) (*Runner, error) {
	r := &Runner{l: c.l, scratch: make([]scratch, len(inputs)), outputs: make([]C.nrd_ov_output, len(outputs)+1),
		fresh: c.fresh}
	err := check(C.nrd_ov_request(c.c, &r.request))
	for i := 0; i < len(inputs)+len(outputs) && err == nil; i++ {
		if i < len(inputs) {
			err = c.port(0, inputs[i], &r.in)
		} else {
			err = c.port(1, outputs[i-len(inputs)], &r.out)
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (c *Compiled) port(output int, name string, list *[]port) error {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var p port
	var typ C.uint32_t
	if err := check(C.nrd_ov_port(c.c, C.int(output), n, &p.c, &typ)); err != nil {
		return fmt.Errorf("%s '%s': %w", [2]string{"input", "output"}[output], name, err)
	}
	p.dt = c.l.types.dt[uint32(typ)]
	*list = append(*list, p)
	return nil
}

// inPlace is the size in bytes from which on an input of one part is not copied.
const inPlace = 16 << 10

// Put sets input i of the next run to the concatenated bytes of all parts. A large single part is used in place
// and must stay until the run is over.
func (r *Runner) Put(i int, shape []int64, parts [][]byte) error {
	if len(shape) > C.NRD_OV_MAX_RANK {
		return status.Errorf(status.InvalidArg, "%d dimensions; at most %d are supported", len(shape),
			C.NRD_OV_MAX_RANK)
	}
	count, err := tensor.Elements(shape)
	if err != nil {
		return err
	}
	var dims [C.NRD_OV_MAX_RANK]C.int64_t
	for k, d := range shape {
		dims[k] = C.int64_t(d)
	}
	p := r.in[i]
	if p.dt == tensor.Bytes {
		return r.putStrings(p, dims[:len(shape):len(dims)], count, parts)
	}
	size := int(count) * p.dt.Size()
	have := 0
	for _, b := range parts {
		have += len(b)
	}
	if have != size {
		return status.Errorf(status.InvalidArg, "%d bytes for shape %s", have, tensor.FormatShape(shape))
	}
	if r.fresh && size > 0 {
		return r.putCopy(p, dims[:len(shape):len(dims)], size, parts)
	}
	var data unsafe.Pointer
	if len(parts) == 1 && size >= inPlace && uintptr(unsafe.Pointer(&parts[0][0]))%uintptr(p.dt.Size()) == 0 {
		data = unsafe.Pointer(&parts[0][0])
		r.pin.Pin(&parts[0][0])
	} else {
		if data, err = r.scratch[i].get(size); err != nil {
			return err
		}
		gather(unsafe.Slice((*byte)(data), size), parts)
	}
	return check(C.nrd_ov_put(r.request, p.c, C.uint32_t(r.l.types.code[p.dt]), &dims[0], C.int(len(shape)), data))
}

// putCopy sets an input to a tensor whose memory is OpenVINO's: it stays as long as a device holds the tensor.
func (r *Runner) putCopy(p port, dims []C.int64_t, size int, parts [][]byte) error {
	var t, data unsafe.Pointer
	if err := check(C.nrd_ov_create(C.uint32_t(r.l.types.code[p.dt]), unsafe.SliceData(dims), C.int(len(dims)), &t,
		&data)); err != nil {
		return err
	}
	gather(unsafe.Slice((*byte)(data), size), parts)
	return check(C.nrd_ov_put_created(r.request, p.c, t))
}

func gather(to []byte, parts [][]byte) {
	at := 0
	for _, b := range parts {
		at += copy(to[at:], b)
	}
}

// putStrings sets an input of strings, which cannot have zero bytes: the C API takes C strings.
func (r *Runner) putStrings(p port, dims []C.int64_t, count int64, parts [][]byte) error {
	list := make([]*C.char, 0, count+1)
	defer func() {
		for _, s := range list {
			C.free(unsafe.Pointer(s))
		}
	}()
	for _, b := range parts {
		for _, text := range tensor.BytesElements(b) {
			if bytes.IndexByte(text, 0) >= 0 {
				return status.New(status.InvalidArg,
					"a text has a zero byte, which OpenVINO's C interface does not take; send such data as UINT8")
			}
			list = append(list, C.CString(string(text)))
		}
	}
	if int64(len(list)) != count {
		return status.Errorf(status.InvalidArg, "%d texts, and the shape has %d", len(list), count)
	}
	texts := append(list, nil) //nolint:gocritic // list keeps what is to be freed
	return check(C.nrd_ov_put_strings(r.request, p.c, unsafe.SliceData(dims), C.int(len(dims)), &texts[0],
		C.size_t(count)))
}

// Reset releases the inputs and outputs of the last run.
func (r *Runner) Reset() {
	r.pin.Unpin()
	for k := range r.outputs {
		if t := r.outputs[k].tensor; t != nil {
			C.nrd_ov_free_tensor(t)
			r.outputs[k].tensor = nil
		}
	}
}

// Run computes the outputs with these indexes; all inputs must have been put since Reset.
func (r *Runner) Run(want []int) error {
	if err := check(C.nrd_ov_infer(r.request)); err != nil {
		return err
	}
	text, ok := r.l.types.code[tensor.Bytes]
	if !ok {
		text = ^uint32(0)
	}
	for k, i := range want {
		if err := check(C.nrd_ov_output_of(r.request, r.out[i].c, C.uint32_t(text), &r.outputs[k])); err != nil {
			return err
		}
	}
	return nil
}

// Output describes output k of those that the last run was to compute. Data is nil for strings, whose Size is that of
// Triton's form; it is overwritten by the next run.
func (r *Runner) Output(k int) (dt tensor.DataType, shape []int64, data []byte, size int, err error) {
	o := &r.outputs[k]
	dt, ok := r.l.types.dt[uint32(o._type)]
	if !ok {
		return dt, nil, nil, 0, status.New(status.Unsupported, "its element type cannot be sent")
	}
	shape = unsafe.Slice((*int64)(&o.shape[0]), int(o.rank))
	if o.data != nil && dt != tensor.Bytes {
		data = unsafe.Slice((*byte)(o.data), int(o.size))
	}
	return dt, shape, data, int(o.size), nil
}

// Strings writes output k in Triton's format into buf, which has its size.
func (r *Runner) Strings(k int, buf []byte) {
	C.nrd_ov_get_strings(&r.outputs[k], unsafe.Pointer(unsafe.SliceData(buf)))
}

// Keep takes output k of the last run. Its data is freed by free, or overwritten by the next run.
func (r *Runner) Keep(k int) (free func()) {
	t := r.outputs[k].tensor
	r.outputs[k].tensor = nil
	return func() { C.nrd_ov_free_tensor(t) }
}

// Close frees the runner's memory.
func (r *Runner) Close() {
	r.Reset()
	for _, p := range append(r.in, r.out...) {
		C.nrd_ov_free_port(p.c)
	}
	if r.request != nil {
		C.nrd_ov_free_request(r.request)
	}
	for i := range r.scratch {
		r.scratch[i].free()
	}
	r.in, r.out, r.request = nil, nil, nil
}
