package tensor

import (
	"bytes"
	"testing"
)

func TestAppendInteger(t *testing.T) {
	for _, tt := range []struct {
		dt   DataType
		text string
		want []byte // nil: refused
	}{
		{Int8, "-128", []byte{0x80}},
		{Int8, "128", nil},
		{Uint8, "255", []byte{0xff}},
		{Uint8, "-1", nil},
		{Int16, "-2", []byte{0xfe, 0xff}},
		{Uint32, "16909060", []byte{4, 3, 2, 1}},
		{Int64, "-9223372036854775808", []byte{0, 0, 0, 0, 0, 0, 0, 0x80}},
		{Uint64, "18446744073709551615", bytes.Repeat([]byte{0xff}, 8)},
		{Uint64, "18446744073709551616", nil},
		{Int32, "1.5", nil},
		{FP32, "1", nil},
		{Bytes, "1", nil},
	} {
		got, ok := AppendInteger([]byte{7}, tt.dt, tt.text)
		if ok != (tt.want != nil) || !bytes.Equal(got, append([]byte{7}, tt.want...)) {
			t.Errorf("AppendInteger(%v, %s) = %v, %v; want %v", tt.dt, tt.text, got, ok, tt.want)
		}
	}
}
