package classification

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

type served struct {
	labels  []string
	batched bool
}

func (served) Name() string             { return "m" }
func (served) Version() int64           { return 1 }
func (served) VersionText() string      { return "1" }
func (served) Decoupled() bool          { return false }
func (s served) Batched() bool          { return s.batched }
func (s served) Labels(string) []string { return s.labels }

func floats(v ...float32) (b []byte) {
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func int64s(v ...int64) (b []byte) {
	for _, n := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

type applyCase struct {
	name    string
	dt      tensor.DataType
	shape   []int64
	data    []byte
	k       uint32
	batched bool
	labels  []string
	want    []string
	dims    []int64
	err     status.Code
}

func TestApply(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tt := range []applyCase{
		{name: "highest first, with labels", dt: tensor.FP32, shape: []int64{1, 3}, data: floats(0.5, 2, -1), k: 2,
			batched: true,
			labels:  []string{"a", "b"}, want: []string{"2.000000:1:b", "0.500000:0:a"}, dims: []int64{1, 2}},
		{name: "one row a batch entry", dt: tensor.FP32, shape: []int64{2, 2}, data: floats(1, 2, 4, 3), k: 1,
			batched: true,
			want:    []string{"2.000000:1", "4.000000:0"}, dims: []int64{2, 1}},
		{name: "no batch dimension", dt: tensor.FP32, shape: []int64{2, 2}, data: floats(1, 2, 4, 3), k: 1,
			want: []string{"4.000000:2"}, dims: []int64{1}},
		{name: "more than there are", dt: tensor.FP32, shape: []int64{2}, data: floats(1, 2), k: 9,
			want: []string{"2.000000:1", "1.000000:0"}, dims: []int64{2}},
		{name: "not a number comes last", dt: tensor.FP32, shape: []int64{3}, data: floats(nan, inf, 1), k: 3,
			want: []string{"inf:1", "1.000000:2", "nan:0"}, dims: []int64{3}},
		{name: "equal values in order", dt: tensor.FP32, shape: []int64{3}, data: floats(1, 1, 1), k: 2,
			want: []string{"1.000000:0", "1.000000:1"}, dims: []int64{2}},
		{name: "large integers exactly", dt: tensor.Int64, shape: []int64{2}, data: int64s(math.MaxInt64, 5), k: 1,
			want: []string{"9223372036854775807:0"}, dims: []int64{1}},
		{name: "integers that no float64 tells apart", dt: tensor.Int64, shape: []int64{2}, k: 2,
			data: int64s(1<<53, 1<<53+1), want: []string{"9007199254740993:1", "9007199254740992:0"}, dims: []int64{2}},
		{name: "the same without a sign", dt: tensor.Uint64, shape: []int64{2}, k: 1,
			data: int64s(math.MinInt64, math.MinInt64+1), want: []string{"9223372036854775809:1"}, dims: []int64{1}},
		{name: "no rows", dt: tensor.FP32, shape: []int64{0, 3}, k: 2, batched: true, dims: []int64{0, 0}},
		{name: "BYTES have no classes", dt: tensor.Bytes, shape: []int64{1}, data: []byte{0, 0, 0, 0}, k: 1,
			err: status.InvalidArg},
		{name: "FP16 has no classes", dt: tensor.FP16, shape: []int64{1}, data: []byte{0, 0}, k: 1,
			err: status.InvalidArg},
		{name: "an output that contradicts itself", dt: tensor.FP32, shape: []int64{4}, data: floats(1), k: 1,
			err: status.Internal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := infer.New()
			defer r.Release()
			r.Served = served{tt.labels, tt.batched}
			r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: "other", Classification: 1},
				infer.RequestedOutput{Name: "out", Classification: tt.k})
			freed := 0
			resp := &infer.Response{}
			resp.AddOutput("out", tt.dt, tt.shape, tt.data, tensor.NewBuffer(tt.data, func(*tensor.Buffer) { freed++ }))
			err := Apply(r, resp)
			if tt.err != status.Unknown {
				if err == nil || status.CodeOf(err) != tt.err {
					t.Fatalf("Apply = %v, want code %v", err, tt.err)
				}
				resp.Release()
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			out := resp.Output("out")
			var got []string
			for _, e := range tensor.BytesElements(out.Data) {
				got = append(got, string(e))
			}
			if !slices.Equal(got, tt.want) || !slices.Equal(out.Shape, tt.dims) || out.DataType != tensor.Bytes ||
				freed != 1 {
				t.Errorf("classes = %q of shape %v, freed %d times; want %q of %v, once", got, out.Shape, freed,
					tt.want, tt.dims)
			}
		})
	}
}

func TestTopAgreesWithSorting(t *testing.T) {
	v := make([]float64, 200)
	for i := range v {
		v[i] = float64((i * 7919) % 31) // many equal ones
	}
	compare := func(a, b int) int { return descending(v[a], v[b]) }
	all := top(200, 200, compare)
	for k := range 65 {
		if got := top(k, 200, compare); !slices.Equal(got, all[:k]) {
			t.Fatalf("top(%d) = %v, want %v", k, got, all[:k])
		}
	}
}
