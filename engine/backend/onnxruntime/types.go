package onnxruntime

import (
	"fmt"

	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/tensor"
)

// elementTypes maps ONNXTensorElementDataType to datatypes.
var elementTypes = [...]tensor.DataType{
	1: tensor.FP32, 2: tensor.Uint8, 3: tensor.Int8, 4: tensor.Uint16, 5: tensor.Int16, 6: tensor.Int32,
	7: tensor.Int64, 8: tensor.Bytes, 9: tensor.Bool, 10: tensor.FP16, 11: tensor.FP64, 12: tensor.Uint32,
	13: tensor.Uint64, 16: tensor.BF16,
}

var elementNames = [...]string{
	0: "UNDEFINED", 14: "COMPLEX64", 15: "COMPLEX128", 17: "FLOAT8E4M3FN", 18: "FLOAT8E4M3FNUZ", 19: "FLOAT8E5M2",
	20: "FLOAT8E5M2FNUZ", 21: "UINT4", 22: "INT4", 23: "FLOAT4E2M1", 24: "UINT2", 25: "INT2",
}

// elementType returns the datatype of an ONNXTensorElementDataType, Invalid if Triton has none.
func elementType(t int) tensor.DataType {
	if t < 0 || t >= len(elementTypes) {
		return tensor.Invalid
	}
	return elementTypes[t]
}

func elementName(t int) string {
	if dt := elementType(t); dt != tensor.Invalid {
		return dt.String()
	}
	if t >= 0 && t < len(elementNames) && elementNames[t] != "" {
		return elementNames[t]
	}
	return fmt.Sprintf("type %d", t)
}

var onnxTypes = [...]string{
	"ONNX_TYPE_UNKNOWN", "ONNX_TYPE_TENSOR", "ONNX_TYPE_SEQUENCE", "ONNX_TYPE_MAP", "ONNX_TYPE_OPAQUE",
	"ONNX_TYPE_SPARSETENSOR", "ONNX_TYPE_OPTIONAL",
}

// unserved returns why a tensor cannot be served, "" if it can.
func unserved(io *capi.IO) string {
	if io.ONNXType != capi.Tensor {
		name := onnxTypes[0]
		if io.ONNXType >= 0 && io.ONNXType < len(onnxTypes) {
			name = onnxTypes[io.ONNXType]
		}
		return fmt.Sprintf("Unsupported ONNX Type '%s' for I/O '%s', expected 'ONNX_TYPE_TENSOR'.", name, io.Name)
	}
	if elementType(io.Type) == tensor.Invalid {
		return fmt.Sprintf("unsupported datatype %s of I/O '%s': the protocol of Triton has no such type; "+
			"convert it in the model by a Cast, for example from or to FLOAT", elementName(io.Type), io.Name)
	}
	return ""
}
