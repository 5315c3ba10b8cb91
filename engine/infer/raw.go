package infer

import (
	"cmp"
	"encoding/binary"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// CompleteRaw gives the input of a raw request the name, type and shape that the configuration says. The batch is 1.
// The texts of errors are Triton's. All errors are InvalidArg.
func (r *Request) CompleteRaw(cfg *inferencepb.ModelConfig) error {
	invalid := func(format string, args ...any) error {
		return status.Errorf(status.InvalidArg, "[request id: %s] "+format,
			append([]any{cmp.Or(r.ID, "<id_unknown>")}, args...)...)
	}
	if n := len(cfg.GetInput()); n != 1 || len(r.Inputs) != 1 {
		return invalid("Raw request must only have 1 input (found %d) to be deduced but got %d inputs in '%s' model "+
			"configuration", len(r.Inputs), n, r.ModelName)
	}
	r.Raw = false
	spec, in := cfg.GetInput()[0], &r.Inputs[0]
	dims := spec.GetDims()
	in.Name, in.DataType, in.Shape = spec.GetName(), tensor.DataType(spec.GetDataType()), r.Dims(len(dims) + 1)[:0]
	if cfg.GetMaxBatchSize() > 0 {
		in.Shape = append(in.Shape, 1)
	}
	variable, known := -1, int64(1)
	for _, d := range dims {
		switch {
		case d >= 0:
			known *= d
		case variable >= 0:
			return invalid("The shape of the raw input '%s' can not be deduced because there are more than one "+
				"variable-sized dimension", in.Name)
		default:
			variable = len(in.Shape)
		}
		in.Shape = append(in.Shape, d)
	}
	if in.DataType == tensor.Bytes {
		if variable >= 0 || known != 1 {
			return invalid("For BYTE datatype raw input '%s', the model must have input shape [1]", in.Name)
		}
		// The data is the one element; in a BYTES tensor its length precedes it.
		element := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(in.Data)), uint32(len(in.Data)))
		in.Data, in.Buf = append(element, in.Data...), nil
	} else if size := known * int64(in.DataType.Size()); variable >= 0 && size > 0 {
		if int64(len(in.Data))%size != 0 {
			return invalid("raw input '%s' of model '%s' has %d bytes: not a multiple of %d", in.Name, r.ModelName,
				len(in.Data), size)
		}
		in.Shape[variable] = int64(len(in.Data)) / size
	}
	return nil
}
