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

// parameter is one entry of a parameters map. set is false if the sender chose no value.
type parameter struct {
	infer.Parameter
	set bool
}

// appendParameter decodes a map entry and appends it to dst. It replaces an entry with the same key, as in a map.
func appendParameter(dst []parameter, b []byte, where string) ([]parameter, error) {
	var p parameter
	f := fields{b: b}
	for f.next() {
		var err error
		switch {
		case f.bytes(1):
			p.Name, err = text(f.data, where+" key")
		case f.bytes(2):
			err = p.decode(f.data, where)
		}
		if err != nil {
			return dst, err
		}
	}
	if f.bad {
		return dst, malformed(where)
	}
	if same := find(dst, p.Name); same != nil {
		*same = p
		return dst, nil
	}
	if len(dst) == maxParameters {
		return dst, tooMany(where, maxParameters)
	}
	return append(dst, p), nil
}

// decode merges an InferParameter into p: the last choice counts.
func (p *parameter) decode(b []byte, where string) error {
	f := fields{b: b}
	for f.next() {
		switch {
		case f.num == 1 && f.typ == protowire.VarintType:
			p.Kind, p.Bool = infer.BoolParameter, protowire.DecodeBool(f.bits)
		case f.num == 2 && f.typ == protowire.VarintType:
			p.Kind, p.Int = infer.IntParameter, int64(f.bits)
		case f.bytes(3):
			s, err := text(f.data, where+" string_param")
			if err != nil {
				return err
			}
			p.Kind, p.Text = infer.StringParameter, s
		case f.num == 4 && f.typ == protowire.Fixed64Type:
			p.Kind, p.Float = infer.FloatParameter, math.Float64frombits(f.bits)
		case f.num == 5 && f.typ == protowire.VarintType:
			p.Kind, p.Uint = infer.UintParameter, f.bits
		default:
			continue
		}
		p.set = true
	}
	if f.bad {
		return malformed(where)
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

// is reports whether a value of a kind was sent.
func (p *parameter) is(k infer.ParameterKind) bool { return p.set && p.Kind == k }

// integer returns the value of an int64_param or a uint64_param. ok is false for other parameters and negative values.
func (p *parameter) integer() (v uint64, ok bool) {
	switch {
	case p.is(infer.UintParameter):
		return p.Uint, true
	case p.is(infer.IntParameter):
		return uint64(p.Int), p.Int >= 0
	}
	return 0, false
}

// flag returns the value of a bool_param.
func (p *parameter) flag() (bool, error) {
	if !p.is(infer.BoolParameter) {
		return false, wrongType(p.Name, "bool_param")
	}
	return p.Bool, nil
}

// natural returns the value of an int64_param or a uint64_param. want is what the error names as the expected type.
func (p *parameter) natural(want string) (uint64, error) {
	v, ok := p.integer()
	switch {
	case ok:
		return v, nil
	case p.is(infer.IntParameter):
		return 0, status.Errorf(status.InvalidArg, "invalid value for '%s', expected value >= 0.", p.Name)
	}
	return 0, wrongType(p.Name, want)
}

func wrongType(name, want string) error {
	return status.Errorf(status.InvalidArg, "invalid value type for '%s' parameter, expected %s.", name, want)
}

const emptyFinal = "triton_enable_empty_final_response"

// applyParameters moves the request's parameters into r: the reserved ones to their fields, the others to Parameters.
func (m *message) applyParameters(r *infer.Request) error {
	for i := range m.params {
		if err := m.applyParameter(r, &m.params[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *message) applyParameter(r *infer.Request, p *parameter) (err error) {
	switch p.Name {
	case "sequence_id":
		r.Correlation, err = p.correlation()
	case "sequence_start", "sequence_end":
		flag := infer.SequenceStart
		if p.Name == "sequence_end" {
			flag = infer.SequenceEnd
		}
		var on bool
		if on, err = p.flag(); on {
			r.Flags |= flag
		}
	case "priority":
		r.Priority, err = p.natural("int64_param or uint64_param")
	case "timeout":
		var micros uint64
		micros, err = p.natural("int64_param")
		r.Timeout = time.Duration(min(micros, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
	case emptyFinal:
		m.emptyFinal, err = p.flag()
	default:
		if strings.HasPrefix(p.Name, "triton_") {
			return status.New(status.InvalidArg,
				"parameter keys starting with 'triton_' are reserved for Triton usage. "+
					"Only the following keys starting with 'triton_' are allowed: "+emptyFinal)
		}
		if !p.set {
			return wrongType(p.Name, "bool_param, int64_param, uint64_param, double_param or string_param")
		}
		r.Parameters = append(r.Parameters, p.Parameter)
	}
	return err
}

// correlation returns the value of sequence_id.
func (p *parameter) correlation() (infer.CorrelationID, error) {
	switch {
	case p.is(infer.IntParameter):
		return infer.CorrelationID{Number: uint64(p.Int)}, nil
	case p.is(infer.UintParameter):
		return infer.CorrelationID{Number: p.Uint}, nil
	case p.is(infer.StringParameter):
		id := infer.CorrelationID{Text: p.Text}
		return id, id.Check()
	}
	return infer.CorrelationID{}, wrongType(p.Name, "int64_param or string_param")
}

// classCount returns the value of an output's classification parameter, 0 if there is none.
func classCount(params []parameter) (uint32, error) {
	p := find(params, "classification")
	if p == nil {
		return 0, nil
	}
	if !p.is(infer.IntParameter) && !p.is(infer.UintParameter) {
		return 0, status.New(status.InvalidArg,
			"invalid value type for 'classification' parameter, expected int64_param")
	}
	n, ok := p.integer()
	if !ok || n == 0 {
		return 0, status.New(status.InvalidArg, "invalid value for 'classification' parameter, expected > 0")
	}
	return uint32(min(n, math.MaxUint32)), nil
}

// sharedMemory returns where in shared memory the data of a tensor is; shared is false if it is in the message.
func sharedMemory(params []parameter, name string) (at shm.Range, shared bool, err error) {
	region := find(params, "shared_memory_region")
	offset, size := find(params, "shared_memory_offset"), find(params, "shared_memory_byte_size")
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
		return status.Errorf(status.InvalidArg,
			"invalid value type for '%s' parameter for tensor '%s', expected %s.", p.Name, name, want)
	}
	switch {
	case !region.is(infer.StringParameter):
		return at, false, wrong(region, "string_param")
	case offset != nil && !offset.is(infer.IntParameter):
		return at, false, wrong(offset, "int64_param")
	case size == nil:
		return at, false, status.Errorf(status.InvalidArg,
			"'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '%s'",
			name)
	case !size.is(infer.IntParameter):
		return at, false, wrong(size, "int64_param")
	}
	at = shm.Range{Region: region.Text, Size: uint64(size.Int)} // a negative number is above every region's size
	if offset != nil {
		at.Offset = uint64(offset.Int)
	}
	return at, true, nil
}
