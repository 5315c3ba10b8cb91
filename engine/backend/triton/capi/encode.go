package capi

import (
	"encoding/binary"
	"math"
	"unsafe"

	"nereid/engine/infer"
	"nereid/engine/tensor"
	"nereid/engine/worker"
)

// copyLimit is the size in bytes up to which an input is copied into the record of its request. Larger ones are in the
// shared memory, where they stay until the request is released. BYTES are always copied: they are in memory of Go.
const copyLimit = 8192

// recordWriter writes the records that nt_request reads: numbers of 8 bytes, and texts behind their length, with a zero
// and padding to 8 bytes.
type recordWriter struct {
	b     []byte
	alone bool // the reader is in another process without shared memory: large inputs are left out
}

// leftOut is the address of an input that the reader does not have. request.c knows it too.
const leftOut = 1

func (w *recordWriter) number(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }

func (w *recordWriter) pad() {
	for len(w.b)%8 != 0 {
		w.b = append(w.b, 0)
	}
}

func (w *recordWriter) text(s string) {
	w.number(uint64(len(s)))
	w.b = append(append(w.b, s...), 0)
	w.pad()
}

// request appends the record of a request with the number by which events name it, behind its size.
// outputs are those of the model, for a request that names none.
func (w *recordWriter) request(handle uint64, r *infer.Request, outputs []string) {
	count := len(r.Outputs)
	if count == 0 {
		count = len(outputs)
	}
	at := len(w.b)
	w.number(0)
	w.number(handle)
	w.number(r.Correlation.Number)
	w.number(uint64(r.Timeout.Microseconds()))
	w.number(r.Priority)
	w.number(uint64(r.Flags))
	w.number(uint64(len(r.Inputs)))
	w.number(uint64(count))
	w.number(uint64(len(r.Parameters)))
	context := w.trace(r)
	w.text(r.ID)
	w.text(r.Correlation.Text)
	w.text(context)
	for i := range r.Inputs {
		w.input(&r.Inputs[i])
	}
	for i := range count {
		if len(r.Outputs) > 0 {
			w.text(r.Outputs[i].Name)
		} else {
			w.text(outputs[i])
		}
	}
	for i := range r.Parameters {
		w.parameter(&r.Parameters[i])
	}
	binary.LittleEndian.PutUint64(w.b[at:], uint64(len(w.b)-at-8))
}

// trace appends whether a request is traced, and the number of its trace. It returns the trace's context.
func (w *recordWriter) trace(r *infer.Request) (context string) {
	t, ok := r.Trace.(*worker.Trace)
	if !ok {
		w.number(0)
		w.number(0)
		return ""
	}
	w.number(1)
	w.number(uint64(t.Number))
	return t.Context
}

func (w *recordWriter) input(t *tensor.Tensor) {
	w.text(t.Name)
	w.number(uint64(t.DataType))
	w.number(uint64(len(t.Shape)))
	for _, d := range t.Shape {
		w.number(uint64(d))
	}
	if w.alone && (t.OnDevice() != nil || t.Size() > copyLimit) {
		w.number(leftOut)
		w.number(uint64(t.Size()))
		return
	}
	if len(t.Data) <= copyLimit || t.DataType == tensor.Bytes {
		w.number(0)
		w.number(uint64(len(t.Data)))
		w.b = append(w.b, t.Data...)
		w.pad()
		return
	}
	w.number(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))))
	w.number(uint64(len(t.Data)))
}

// The types of parameters, as the API numbers them.
const (
	parameterString = iota
	parameterInt
	parameterBool
	parameterDouble
)

func (w *recordWriter) parameter(p *infer.Parameter) {
	w.text(p.Name)
	switch p.Kind {
	case infer.StringParameter:
		w.number(parameterString)
		w.text(p.Text)
	case infer.IntParameter:
		w.number(parameterInt)
		w.number(uint64(p.Int))
	case infer.UintParameter:
		w.number(parameterInt)
		w.number(p.Uint)
	case infer.FloatParameter:
		w.number(parameterDouble)
		w.number(math.Float64bits(p.Float))
	case infer.BoolParameter:
		w.number(parameterBool)
		n := uint64(0)
		if p.Bool {
			n = 1
		}
		w.number(n)
	}
}
