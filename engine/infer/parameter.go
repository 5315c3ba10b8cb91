package infer

import (
	"slices"
	"strings"

	"nereid/engine/status"
)

// ParameterKind says which field of a Parameter holds its value.
type ParameterKind uint8

// The kinds of parameter values, those of inference.InferParameter.
const (
	BoolParameter ParameterKind = iota
	IntParameter
	UintParameter
	FloatParameter
	StringParameter
)

// Parameter is a named value of a request or a response that is not a tensor.
type Parameter struct {
	Name  string
	Kind  ParameterKind
	Bool  bool
	Int   int64
	Uint  uint64
	Float float64
	Text  string
}

// reservedParameters are the names that the protocol itself gives a meaning.
var reservedParameters = [...]string{
	"sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output",
}

// SetForwarded makes a header of the client's request a string parameter. It replaces a parameter of the same name. The
// strings must be valid as long as r. It returns InvalidArg for a name that the protocol reserves.
func (r *Request) SetForwarded(name, value string) error {
	if strings.HasPrefix(name, "triton_") || slices.Contains(reservedParameters[:], name) {
		return status.New(status.InvalidArg,
			"Header '"+name+"' is reserved for Triton usage and cannot be forwarded.")
	}
	q := Parameter{Name: name, Kind: StringParameter, Text: value}
	if i := slices.IndexFunc(r.Parameters, func(p Parameter) bool { return p.Name == name }); i >= 0 {
		r.Parameters[i] = q
	} else {
		r.Parameters = append(r.Parameters, q)
	}
	return nil
}
