package ovapi

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ldl
#include "ov.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// Error is a failure that OpenVINO reports.
type Error struct{ Msg string }

// Error returns OpenVINO's message.
func (e *Error) Error() string { return "OpenVINO: " + e.Msg }

func check(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return &Error{said(C.GoString(text))}
}

// said returns a message without the positions in OpenVINO's sources that precede it.
func said(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Exception from ") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return strings.TrimSpace(text)
	}
	return strings.Join(lines, "\n")
}

// Library is the opened libopenvino_c, with its core.
type Library struct {
	Path, Version string
	types         types
	core          unsafe.Pointer
}

// process is the one library of the process.
var process struct {
	sync.Mutex
	library *Library
}

// Open opens OpenVINO's C library. It stays; Open of another path fails. Safe for concurrent use.
func Open(path string) (*Library, error) {
	process.Lock()
	defer process.Unlock()
	if l := process.library; l != nil {
		if l.Path != path {
			return nil, fmt.Errorf("OpenVINO %s from %s is in use already", l.Version, l.Path)
		}
		return l, nil
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if text := C.nrd_ov_open(name); text != nil {
		defer C.free(unsafe.Pointer(text))
		return nil, fmt.Errorf("cannot open OpenVINO at %s: %s", path, C.GoString(text))
	}
	l := &Library{Path: path}
	var version *C.char
	if err := check(C.nrd_ov_version(&version)); err != nil {
		return nil, err
	}
	l.Version = C.GoString(version)
	C.free(unsafe.Pointer(version))
	var sizes [C.NRD_OV_TYPES]C.uint64_t
	C.nrd_ov_sizes(&sizes[0])
	var err error
	if l.types, err = typesBySize(unsafe.Slice((*uint64)(&sizes[0]), len(sizes)), C.NRD_OV_STRING_SIZE); err != nil {
		return nil, fmt.Errorf("OpenVINO %s at %s cannot be used: %w", l.Version, path, err)
	}
	if err := check(C.nrd_ov_core(&l.core)); err != nil {
		return nil, err
	}
	process.library = l
	return l, nil
}

// AddExtension loads a library of operators.
func (l *Library) AddExtension(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return check(C.nrd_ov_extension(l.core, name))
}

// Model is a model that has been read.
type Model struct {
	l *Library
	c unsafe.Pointer
}

// Read reads a model: IR, ONNX, TensorFlow, TensorFlow Lite, PaddlePaddle.
func (l *Library) Read(path string) (*Model, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	m := &Model{l: l}
	if err := check(C.nrd_ov_read(l.core, name, &m.c)); err != nil {
		return nil, err
	}
	return m, nil
}

// Close frees the model; what was compiled from it stays.
func (m *Model) Close() {
	if m.c != nil {
		C.nrd_ov_free_model(m.c)
		m.c = nil
	}
}

// Inputs and Outputs describe the model's, in its order. Errors: one has no name, or a type that cannot be served.
func (m *Model) Inputs() ([]IO, error)  { return m.list(0) }
func (m *Model) Outputs() ([]IO, error) { return m.list(1) } //nolint:revive // described above

func (m *Model) list(output int) ([]IO, error) {
	var n C.size_t
	if err := check(C.nrd_ov_count(m.c, C.int(output), &n)); err != nil {
		return nil, err
	}
	list := make([]IO, n)
	for i := range list {
		var c C.nrd_ov_io
		err := check(C.nrd_ov_describe(m.c, C.int(output), C.size_t(i), &c))
		if c.name != nil {
			list[i].Name = C.GoString(c.name)
			C.free(unsafe.Pointer(c.name))
		}
		if err != nil {
			return nil, err
		}
		kind := [2]string{"input", "output"}[output]
		if list[i].Name == "" {
			return nil, fmt.Errorf("%s %d of the model has no name; name it when the model is converted", kind, i)
		}
		dt, ok := m.l.types.dt[uint32(c._type)]
		if !ok {
			return nil, fmt.Errorf("%s '%s' of the model has an element type that cannot be served", kind, list[i].Name)
		}
		list[i].DataType, list[i].Unranked = dt, c.rank < 0
		for k := range max(int(c.rank), 0) {
			list[i].Dims = append(list[i].Dims, int64(c.dims[k]))
		}
	}
	return list, nil
}

// Reshape sets the shapes of inputs, -1 for a variable dimension.
func (m *Model) Reshape(names []string, shapes [][]int64) error {
	cNames := make([]*C.char, len(names)+1)
	ranks := make([]C.int32_t, len(names)+1)
	var dims []C.int64_t
	for i, n := range names {
		cNames[i] = C.CString(n)
		defer C.free(unsafe.Pointer(cNames[i]))
		ranks[i] = C.int32_t(len(shapes[i]))
		for _, d := range shapes[i] {
			dims = append(dims, C.int64_t(d))
		}
	}
	return check(C.nrd_ov_reshape(m.c, &cNames[0], unsafe.SliceData(dims), &ranks[0], C.size_t(len(names))))
}

// Property is one of a device, for a compiled model.
type Property struct{ Key, Value string }

// Compiled is a model for a device.
type Compiled struct {
	l *Library
	c unsafe.Pointer
	// fresh: inputs must not reuse memory. With several devices, the plugins AUTO and MULTI pass an input on to a
	// device only if its address is another one than before, also if its shape has changed (OpenVINO 2026.4).
	fresh bool
}

// Compile compiles the model for a device, by OpenVINO's name: "CPU", "GPU.0", "AUTO".
func (m *Model) Compile(device string, properties []Property) (*Compiled, error) {
	if len(properties) > C.NRD_OV_MAX_PROPERTIES {
		return nil, errors.New("too many properties")
	}
	name := C.CString(device)
	defer C.free(unsafe.Pointer(name))
	var keys, values [C.NRD_OV_MAX_PROPERTIES]*C.char
	for i, p := range properties {
		keys[i], values[i] = C.CString(p.Key), C.CString(p.Value)
		defer C.free(unsafe.Pointer(keys[i]))
		defer C.free(unsafe.Pointer(values[i]))
	}
	c := &Compiled{l: m.l, fresh: strings.HasPrefix(device, "AUTO") || strings.HasPrefix(device, "MULTI")}
	if err := check(C.nrd_ov_compile(m.l.core, m.c, name, &keys[0], &values[0], C.size_t(len(properties)),
		&c.c)); err != nil {
		return nil, err
	}
	return c, nil
}

// Close frees the compiled model. Runners of it must be closed.
func (c *Compiled) Close() {
	if c.c != nil {
		C.nrd_ov_free_compiled(c.c)
		c.c = nil
	}
}
