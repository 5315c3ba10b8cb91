package ovapi

import (
	"testing"

	"nereid/engine/tensor"
)

// The sizes of eight elements of each element type, as releases of OpenVINO number them.
func TestTypesBySize(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sizes []uint64
		want  map[tensor.DataType]uint32
		fails bool
	}{
		{
			name: "2022", sizes: []uint64{0, 0, 8, 16, 16, 32, 64, 4, 8, 16, 32, 64, 1, 4, 8, 16, 32, 64},
			want: map[tensor.DataType]uint32{tensor.Bool: 2, tensor.BF16: 3, tensor.FP32: 5, tensor.Int8: 8,
				tensor.Int64: 11, tensor.Uint8: 14, tensor.Uint64: 17},
		},
		{
			name: "2024, with U2, U3, U6, texts", sizes: []uint64{0, 0, 8, 16, 16, 32, 64, 4, 8, 16, 32, 64, 1, 2, 3,
				4, 6, 8, 16, 32, 64, 4, 8, 8, 256, 4},
			want: map[tensor.DataType]uint32{tensor.FP16: 4, tensor.Int32: 10, tensor.Uint8: 17, tensor.Uint16: 18,
				tensor.Bytes: 24},
		},
		{
			name: "without UNDEFINED", sizes: []uint64{0, 8, 16, 16, 32, 64, 4, 8, 16, 32, 64, 1, 2, 3, 4, 6, 8, 16,
				32, 64, 4, 8, 8, 256},
			want: map[tensor.DataType]uint32{tensor.Bool: 1, tensor.Int8: 7, tensor.Uint32: 18, tensor.Bytes: 23},
		},
		{name: "something else", sizes: []uint64{0, 8, 16, 32}, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := typesBySize(tt.sizes, 32)
			if (err != nil) != tt.fails {
				t.Fatalf("typesBySize = %v", err)
			}
			for dt, code := range tt.want {
				if got.code[dt] != code || got.dt[code] != dt {
					t.Errorf("%s is %d, and %d is %s; want %d", dt, got.code[dt], code, got.dt[code], code)
				}
			}
		})
	}
}
