package onnxruntime

import (
	"log/slog"
	"path/filepath"
	"testing"

	"nereid/engine/backend"
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
		global      bool
		want        threading
	}{
		{"copy", "testdata/identity_fp32.onnx", 64, nil, false, inline},
		{"small perceptron", mlp, 64, nil, false, inline},
		{"small perceptron, huge batches", mlp, 4096, nil, false, pooled},
		{"convolutions", digits, 1, nil, false, pooled},
		{"loop", "testdata/loop.onnx", 0, nil, false, pooled},
		{"own count", mlp, 64, map[string]string{"intra_op_thread_count": "2"}, false, own},
		{"own inter-op count", mlp, 64, map[string]string{"inter_op_thread_count": "2"}, false, own},
		{"count 0 is none", mlp, 64, map[string]string{"intra_op_thread_count": "0"}, false, inline},
		{"parallel mode", mlp, 64, map[string]string{"execution_mode": "1"}, false, pooled},
		{"own count overruled by enable-global-threadpool", digits, 1, map[string]string{"intra_op_thread_count": "2"},
			true, pooled},
		{"own inter-op count overruled by enable-global-threadpool", digits, 1,
			map[string]string{"inter_op_thread_count": "2"}, true, pooled},
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
			if got := threadingOf(backend.Spec{Config: c, Log: slog.New(slog.DiscardHandler)}, info,
				tt.global); got != tt.want {
				t.Errorf("threadingOf = %d, want %d; the model is %+v", got, tt.want, info)
			}
		})
	}
}
