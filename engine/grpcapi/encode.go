package grpcapi

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// tieAt is the size from which an output's memory is referred to rather than copied into the message.
const tieAt = 8 << 10

// reply is an encoded message. The codec passes its buffers, and their references, to the transport.
type reply struct{ bufs mem.BufferSlice }

// answer is a response message that is to be encoded.
type answer struct {
	model, version, id string
	resp               *infer.Response // nil: no outputs, no parameters
	stream             bool            // encode a ModelStreamInferResponse, for which the fields below are
	err                string          // error_message
	final              bool            // the value of triton_final_response
	noFinal            bool            // leave triton_final_response out
}

// encode encodes the answer. Large outputs are referred to: the buffers hold references on their memory, so that the
// response may be released at once.
func (a *answer) encode() mem.BufferSlice {
	meta, copied, tied := a.sizes()
	inner := meta + copied + tied
	size := meta + copied
	if a.stream {
		if a.err != "" {
			size += stringSize(a.err)
		}
		size += 1 + protowire.SizeBytes(inner) - inner
	}
	if tied == 0 && size <= len(small{}.store) {
		m := &small{}
		m.SliceBuffer = a.appendAll(m.store[:0], inner)
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
	if tied == 0 {
		*store = a.appendAll((*store)[:0], inner)
		return mem.BufferSlice{mem.NewBuffer(store, pool)}
	}
	return a.tie(a.appendMeta((*store)[:0], inner), store, pool)
}

// small is a short message: its bytes, its buffer and the slice of one buffer, in one allocation.
type small struct {
	mem.SliceBuffer
	list  [1]mem.Buffer
	store [192]byte
}

// appendAll appends the whole message, whose ModelInferResponse is inner bytes long, by copying.
func (a *answer) appendAll(b []byte, inner int) []byte {
	b = a.appendMeta(b, inner)
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
		b = append(b, 6<<3|byte(protowire.BytesType))
		b = protowire.AppendVarint(b, uint64(len(data)))
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
		bufs = append(bufs, head.Slice(from, to), tied(&outputs[i]))
		from = to
	}
	if from < len(b) {
		bufs = append(bufs, head.Slice(from, len(b)))
	}
	return bufs
}

// loan holds a reference on an output's memory for a mem.Buffer. It is the pool to which that buffer returns.
type loan struct {
	data []byte
	buf  *tensor.Buffer
}

// Get is never called.
func (*loan) Get(int) *[]byte { panic("grpcapi: Get on a loan") }

// Put releases the memory.
func (l *loan) Put(*[]byte) { l.buf.Release() }

// tied returns an output's memory as a buffer that holds a reference on it. The memory has at least tieAt bytes,
// which is above the size from which package mem counts references.
func tied(t *tensor.Tensor) mem.Buffer {
	if t.Buf == nil {
		return mem.SliceBuffer(t.Data)
	}
	l := &loan{data: t.Data, buf: t.Buf.Retain()}
	return mem.NewBuffer(&l.data, l)
}

func (a *answer) outputs() []tensor.Tensor {
	if a.resp == nil {
		return nil
	}
	return a.resp.Outputs
}

// sizes returns the bytes of the fields before the raw outputs, of the raw outputs that are copied with all raw
// outputs' tags and lengths, and of those that are referred to.
func (a *answer) sizes() (meta, copied, tied int) {
	meta = stringSize(a.model) + stringSize(a.version) + stringSize(a.id)
	if a.resp != nil {
		for i := range a.resp.Parameters {
			meta += fieldSize(parameterSize(&a.resp.Parameters[i]))
		}
	}
	if a.stream && !a.noFinal {
		p := a.finalParameter()
		meta += fieldSize(parameterSize(&p))
	}
	outputs := a.outputs()
	for i := range outputs {
		t := &outputs[i]
		meta += fieldSize(outputSize(t))
		n := len(t.Data)
		if n < tieAt {
			copied += fieldSize(n)
		} else {
			copied += fieldSize(n) - n
			tied += n
		}
	}
	return meta, copied, tied
}

// appendMeta appends what comes before the raw outputs.
func (a *answer) appendMeta(b []byte, inner int) []byte {
	if a.stream {
		if a.err != "" {
			b = appendString(b, 1, a.err)
		}
		b = append(b, 2<<3|byte(protowire.BytesType))
		b = protowire.AppendVarint(b, uint64(inner))
	}
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
		b = append(b, 5<<3|byte(protowire.BytesType))
		b = protowire.AppendVarint(b, uint64(outputSize(t)))
		b = appendString(b, 1, t.Name)
		b = appendString(b, 2, t.DataType.String())
		if len(t.Shape) > 0 {
			b = append(b, 3<<3|byte(protowire.BytesType))
			b = protowire.AppendVarint(b, uint64(shapeSize(t.Shape)))
			for _, d := range t.Shape {
				b = protowire.AppendVarint(b, uint64(d))
			}
		}
	}
	return b
}

func (a *answer) finalParameter() infer.Parameter {
	return infer.Parameter{Name: "triton_final_response", Kind: infer.BoolParameter, Bool: a.final}
}

// fieldSize is the size of a field (number 1 to 15) with n bytes of content.
func fieldSize(n int) int { return 1 + protowire.SizeBytes(n) }

// stringSize is the size of a string field, none if it is empty.
func stringSize(s string) int {
	if s == "" {
		return 0
	}
	return fieldSize(len(s))
}

func outputSize(t *tensor.Tensor) int {
	n := stringSize(t.Name) + stringSize(t.DataType.String())
	if len(t.Shape) > 0 {
		n += fieldSize(shapeSize(t.Shape))
	}
	return n
}

func shapeSize(shape []int64) int {
	n := 0
	for _, d := range shape {
		n += protowire.SizeVarint(uint64(d))
	}
	return n
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = append(b, byte(num<<3)|byte(protowire.BytesType))
	return protowire.AppendString(b, s)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	b = append(b, byte(num<<3)|byte(protowire.BytesType))
	return protowire.AppendBytes(b, v)
}

// valueSize is the size of p's InferParameter. Its field is written even if it is zero, because it says which kind it
// is.
func valueSize(p *infer.Parameter) int {
	switch p.Kind {
	case infer.BoolParameter:
		return 2
	case infer.IntParameter:
		return 1 + protowire.SizeVarint(uint64(p.Int))
	case infer.UintParameter:
		return 1 + protowire.SizeVarint(p.Uint)
	case infer.FloatParameter:
		return 9
	}
	return fieldSize(len(validText(p.Text)))
}

// parameterSize is the size of p's map entry.
func parameterSize(p *infer.Parameter) int {
	return fieldSize(len(validText(p.Name))) + fieldSize(valueSize(p))
}

func appendParameterEntry(b []byte, p *infer.Parameter) []byte {
	b = append(b, 4<<3|byte(protowire.BytesType))
	b = protowire.AppendVarint(b, uint64(parameterSize(p)))
	b = append(b, 1<<3|byte(protowire.BytesType))
	b = protowire.AppendString(b, validText(p.Name))
	b = append(b, 2<<3|byte(protowire.BytesType))
	b = protowire.AppendVarint(b, uint64(valueSize(p)))
	switch p.Kind {
	case infer.BoolParameter:
		return append(b, 1<<3|byte(protowire.VarintType), byte(protowire.EncodeBool(p.Bool)))
	case infer.IntParameter:
		return protowire.AppendVarint(append(b, 2<<3|byte(protowire.VarintType)), uint64(p.Int))
	case infer.UintParameter:
		return protowire.AppendVarint(append(b, 5<<3|byte(protowire.VarintType)), p.Uint)
	case infer.FloatParameter:
		return binary.LittleEndian.AppendUint64(append(b, 4<<3|byte(protowire.Fixed64Type)), math.Float64bits(p.Float))
	}
	b = append(b, 3<<3|byte(protowire.BytesType))
	return protowire.AppendString(b, validText(p.Text))
}

// validText replaces what is not UTF-8: clients would refuse a message with it.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
