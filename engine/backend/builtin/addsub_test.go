package builtin_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"nereid/engine/backend/backendtest"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"

	"nereid/engine/backend"
)

var (
	twoIn  = []string{"INPUT0", "INPUT1"}
	twoOut = []string{"OUTPUT0", "OUTPUT1"}
)

func TestAddSub(t *testing.T) {
	backendtest.Test(t, builtin.AddSub(), backendtest.Model{
		Name:   "add_sub",
		Config: config(8, inferencepb.DataType_TYPE_INT32, []int64{-1}, twoIn, twoOut),
		Inputs: func(rows int, seed uint64) []tensor.Tensor {
			return []tensor.Tensor{
				{Name: "INPUT0", DataType: tensor.Int32, Shape: []int64{int64(rows), 16}, Data: fill(rows*64, seed)},
				{Name: "INPUT1", DataType: tensor.Int32, Shape: []int64{int64(rows), 16}, Data: fill(rows*64, ^seed)},
			}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			if len(responses) != 1 || len(responses[0]) != 2 {
				return fmt.Errorf("%d responses, want 1 with 2 outputs", len(responses))
			}
			sum, diff := in[0], in[0]
			sum.Name, diff.Name, sum.Data, diff.Data = "OUTPUT0", "OUTPUT1", nil, nil
			for i := 0; i < len(in[0].Data); i += 4 {
				a, b := binary.LittleEndian.Uint32(in[0].Data[i:]), binary.LittleEndian.Uint32(in[1].Data[i:])
				sum.Data = binary.LittleEndian.AppendUint32(sum.Data, a+b)
				diff.Data = binary.LittleEndian.AppendUint32(diff.Data, a-b)
			}
			if err := backendtest.Same(backendtest.Find(responses[0], "OUTPUT0"), sum); err != nil {
				return err
			}
			return backendtest.Same(backendtest.Find(responses[0], "OUTPUT1"), diff)
		},
		Zero: func() []tensor.Tensor {
			return []tensor.Tensor{
				{Name: "INPUT0", DataType: tensor.Int32, Shape: []int64{1, 0}},
				{Name: "INPUT1", DataType: tensor.Int32, Shape: []int64{1, 0}},
			}
		},
		Bad: func() []tensor.Tensor {
			return []tensor.Tensor{
				{Name: "INPUT0", DataType: tensor.Int32, Shape: []int64{1, 1}, Data: fill(4, 1)},
				{Name: "INPUT1", DataType: tensor.Int32, Shape: []int64{1, 2}, Data: fill(8, 1)},
			}
		},
	})
}

func TestAddSubTypes(t *testing.T) {
	le := binary.LittleEndian
	for _, tt := range []struct {
		dt              inferencepb.DataType
		a, b, sum, diff []byte
	}{
		{inferencepb.DataType_TYPE_UINT8, []byte{200}, []byte{100}, []byte{44}, []byte{100}},
		{inferencepb.DataType_TYPE_INT8, []byte{0x80}, []byte{1}, []byte{0x81}, []byte{0x7f}},
		{inferencepb.DataType_TYPE_UINT16, []byte{1, 0}, []byte{2, 0}, []byte{3, 0}, []byte{255, 255}},
		{inferencepb.DataType_TYPE_INT16, []byte{1, 0}, []byte{2, 0}, []byte{3, 0}, []byte{255, 255}},
		{inferencepb.DataType_TYPE_UINT32, []byte{1, 0, 0, 0}, []byte{2, 0, 0, 0}, []byte{3, 0, 0, 0},
			[]byte{255, 255, 255, 255}},
		{inferencepb.DataType_TYPE_UINT64, le.AppendUint64(nil, 1), le.AppendUint64(nil, 2), le.AppendUint64(nil, 3),
			le.AppendUint64(nil, math.MaxUint64)},
		{inferencepb.DataType_TYPE_INT64, le.AppendUint64(nil, 1<<40), le.AppendUint64(nil, 2),
			le.AppendUint64(nil, 1<<40+2), le.AppendUint64(nil, 1<<40-2)},
		{inferencepb.DataType_TYPE_FP32, f32(1.5), f32(0.25), f32(1.75), f32(1.25)},
		{inferencepb.DataType_TYPE_FP64, le.AppendUint64(nil, math.Float64bits(1.5)),
			le.AppendUint64(nil, math.Float64bits(.25)),
			le.AppendUint64(nil, math.Float64bits(1.75)), le.AppendUint64(nil, math.Float64bits(1.25))},
		// 1 and 2 are 0x3c00 and 0x4000 in FP16, 0x3f80 and 0x4000 in BF16.
		{inferencepb.DataType_TYPE_FP16, le.AppendUint16(nil, 0x3c00), le.AppendUint16(nil, 0x4000),
			le.AppendUint16(nil, 0x4200), le.AppendUint16(nil, 0xbc00)},
		{inferencepb.DataType_TYPE_BF16, le.AppendUint16(nil, 0x3f80), le.AppendUint16(nil, 0x4000),
			le.AppendUint16(nil, 0x4040), le.AppendUint16(nil, 0xbf80)},
	} {
		t.Run(tt.dt.String(), func(t *testing.T) {
			m, err := builtin.AddSub().Load(t.Context(), spec(config(0, tt.dt, []int64{1}, twoIn, twoOut)))
			if err != nil {
				t.Fatal(err)
			}
			inst, err := m.NewInstance(t.Context(), backend.Placement{})
			if err != nil {
				t.Fatal(err)
			}
			r := infer.New()
			defer r.Release()
			dt := tensor.DataType(tt.dt)
			r.Inputs = []tensor.Tensor{
				{Name: "INPUT0", DataType: dt, Shape: []int64{1}, Data: tt.a},
				{Name: "INPUT1", DataType: dt, Shape: []int64{1}, Data: tt.b},
			}
			if err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: 1}); err != nil {
				t.Fatal(err)
			}
			resp, err := r.Next(t.Context())
			if err != nil || resp.Err != nil {
				t.Fatal(err, resp.Err)
			}
			defer resp.Release()
			for name, want := range map[string][]byte{"OUTPUT0": tt.sum, "OUTPUT1": tt.diff} {
				if got := resp.Output(name).Data; string(got) != string(want) {
					t.Errorf("%s = %x, want %x", name, got, want)
				}
			}
		})
	}
}

func f32(f float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(f)) }

func TestAddSubRefuses(t *testing.T) {
	i32 := inferencepb.DataType_TYPE_INT32
	unequal := config(0, i32, []int64{4}, twoIn, twoOut)
	unequal.Input[1].Dims = []int64{5}
	backendtest.TestRefusals(t, builtin.AddSub(),
		backendtest.Refusal{Name: "one input", Spec: spec(config(0, i32, []int64{4}, twoIn[:1], twoOut)),
			Code: status.InvalidArg, Text: "got 1 inputs"},
		backendtest.Refusal{Name: "input names",
			Spec: spec(config(0, i32, []int64{4}, []string{"INPUT0", "B"}, twoOut)), Code: status.InvalidArg,
			Text: "needs the input INPUT1"},
		backendtest.Refusal{Name: "output names",
			Spec: spec(config(0, i32, []int64{4}, twoIn, []string{"OUTPUT0", "D"})), Code: status.InvalidArg,
			Text: "needs the output OUTPUT1"},
		backendtest.Refusal{Name: "shapes", Spec: spec(unequal), Code: status.InvalidArg,
			Text: "one datatype and shape"},
		backendtest.Refusal{Name: "strings",
			Spec: spec(config(0, inferencepb.DataType_TYPE_STRING, []int64{4}, twoIn, twoOut)), Code: status.InvalidArg,
			Text: "cannot add TYPE_STRING"},
		backendtest.Refusal{Name: "booleans",
			Spec: spec(config(0, inferencepb.DataType_TYPE_BOOL, []int64{4}, twoIn, twoOut)), Code: status.InvalidArg,
			Text: "cannot add TYPE_BOOL"},
	)
}
