package httpapi

import (
	"encoding/binary"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// readRaw fills r from a raw binary request: the body is the one input's bytes, the shape is deduced, the batch is 1.
// An empty body counts as one too. If it returns false, the reply is an error already.
func readRaw(x *exchange, r *infer.Request, cfg *inferencepb.ModelConfig, buf *tensor.Buffer, body []byte) bool {
	in, err := rawInput(cfg, r, buf, body)
	if err != nil {
		x.failWith(typeJSON, err)
		return false
	}
	r.Inputs = append(r.Inputs, in)
	return true
}

const unknownID = "[request id: <id_unknown>] "

func rawInput(cfg *inferencepb.ModelConfig, r *infer.Request, buf *tensor.Buffer, body []byte) (tensor.Tensor, error) {
	if n := len(cfg.GetInput()); n != 1 {
		return tensor.Tensor{}, status.Errorf(status.InvalidArg, unknownID+"Raw request must only have 1 input (found 1) "+
			"to be deduced but got %d inputs in '%s' model configuration", n, r.ModelName)
	}
	spec := cfg.GetInput()[0]
	dt := tensor.DataType(spec.GetDataType())
	dims := spec.GetDims()
	shape := r.Dims(len(dims) + 1)[:0]
	if cfg.GetMaxBatchSize() > 0 {
		shape = append(shape, 1)
	}
	variable, known := -1, int64(1)
	for _, d := range dims {
		if d < 0 {
			if variable >= 0 {
				return tensor.Tensor{}, status.Errorf(status.InvalidArg, unknownID+"The shape of the raw input '%s' can "+
					"not be deduced because there are more than one variable-sized dimension", spec.GetName())
			}
			variable = len(shape)
		} else {
			known *= d
		}
		shape = append(shape, d)
	}
	t := tensor.Tensor{Name: spec.GetName(), DataType: dt, Shape: shape, Data: body, Buf: buf}
	if dt == tensor.Bytes {
		if variable >= 0 || known != 1 {
			return tensor.Tensor{}, status.Errorf(status.InvalidArg, unknownID+
				"For BYTE datatype raw input '%s', the model must have input shape [1]", spec.GetName())
		}
		// The body is the one element; BYTES tensors want its length in front.
		t.Data = binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
		t.Data, t.Buf = append(t.Data, body...), nil
		return t, nil
	}
	if size := known * int64(dt.Size()); variable >= 0 && size > 0 {
		if int64(len(body))%size != 0 {
			return tensor.Tensor{}, status.Errorf(status.InvalidArg, unknownID+"raw input '%s' of model '%s' has %d bytes: "+
				"not a multiple of %d", spec.GetName(), r.ModelName, len(body), size)
		}
		shape[variable] = int64(len(body)) / size
	}
	return t, nil
}
