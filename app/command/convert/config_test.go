package convert

import (
	"os"
	"path/filepath"
	"testing"
)

// A file may be named from within the folders of its model.
func TestTheConfigurationOfAChangedModelIsFoundFromEachFolder_F042(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"m/config.pbtxt": `backend: "onnxruntime" max_batch_size: 4 cc_model_filenames { key: "8.0" value: "x.onnx" }
output { name: "O" data_type: TYPE_FP32 dims: 1 label_filename: "names/l.txt" }
model_warmup { name: "w" batch_size: 1
  inputs { key: "I" value { data_type: TYPE_FP32 dims: 1 input_data_file: "one" } } }
sequence_batching { state { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: 1
  initial_state { name: "s" data_type: TYPE_FP32 dims: 1 data_file: "zero" } } }`,
		"m/1/model.onnx": "graph", "m/names/l.txt": "a", "m/warmup/one": "1", "m/initial_state/zero": "0",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for folder, file := range map[string]string{
		"": "m/1/model.onnx", "m": "1/model.onnx", "m/1": "model.onnx", "m/names": "../1/model.onnx",
	} {
		t.Run(file, func(t *testing.T) {
			t.Chdir(filepath.Join(root, folder))
			s := source{kind: kindONNX, file: file}
			o := converter{name: "new", fp16: true}
			if got := o.nameFor(s); got != "m_fp16" {
				t.Errorf("the name is %q, want m_fp16", got)
			}
			dir := t.TempDir()
			if err := o.configure(t.Context(), s, dir); err != nil {
				t.Fatal(err)
			}
			cfg, err := configOf(filepath.Join(dir, "1", "model.onnx"))
			if err != nil || cfg.GetMaxBatchSize() != 4 || cfg.GetName() != "new" ||
				len(cfg.GetCcModelFilenames()) > 0 {
				t.Errorf("the configuration is %v, %v", cfg, err)
			}
			for _, name := range filesOf(cfg) {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
			if n := len(filesOf(cfg)); n != 3 {
				t.Errorf("it names %d files, want 3", n)
			}
		})
	}
}
