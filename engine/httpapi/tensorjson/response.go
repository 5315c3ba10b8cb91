package tensorjson

import (
	"net"
	"strconv"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// Response says how the outputs of a response are sent in the form of the KServe v2 protocol.
type Response struct {
	// Binary is the default for outputs that the request does not list: their bytes follow the JSON part.
	Binary bool
	// Large takes the large binary outputs instead of a copy. nil: they are copied like the others.
	Large *LargeOutputs
}

// Append appends a response to w: the JSON part, then the binary outputs in order. jsonLength is the length of the
// JSON part if there are binary outputs, otherwise -1. After an error, w has no defined content. Errors: as
// Builder.Elements.
func (o Response) Append(w *Builder, r *infer.Request, resp *infer.Response) (jsonLength int, err error) {
	w.Room(256 + len(r.ID)*6)
	b := append(w.B, '{')
	if r.ID != "" {
		b = append(b, `"id":`...)
		b = AppendString(b, r.ID)
		b = append(b, ',')
	}
	b = append(b, `"model_name":`...)
	b = AppendString(b, r.Served.Name())
	b = append(b, `,"model_version":"`...)
	b = append(b, r.Served.VersionText()...)
	b = append(b, '"')
	if len(resp.Parameters) > 0 {
		b = append(b, `,"parameters":`...)
		b = appendParameters(b, resp.Parameters)
	}
	w.B = append(b, `,"outputs":[`...)

	anyBinary, written := false, 0
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		form := o.formOf(r, t.Name)
		if form == omitted {
			continue
		}
		if written > 0 {
			w.B = append(w.B, ',')
		}
		written++
		anyBinary = anyBinary || form == asBinary
		if err := appendOutput(w, t, form); err != nil {
			return 0, err
		}
	}
	w.Raw("]}")
	if !anyBinary {
		return -1, nil
	}
	jsonLength = len(w.B)
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		switch {
		case o.formOf(r, t.Name) != asBinary:
		case o.Large != nil && len(t.Data) >= largeOutput:
			o.Large.add(len(w.B), t)
		default:
			w.Room(len(t.Data)) // without regard to the limit: it is as large as the tensor, which is there
			w.B = append(w.B, t.Data...)
		}
	}
	return jsonLength, nil
}

// outputForm is how an output is sent.
type outputForm uint8

const (
	omitted  outputForm = iota // the request does not want it
	asJSON                     // elements in the JSON part
	asBinary                   // bytes behind the JSON part
	inShared                   // the bytes are in the client's shared memory already
)

func (o Response) formOf(r *infer.Request, output string) outputForm {
	if len(r.Outputs) == 0 {
		if o.Binary {
			return asBinary
		}
		return asJSON
	}
	for i := range r.Outputs {
		switch out := &r.Outputs[i]; {
		case out.Name != output:
		case out.Binary:
			return asBinary
		case out.Shared != nil:
			return inShared
		default:
			return asJSON
		}
	}
	return omitted
}

func appendOutput(w *Builder, t *tensor.Tensor, form outputForm) error {
	w.Room(160 + len(t.Name)*6 + len(t.Shape)*21)
	b := append(w.B, `{"name":`...)
	b = AppendString(b, t.Name)
	b = append(b, `,"datatype":"`...)
	b = append(b, t.DataType.String()...)
	b = append(b, `","shape":`...)
	b = AppendShape(b, t.Shape)
	switch form {
	case asBinary:
		b = append(b, `,"parameters":{"binary_data_size":`...)
		b = strconv.AppendInt(b, int64(len(t.Data)), 10)
		b = append(b, '}')
	case asJSON:
		w.B = append(b, `,"data":[`...)
		if err := w.Elements(t); err != nil {
			return err
		}
		w.Room(2)
		b = append(w.B, ']')
	}
	w.B = append(b, '}')
	return nil
}

// largeOutput is the size in bytes from which a binary output is written from its own memory. Copying a smaller one
// behind the JSON part costs less than another write.
const largeOutput = 64 << 10

// LargeOutputs are the outputs of a response that are not copied into it. It holds a reference to each until Release.
type LargeOutputs struct {
	parts   []largePart
	pieces  [][]byte // storage of buffers
	buffers net.Buffers
}

// largePart is an output and its place: before byte at of the text that the builder made.
type largePart struct {
	at   int
	data []byte
	buf  *tensor.Buffer // nil: memory of the garbage collector
}

func (l *LargeOutputs) add(at int, t *tensor.Tensor) {
	t.Retain()
	l.parts = append(l.parts, largePart{at, t.Data, t.Buf})
}

// Empty reports whether there are none.
func (l *LargeOutputs) Empty() bool { return len(l.parts) == 0 }

// Body puts the outputs into their places in the text that the builder made. It returns the whole body and its size;
// the body is valid until Release.
func (l *LargeOutputs) Body(text []byte) (body *net.Buffers, size int) {
	l.pieces = l.pieces[:0]
	from := 0
	size = len(text)
	for _, p := range l.parts {
		l.pieces = append(l.pieces, text[from:p.at], p.data)
		from = p.at
		size += len(p.data)
	}
	l.pieces = append(l.pieces, text[from:])
	l.buffers = l.pieces
	return &l.buffers, size
}

// Release releases the outputs.
func (l *LargeOutputs) Release() {
	if l.Empty() {
		return
	}
	for i := range l.parts {
		if buf := l.parts[i].buf; buf != nil {
			buf.Release()
		}
	}
	clear(l.parts)
	clear(l.pieces)
	l.parts, l.pieces, l.buffers = l.parts[:0], l.pieces[:0], nil
}
