package compare

import (
	"math"
	"strings"
	"testing"

	"nereid/engine/tensor"
)

func floats(values ...float32) *tensor.Tensor {
	t := &tensor.Tensor{Name: "OUT", DataType: tensor.FP32, Shape: []int64{1, int64(len(values))}}
	for _, v := range values {
		t.Data = tensor.AppendBits(t.Data, 32, uint64(math.Float32bits(v)))
	}
	return t
}

func words(dt tensor.DataType, values ...uint64) *tensor.Tensor {
	t := &tensor.Tensor{Name: "OUT", DataType: dt, Shape: []int64{int64(len(values))}}
	for _, v := range values {
		t.Data = tensor.AppendBits(t.Data, dt.Size()*8, v)
	}
	return t
}

func texted(values ...string) *tensor.Tensor {
	t := &tensor.Tensor{Name: "OUT", DataType: tensor.Bytes, Shape: []int64{int64(len(values))}}
	for _, v := range values {
		t.Data = tensor.AppendBytesElement(t.Data, v)
	}
	return t
}

func TestDifferences(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tt := range []struct {
		name string
		a, b *tensor.Tensor
		want Difference
	}{
		{"equal", floats(1, 2), floats(1, 2), Difference{Elements: 2}},
		{"numbers", floats(1, 4, 0.5), floats(1, 5, 0.25),
			Difference{Elements: 3, Differing: 2, MaxAbs: 1, At: 1, MaxRel: 0.5, MaxError: 0.25}},
		{"zero and minus zero", floats(0), floats(float32(math.Copysign(0, -1))), Difference{Elements: 1}},
		{"NaN and infinities that agree", floats(nan, inf, -inf, 1), floats(float32(math.Float32frombits(0x7fc00001)),
			inf, -inf, 1), Difference{Elements: 4}},
		{"NaN and infinities that do not", floats(nan, inf, inf, 1, 2), floats(1, 1, -inf, nan, 3),
			Difference{Elements: 5, Differing: 5, Special: 4, MaxAbs: 1, At: 4, MaxRel: 1.0 / 3, MaxError: 1.0 / 3}},
		{"integers", words(tensor.Int8, 0xff, 3), words(tensor.Int8, 1, 3), // -1 and 1
			Difference{Elements: 2, Differing: 1, MaxAbs: 2, MaxRel: 2, MaxError: 2}},
		{"large integers", words(tensor.Uint64, 1<<63+1), words(tensor.Uint64, 1<<63),
			Difference{Elements: 1, Differing: 1, MaxAbs: 1, MaxRel: 1.0 / (1 << 63), MaxError: 1.0 / (1 << 63)}},
		{"the ends of INT64", words(tensor.Int64, 1<<63), words(tensor.Int64, 1<<63-1),
			Difference{Elements: 1, Differing: 1, MaxAbs: math.MaxUint64, MaxRel: 2, MaxError: 2}},
		{"BOOL", words(tensor.Bool, 0, 1), words(tensor.Bool, 1, 1),
			Difference{Elements: 2, Differing: 1, MaxAbs: 1, MaxRel: 1, MaxError: 1}},
		{"texts", texted("a", "b", "", "d"), texted("a", "B", "c", "d"),
			Difference{Elements: 4, Differing: 2, At: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Tensors(tt.a, tt.b)
			if err != nil || got != tt.want {
				t.Errorf("Tensors = %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestDifferencesOfOtherShapes(t *testing.T) {
	short := floats(1, 2)
	short.Data = short.Data[:7]
	for _, tt := range []struct {
		a, b *tensor.Tensor
		want string
	}{
		{floats(1, 2), floats(1), "output 'OUT' is FP32 [1,2], want FP32 [1,1]"},
		{floats(1), words(tensor.Int32, 1), "output 'OUT' is FP32 [1,1], want INT32 [1]"},
		{floats(1, 2), short, "7 bytes do not fit FP32 [1,2]"},
	} {
		if _, err := Tensors(tt.a, tt.b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Tensors = %v, want %q", err, tt.want)
		}
	}
}

func TestTopKAgreement(t *testing.T) {
	rows := func(values ...float32) *tensor.Tensor {
		f := floats(values...)
		f.Shape = []int64{int64(len(values)) / 4, 4}
		return f
	}
	nan := float32(math.NaN())
	a, b := rows(1, 9, 3, 2, 5, 5, 0, 0, nan, -1, -2, -3), rows(1, 7, 2, 3, 0, 5, 5, 5, 0, -1, -2, -3)
	for k, want := range map[int]Agreement{1: {1, 3, 1}, 2: {2, 3, 0}, 3: {3, 3, 1}} {
		if got, ok := TopK(a, b, k); !ok || got != want {
			t.Errorf("TopK(%d) = %+v, %v, want %+v", k, got, ok, want)
		}
	}
	if _, ok := TopK(a, b, 4); ok {
		t.Error("the 4 highest of 4 were compared")
	}
	if _, ok := TopK(texted("a", "b"), texted("a", "b"), 1); ok {
		t.Error("texts have no highest element")
	}
}

func TestFirstOutside(t *testing.T) {
	inf := float32(math.Inf(1))
	if at, x, y := FirstOutside(floats(1, 2, 3), floats(1, 2.5, 4), 0.1); at != 1 || x != 2 || y != 2.5 {
		t.Errorf("FirstOutside = %d, %v, %v", at, x, y)
	}
	if at, _, _ := FirstOutside(floats(1000, inf), floats(1000.05, inf), 1e-4); at != -1 {
		t.Errorf("FirstOutside = %d, want none", at)
	}
	if at, _, _ := FirstOutside(floats(1), floats(inf), 1e9); at != 0 {
		t.Error("a number is within tolerance of infinity")
	}
}

// Whatever two tensors hold, comparing them neither fails nor depends on their order, except for MaxError.
func FuzzDifferences(f *testing.F) {
	f.Add(uint8(tensor.FP32), int64(2), []byte{0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f},
		[]byte{0, 0, 0, 0x40, 0, 0, 0x80, 0xff})
	f.Add(uint8(tensor.Bytes), int64(1), []byte{1, 0, 0, 0, 'a'}, []byte{0, 0, 0, 0})
	f.Add(uint8(tensor.Int64), int64(1), []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, dt uint8, n int64, left, right []byte) {
		a := &tensor.Tensor{Name: "a", DataType: tensor.DataType(dt), Shape: []int64{n}, Data: left}
		b := &tensor.Tensor{Name: "b", DataType: tensor.DataType(dt), Shape: []int64{n}, Data: right}
		d, err := Tensors(a, b)
		if err != nil {
			return
		}
		back, err := Tensors(b, a)
		back.MaxError = d.MaxError
		if err != nil || back != d {
			t.Fatalf("%+v, but the other way round %+v, %v", d, back, err)
		}
		for _, v := range []float64{d.MaxAbs, d.MaxRel, d.MaxError} {
			if !finite(v) || v < 0 {
				t.Fatalf("%+v is not finite", d)
			}
		}
		if d.Special > d.Differing || d.Differing > d.Elements || d.Elements != int(n) {
			t.Fatalf("counts of %+v", d)
		}
		if same, err := Tensors(a, a); err != nil || same.Differing != 0 {
			t.Fatalf("a tensor differs from itself: %+v, %v", same, err)
		}
		if k, ok := TopK(a, b, 1); ok && d.Differing == 0 && k.Same != k.Rows {
			t.Fatalf("equal tensors disagree: %+v", k)
		}
	})
}
