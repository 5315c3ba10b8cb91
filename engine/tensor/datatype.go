package tensor

// DataType is the type of a tensor's elements. The numbers are those of inference.DataType in model_config.proto.
type DataType uint8

// The data types, in the order of model_config.proto.
const (
	Invalid DataType = iota
	Bool
	Uint8
	Uint16
	Uint32
	Uint64
	Int8
	Int16
	Int32
	Int64
	FP16
	FP32
	FP64
	Bytes // TYPE_STRING in a model configuration, BYTES on the wire
	BF16

	numDataTypes
)

var dataTypes = [numDataTypes]struct {
	wire, config string
	size         int
}{
	Invalid: {"<invalid>", "TYPE_INVALID", 0},
	Bool:    {"BOOL", "TYPE_BOOL", 1},
	Uint8:   {"UINT8", "TYPE_UINT8", 1},
	Uint16:  {"UINT16", "TYPE_UINT16", 2},
	Uint32:  {"UINT32", "TYPE_UINT32", 4},
	Uint64:  {"UINT64", "TYPE_UINT64", 8},
	Int8:    {"INT8", "TYPE_INT8", 1},
	Int16:   {"INT16", "TYPE_INT16", 2},
	Int32:   {"INT32", "TYPE_INT32", 4},
	Int64:   {"INT64", "TYPE_INT64", 8},
	FP16:    {"FP16", "TYPE_FP16", 2},
	FP32:    {"FP32", "TYPE_FP32", 4},
	FP64:    {"FP64", "TYPE_FP64", 8},
	Bytes:   {"BYTES", "TYPE_STRING", 0},
	BF16:    {"BF16", "TYPE_BF16", 2},
}

// String returns the name on the wire: "FP32", "BYTES".
func (d DataType) String() string {
	if d < numDataTypes {
		return dataTypes[d].wire
	}
	return dataTypes[Invalid].wire
}

// ConfigName returns the name in a model configuration: "TYPE_FP32", "TYPE_STRING".
func (d DataType) ConfigName() string {
	if d < numDataTypes {
		return dataTypes[d].config
	}
	return dataTypes[Invalid].config
}

// Size returns the size of one element in bytes, 0 for BYTES and Invalid.
func (d DataType) Size() int {
	if d < numDataTypes {
		return dataTypes[d].size
	}
	return 0
}

// ParseDataType returns the type with a wire name, Invalid if there is none.
func ParseDataType[S string | []byte](name S) DataType {
	switch string(name) { // a switch on a converted slice does not allocate
	case "FP32":
		return FP32
	case "BOOL":
		return Bool
	case "UINT8":
		return Uint8
	case "UINT16":
		return Uint16
	case "UINT32":
		return Uint32
	case "UINT64":
		return Uint64
	case "INT8":
		return Int8
	case "INT16":
		return Int16
	case "INT32":
		return Int32
	case "INT64":
		return Int64
	case "FP16":
		return FP16
	case "FP64":
		return FP64
	case "BYTES":
		return Bytes
	case "BF16":
		return BF16
	}
	return Invalid
}
