package cache

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

func sampleResponse() *Response {
	return &Response{
		Outputs: []tensor.Tensor{
			{Name: "OUT", DataType: tensor.FP32, Shape: []int64{1, 2}, Data: []byte("12345678")},
			{Name: "", DataType: tensor.Bytes, Shape: []int64{-1, math.MaxInt64}, Data: []byte{}},
		},
		Parameters: []infer.Parameter{
			{Name: "b", Bool: true}, {Name: "i", Kind: infer.IntParameter, Int: math.MinInt64},
			{Name: "u", Kind: infer.UintParameter, Uint: math.MaxUint64},
			{Name: "f", Kind: infer.FloatParameter, Float: -0.5},
			{Name: "s", Kind: infer.StringParameter, Text: "grün"},
		},
	}
}

func TestCodec(t *testing.T) {
	want := sampleResponse()
	b := Append(nil, want)
	got, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("parsed %+v, want %+v", got, want)
	}
	for n := range b {
		if _, err := Parse(b[:n]); err == nil {
			t.Errorf("%d of %d bytes were taken for a response", n, len(b))
		}
	}
	for name, bad := range map[string][]byte{
		"a byte too many": append(bytes.Clone(b), 0), "another format": append([]byte{9}, b[1:]...),
	} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%s: taken for a response", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Append(nil, sampleResponse()))
	f.Add([]byte{codecVersion, 0, 0})
	f.Add([]byte{codecVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(Append(nil, r))
		if err != nil {
			t.Fatalf("what was parsed cannot be written: %v", err)
		}
		if !bytes.Equal(Append(nil, again), Append(nil, r)) {
			t.Fatalf("written twice, not the same: %+v and %+v", r, again)
		}
	})
}
