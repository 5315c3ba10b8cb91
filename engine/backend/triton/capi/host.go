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
	"time"
	"unsafe"

	"nereid/engine/infer"
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

// Tracer is a Host with traced requests.
type Tracer interface {
	// Activity records what a backend does with a request, by its handle, at nanoseconds of the monotonic clock.
	Activity(handle uint64, at int64, name string)
	// Trace returns the trace for a request that a backend makes for the one with a handle; nil: there is none.
	Trace(handle uint64) infer.Trace
}

// program is a server for the program that has made it, and the functions of the program that it calls.
type program struct {
	Server
	answers sync.WaitGroup // one for each request that is not answered yet

	mu      sync.Mutex
	running int  // functions that run; guarded by mu
	over    bool // none may begin; guarded by mu
}

// begin reports whether a function of the program may be called; end says that it has returned.
func (p *program) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.running++
	}
	return !p.over
}

func (p *program) end() {
	p.mu.Lock()
	p.running--
	p.mu.Unlock()
}

// stop waits until all requests are answered. After until, no function of the program is called any more, and stop
// reports whether none runs.
func (p *program) stop(until time.Time) bool {
	done := make(chan struct{})
	go func() { // ends with the last answer
		p.answers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(time.Until(until)):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	return p.running == 0
}

// NewServer returns a TRITONSERVER_Server for s. ReleaseServer frees it.
func NewServer(s Server) unsafe.Pointer {
	p := (*C.TRITONSERVER_Server)(C.must_have(C.calloc(1, C.sizeof_TRITONSERVER_Server)))
	p.handle = C.uintptr_t(cgo.NewHandle(&program{Server: s}))
	return unsafe.Pointer(p)
}

// ReleaseServer frees what NewServer returned, for a server that has stopped. It waits for the functions of the program
// that take responses, at most until a time. Errors: Internal if one still runs then; then nothing is freed, because it
// may use the server.
func ReleaseServer(s unsafe.Pointer, until time.Time) error {
	c := (*C.TRITONSERVER_Server)(s)
	if !programAt(c).stop(until) {
		return status.New(status.Internal, "a function of the program that takes a response did not return within "+
			"the exit timeout; the memory of the server is not freed")
	}
	cgo.Handle(c.handle).Delete()
	C.free(s)
	return nil
}

// ServerAt returns the server of a TRITONSERVER_Server.
func ServerAt(p unsafe.Pointer) Server { return serverAt((*C.TRITONSERVER_Server)(p)) }

func serverAt(s *C.TRITONSERVER_Server) Server { return programAt(s).Server }

func programAt(s *C.TRITONSERVER_Server) *program {
	if s.handle == 0 {
		return &process
	}
	return cgo.Handle(s.handle).Value().(*program)
}

// process is the server of a process of a backend. It is never deleted.
var process program

// host is set by SetHost, before a library is opened.
var host Host

// SetHost sets what the libraries call, and programs without a server. It is called once, before Open.
func SetHost(h Host) { host, process.Server = h, h }

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

//export host_activity
func host_activity(handle, time C.uint64_t, name *C.char) {
	if t, ok := host.(Tracer); ok {
		t.Activity(uint64(handle), int64(time), C.GoString(name))
	}
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
