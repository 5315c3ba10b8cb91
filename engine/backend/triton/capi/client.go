package capi

/*
#include <stdlib.h>
#include "client.h"
*/
import "C"

import (
	"context"
	"math"
	"runtime"
	"runtime/cgo"
	"time"
	"unsafe"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// answer gives the sender of a request its responses, and drops the reference on r. q is the sender's again with the
// final response. It ends early when s is deleted.
func answer(s *program, q *C.TRITONSERVER_InferenceRequest, number uint64, r *infer.Request) {
	defer r.Release()
	trace, _ := r.Trace.(*followed)
	var w recordWriter
	for last := false; !last; {
		resp, err := r.Next(context.Background())
		if err != nil {
			return // never without a deadline
		}
		if last = resp.Final; last {
			forgetAsked(number)
		}
		flags := C.uint32_t(0)
		if last {
			flags = C.RESPONSE_FINAL
		}
		if !s.begin() {
			resp.Release()
			return
		}
		trace.report(last)
		switch {
		case resp.Empty:
			C.nt_answer(q, nil, 0, flags)
		default:
			w.b = w.b[:0]
			w.response(r, resp)
			C.nt_answer(q, (*C.char)(unsafe.Pointer(unsafe.SliceData(w.b))), C.uint64_t(len(w.b)), flags)
			runtime.KeepAlive(resp)
		}
		s.end()
		resp.Release()
	}
	trace.end(s)
}

// response appends the record that read_response reads.
func (w *recordWriter) response(r *infer.Request, resp *infer.Response) {
	code, text := uint64(math.MaxUint64), ""
	if resp.Err != nil {
		code, text = uint64(status.CodeOf(resp.Err)), resp.Err.Error()
	}
	w.number(code)
	w.text(text)
	w.text(r.ModelName)
	version := r.Version
	if r.Served != nil { // it is in this process
		version = r.Served.Version()
	}
	w.number(uint64(version))
	w.text(r.ID)
	w.number(uint64(labelsOf(r, resp)))
	w.number(uint64(len(resp.Parameters)))
	w.number(uint64(len(resp.Outputs)))
	for i := range resp.Parameters {
		w.parameter(&resp.Parameters[i])
	}
	for i := range resp.Outputs {
		w.input(&resp.Outputs[i])
	}
}

// labelsOf returns the number of the model that has answered, 0 if no output has labels.
func labelsOf(r *infer.Request, resp *infer.Response) cgo.Handle {
	if r.Served != nil {
		for i := range resp.Outputs {
			if r.Served.Labels(resp.Outputs[i].Name) != nil {
				return cgo.NewHandle(r.Served)
			}
		}
	}
	return 0
}

//export host_label
func host_label(labels C.uint64_t, output *C.char, class C.size_t) *C.char {
	all := cgo.Handle(labels).Value().(infer.Served).Labels(C.GoString(output))
	if uint64(class) >= uint64(len(all)) || all[class] == "" {
		return nil
	}
	return C.CString(all[class])
}

//export host_forget_labels
func host_forget_labels(labels C.uint64_t) { cgo.Handle(labels).Delete() }

// goRequest copies a request. The caller has the reference on it.
func goRequest(q *C.TRITONSERVER_InferenceRequest) *infer.Request {
	r := infer.New()
	r.ModelName, r.Version, r.ID = C.GoString(q.model), int64(q.version), C.GoString(q.id)
	r.Correlation = infer.CorrelationID{Number: uint64(q.correlation), Text: C.GoString(q.correlation_text)}
	r.Priority, r.Flags, r.Raw = uint64(q.priority), infer.Flags(q.flags), bool(q.raw)
	if q.timeout > 0 {
		r.Timeout = time.Duration(min(uint64(q.timeout), math.MaxInt64/1000)) * time.Microsecond
	}
	if q.trace != nil {
		r.Trace = traceOf(q.trace, r)
		q.trace = nil // it is the server's now
	}
	for _, o := range unsafe.Slice(q.outputs, q.output_count) {
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: C.GoString(o)})
	}
	for _, p := range unsafe.Slice(q.parameters, q.parameter_count) {
		r.Parameters = append(r.Parameters, goParameter(&p))
	}
	for _, in := range unsafe.Slice(q.inputs, q.input_count) {
		goInput(r, &in)
	}
	return r
}

// goInput adds an input. Its data is copied once, large data into the memory that the server reads.
func goInput(r *infer.Request, in *C.client_input) {
	pieces := unsafe.Slice(in.pieces, in.piece_count)
	size := 0
	for _, p := range pieces {
		size += int(p.size) // the sum is bounded, see client.c
	}
	var buf *tensor.Buffer
	if size > copyLimit {
		buf = host.Reserve(size)
	}
	if buf == nil {
		buf = tensor.NewBuffer(make([]byte, size), nil)
	}
	r.Own(buf)
	data := buf.Bytes()[:size:size]
	at := 0
	for _, p := range pieces {
		at += copy(data[at:], unsafe.Slice((*byte)(p.data), p.size))
	}
	shape := r.Dims(int(in.dims))
	copy(shape, unsafe.Slice((*int64)(unsafe.Pointer(in.shape)), in.dims))
	if r.Raw {
		shape = append(r.Dims(1)[:0], int64(size))
	}
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: C.GoString(in.name), DataType: tensor.DataType(in._type),
		Shape: shape, Data: data, Buf: buf})
}
