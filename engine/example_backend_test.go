package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/backendtest"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// scale is a backend: OUTPUT is INPUT times the model's parameter "factor". docs/write-a-backend.md explains it.
type scale struct{}

func (scale) Name() string { return "scale" }

// Traits are the facts that the server takes into account; here it is an ordinary backend.
func (scale) Traits() backend.Traits { return backend.Traits{} }

// Load reads what the model needs; the file of a real one lies in s.VersionFolder.
func (scale) Load(_ context.Context, s backend.Spec) (backend.Model, error) {
	text := s.Config.GetParameters()["factor"].GetStringValue()
	factor, err := strconv.ParseFloat(text, 32)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "model '%s': the parameter \"factor\" is %q, want a number",
			s.ModelName, text)
	}
	return &scaleModel{factor: float32(factor)}, nil
}

type scaleModel struct{ factor float32 }

// NewInstance makes what executes one batch at a time. A model without state per instance is its instance.
func (m *scaleModel) NewInstance(context.Context, backend.Placement) (backend.Instance, error) {
	return m, nil
}

// Traits says that Execute only computes, so that the request's own goroutine may call it.
func (m *scaleModel) Traits() backend.Traits { return backend.Traits{RunsInline: true} }

func (m *scaleModel) Close() error { return nil }

// Execute answers each request of a batch. MarkInput and MarkOutput are the moments that statistics and traces show.
func (m *scaleModel) Execute(_ context.Context, b *infer.Batch) error {
	b.MarkInput()
	answers := make([]*infer.Response, len(b.Requests))
	for i, r := range b.Requests {
		in := r.Input("INPUT")
		if in == nil || len(in.Data)%4 != 0 {
			continue
		}
		out := make([]byte, 0, len(in.Data))
		for data := in.Data; len(data) > 0; data = data[4:] {
			v := math.Float32frombits(binary.LittleEndian.Uint32(data)) * m.factor
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
		answers[i] = r.NewResponse()
		answers[i].AddOutput("OUTPUT", tensor.FP32, in.Shape, out, nil)
		answers[i].Final = true
	}
	b.MarkOutput()
	for i, r := range b.Requests {
		if answers[i] == nil {
			r.Fail(status.New(status.InvalidArg, "scale needs an input INPUT of whole FP32 elements"))
			continue
		}
		if err := r.Respond(answers[i]); err != nil {
			return err
		}
	}
	return nil
}

// A program with another backend: what it takes to write one, and to serve a model with it.
func Example_backend_D082() {
	root, err := os.MkdirTemp("", "models")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root) // a temporary folder
	if err := os.MkdirAll(filepath.Join(root, "triple", "1"), 0o755); err != nil {
		log.Fatal(err)
	}
	config := `backend: "scale" max_batch_size: 8 dynamic_batching { }
input { name: "INPUT" data_type: TYPE_FP32 dims: 2 } output { name: "OUTPUT" data_type: TYPE_FP32 dims: 2 }
parameters { key: "factor" value { string_value: "3" } }`
	if err := os.WriteFile(filepath.Join(root, "triple", "config.pbtxt"), []byte(config), 0o600); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	eng, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: append(builtin.All(), scale{})},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	if err := eng.Start(ctx); err != nil {
		log.Fatal(err)
	}

	r := infer.New()
	defer r.Release()
	r.ModelName = "triple"
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT", DataType: tensor.FP32, Shape: []int64{1, 2},
		Data: []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}})
	if err := eng.Infer(ctx, r); err != nil {
		log.Fatal(err)
	}
	resp, err := r.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Release()
	for data := resp.Outputs[0].Data; len(data) > 0; data = data[4:] {
		fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	// Output:
	// 3
	// 6
}

// The suite that every backend of the server passes is there for others too.
func TestScale_D082(t *testing.T) {
	number := func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }
	config := &inferencepb.ModelConfig{
		MaxBatchSize: 8,
		Input: []*inferencepb.ModelInput{{Name: "INPUT", DataType: inferencepb.DataType_TYPE_FP32,
			Dims: []int64{1}}},
		Output: []*inferencepb.ModelOutput{{Name: "OUTPUT", DataType: inferencepb.DataType_TYPE_FP32,
			Dims: []int64{1}}},
		Parameters: map[string]*inferencepb.ModelParameter{"factor": {StringValue: "3"}},
	}
	backendtest.Test(t, scale{}, backendtest.Model{
		Name: "triple", Config: config,
		Inputs: func(rows int, seed uint64) []tensor.Tensor {
			in := tensor.Tensor{Name: "INPUT", DataType: tensor.FP32, Shape: []int64{int64(rows), 1}}
			for i := range rows {
				in.Data = append(in.Data, number(float32(seed%1000)+float32(i))...)
			}
			return []tensor.Tensor{in}
		},
		Check: func(in []tensor.Tensor, responses [][]tensor.Tensor) error {
			if len(responses) != 1 {
				return fmt.Errorf("%d responses, want one", len(responses))
			}
			want := tensor.Tensor{Name: "OUTPUT", DataType: tensor.FP32, Shape: in[0].Shape}
			for data := in[0].Data; len(data) > 0; data = data[4:] {
				want.Data = append(want.Data, number(3*math.Float32frombits(binary.LittleEndian.Uint32(data)))...)
			}
			return backendtest.Same(backendtest.Find(responses[0], "OUTPUT"), want)
		},
		Bad: func() []tensor.Tensor {
			return []tensor.Tensor{{Name: "INPUT", DataType: tensor.FP32, Shape: []int64{1, 1}, Data: []byte{1, 2, 3}}}
		},
	})
	wrong := &inferencepb.ModelConfig{Parameters: map[string]*inferencepb.ModelParameter{
		"factor": {StringValue: "three"},
	}}
	backendtest.TestRefusals(t, scale{},
		backendtest.Refusal{Name: "no number", Spec: backend.Spec{ModelName: "m", Version: 1, Config: wrong},
			Code: status.InvalidArg, Text: `"three"`})
}
