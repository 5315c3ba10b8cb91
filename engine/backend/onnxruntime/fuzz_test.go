package onnxruntime_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
)

// FuzzLoad loads damaged models. They must be refused without a crash.
func FuzzLoad(f *testing.F) {
	b := open(f)
	models, err := filepath.Glob("testdata/*.onnx")
	if err != nil || len(models) == 0 {
		f.Fatal("no models to begin with", err)
	}
	for _, path := range models {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		for _, at := range []int{len(data) / 4, len(data) / 2, len(data) - 4} { // damage that a short run does not find
			d := append([]byte(nil), data...)
			d[at] ^= 0x41
			f.Add(d)
			f.Add(data[:at])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		folder, version := lay(t, data)
		s := backend.Spec{
			ModelName: "m", Version: 1, Config: &inferencepb.ModelConfig{}, ModelFolder: folder, VersionFolder: version,
			Log: slog.New(slog.DiscardHandler),
		}
		sig, err := b.Signature(t.Context(), s)
		if err != nil {
			return
		}
		if faults := modelconfig.Complete(s.Config, sig, modelconfig.CompleteOptions{DefaultMaxBatchSize: 4}); len(
			faults) > 0 {
			return
		}
		m, err := b.Load(t.Context(), s)
		if err != nil {
			return
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}
