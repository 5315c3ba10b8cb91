package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// tensor is one input with its values in both wire forms.
type tensor struct {
	name, dtype string
	shape       []int64
	raw         []byte // little-endian elements
	json        []any  // the same values
}

// elementSize gives the bytes of one element; only types with a JSON form are here.
func elementSize(dtype string) int {
	switch dtype {
	case "UINT8", "INT8", "BOOL":
		return 1
	case "FP32", "INT32", "UINT32":
		return 4
	case "FP64", "INT64", "UINT64":
		return 8
	}
	return 0
}

// parseTensors reads "NAME:DTYPE:d,d,..[;...]" and fills each tensor with values that depend on the seed.
func parseTensors(spec string, seed uint64) ([]tensor, error) {
	rng := rand.New(rand.NewPCG(seed, 0x6e6572656964))
	var list []tensor
	for _, part := range strings.Split(spec, ";") {
		f := strings.Split(part, ":")
		if len(f) != 3 {
			return nil, fmt.Errorf("tensor %q: want NAME:DTYPE:d,d,.. such as INPUT0:FP32:1,16", part)
		}
		t := tensor{name: f[0], dtype: f[1]}
		n := 1
		for _, d := range strings.Split(f[2], ",") {
			v, err := strconv.Atoi(d)
			if err != nil || v < 1 {
				return nil, fmt.Errorf("tensor %q: dimension %q is no positive integer", part, d)
			}
			t.shape = append(t.shape, int64(v))
			n *= v
		}
		if elementSize(t.dtype) == 0 {
			return nil, fmt.Errorf("tensor %q: data type %q; want FP32, FP64, BOOL or an integer type", part, t.dtype)
		}
		for range n {
			t.append(rng)
		}
		list = append(list, t)
	}
	return list, nil
}

// append adds one random element. Floats are multiples of 1/256, so that their JSON form is short and exact.
func (t *tensor) append(rng *rand.Rand) {
	switch t.dtype {
	case "FP32":
		v := float32(rng.IntN(1024)-512) / 256
		t.raw = binary.LittleEndian.AppendUint32(t.raw, math.Float32bits(v))
		t.json = append(t.json, v)
	case "FP64":
		v := float64(rng.IntN(1024)-512) / 256
		t.raw = binary.LittleEndian.AppendUint64(t.raw, math.Float64bits(v))
		t.json = append(t.json, v)
	case "BOOL":
		v := rng.IntN(2)
		t.raw = append(t.raw, byte(v))
		t.json = append(t.json, v == 1)
	default:
		v := rng.IntN(100)
		switch elementSize(t.dtype) {
		case 1:
			t.raw = append(t.raw, byte(v))
		case 4:
			t.raw = binary.LittleEndian.AppendUint32(t.raw, uint32(v))
		case 8:
			t.raw = binary.LittleEndian.AppendUint64(t.raw, uint64(v))
		}
		t.json = append(t.json, v)
	}
}
