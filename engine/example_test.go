package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// Serve a model repository and infer in process, without a port.
func ExampleNew() {
	root, err := os.MkdirTemp("", "models")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root) // a temporary folder
	model := filepath.Join(root, "add_sub")
	if err := os.MkdirAll(filepath.Join(model, "1"), 0o755); err != nil {
		log.Fatal(err)
	}
	config := `backend: "add_sub"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: 2 }, { name: "INPUT1" data_type: TYPE_FP32 dims: 2 } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: 2 }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: 2 } ]`
	if err := os.WriteFile(filepath.Join(model, "config.pbtxt"), []byte(config), 0o644); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	eng, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: builtin.All()},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	if err := eng.Start(ctx); err != nil {
		log.Fatal(err)
	}

	floats := func(v ...float32) (b []byte) {
		for _, f := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
		return b
	}
	r := infer.New()
	defer r.Release()
	r.ModelName = "add_sub"
	r.Inputs = append(r.Inputs,
		tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{2}, Data: floats(5, 7)},
		tensor.Tensor{Name: "INPUT1", DataType: tensor.FP32, Shape: []int64{2}, Data: floats(1, 2)})
	if err := eng.Infer(ctx, r); err != nil {
		log.Fatal(err)
	}
	resp, err := r.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Release()
	if resp.Err != nil {
		log.Fatal(resp.Err)
	}
	for _, out := range resp.Outputs {
		for i := 0; i < len(out.Data); i += 4 {
			fmt.Print(math.Float32frombits(binary.LittleEndian.Uint32(out.Data[i:])), " ")
		}
	}
	// Output: 6 9 4 5
}
