package client

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"

	"nereid/engine/tensor"
)

// Tensor is an input or an output. Its elements are in row-major order and little-endian; see tensor.Tensor.
type Tensor struct {
	Name     string
	DataType tensor.DataType
	Shape    []int64
	Data     []byte // not copied; it must not change during a call

	// Memory, if not nil, is where the data is instead of Data.
	Memory *Memory
}

// Memory is a part of a registered shared memory region.
type Memory struct {
	Region           string
	Offset, ByteSize int64
}

// Element is a Go type that a tensor's elements may have. There is none for FP16 and BF16: set Data.
type Element interface {
	bool | uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64
}

var dataTypes = map[reflect.Kind]tensor.DataType{
	reflect.Bool: tensor.Bool, reflect.Float32: tensor.FP32, reflect.Float64: tensor.FP64,
	reflect.Uint8: tensor.Uint8, reflect.Uint16: tensor.Uint16, reflect.Uint32: tensor.Uint32,
	reflect.Uint64: tensor.Uint64,
	reflect.Int8:   tensor.Int8, reflect.Int16: tensor.Int16, reflect.Int32: tensor.Int32, reflect.Int64: tensor.Int64,
}

// DataTypeOf returns the data type of the elements of type T.
func DataTypeOf[T Element]() tensor.DataType { return dataTypes[reflect.TypeFor[T]().Kind()] }

// Of returns a tensor with a copy of values, which are in row-major order. Without a shape it has one dimension. Of
// does not check the shape; the server does.
func Of[T Element](name string, values []T, shape ...int64) Tensor {
	t := Tensor{Name: name, DataType: DataTypeOf[T](), Shape: shapeOf(len(values), shape)}
	if data, err := binary.Append(make([]byte, 0, len(values)*t.DataType.Size()), binary.LittleEndian,
		values); err == nil {
		t.Data = data // Append fails only for types without a fixed size
	}
	return t
}

// Strings returns a tensor of BYTES elements, which need not be UTF-8.
func Strings(name string, values []string, shape ...int64) Tensor {
	t := Tensor{Name: name, DataType: tensor.Bytes, Shape: shapeOf(len(values), shape), Data: []byte{}}
	for _, v := range values {
		t.Data = tensor.AppendBytesElement(t.Data, v)
	}
	return t
}

func shapeOf(n int, shape []int64) []int64 {
	if len(shape) == 0 {
		return []int64{int64(n)}
	}
	return slices.Clone(shape)
}

// Values returns a copy of the elements. It fails if they are not of type T, or if bytes are missing or left over.
func Values[T Element](t *Tensor) ([]T, error) {
	if want := DataTypeOf[T](); t.DataType != want {
		return nil, fmt.Errorf("tensor %q is of type %v, not %v", t.Name, t.DataType, want)
	}
	n, err := t.elements()
	if err != nil {
		return nil, err
	}
	values := make([]T, n)
	if len(t.Data) != n*t.DataType.Size() {
		return nil, fmt.Errorf("tensor %q has %d bytes, its shape %v needs %d",
			t.Name, len(t.Data), t.Shape, n*t.DataType.Size())
	}
	if _, err := binary.Decode(t.Data, binary.LittleEndian, values); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return values, nil
}

// StringValues returns a copy of the elements of a BYTES tensor.
func StringValues(t *Tensor) ([]string, error) {
	if t.DataType != tensor.Bytes {
		return nil, fmt.Errorf("tensor %q is of type %v, not BYTES", t.Name, t.DataType)
	}
	n, err := t.elements()
	if err != nil {
		return nil, err
	}
	if err := tensor.CheckBytes(t.Data, int64(n)); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	values := make([]string, 0, n)
	for _, e := range tensor.BytesElements(t.Data) {
		values = append(values, string(e))
	}
	return values, nil
}

// elements returns the number of elements that the shape has. It fails if there are fewer bytes.
func (t *Tensor) elements() (int, error) {
	n, err := tensor.Elements(t.Shape)
	if err != nil {
		return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if n > int64(len(t.Data)) { // an element has a byte at least
		return 0, fmt.Errorf("tensor %q has %d bytes, too few for its shape %v", t.Name, len(t.Data), t.Shape)
	}
	return int(n), nil
}
