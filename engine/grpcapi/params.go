package grpcapi

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
)

// parameter is one entry of a parameters map. set is false when the sender chose no value.
type parameter struct {
	infer.Parameter
	set bool
}

// appendParameter decodes a map entry and adds it to dst; a key that is there already gets the new value, as in a map.
func appendParameter(dst []parameter, b []byte, where string) ([]parameter, error) {
	var p parameter
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return dst, malformed(where)
		}
		b = b[n:]
		if typ != protowire.BytesType || num > 2 {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return dst, malformed(where)
			}
			b = b[n:]
			continue
		}
		v, n := consumeBytes(b)
		if n < 0 {
			return dst, malformed(where)
		}
		b = b[n:]
		var err error
		if num == 1 {
			p.Name, err = text(v, where+" key")
		} else {
			err = p.decode(v, where)
		}
		if err != nil {
			return dst, err
		}
	}
	for i := range dst {
		if dst[i].Name == p.Name {
			dst[i] = p
			return dst, nil
		}
	}
	if len(dst) == maxParameters {
		return dst, tooMany(where, maxParameters)
	}
	return append(dst, p), nil
}

// decode merges an InferParameter into p: the last choice stands.
func (p *parameter) decode(b []byte, where string) error {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return malformed(where)
		}
		b = b[n:]
		var bits uint64
		switch {
		case num == 3 && typ == protowire.BytesType:
			v, m := consumeBytes(b)
			if m < 0 {
				return malformed(where)
			}
			s, err := text(v, where+" string_param")
			if err != nil {
				return err
			}
			p.set, p.Kind, p.Text, n = true, infer.StringParameter, s, m
		case typ == protowire.VarintType && (num == 1 || num == 2 || num == 5):
			bits, n = protowire.ConsumeVarint(b)
			switch num {
			case 1:
				p.Kind, p.Bool = infer.BoolParameter, protowire.DecodeBool(bits)
			case 2:
				p.Kind, p.Int = infer.IntParameter, int64(bits)
			default:
				p.Kind, p.Uint = infer.UintParameter, bits
			}
			p.set = true
		case num == 4 && typ == protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(b)
			p.set, p.Kind, p.Float = true, infer.FloatParameter, math.Float64frombits(bits)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return malformed(where)
		}
		b = b[n:]
	}
	return nil
}

func find(params []parameter, name string) *parameter {
	for i := range params {
		if params[i].Name == name {
			return &params[i]
		}
	}
	return nil
}

// integer returns the value of an int64_param or a uint64_param that is not negative.
func (p *parameter) integer() (uint64, bool) {
	switch {
	case p.set && p.Kind == infer.UintParameter:
		return p.Uint, true
	case p.set && p.Kind == infer.IntParameter:
		return uint64(p.Int), p.Int >= 0
	}
	return 0, false
}

func wrongType(name, want string) error {
	return status.Errorf(status.InvalidArg, "invalid value type for '%s' parameter, expected %s.", name, want)
}

func negative(name string) error {
	return status.Errorf(status.InvalidArg, "invalid value for '%s', expected value >= 0.", name)
}

const emptyFinal = "triton_enable_empty_final_response"

// applyParameters moves the request's parameters into r: the reserved ones to their fields, the others to Parameters.
func (m *message) applyParameters(r *infer.Request) error {
	for i := range m.params {
		p := &m.params[i]
		isBool := p.set && p.Kind == infer.BoolParameter
		switch p.Name {
		case "sequence_id":
			switch {
			case p.set && p.Kind == infer.IntParameter:
				r.Correlation = infer.CorrelationID{Number: uint64(p.Int)}
			case p.set && p.Kind == infer.UintParameter:
				r.Correlation = infer.CorrelationID{Number: p.Uint}
			case p.set && p.Kind == infer.StringParameter:
				r.Correlation = infer.CorrelationID{Text: p.Text}
				if err := r.Correlation.Check(); err != nil {
					return err
				}
			default:
				return wrongType(p.Name, "int64_param or string_param")
			}
		case "sequence_start", "sequence_end":
			if !isBool {
				return wrongType(p.Name, "bool_param")
			}
			flag := infer.SequenceStart
			if p.Name == "sequence_end" {
				flag = infer.SequenceEnd
			}
			if p.Bool {
				r.Flags |= flag
			}
		case "priority":
			n, ok := p.integer()
			switch {
			case !ok && p.set && p.Kind == infer.IntParameter:
				return negative(p.Name)
			case !ok:
				return wrongType(p.Name, "int64_param or uint64_param")
			}
			r.Priority = n
		case "timeout":
			n, ok := p.integer()
			switch {
			case !ok && p.set && p.Kind == infer.IntParameter:
				return negative(p.Name)
			case !ok:
				return wrongType(p.Name, "int64_param")
			}
			r.Timeout = time.Duration(min(n, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
		case emptyFinal:
			if !isBool {
				return wrongType(p.Name, "bool_param")
			}
			m.emptyFinal = p.Bool
		default:
			if strings.HasPrefix(p.Name, "triton_") {
				return status.New(status.InvalidArg, "parameter keys starting with 'triton_' are reserved for Triton usage. "+
					"Only the following keys starting with 'triton_' are allowed: "+emptyFinal)
			}
			if !p.set {
				return wrongType(p.Name, "bool_param, int64_param, uint64_param, double_param or string_param")
			}
			r.Parameters = append(r.Parameters, p.Parameter)
		}
	}
	return nil
}

// classCount reads an output's classification parameter: 0 if there is none.
func classCount(params []parameter) (uint32, error) {
	p := find(params, "classification")
	if p == nil {
		return 0, nil
	}
	if !p.set || p.Kind != infer.IntParameter && p.Kind != infer.UintParameter {
		return 0, status.New(status.InvalidArg, "invalid value type for 'classification' parameter, expected int64_param")
	}
	n, ok := p.integer()
	if !ok || n == 0 {
		return 0, status.New(status.InvalidArg, "invalid value for 'classification' parameter, expected > 0")
	}
	return uint32(min(n, math.MaxUint32)), nil
}

// sharedMemory reads where a tensor's data lies in place of the message; shared is false if it does not.
func sharedMemory(params []parameter, name string) (at shm.Range, shared bool, err error) {
	region, offset, size := find(params, "shared_memory_region"), find(params, "shared_memory_offset"), find(params, "shared_memory_byte_size")
	if region == nil {
		for _, p := range []*parameter{offset, size} {
			if p != nil {
				return at, false, status.Errorf(status.InvalidArg,
					"'%s' can not be specified without 'shared_memory_region' parameter for tensor '%s'", p.Name, name)
			}
		}
		return at, false, nil
	}
	wrong := func(p *parameter, want string) error {
		return status.Errorf(status.InvalidArg, "invalid value type for '%s' parameter for tensor '%s', expected %s.", p.Name, name, want)
	}
	switch {
	case !region.set || region.Kind != infer.StringParameter:
		return at, false, wrong(region, "string_param")
	case offset != nil && (!offset.set || offset.Kind != infer.IntParameter):
		return at, false, wrong(offset, "int64_param")
	case size == nil:
		return at, false, status.Errorf(status.InvalidArg,
			"'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '%s'", name)
	case !size.set || size.Kind != infer.IntParameter:
		return at, false, wrong(size, "int64_param")
	}
	at = shm.Range{Region: region.Text, Size: uint64(size.Int)} // a negative number is over every region's size
	if offset != nil {
		at.Offset = uint64(offset.Int)
	}
	return at, true, nil
}
