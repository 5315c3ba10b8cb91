package infer

import (
	"slices"
	"strings"

	"nereid/engine/status"
)

// reservedParameters are the names that the protocol itself gives a meaning.
var reservedParameters = [...]string{
	"sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output",
}

// SetForwarded makes a header of the client's request a string parameter; one of the same name gives way. The strings
// must stay valid as long as r does. It returns InvalidArg for a name that the protocol keeps for itself.
func (r *Request) SetForwarded(name, value string) error {
	if strings.HasPrefix(name, "triton_") || slices.Contains(reservedParameters[:], name) {
		return status.New(status.InvalidArg, "Header '"+name+"' is reserved for Triton usage and cannot be forwarded.")
	}
	q := Parameter{Name: name, Kind: StringParameter, Text: value}
	for i := range r.Parameters {
		if r.Parameters[i].Name == name {
			r.Parameters[i] = q
			return nil
		}
	}
	r.Parameters = append(r.Parameters, q)
	return nil
}
