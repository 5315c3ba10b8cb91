package onnxruntime

import (
	"path/filepath"
	"testing"

	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/inferencepb"
)

func TestThreading(t *testing.T) {
	mlp := filepath.Join("..", "..", "..", "models-sample", "mlp", "1", "model.onnx")
	digits := filepath.Join("..", "..", "..", "models-sample", "digits", "1", "model.onnx")
	for _, tt := range []struct {
		name, model string
		batch       int32
		parameters  map[string]string
		want        threading
	}{
		{"copy", "testdata/identity_fp32.onnx", 64, nil, inline},
		{"small perceptron", mlp, 64, nil, inline},
		{"small perceptron, huge batches", mlp, 4096, nil, pooled},
		{"convolutions", digits, 1, nil, pooled},
		{"loop", "testdata/loop.onnx", 0, nil, pooled},
		{"own count", mlp, 64, map[string]string{"intra_op_thread_count": "2"}, own},
		{"own inter-op count", mlp, 64, map[string]string{"inter_op_thread_count": "2"}, own},
		{"count 0 is none", mlp, 64, map[string]string{"intra_op_thread_count": "0"}, inline},
		{"parallel mode", mlp, 64, map[string]string{"execution_mode": "1"}, pooled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info, err := onnxfile.Check(tt.model, filepath.Dir(tt.model))
			if err != nil {
				t.Fatal(err)
			}
			c := &inferencepb.ModelConfig{MaxBatchSize: tt.batch, Parameters: map[string]*inferencepb.ModelParameter{}}
			for k, v := range tt.parameters {
				c.Parameters[k] = &inferencepb.ModelParameter{StringValue: v}
			}
			if got := threadingOf(c, info); got != tt.want {
				t.Errorf("threadingOf = %d, want %d; the model is %+v", got, tt.want, info)
			}
		})
	}
}
