package model

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/engine/backend/builtin"
)

// A library with which Triton would form the batches is logged: it is ignored, which changes the batches but no
// response.
func TestBatchStrategyLibraryIsLogged(t *testing.T) {
	const text = `backend: "identity" max_batch_size: 4 input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 } ` +
		`output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 } `
	for _, tt := range []struct{ name, config, file, want string }{
		{"none", text, "", ""},
		{"by the parameter", text + `parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: ` +
			`"/opt/s.so" } }`, "", "/opt/s.so"},
		{"in the model's folder", text, "batchstrategy.so", "batchstrategy.so"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec(config(t, tt.config), t.TempDir(), builtin.Identity())
			var log bytes.Buffer
			s.Log = slog.New(slog.NewTextHandler(&log, nil))
			if tt.file != "" {
				if err := os.WriteFile(filepath.Join(s.ModelFolder, tt.file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m, err := Load(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if told := strings.Contains(log.String(),
				"libraries for batching are not loaded"); told != (tt.want != "") ||
				!strings.Contains(log.String(), tt.want) {
				t.Errorf("log %s, want %q", &log, tt.want)
			}
		})
	}
}
