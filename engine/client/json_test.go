package client

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"nereid/engine/tensor"
)

func TestJSON(t *testing.T) {
	for _, tt := range []struct {
		name  string
		dt    tensor.DataType
		shape []int64
		in    string
		want  string // as JSON again; "": the same
		err   string // part of the error
	}{
		{name: "numbers", dt: tensor.Int8, shape: []int64{3}, in: `[-128,0,127]`},
		{name: "whole unsigned range", dt: tensor.Uint64, shape: []int64{1}, in: `[18446744073709551615]`},
		{name: "floats", dt: tensor.FP32, shape: []int64{2}, in: `[0.1,-2.5]`},
		{name: "doubles", dt: tensor.FP64, shape: []int64{1}, in: `[0.1]`},
		{name: "nested", dt: tensor.Int32, shape: []int64{2, 2}, in: `[[1,2],[3,-4]]`, want: `[1,2,3,-4]`},
		{name: "booleans in both forms", dt: tensor.Bool, shape: []int64{4}, in: `[true,0,1,false]`,
			want: `[true,false,true,false]`},
		{name: "strings", dt: tensor.Bytes, shape: []int64{2}, in: `["","ä"]`},
		{name: "nothing", dt: tensor.FP32, shape: []int64{0}, in: `[]`},
		{name: "too large", dt: tensor.Uint8, shape: []int64{1}, in: `[256]`, err: "256 is no value of type UINT8"},
		{name: "a fraction", dt: tensor.Int32, shape: []int64{1}, in: `[1.5]`, err: "1.5 is no value of type INT32"},
		{name: "a string for a number", dt: tensor.Int32, shape: []int64{1}, in: `["1"]`,
			err: "is no value of type INT32"},
		{name: "an object", dt: tensor.Int32, shape: []int64{1}, in: `[{"a":1}]`, err: "is no value of type INT32"},
		{name: "too few", dt: tensor.Int32, shape: []int64{2}, in: `[1]`, err: "has 1 values, its shape [2] needs 2"},
		{name: "no array", dt: tensor.Int32, shape: []int64{1}, in: `1`, err: "want an array"},
		{name: "not ended", dt: tensor.Int32, shape: []int64{1}, in: `[1`, err: "element 1"},
		{name: "a type without a form", dt: tensor.FP16, shape: []int64{1}, in: `[1]`, err: "FP16 has no form in JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := FromJSON("T", tt.dt, tt.shape, json.RawMessage(tt.in))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("FromJSON(%s) = %v, want an error with %q", tt.in, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want == "" {
				want = tt.in
			}
			if again, err := ToJSON(&got); err != nil || string(again) != want {
				t.Errorf("ToJSON(FromJSON(%s)) = %s, %v; want %s", tt.in, again, err, want)
			}
		})
	}
	nan := Of("T", []float32{float32(math.NaN())})
	if _, err := ToJSON(&nan); err == nil {
		t.Error("NaN is written as JSON")
	}
	binary := Strings("T", []string{"a\xff\xfe"})
	if text, err := ToJSON(&binary); err == nil {
		t.Errorf("a string that is not UTF-8 is written as %s", text)
	}
}

func FuzzFromJSON(f *testing.F) {
	f.Add(uint8(tensor.FP32), int64(2), []byte(`[1, [2]]`))
	f.Add(uint8(tensor.Bytes), int64(1), []byte(`["a"]`))
	f.Add(uint8(tensor.Bool), int64(1), []byte(`[true`))
	f.Add(uint8(56), int64(0), []byte(" ")) // no data type
	f.Fuzz(func(t *testing.T, dt uint8, n int64, data []byte) {
		got, err := FromJSON("T", tensor.DataType(dt), []int64{n}, data)
		if err != nil {
			return // an error is fine
		}
		text, err := ToJSON(&got)
		if err != nil {
			t.Fatalf("%s was read and cannot be written: %v", data, err)
		}
		if again, err := FromJSON("T", tensor.DataType(dt), []int64{n}, text); err != nil ||
			!bytes.Equal(again.Data, got.Data) {
			t.Errorf("%s changes when written and read again: %v", data, err)
		}
	})
}
