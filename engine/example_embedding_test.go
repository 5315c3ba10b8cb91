package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// A program that contains a server: it registers a repository, loads a model from it, infers without a port or a copy,
// reads the statistics, and gives everything back.
func Example_embedding_D081() {
	ctx := context.Background()
	eng, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Backends: []backend.Backend{builtin.Identity()},
			Events: engine.EventListener{
				Loaded: func(model string, version int64, _ time.Duration,
					_ bool) {
					fmt.Println("loaded:", model, version)
				},
			},
		},
		Mode: engine.ModeExplicit,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx) // lets requests under way finish
	if err := eng.Start(ctx); err != nil {
		log.Fatal(err)
	}

	const repository = "../models-sample"
	if err := eng.RegisterRepository(repository, nil); err != nil {
		log.Fatal(err)
	}
	if err := eng.LoadModel(ctx, "builtin_identity", engine.LoadParameters{}); err != nil {
		log.Fatal(err)
	}

	answer, err := askFor(ctx, eng, "builtin_identity", []float32{15: 7})
	fmt.Println("answer:", answer, err)

	s, err := eng.ModelStatistics("builtin_identity", infer.LatestVersion)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("successes:", s.GetModelStats()[0].GetInferenceStats().GetSuccess().GetCount())

	if err := eng.UnloadModel(ctx, "builtin_identity", false); err != nil {
		log.Fatal(err)
	}
	if err := eng.UnregisterRepository(repository); err != nil {
		log.Fatal(err)
	}
	_, err = askFor(ctx, eng, "builtin_identity", []float32{15: 7})
	fmt.Println("after:", err)
	// Output:
	// loaded: builtin_identity 1
	// answer: [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 7] <nil>
	// successes: 1
	// after: Request for unknown model: 'builtin_identity' has no available versions
}

// askFor runs one request and copies its answer.
func askFor(ctx context.Context, eng *engine.Engine, model string, v []float32) (answer []float32, err error) {
	var data []byte
	for _, f := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
	}
	r := infer.New() // from a pool; it and its answer go back with Release
	defer r.Release()
	r.ModelName = model
	r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1, int64(len(v))},
		Data: data})
	if err := eng.Infer(ctx, r); err != nil {
		return nil, err // it was not taken
	}
	resp, err := r.Next(ctx) // a decoupled model may give more, until resp.Final
	if err != nil {
		return nil, err
	}
	defer resp.Release()
	if resp.Err != nil {
		return nil, resp.Err
	}
	for b := resp.Outputs[0].Data; len(b) > 0; b = b[4:] { // until Release this is the model's own memory
		answer = append(answer, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return answer, nil
}
