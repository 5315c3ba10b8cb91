package builtin_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

func config(batch int32, dt inferencepb.DataType, dims []int64, inputs, outputs []string) *inferencepb.ModelConfig {
	c := &inferencepb.ModelConfig{MaxBatchSize: batch}
	for _, n := range inputs {
		c.Input = append(c.Input, &inferencepb.ModelInput{Name: n, DataType: dt, Dims: dims})
	}
	for _, n := range outputs {
		c.Output = append(c.Output, &inferencepb.ModelOutput{Name: n, DataType: dt, Dims: dims})
	}
	return c
}

// fill makes n bytes that depend on the seed.
func fill(n int, seed uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return b
}

func words(name string, dt tensor.DataType, v ...uint32) tensor.Tensor {
	x := tensor.Tensor{Name: name, DataType: dt, Shape: []int64{int64(len(v))}}
	for _, w := range v {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, w)
	}
	return x
}

func identityModel() backendtest.Model {
	check := func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
		if len(responses) != 1 || len(responses[0]) != len(in) {
			return fmt.Errorf("%d responses, want one with %d outputs", len(responses), len(in))
		}
		for _, want := range in {
			want.Name = "OUTPUT" + want.Name[len("INPUT"):]
			if err := backendtest.Same(backendtest.Find(responses[0], want.Name), want); err != nil {
				return err
			}
		}
		return nil
	}
	return backendtest.Model{
		Name: "identity",
		Config: config(8, inferencepb.DataType_TYPE_FP32, []int64{-1}, []string{"INPUT0", "INPUT1"},
			[]string{"OUTPUT0", "OUTPUT1"}),
		Inputs: func(rows int, seed uint64) []tensor.Tensor {
			return []tensor.Tensor{
				{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{int64(rows), 4}, Data: fill(rows*16, seed)},
				{Name: "INPUT1", DataType: tensor.FP32, Shape: []int64{int64(rows), 1}, Data: fill(rows*4, ^seed)},
			}
		},
		Check: check,
		Zero: func() []tensor.Tensor {
			return []tensor.Tensor{
				{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1, 0}},
				{Name: "INPUT1", DataType: tensor.FP32, Shape: []int64{1, 0}},
			}
		},
	}
}

func slowIdentityModel() backendtest.Model {
	m := identityModel()
	m.Name = "identity with delay"
	m.Config.Parameters = map[string]*inferencepb.ModelParameter{"execute_delay_ms": {StringValue: "1"}}
	return m
}

func TestIdentity_D071_I022(t *testing.T) {
	backendtest.Test(t, builtin.Identity(), identityModel(), slowIdentityModel())
}

// What the backend sees are the reshaped tensors.
func TestIdentityComparesReshapedInputs(t *testing.T) {
	c := config(0, inferencepb.DataType_TYPE_FP32, []int64{4}, []string{"INPUT0"}, []string{"OUTPUT0"})
	c.Output[0].Dims = []int64{2, 2}
	c.Output[0].Reshape = &inferencepb.ModelTensorReshape{Shape: []int64{4}}
	if _, err := builtin.Identity().Load(t.Context(), spec(c)); err != nil {
		t.Error(err)
	}
}

// As Triton's: 1 in place of -1, and a row of zeros for each row of the request.
func TestIdentityReturnsZerosForOptionalInputs(t *testing.T) {
	c := config(8, inferencepb.DataType_TYPE_INT16, []int64{-1, 3}, []string{"INPUT0", "INPUT1"},
		[]string{"OUTPUT0", "OUTPUT1"})
	c.Input[1].Optional = true
	m, err := builtin.Identity().Load(t.Context(), spec(c))
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(), backend.Placement{})
	if err != nil {
		t.Fatal(err)
	}
	r := infer.New()
	r.BatchSize = 2
	r.Inputs = []tensor.Tensor{{Name: "INPUT0", DataType: tensor.Int16, Shape: []int64{2, 1, 3}, Data: fill(12, 1)}}
	if err = inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: 2}); err != nil {
		t.Fatal(err)
	}
	resp, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := tensor.Tensor{Name: "OUTPUT1", DataType: tensor.Int16, Shape: []int64{2, 1, 3}, Data: make([]byte, 12)}
	if err = backendtest.Same(backendtest.Find(resp.Outputs, "OUTPUT1"), want); err != nil || len(resp.Outputs) != 2 {
		t.Errorf("%v, outputs %v", err, resp.Outputs)
	}
}

func TestIdentityRefuses(t *testing.T) {
	f32 := inferencepb.DataType_TYPE_FP32
	mixed := config(0, f32, []int64{4}, []string{"INPUT0"}, []string{"OUTPUT0"})
	mixed.Output[0].DataType = inferencepb.DataType_TYPE_INT32
	shape := config(0, f32, []int64{4}, []string{"INPUT0"}, []string{"OUTPUT0"})
	shape.Output[0].Dims = []int64{5}
	delay := config(0, f32, []int64{4}, []string{"INPUT0"}, []string{"OUTPUT0"})
	delay.Parameters = map[string]*inferencepb.ModelParameter{"execute_delay_ms": {StringValue: "soon"}}
	parameter := func(name, value string) backend.Spec {
		c := config(0, f32, []int64{4}, []string{"INPUT0"}, []string{"OUTPUT0"})
		c.Parameters = map[string]*inferencepb.ModelParameter{name: {StringValue: value}}
		return spec(c)
	}
	backendtest.TestRefusals(t, builtin.Identity(),
		backendtest.Refusal{Name: "spans without end", Spec: parameter("nested_span_count", "1001"),
			Code: status.InvalidArg, Text: "from 0 to 1000"},
		backendtest.Refusal{Name: "every zeroth", Spec: parameter("single_activity_frequency", "0"),
			Code: status.InvalidArg, Text: "from 1 to 1000"},
		backendtest.Refusal{Name: "unequal counts", Spec: spec(config(0, f32, []int64{4}, []string{"INPUT0"}, nil)),
			Code: status.InvalidArg, Text: "equal input/output pairs"},
		backendtest.Refusal{Name: "input name",
			Spec: spec(config(0, f32, []int64{4}, []string{"IN"}, []string{"OUTPUT0"})),
			Code: status.InvalidArg, Text: "INPUT<index>"},
		backendtest.Refusal{Name: "output name",
			Spec: spec(config(0, f32, []int64{4}, []string{"INPUT0"}, []string{"OUTPUT1"})),
			Code: status.InvalidArg, Text: "has no output OUTPUT0"},
		backendtest.Refusal{Name: "types", Spec: spec(mixed), Code: status.InvalidArg, Text: "same datatype"},
		backendtest.Refusal{Name: "shapes", Spec: spec(shape), Code: status.InvalidArg, Text: "same shape"},
		backendtest.Refusal{Name: "delay", Spec: spec(delay), Code: status.InvalidArg, Text: `"soon"`},
	)
}

func spec(c *inferencepb.ModelConfig) backend.Spec {
	return backend.Spec{ModelName: "m", Version: 1, Config: c}
}

func TestIdentityDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(0, inferencepb.DataType_TYPE_FP32, []int64{4}, []string{"INPUT0"}, []string{"OUTPUT0"})
		c.Parameters = map[string]*inferencepb.ModelParameter{
			"execute_delay_ms": {StringValue: "250"}, "creation_delay_ms": {StringValue: "1000"},
		}
		m, err := builtin.Identity().Load(t.Context(), spec(c))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		inst, err := m.NewInstance(t.Context(), backend.Placement{})
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("NewInstance took %v, want 1s", d)
		}
		r := infer.New() // not released: its channels belong to this bubble and must not be pooled for others
		start = time.Now()
		if err := inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{r}, Rows: 1}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 250*time.Millisecond || !r.Answered() {
			t.Errorf("Execute took %v, want 250ms", d)
		}
		gone := infer.New() // not released either
		time.AfterFunc(10*time.Millisecond, gone.Cancel)
		start = time.Now()
		err = inst.Execute(t.Context(), &infer.Batch{Requests: []*infer.Request{gone}, Rows: 1})
		if d := time.Since(start); d != 10*time.Millisecond || status.CodeOf(err) != status.Cancelled {
			t.Errorf("Execute of a request cancelled after 10ms took %v, error %v; want 10ms and Cancelled", d, err)
		}
	})
}

func TestIdentityDoesNotAllocateOrCopy(t *testing.T) {
	model := identityModel()
	m, err := builtin.Identity().Load(t.Context(), spec(model.Config))
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.NewInstance(t.Context(), backend.Placement{})
	if err != nil {
		t.Fatal(err)
	}
	in := model.Inputs(1, 1)
	freed := 0
	buf := tensor.NewBuffer(in[0].Data, func(*tensor.Buffer) { freed++ })
	in[0].Buf = buf
	b := &infer.Batch{Requests: make([]*infer.Request, 1), Rows: 1}
	ctx := context.Background()
	once := func() {
		r := infer.New()
		r.Inputs = append(r.Inputs, in...)
		r.Own(buf.Retain())
		b.Requests[0] = r
		if err := inst.Execute(ctx, b); err != nil {
			t.Fatal(err)
		}
		resp, err := r.Next(ctx)
		if err != nil || &resp.Outputs[0].Data[0] != &in[0].Data[0] {
			t.Fatal("the output is not the input's memory", err)
		}
		resp.Release()
		r.Release()
	}
	if n := testing.AllocsPerRun(200, once); n > 0 && !race {
		t.Errorf("%v allocations per request, want 0", n)
	}
	buf.Release()
	if freed != 1 {
		t.Errorf("the input's buffer was freed %d times, want 1", freed)
	}
}

func BenchmarkIdentity(b *testing.B) {
	model := identityModel()
	m, err := builtin.Identity().Load(b.Context(), spec(model.Config))
	if err != nil {
		b.Fatal(err)
	}
	inst, _ := m.NewInstance(b.Context(), backend.Placement{})
	in := model.Inputs(1, 1)
	batch := &infer.Batch{Requests: make([]*infer.Request, 1), Rows: 1}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		r := infer.New()
		r.Inputs = append(r.Inputs, in...)
		batch.Requests[0] = r
		if err := inst.Execute(ctx, batch); err != nil {
			b.Fatal(err)
		}
		resp, err := r.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		resp.Release()
		r.Release()
	}
}
