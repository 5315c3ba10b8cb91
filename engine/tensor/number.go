package tensor

import (
	"encoding/binary"
	"math"
	"strconv"
)

// Float returns the first element of data. dt must be a floating point type.
func Float(dt DataType, data []byte) float64 {
	switch dt {
	case FP64:
		return math.Float64frombits(binary.LittleEndian.Uint64(data))
	case FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
	case BF16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(data)) << 16))
	}
	return float64(Float16(binary.LittleEndian.Uint16(data)))
}

// AppendBits appends the low bits of v in little-endian order. bits is a multiple of 8.
func AppendBits(dst []byte, bits int, v uint64) []byte {
	var all [8]byte
	binary.LittleEndian.PutUint64(all[:], v)
	return append(dst, all[:bits/8]...)
}

// AppendInteger appends an element of an integer type. text is a decimal number. It returns false if text is no value
// of dt, or dt is no integer type.
func AppendInteger(dst []byte, dt DataType, text string) ([]byte, bool) {
	bits := dt.Size() * 8
	switch dt {
	case Int8, Int16, Int32, Int64:
		if n, err := strconv.ParseInt(text, 10, bits); err == nil {
			return AppendBits(dst, bits, uint64(n)), true
		}
	case Uint8, Uint16, Uint32, Uint64:
		if n, err := strconv.ParseUint(text, 10, bits); err == nil {
			return AppendBits(dst, bits, n), true
		}
	}
	return dst, false
}
