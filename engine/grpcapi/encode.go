package grpcapi

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// tieAt is the size from which an output's memory is referred to rather than copied into the message.
const tieAt = 8 << 10

// answer is a response message that is to be encoded.
type answer struct {
	model, version, id string
	resp               *infer.Response // nil: no outputs, no parameters
	stream             bool            // encode a ModelStreamInferResponse, for which the fields below are
	err                string          // error_message
	final              bool            // the value of triton_final_response
	noFinal            bool            // leave triton_final_response out
	memory             *tensor.Budget  // counts the outputs that are referred to, until they are sent; nil: not counted
}

// encode encodes the answer. Large outputs are referred to: the buffers hold references on their memory, so that the
// response may be released at once.
func (a *answer) encode() mem.BufferSlice {
	var scratch [512]byte
	return a.encodeAfter(a.appendMeta(scratch[:0]))
}

// encodeAfter is encode for an answer whose fields before the raw outputs are encoded in meta.
func (a *answer) encodeAfter(meta []byte) mem.BufferSlice {
	copied, tied := a.rawSizes()
	inner := len(meta) + copied + tied
	size := len(meta) + copied
	if a.stream {
		size += len(a.err) + 2*(1+binary.MaxVarintLen32) // at most: two tags and two lengths
	}
	if tied == 0 && size <= len(small{}.store) {
		m := &small{}
		m.SliceBuffer = a.appendRaw(a.appendHead(m.store[:0], meta, inner))
		m.list[0] = m
		return m.list[:]
	}
	pool := mem.DefaultBufferPool()
	var store *[]byte
	if mem.IsBelowBufferPoolingThreshold(size) {
		b := make([]byte, 0, size)
		store = &b
	} else {
		store = pool.Get(size)
	}
	b := a.appendHead((*store)[:0], meta, inner)
	if tied == 0 {
		*store = a.appendRaw(b)
		return mem.BufferSlice{mem.NewBuffer(store, pool)}
	}
	return a.tie(b, store, pool)
}

// small is a short message: its bytes, its buffer and the slice of one buffer, in one allocation.
type small struct {
	mem.SliceBuffer
	list  [1]mem.Buffer
	store [208]byte
}

// appendRaw appends the raw outputs by copying.
func (a *answer) appendRaw(b []byte) []byte {
	for i := range a.outputs() {
		b = appendBytes(b, 6, a.resp.Outputs[i].Data)
	}
	return b
}

// tie appends the raw outputs to the head b, which lies in store: small ones by copying, large ones by reference.
func (a *answer) tie(b []byte, store *[]byte, pool mem.BufferPool) mem.BufferSlice {
	outputs := a.outputs()
	cuts := make([]int, 0, len(outputs))
	for i := range outputs {
		data := outputs[i].Data
		if len(data) < tieAt {
			b = appendBytes(b, 6, data)
			continue
		}
		b = protowire.AppendVarint(appendTag(b, 6, protowire.BytesType), uint64(len(data)))
		cuts = append(cuts, len(b))
	}
	*store = b
	head := mem.NewBuffer(store, pool)
	defer head.Free()
	bufs := make(mem.BufferSlice, 0, 2*len(cuts)+1)
	from := 0
	for i := range outputs {
		if len(outputs[i].Data) < tieAt {
			continue
		}
		to := cuts[0]
		cuts = cuts[1:]
		bufs = append(bufs, head.Slice(from, to), tied(&outputs[i], a.memory))
		from = to
	}
	if from < len(b) {
		bufs = append(bufs, head.Slice(from, len(b)))
	}
	return bufs
}

// loan holds a reference on an output's memory for a mem.Buffer. It is the pool to which that buffer returns.
type loan struct {
	data   []byte
	buf    *tensor.Buffer
	memory *tensor.Budget
}

// Get is never called.
func (*loan) Get(int) *[]byte { panic("grpcapi: Get on a loan") }

// Put releases the memory.
func (l *loan) Put(*[]byte) {
	l.memory.Give(int64(len(l.data)))
	l.buf.Release()
}

// tied returns an output's memory as a buffer that holds a reference on it. The memory has at least tieAt bytes,
// which is above the size from which package mem counts references.
func tied(t *tensor.Tensor, memory *tensor.Budget) mem.Buffer {
	if t.Buf == nil {
		return mem.SliceBuffer(t.Data)
	}
	l := &loan{data: t.Data, buf: t.Buf.Retain(), memory: memory}
	memory.Add(int64(len(t.Data)))
	return mem.NewBuffer(&l.data, l)
}

func (a *answer) outputs() []tensor.Tensor {
	if a.resp == nil {
		return nil
	}
	return a.resp.Outputs
}

// rawSizes returns the bytes of the raw outputs that are copied, with all raw outputs' tags and lengths, and of those
// that are referred to.
func (a *answer) rawSizes() (copied, tied int) {
	outputs := a.outputs()
	for i := range outputs {
		n := len(outputs[i].Data)
		if copied += 1 + protowire.SizeBytes(n); n >= tieAt {
			copied -= n
			tied += n
		}
	}
	return copied, tied
}

// appendHead appends what comes before the raw outputs: for a stream the message around the ModelInferResponse, which
// is inner bytes long, and meta.
func (a *answer) appendHead(b, meta []byte, inner int) []byte {
	if a.stream {
		b = appendString(b, 1, a.err)
		b = protowire.AppendVarint(appendTag(b, 2, protowire.BytesType), uint64(inner))
	}
	return append(b, meta...)
}

// appendMeta appends the fields of the ModelInferResponse before the raw outputs.
func (a *answer) appendMeta(b []byte) []byte {
	b = appendString(b, 1, a.model)
	b = appendString(b, 2, a.version)
	b = appendString(b, 3, a.id)
	if a.resp != nil {
		for i := range a.resp.Parameters {
			b = appendParameterEntry(b, &a.resp.Parameters[i])
		}
	}
	if a.stream && !a.noFinal {
		p := a.finalParameter()
		b = appendParameterEntry(b, &p)
	}
	outputs := a.outputs()
	for i := range outputs {
		t := &outputs[i]
		b = openField(b, 5)
		output := len(b)
		b = appendString(b, 1, t.Name)
		b = appendString(b, 2, t.DataType.String())
		if len(t.Shape) > 0 {
			b = openField(b, 3)
			shape := len(b)
			for _, d := range t.Shape {
				b = protowire.AppendVarint(b, uint64(d))
			}
			b = closeField(b, shape)
		}
		b = closeField(b, output)
	}
	return b
}

func (a *answer) finalParameter() infer.Parameter {
	return infer.Parameter{Name: "triton_final_response", Kind: infer.BoolParameter, Bool: a.final}
}

func appendTag(b []byte, num protowire.Number, typ protowire.Type) []byte {
	return append(b, byte(num<<3)|byte(typ)) // the numbers are at most 15
}

// openField begins a field of unknown length. Its content is appended next, and then closeField called.
func openField(b []byte, num protowire.Number) []byte {
	return append(appendTag(b, num, protowire.BytesType), 0)
}

// closeField sets the length of a field whose content is b[at:]. A length of more than one byte moves the content.
func closeField(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Replace(b, at-1, at, protowire.AppendVarint(length[:0], uint64(n))...)
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(appendTag(b, num, protowire.BytesType), s)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(appendTag(b, num, protowire.BytesType), v)
}

// appendParameterEntry appends p's map entry. The field of its value is written even if it is zero, because it says
// which kind the value is.
func appendParameterEntry(b []byte, p *infer.Parameter) []byte {
	b = openField(b, 4)
	entry := len(b)
	b = protowire.AppendString(appendTag(b, 1, protowire.BytesType), validText(p.Name))
	b = openField(b, 2)
	value := len(b)
	switch p.Kind {
	case infer.BoolParameter:
		b = protowire.AppendVarint(appendTag(b, 1, protowire.VarintType), protowire.EncodeBool(p.Bool))
	case infer.IntParameter:
		b = protowire.AppendVarint(appendTag(b, 2, protowire.VarintType), uint64(p.Int))
	case infer.UintParameter:
		b = protowire.AppendVarint(appendTag(b, 5, protowire.VarintType), p.Uint)
	case infer.FloatParameter:
		b = protowire.AppendFixed64(appendTag(b, 4, protowire.Fixed64Type), math.Float64bits(p.Float))
	default:
		b = protowire.AppendString(appendTag(b, 3, protowire.BytesType), validText(p.Text))
	}
	return closeField(closeField(b, value), entry)
}

// validText replaces what is not UTF-8: clients would refuse a message with it.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
