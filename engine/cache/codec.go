package cache

import (
	"encoding/binary"
	"math"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// codecVersion is the first byte of an encoded response. Parse refuses other versions.
const codecVersion = 1

// Append appends an encoded response, for stores outside of this process. It consists of the version, the outputs
// (name, data type, shape, bytes) and the parameters. The length precedes each part.
func Append(b []byte, r *Response) []byte {
	b = append(b, codecVersion)
	b = binary.AppendUvarint(b, uint64(len(r.Outputs)))
	for i := range r.Outputs {
		out := &r.Outputs[i]
		b = append(appendHeader(b, out), out.Data...)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Parameters)))
	for i := range r.Parameters {
		b = appendParameter(b, &r.Parameters[i])
	}
	return b
}

// Parse decodes the result of Append. The response's tensors are views of b. Errors: Internal if b is anything else.
func Parse(b []byte) (*Response, error) {
	p := parser{b: b}
	if v := p.byte(); v != codecVersion {
		return nil, status.Errorf(status.Internal, "a stored response has the format %d; this server reads %d", v,
			codecVersion)
	}
	r := &Response{}
	for range p.count() {
		out := tensor.Tensor{Name: string(p.bytes()), DataType: tensor.DataType(p.byte())}
		for range p.count() {
			out.Shape = append(out.Shape, p.varint())
		}
		out.Data = p.bytes()
		r.Outputs = append(r.Outputs, out)
		if p.bad {
			break
		}
	}
	for range p.count() {
		r.Parameters = append(r.Parameters, p.parameter())
		if p.bad {
			break
		}
	}
	if p.bad || len(p.b) != 0 {
		return nil, status.Errorf(status.Internal,
			"a stored response of %d bytes is truncated or has extra bytes", len(b))
	}
	return r, nil
}

// parser reads parts of b. After reading past the end, bad is set and all parts are empty.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) fail() { p.bad, p.b = true, nil }

func (p *parser) byte() byte {
	if len(p.b) == 0 {
		p.fail()
		return 0
	}
	v := p.b[0]
	p.b = p.b[1:]
	return v
}

func (p *parser) uvarint() uint64 { return number(p, binary.Uvarint) }

func (p *parser) varint() int64 { return number(p, binary.Varint) }

func number[T uint64 | int64](p *parser, read func([]byte) (T, int)) T {
	v, n := read(p.b)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.b = p.b[n:]
	return v
}

// count reads the number of the parts that follow. Each has at least one byte.
func (p *parser) count() int {
	n := p.uvarint()
	if n > uint64(len(p.b)) {
		p.fail()
		return 0
	}
	return int(n)
}

func (p *parser) bytes() []byte {
	n := p.count()
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v
}

func (p *parser) parameter() infer.Parameter {
	v := infer.Parameter{Name: string(p.bytes()), Kind: infer.ParameterKind(p.byte())}
	switch v.Kind {
	case infer.BoolParameter:
		v.Bool = p.byte() != 0
	case infer.IntParameter:
		v.Int = p.varint()
	case infer.UintParameter:
		v.Uint = p.uvarint()
	case infer.FloatParameter:
		if len(p.b) < 8 {
			p.fail()
			return v
		}
		v.Float = math.Float64frombits(binary.LittleEndian.Uint64(p.b))
		p.b = p.b[8:]
	case infer.StringParameter:
		v.Text = string(p.bytes())
	default:
		p.fail()
	}
	return v
}
