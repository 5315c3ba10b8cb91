package tfapi

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ldl
#include "tf.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Error is a failure that TensorFlow reports, with its own code (TF_Code) and words.
type Error struct {
	Code int
	Msg  string
}

// Error returns TensorFlow's message.
func (e *Error) Error() string { return "TensorFlow: " + e.Msg }

// Status returns Triton's code for TensorFlow's.
func (e *Error) Status() status.Code {
	switch e.Code {
	case 1:
		return status.Cancelled
	case 3, 9, 11: // INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE
		return status.InvalidArg
	case 5:
		return status.NotFound
	case 8, 14: // RESOURCE_EXHAUSTED, UNAVAILABLE
		return status.Unavailable
	case 12:
		return status.Unsupported
	}
	return status.Internal
}

func check(text *C.char, code C.int) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return &Error{int(code), C.GoString(text)}
}

// process is the one library of the process.
var process struct {
	sync.Mutex
	path, version string
}

// Open opens TensorFlow's library and returns its version. It stays; Open of another path fails. Safe for concurrent
// use.
func Open(path string) (version string, err error) {
	process.Lock()
	defer process.Unlock()
	if process.path != "" {
		if process.path != path {
			return "", fmt.Errorf("TensorFlow %s from %s is in use already", process.version, process.path)
		}
		return process.version, nil
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if text := C.nrd_tf_open(name); text != nil {
		defer C.free(unsafe.Pointer(text))
		return "", fmt.Errorf("cannot open TensorFlow at %s: %s", path, C.GoString(text))
	}
	process.path, process.version = path, C.GoString(C.nrd_tf_version())
	return process.version, nil
}

// LoadLibrary loads a library of operators. It stays.
func LoadLibrary(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var code C.int
	return check(C.nrd_tf_load_library(name, &code), code)
}

// Session is a loaded model.
type Session struct{ graph, session unsafe.Pointer }

// LoadSavedModel loads the graph with exactly these tags of the SavedModel in a folder. config is a ConfigProto.
func LoadSavedModel(folder string, tags []string, config []byte) (*Session, error) {
	dir := C.CString(folder)
	defer C.free(unsafe.Pointer(dir))
	list := make([]*C.char, len(tags)+1)
	for i, t := range tags {
		list[i] = C.CString(t)
		defer C.free(unsafe.Pointer(list[i]))
	}
	s := &Session{}
	var code C.int
	err := check(C.nrd_tf_saved_model(dir, &list[0], C.int(len(tags)), bytes(config), C.size_t(len(config)), &s.graph,
		&s.session, &code), code)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// LoadGraph loads a GraphDef.
func LoadGraph(def, config []byte) (*Session, error) {
	s := &Session{}
	var code C.int
	err := check(C.nrd_tf_graph(bytes(def), C.size_t(len(def)), bytes(config), C.size_t(len(config)), &s.graph,
		&s.session, &code), code)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func bytes(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// HasGPU reports whether the session sees a GPU.
func (s *Session) HasGPU() bool { return C.nrd_tf_has_gpu(s.session) != 0 }

// RunOperation runs an operation for its effect.
func (s *Session) RunOperation(name string) error {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var code C.int
	if err := check(C.nrd_tf_target(s.graph, s.session, n, &code), code); err != nil {
		return fmt.Errorf("operation '%s': %w", name, err)
	}
	return nil
}

// Close frees the session. Runners of it must be closed.
func (s *Session) Close() {
	if s.session != nil {
		C.nrd_tf_close(s.graph, s.session)
		s.graph, s.session = nil, nil
	}
}

// ErrNoNode is that of a name which is not in the graph.
var ErrNoNode = errors.New("the graph has no such node")

// find looks a tensor of the graph up: "node:0", or "node" for its first output.
func (s *Session) find(name string) (C.nrd_tf_port, int, error) {
	node, index := name, 0
	if at := strings.LastIndexByte(name, ':'); at >= 0 {
		n, err := strconv.Atoi(name[at+1:])
		if err != nil || n < 0 {
			return C.nrd_tf_port{}, 0, ErrNoNode
		}
		node, index = name[:at], n
	}
	c := C.CString(node)
	defer C.free(unsafe.Pointer(c))
	var port C.nrd_tf_port
	var typ C.int
	if C.nrd_tf_find(s.graph, c, C.int(index), &port, &typ) != 1 {
		return port, 0, ErrNoNode
	}
	return port, int(typ), nil
}

// Type returns TensorFlow's number of the type of a tensor of the graph. Errors: ErrNoNode.
func (s *Session) Type(name string) (int, error) {
	_, typ, err := s.find(name)
	return typ, err
}

// Runner runs a session, one run at a time.
type Runner struct {
	session *Session
	types   []int // of the inputs, TensorFlow's numbers
	in, out []C.nrd_tf_port
	wanted  []C.nrd_tf_port
	values  []unsafe.Pointer // one per input; nil: not put
	taken   []unsafe.Pointer // the inputs of a run, without those that are not put
	ports   []C.nrd_tf_port  // theirs
	results []unsafe.Pointer
	outputs []C.nrd_tf_output
}

// NewRunner prepares runs with these tensors of the graph. Errors: ErrNoNode, with the name.
func (s *Session) NewRunner(inputs, outputs []string) (*Runner, error) {
	r := &Runner{session: s, values: make([]unsafe.Pointer, len(inputs)),
		results: make([]unsafe.Pointer, len(outputs)+1), outputs: make([]C.nrd_tf_output, len(outputs)+1)}
	for _, name := range inputs {
		port, typ, err := s.find(name)
		if err != nil {
			return nil, fmt.Errorf("'%s': %w", name, err)
		}
		r.in, r.types = append(r.in, port), append(r.types, typ)
	}
	for _, name := range outputs {
		port, _, err := s.find(name)
		if err != nil {
			return nil, fmt.Errorf("'%s': %w", name, err)
		}
		r.out = append(r.out, port)
	}
	return r, nil
}

// Put sets input i of the next run to the concatenated bytes of all parts. They are copied: TensorFlow may keep
// an input beyond its run.
func (r *Runner) Put(i int, shape []int64, parts [][]byte) error {
	r.drop(i)
	if len(shape) > C.NRD_TF_MAX_RANK {
		return status.Errorf(status.InvalidArg, "%d dimensions; at most %d are supported", len(shape),
			C.NRD_TF_MAX_RANK)
	}
	count, err := tensor.Elements(shape)
	if err != nil {
		return err
	}
	var dims [C.NRD_TF_MAX_RANK]C.int64_t
	for k, d := range shape {
		dims[k] = C.int64_t(d)
	}
	var data unsafe.Pointer
	if r.types[i] == C.NRD_TF_STRING {
		return r.putStrings(i, dims[:len(shape):len(dims)], count, parts)
	}
	size := int(count) * DataType(r.types[i]).Size()
	r.values[i] = C.nrd_tf_tensor(C.int(r.types[i]), &dims[0], C.int(len(shape)), C.size_t(size), &data)
	if r.values[i] == nil {
		return status.Errorf(status.Unavailable, "out of memory for an input of %d bytes", size)
	}
	at := 0
	to := unsafe.Slice((*byte)(data), size)
	for _, p := range parts {
		at += copy(to[at:], p)
	}
	if at != size {
		r.drop(i)
		return status.Errorf(status.InvalidArg, "%d bytes for shape %s", at, tensor.FormatShape(shape))
	}
	return nil
}

func (r *Runner) putStrings(i int, dims []C.int64_t, count int64, parts [][]byte) error {
	var data unsafe.Pointer
	r.values[i] = C.nrd_tf_strings(unsafe.SliceData(dims), C.int(len(dims)), C.uint64_t(count), &data)
	if r.values[i] == nil {
		return status.Errorf(status.Unavailable, "out of memory for an input of %d texts", count)
	}
	for _, p := range parts {
		n := int64(0)
		for range tensor.BytesElements(p) {
			n++
		}
		if n > count || C.nrd_tf_put_strings(data, bytes(p), C.size_t(len(p)), C.uint64_t(n)) == 0 {
			r.drop(i)
			return status.Errorf(status.InvalidArg, "the texts do not fit the shape")
		}
		count -= n
		data = unsafe.Add(data, n*C.NRD_TF_STRING_SIZE)
	}
	if count != 0 {
		r.drop(i)
		return status.Errorf(status.InvalidArg, "%d texts are missing for the shape", count)
	}
	return nil
}

func (r *Runner) drop(i int) {
	if r.values[i] != nil {
		C.nrd_tf_delete(r.values[i])
		r.values[i] = nil
	}
}

// Reset releases the inputs that were put and the outputs that were not kept.
func (r *Runner) Reset() {
	for i := range r.values {
		r.drop(i)
	}
	for k := range r.outputs {
		if t := r.outputs[k].tensor; t != nil {
			C.nrd_tf_delete(t)
			r.outputs[k].tensor = nil
		}
	}
}

// Run computes the outputs with these indexes from the inputs that were put since Reset.
func (r *Runner) Run(want []int) error {
	r.wanted, r.ports, r.taken = r.wanted[:0], r.ports[:0], r.taken[:0]
	for _, i := range want {
		r.wanted = append(r.wanted, r.out[i])
	}
	for i, v := range r.values {
		if v != nil {
			r.ports, r.taken = append(r.ports, r.in[i]), append(r.taken, v)
		}
	}
	var code C.int
	return check(C.nrd_tf_run(r.session.session, unsafe.SliceData(r.ports), unsafe.SliceData(r.taken),
		C.int(len(r.taken)),
		unsafe.SliceData(r.wanted), &r.results[0], &r.outputs[0], C.int(len(want)), &code), code)
}

// Output describes output k of those that the last run was to compute. Data is nil for strings, whose Size is that of
// Triton's form.
func (r *Runner) Output(k int) (dt tensor.DataType, shape []int64, data []byte, size int, err error) {
	o := &r.outputs[k]
	if dt = DataType(int(o._type)); dt == tensor.Invalid {
		return dt, nil, nil, 0, status.Errorf(status.Unsupported, "it is %s, which cannot be sent",
			TypeName(int(o._type)))
	}
	shape = unsafe.Slice((*int64)(&o.shape[0]), int(o.rank))
	if o.data != nil {
		data = unsafe.Slice((*byte)(o.data), int(o.size))
	}
	return dt, shape, data, int(o.size), nil
}

// Strings writes output k in Triton's format into buf, which has its size.
func (r *Runner) Strings(k int, buf []byte) {
	C.nrd_tf_get_strings(&r.outputs[k], bytes(buf))
}

// Keep takes output k of the last run: its data stays until free is called.
func (r *Runner) Keep(k int) (free func()) {
	t := r.outputs[k].tensor
	r.outputs[k].tensor = nil
	return func() { C.nrd_tf_delete(t) }
}

// Close frees the runner's memory.
func (r *Runner) Close() { r.Reset() }
