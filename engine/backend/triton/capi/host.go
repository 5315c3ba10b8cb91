package capi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"log/slog"
	"runtime/cgo"
	"sync"
	"unsafe"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// Host is what the libraries ask of the process. Its methods are called from any thread.
type Host interface {
	// Wake says that there are events outside of an execution; see Instance.Events. It must not block.
	Wake()
	// Reserve returns memory that the server reads without a copy; nil: there is none.
	Reserve(n int) *tensor.Buffer
	// Normalize completes a configuration that a model has set: all members that the server's own one would have.
	Normalize(config []byte) ([]byte, error)
	Log(level slog.Level, file string, line int, text string)
	Logs(level slog.Level) bool
	Server
	Metrics
}

// NewServer returns a TRITONSERVER_Server for s. ReleaseServer frees it; nothing may use it then.
func NewServer(s Server) unsafe.Pointer {
	p := (*C.TRITONSERVER_Server)(C.must_have(C.calloc(1, C.sizeof_TRITONSERVER_Server)))
	p.handle = C.uintptr_t(cgo.NewHandle(s))
	return unsafe.Pointer(p)
}

// ReleaseServer frees what NewServer returned.
func ReleaseServer(p unsafe.Pointer) {
	cgo.Handle((*C.TRITONSERVER_Server)(p).handle).Delete()
	C.free(p)
}

// ServerAt returns the server of a TRITONSERVER_Server.
func ServerAt(p unsafe.Pointer) Server { return serverAt((*C.TRITONSERVER_Server)(p)) }

func serverAt(s *C.TRITONSERVER_Server) Server {
	if s == nil || s.handle == 0 {
		return host
	}
	return cgo.Handle(s.handle).Value().(Server)
}

// host is set by SetHost, before a library is opened.
var host Host

// SetHost sets what the libraries call, and programs without a server. It is called once, before Open.
func SetHost(h Host) { host = h }

// reserved are the buffers that outputs are made in.
var reserved struct {
	sync.Mutex
	last    uint64
	buffers map[uint64]*tensor.Buffer
}

// takeReserved returns a buffer, which the caller owns then.
func takeReserved(number uint64) *tensor.Buffer {
	reserved.Lock()
	defer reserved.Unlock()
	b := reserved.buffers[number]
	delete(reserved.buffers, number)
	return b
}

//export host_wake
func host_wake() { host.Wake() }

//export host_reserve
func host_reserve(size C.uint64_t, data *unsafe.Pointer) C.uint64_t {
	if size > 1<<46 {
		return 0
	}
	b := host.Reserve(int(size))
	if b == nil {
		return 0
	}
	*data = unsafe.Pointer(unsafe.SliceData(b.Bytes()))
	reserved.Lock()
	defer reserved.Unlock()
	if reserved.buffers == nil {
		reserved.buffers = map[uint64]*tensor.Buffer{}
	}
	reserved.last++
	reserved.buffers[reserved.last] = b
	return C.uint64_t(reserved.last)
}

//export host_unreserve
func host_unreserve(number C.uint64_t) {
	if b := takeReserved(uint64(number)); b != nil {
		b.Release()
	}
}

//export host_normalize
func host_normalize(text *C.char, size C.size_t, whole **C.char) C.error {
	b, err := host.Normalize(C.GoBytes(unsafe.Pointer(text), C.int(size)))
	if err != nil {
		return cError(err)
	}
	*whole = C.CString(string(b))
	return nil
}

// Error returns an error as a TRITONSERVER_Error, which the caller owns; nil: there is none.
func Error(err error) unsafe.Pointer { return unsafe.Pointer(cError(err)) }

// cError returns the C form of an error.
func cError(err error) C.error {
	if err == nil {
		return nil
	}
	text := C.CString(err.Error())
	defer C.free(unsafe.Pointer(text))
	return C.nt_error(C.int(status.CodeOf(err)), text)
}

// levels are the levels of the log, by their numbers in the API.
var levels = [...]slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelDebug}

func levelOf(n C.int) slog.Level {
	if n < 0 || int(n) >= len(levels) {
		return slog.LevelInfo
	}
	return levels[n]
}

//export host_log
func host_log(level C.int, file *C.char, line C.int, text *C.char) {
	host.Log(levelOf(level), C.GoString(file), int(line), C.GoString(text))
}

//export host_logs
func host_logs(level C.int) C.bool { return C.bool(host.Logs(levelOf(level))) }
