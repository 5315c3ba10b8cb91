package tfapi

import "nereid/engine/tensor"

// codes are TensorFlow's numbers of the types that can be served (TF_DataType).
var codes = map[tensor.DataType]int{
	tensor.Bool: 10, tensor.Uint8: 4, tensor.Uint16: 17, tensor.Uint32: 22, tensor.Uint64: 23, tensor.Int8: 6,
	tensor.Int16: 5,
	tensor.Int32: 3, tensor.Int64: 9, tensor.FP16: 19, tensor.FP32: 1, tensor.FP64: 2, tensor.Bytes: 7, tensor.BF16: 14,
}

var dataTypes = func() map[int]tensor.DataType {
	m := make(map[int]tensor.DataType, len(codes))
	for dt, code := range codes {
		m[code] = dt
	}
	return m
}()

// names are those of the types that cannot be served, as TensorFlow's messages have them.
var names = map[int]string{
	8: "DT_COMPLEX64", 11: "DT_QINT8", 12: "DT_QUINT8", 13: "DT_QINT32", 15: "DT_QINT16", 16: "DT_QUINT16",
	18: "DT_COMPLEX128",
	20: "DT_RESOURCE", 21: "DT_VARIANT",
}

// DataType returns the type of a number of TensorFlow's; Invalid if it cannot be served.
func DataType(code int) tensor.DataType { return dataTypes[code] }

// TypeName returns the name of a type that cannot be served.
func TypeName(code int) string {
	if n, ok := names[code]; ok {
		return n
	}
	return "an unknown type"
}
