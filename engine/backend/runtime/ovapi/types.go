package ovapi

import (
	"errors"
	"slices"

	"nereid/engine/tensor"
)

// types are the numbers of element types, which have changed between releases of OpenVINO.
type types struct {
	code map[tensor.DataType]uint32
	dt   map[uint32]tensor.DataType
}

// The order of element types in ov_element_type_e has stayed; some have come between these two runs, and before and
// after.
var (
	first = []tensor.DataType{tensor.Bool, tensor.BF16, tensor.FP16, tensor.FP32, tensor.FP64, tensor.Invalid,
		tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}
	second = []tensor.DataType{tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}
)

// int4 is how many bytes eight elements of the one type in first that cannot be served take.
const int4 = 4

// typesBySize finds the numbers of the types by how many bytes eight elements of each take.
func typesBySize(sizes []uint64, text uint64) (types, error) {
	t := types{map[tensor.DataType]uint32{}, map[uint32]tensor.DataType{}}
	at := 0
	for _, run := range [][]tensor.DataType{first, second} {
		found := false
		for ; at+len(run) <= len(sizes) && !found; at++ {
			found = slices.EqualFunc(run, sizes[at:at+len(run)], func(dt tensor.DataType, n uint64) bool {
				if dt == tensor.Invalid {
					return n == int4
				}
				return n == 8*uint64(dt.Size())
			})
			if found {
				for k, dt := range run {
					t.add(dt, at+k)
				}
				at += len(run) - 1
			}
		}
		if !found {
			return t, errors.New("its element types are not those of OpenVINO 2022 to 2026")
		}
	}
	if k := slices.Index(sizes, 8*text); k >= 0 {
		t.add(tensor.Bytes, k)
	}
	return t, nil
}

func (t *types) add(dt tensor.DataType, code int) {
	if dt != tensor.Invalid {
		t.code[dt], t.dt[uint32(code)] = uint32(code), dt
	}
}
