package capi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"math"
	"slices"
	"unsafe"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// texts are texts in C's memory, which free frees.
type texts []*C.char

func (t *texts) of(s string) *C.char {
	c := C.CString(s)
	*t = append(*t, c)
	return c
}

func (t *texts) free() {
	for _, c := range *t {
		C.free(unsafe.Pointer(c))
	}
}

// Backend is an initialized backend.
type Backend struct {
	l         *Library
	c         *C.TRITONBACKEND_Backend
	attribute C.TRITONBACKEND_BackendAttribute
}

// kinds are the kinds of devices, by their numbers in the API. Those of model_config.proto differ.
var kinds = [...]inferencepb.ModelInstanceGroup_Kind{
	inferencepb.ModelInstanceGroup_KIND_AUTO, inferencepb.ModelInstanceGroup_KIND_CPU,
	inferencepb.ModelInstanceGroup_KIND_GPU, inferencepb.ModelInstanceGroup_KIND_MODEL,
}

// NewBackend initializes a backend. config is the JSON of its settings, folder has its files. Errors: those of the
// backend.
func NewBackend(l *Library, name, folder, config string) (*Backend, error) {
	var t texts
	defer t.free()
	b := &Backend{l: l, c: C.nt_new_backend(t.of(name), t.of(folder), t.of(config))}
	if err := goError(C.nt_backend_initialize(&l.entries, b.c, &b.attribute)); err != nil {
		return nil, err
	}
	return b, nil
}

// Preferred returns the instance groups that the backend prefers.
func (b *Backend) Preferred() (groups []*inferencepb.ModelInstanceGroup) {
	for _, g := range b.attribute.groups[:b.attribute.group_count] {
		group := &inferencepb.ModelInstanceGroup{Kind: kinds[g.kind], Count: int32(min(g.count, math.MaxInt32))}
		for _, id := range unsafe.Slice(g.devices, g.device_count) {
			group.Gpus = append(group.Gpus, int32(min(id, math.MaxInt32)))
		}
		groups = append(groups, group)
	}
	return groups
}

// DeviceBlocking reports whether the backend has set the execution policy of one thread for each device.
func (b *Backend) DeviceBlocking() bool { return b.c.policy == C.POLICY_DEVICE_BLOCKING }

// SaysReady reports whether Instance.Ready asks the backend.
func (b *Backend) SaysReady() bool { return b.l.entries.instance_ready != nil }

// Close finalizes the backend.
func (b *Backend) Close() error { return goError(C.nt_backend_finalize(&b.l.entries, b.c)) }

// Model is an initialized model.
type Model struct {
	b *Backend
	c *C.TRITONBACKEND_Model
}

// Setup says what a model is.
type Setup struct {
	Name, Folder string
	Version      int64
	Config       string  // the whole configuration, as JSON
	Completes    bool    // the backend may complete the configuration
	States       []State // the implicit states that the backend may set
}

// State is an implicit state. If Input is not empty, the backend finds the data of that input in the state's buffer.
type State struct{ Output, Input string }

// NewModel initializes the model, of which a process has one. Errors: those of the backend.
func (b *Backend) NewModel(s Setup) (*Model, error) {
	var t texts
	defer t.free()
	m := &Model{b: b, c: C.nt_new_model(b.c, t.of(s.Name), t.of(s.Folder), C.uint64_t(s.Version), t.of(s.Config),
		C.bool(s.Completes))}
	for _, state := range s.States {
		var input *C.char
		if state.Input != "" {
			input = t.of(state.Input)
		}
		C.nt_add_state(m.c, t.of(state.Output), input)
	}
	if err := goError(C.nt_model_initialize(&b.l.entries, m.c)); err != nil {
		return nil, err
	}
	return m, nil
}

// Config returns the configuration that the backend has set, nil if it has set none.
func (m *Model) Config() []byte {
	if !m.c.changed {
		return nil
	}
	return C.GoBytes(unsafe.Pointer(m.c.config.text), C.int(m.c.config.size))
}

// Close finalizes the model.
func (m *Model) Close() error { return goError(C.nt_model_finalize(&m.b.l.entries, m.c)) }

// Instance is an initialized instance. Only one goroutine at a time may call Execute; Events is safe beside it.
type Instance struct {
	m       *Model
	c       *C.TRITONBACKEND_ModelInstance
	outputs []string
	records recordWriter
	made    []*C.TRITONBACKEND_Request
}

// Place says where an instance runs.
type Place struct {
	Name     string
	Kind     inferencepb.ModelInstanceGroup_Kind
	Device   int
	Passive  bool
	Policy   string // of the host, as JSON
	Profiles []string
	// Secondary are the secondary devices.
	Secondary []*inferencepb.ModelInstanceGroup_SecondaryDevice
	Outputs   []string // of the model: what a request without requested outputs gets
}

// NewInstance initializes an instance. Errors: those of the backend.
func (m *Model) NewInstance(p Place) (*Instance, error) {
	var t texts
	defer t.free()
	kind := C.int(slices.Index(kinds[:], p.Kind))
	c := C.nt_new_instance(m.c, t.of(p.Name), kind, C.int(p.Device), C.bool(p.Passive), t.of(p.Policy))
	i := &Instance{m: m, outputs: p.Outputs, c: c}
	for _, name := range p.Profiles {
		C.nt_add_profile(c, t.of(name))
	}
	for _, d := range p.Secondary {
		C.nt_add_secondary(c, t.of(d.GetKind().String()), C.int64_t(d.GetDeviceId()))
	}
	if err := goError(C.nt_instance_initialize(&m.b.l.entries, c)); err != nil {
		return nil, err
	}
	return i, nil
}

// Ready returns nil if the instance says that it is ready, else why not.
func (i *Instance) Ready() error { return goError(C.nt_instance_ready(&i.m.b.l.entries, i.c)) }

// Close finalizes the instance.
func (i *Instance) Close() error { return goError(C.nt_instance_finalize(&i.m.b.l.entries, i.c)) }

// Begin begins the batch of the next Execute.
func (i *Instance) Begin() { i.records.b = i.records.b[:0] }

// Add adds a request to the batch. Its inputs must stay until the event of its release. handle is not 0 and not used by
// another request of the process.
func (i *Instance) Add(handle uint64, r *infer.Request) { i.records.request(handle, r, i.outputs) }

// Make makes the n requests that were added. The caller has a reference on each.
func (i *Instance) Make(n int) []Request {
	i.made = slices.Grow(i.made[:0], n)[:n]
	records := (*C.char)(unsafe.Pointer(unsafe.SliceData(i.records.b)))
	C.nt_make_requests(records, unsafe.SliceData(i.made), C.uint32_t(n))
	all := make([]Request, n)
	for k, q := range i.made {
		all[k] = Request{q}
	}
	return all
}

// Execute executes the requests that Make has made. Their events are ready when it returns; with streams, Host.Wake is
// called for each of them. If the backend fails, it has not taken the requests: the caller then drops two references on
// each, its own and the backend's.
func (i *Instance) Execute(streams bool) error {
	return goError(C.nt_execute(&i.m.b.l.entries, i.c, unsafe.SliceData(i.made), C.uint32_t(len(i.made)),
		C.bool(streams)))
}

// Request is the reference on a request in C's memory. Cancel does nothing for the zero value.
type Request struct{ c *C.TRITONBACKEND_Request }

// Cancel sets the flag that the backend sees.
func (q Request) Cancel() { C.nt_cancel(q.c) }

// Release drops the reference.
func (q Request) Release() { C.release_request(q.c) }

// MoveStates moves the implicit states that the backend has set into resp, which is the final response.
func (q Request) MoveStates(resp *infer.Response) {
	for _, s := range unsafe.Slice(q.c.states, q.c.state_count) {
		if !s.updated {
			continue
		}
		o := s.value
		shape := slices.Clone(unsafe.Slice((*int64)(unsafe.Pointer(o.shape)), o.dims))
		data, buf := takeOutput(o)
		if buf == nil {
			data = slices.Clone(data)
		}
		resp.States = append(resp.States, tensor.Tensor{Name: C.GoString(o.name),
			DataType: tensor.DataType(o._type), Shape: shape, Data: data, Buf: buf})
	}
}

// takeOutput returns the data of an output. If it is in shared memory, the caller gets the reference on its buffer, and
// the output has no data any more; otherwise the buffer is nil, and the data is freed with the output.
func takeOutput(o *C.TRITONBACKEND_Output) ([]byte, *tensor.Buffer) {
	if o.reserved == 0 {
		return unsafe.Slice((*byte)(o.data), o.size), nil
	}
	buf := takeReserved(uint64(o.reserved))
	o.reserved, o.data = 0, nil
	return buf.Bytes()[:o.size:o.size], buf
}

// Event is something that a backend has done with a request. Response is nil when it has released the request.
type Event struct {
	Handle     uint64
	Response   *Response
	Report     *infer.Report // of the request, an execution or a response; nil: it is another event
	Reschedule bool          // the request was released to be executed again
}

// Response is a response that a backend has sent, or only flags.
type Response struct {
	c     *C.TRITONBACKEND_Response
	Final bool
	Empty bool  // the client gets no response
	Err   error // nil: it has outputs
}

// Events calls each for what has happened since the last call, in order.
func Events(each func(Event)) {
	for e := C.nt_take_events(); e != nil; {
		next := e.next
		if e.kind == C.EVENT_RELEASE {
			q := (*C.TRITONBACKEND_Request)(unsafe.Pointer(e)) // it is the first member
			each(Event{Handle: uint64(q.handle), Reschedule: q.release_flags&C.RELEASE_RESCHEDULE != 0})
			C.release_request(q)
		} else if e.kind == C.EVENT_REPORT {
			p := (*C.report)(unsafe.Pointer(e))
			each(Event{Handle: uint64(p.handle), Report: &infer.Report{Kind: infer.ReportKind(p.what), N: uint64(p.n),
				Began: infer.Stamp(p.times[0]), Input: infer.Stamp(p.times[1]), Output: infer.Stamp(p.times[2]),
				Ended: infer.Stamp(p.times[3])}})
			C.free(unsafe.Pointer(p))
		} else {
			r := (*C.TRITONBACKEND_Response)(unsafe.Pointer(e))
			p := &Response{c: r, Final: r.flags&C.RESPONSE_FINAL != 0, Empty: bool(r.empty)}
			if r.failure != nil {
				p.Err = status.New(status.Code(r.failure.code), C.GoString(r.failure.text))
			}
			each(Event{Handle: uint64(r.request.handle), Response: p})
		}
		e = next
	}
}

// Move moves outputs and parameters into resp. The response must not be used after.
func (p *Response) Move(resp *infer.Response) {
	for _, x := range unsafe.Slice(p.c.parameters, p.c.parameter_count) {
		resp.Parameters = append(resp.Parameters, goParameter(&x))
	}
	c := p.c
	left := tensor.NewBuffer(nil, func(*tensor.Buffer) { C.nt_free_response(c) })
	defer left.Release()
	for _, o := range unsafe.Slice(p.c.outputs, p.c.output_count) {
		name := C.GoString(o.name)
		shape := unsafe.Slice((*int64)(unsafe.Pointer(o.shape)), o.dims)
		data, buf := takeOutput(o)
		if buf == nil {
			buf = left.Retain()
		}
		resp.AddOutput(name, tensor.DataType(o._type), shape, data, buf)
	}
}

// Drop frees a response that is not used.
func (p *Response) Drop() { C.nt_free_response(p.c) }

func goParameter(p *C.TRITONSERVER_Parameter) infer.Parameter {
	q := infer.Parameter{Name: C.GoString(p.name)}
	switch p._type {
	case C.PARAMETER_INT:
		q.Kind, q.Int = infer.IntParameter, int64(p.integer)
	case C.PARAMETER_BOOL:
		q.Kind, q.Bool = infer.BoolParameter, bool(p.flag)
	case C.PARAMETER_DOUBLE:
		q.Kind, q.Float = infer.FloatParameter, float64(p.real)
	default:
		q.Kind, q.Text = infer.StringParameter, textOf(p)
	}
	return q
}

// textOf returns the text of a parameter, which may have more than 2 GiB.
func textOf(p *C.TRITONSERVER_Parameter) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(p.text)), p.size))
}
