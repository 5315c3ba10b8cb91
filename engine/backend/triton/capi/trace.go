package capi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// followed is the trace of a program's request, or of a request that a model makes for it (a child). What happens is
// recorded. The goroutine that gives the program the responses reports it, before each response. So the functions of
// the program may block, and may use the server.
type followed struct {
	root   *followed
	parent *followed // nil: it is the root

	// The root's mu guards these.
	c      *C.TRITONSERVER_InferenceTrace // nil: a child that no model has taken. The program does not know it.
	number uint64                         // 0: c is nil
	begun  bool
	ended  bool // c may be the program's
	custom int  // activities of a backend

	// These are the root's.
	mu      sync.Mutex
	like    C.TRITONSERVER_InferenceTrace // what the traces have in common
	events  []traceEvent                  // which are not reported; guarded by mu, as is the rest
	running int                           // children without a final response
	left    sync.Cond                     // running is 0
	over    bool                          // further children are not followed
}

// traceEvent is a call of one of the program's functions.
type traceEvent struct {
	of       *C.TRITONSERVER_InferenceTrace
	activity int // by its number in the API; traceReleased: the trace is the program's
	at       uint64
	name     string        // of a custom activity
	tensor   tensor.Tensor // of an activity of tensors
}

const traceReleased = -1

// maxActivities is the number of activities of a backend in a trace. Others are dropped, as in the server's own traces.
const maxActivities = 1024

// activities are in the order of their numbers.
var activities = []string{
	infer.RequestStart, infer.QueueStart, infer.ComputeStart, infer.ComputeInputEnd, infer.ComputeOutputStart,
	infer.ComputeEnd, infer.RequestEnd, infer.TensorQueueInput, infer.TensorBackendInput, infer.TensorBackendOutput,
}

var (
	_ infer.ActivityTrace = (*followed)(nil)
	_ infer.NumberedTrace = (*followed)(nil)
)

// traceOf returns the trace of a request that a program or a backend sends; nil: it has none.
func traceOf(t *C.TRITONSERVER_InferenceTrace, r *infer.Request) infer.Trace {
	if t.kind != C.TRACE_OF_PROGRAM {
		if host, ok := host.(Tracer); ok && t.handle != 0 {
			return host.Trace(uint64(t.handle))
		}
		return nil
	}
	f := &followed{c: t, number: uint64(t.number), like: *t}
	f.root, f.left.L = f, &f.mu
	f.name(r)
	return f
}

// name tells the program's trace which request it is of. A second call changes only the version.
func (f *followed) name(r *infer.Request) {
	version := r.Version
	if r.Served != nil {
		version = r.Served.Version()
	}
	var t texts
	defer t.free()
	C.nt_name_trace(f.c, t.of(r.ModelName), C.int64_t(version), t.of(r.ID))
}

// ID implements infer.NumberedTrace.
func (f *followed) ID() uint64 {
	f.root.mu.Lock()
	defer f.root.mu.Unlock()
	return f.number
}

// KeepsTensors reports whether tensors are copied, which must then be in the host's memory.
func (f *followed) KeepsTensors() bool { return f.root.like.level&C.TRACE_TENSORS != 0 }

// Admitted implements infer.Trace.
func (f *followed) Admitted(r *infer.Request) {
	f.root.mu.Lock()
	defer f.root.mu.Unlock()
	if f.c == nil && !f.root.over {
		f.c = C.nt_new_trace(&f.root.like, C.uint64_t(f.parent.number))
		f.number = uint64(f.c.number)
		f.root.running++
	}
	f.begin(r)
}

// begin records the start. The lock is held.
func (f *followed) begin(r *infer.Request) {
	if f.c == nil || f.begun {
		return
	}
	f.begun = true
	f.name(r)
	f.add(infer.RequestStart, r.Times.Arrived)
	f.tensors(infer.TensorQueueInput, r.Inputs)
}

// add records an activity, unless the API has none of this name. The lock is held.
func (f *followed) add(name string, at infer.Stamp) {
	if i := slices.Index(activities, name); i >= 0 {
		f.root.events = append(f.root.events, traceEvent{of: f.c, activity: i, at: monotonic(at)})
	}
}

// tensors records copies of tensors. The lock is held.
func (f *followed) tensors(name string, list []tensor.Tensor) {
	if !f.KeepsTensors() {
		return
	}
	for i := range list {
		t := &list[i]
		f.root.events = append(f.root.events, traceEvent{
			of: f.c, activity: slices.Index(activities, name), tensor: tensor.Tensor{Name: strings.Clone(t.Name),
				DataType: t.DataType, Shape: slices.Clone(t.Shape), Data: slices.Clone(t.Data)}})
	}
}

// Responded implements infer.Trace.
func (f *followed) Responded(r *infer.Request, resp *infer.Response) {
	f.root.mu.Lock()
	defer f.root.mu.Unlock()
	if f.c == nil || f.ended {
		return
	}
	f.begin(r)
	if resp.Final && r.Executed() {
		f.tensors(infer.TensorBackendInput, r.Inputs)
	}
	f.tensors(infer.TensorBackendOutput, resp.Outputs)
	if !resp.Final {
		return
	}
	r.Timeline(func(name string, at infer.Stamp) {
		if name != infer.RequestStart {
			f.add(name, at)
		}
	})
	f.finish()
}

// finish records that the trace is the program's. The lock is held.
func (f *followed) finish() {
	f.ended = true
	f.root.events = append(f.root.events, traceEvent{of: f.c, activity: traceReleased})
	if f.root != f {
		f.root.running--
		f.root.left.Broadcast()
	}
}

// Child implements infer.Trace.
func (f *followed) Child() infer.Trace { return &followed{root: f.root, parent: f} }

// Activity implements infer.ActivityTrace.
func (f *followed) Activity(name string, at infer.Stamp) {
	f.root.mu.Lock()
	defer f.root.mu.Unlock()
	if f.c != nil && !f.ended && f.custom < maxActivities {
		f.custom++
		f.root.events = append(f.root.events,
			traceEvent{of: f.c, activity: C.ACTIVITY_CUSTOM, at: monotonic(at), name: strings.Clone(name)})
	}
}

// report calls the program's functions for what was recorded. The trace of f is given to the program before the last
// response, even if the model has ended earlier. f is a root, or nil.
func (f *followed) report(last bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	n := len(f.events)
	released := func(e traceEvent) bool { return e.of == f.c && e.activity == traceReleased }
	if i := slices.IndexFunc(f.events, released); i >= 0 && !last {
		n = i
	}
	events := f.events[:n:n]
	f.events = f.events[n:]
	f.mu.Unlock()
	for i := range events {
		events[i].report()
	}
}

func (e *traceEvent) report() {
	var names texts
	defer names.free()
	switch {
	case e.activity == traceReleased:
		C.nt_release_trace(e.of)
	case e.activity == C.ACTIVITY_CUSTOM:
		C.nt_report_custom(e.of, C.uint64_t(e.at), names.of(e.name))
	case e.tensor.Name != "":
		t := &e.tensor
		C.nt_report_tensor(e.of, C.int(e.activity), names.of(t.Name), C.int(t.DataType),
			unsafe.Pointer(unsafe.SliceData(t.Data)), C.size_t(len(t.Data)),
			(*C.int64_t)(unsafe.Pointer(unsafe.SliceData(t.Shape))), C.uint64_t(len(t.Shape)))
	default:
		C.nt_report(e.of, C.int(e.activity), C.uint64_t(e.at))
	}
}

// refused reports the end of a request that the server has not taken.
func (f *followed) refused() {
	f.mu.Lock()
	if !f.ended {
		f.finish()
	}
	f.over = true
	f.mu.Unlock()
	f.report(true)
}

// end waits for the children of an answered request, and reports what is left. f is a root, or nil.
func (f *followed) end(s *program) {
	if f == nil {
		return
	}
	f.mu.Lock()
	for f.running > 0 {
		f.left.Wait()
	}
	f.over = true
	f.mu.Unlock()
	if s.begin() {
		f.report(true)
		s.end()
	}
}

// clockOffset is what the monotonic clock has more than the stamps.
var clockOffset = sync.OnceValue(func() int64 { return int64(C.nt_monotonic()) - int64(infer.Now()) })

// monotonic returns a stamp in nanoseconds of the monotonic clock.
func monotonic(at infer.Stamp) uint64 { return uint64(int64(at) + clockOffset()) }

// host_context returns the context of a trace with an activity added: in JSON, the name by the time. As in Triton, a
// context that is no JSON object is replaced.
//
//export host_context
func host_context(context *C.char, at C.uint64_t, name *C.char) *C.char {
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(C.GoString(context)), &all) != nil || all == nil {
		all = map[string]json.RawMessage{}
	}
	quoted, err := json.Marshal(C.GoString(name))
	all[strconv.FormatUint(uint64(at), 10)] = quoted
	text, err2 := json.Marshal(all)
	if err != nil || err2 != nil {
		return nil // never: texts, and what was read, can be written
	}
	return C.CString(string(text))
}
