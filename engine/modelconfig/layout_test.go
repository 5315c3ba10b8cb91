package modelconfig_test

import (
	"slices"
	"testing"

	"nereid/engine/modelconfig"
)

// fil returns the configuration of a FIL model.
func fil(modelType string) string {
	return `backend: "fil" parameters { key: "model_type" value { string_value: "` + modelType + `" } }`
}

func TestModelFiles(t *testing.T) {
	openVINO := []string{"model.xml", "model.onnx", "model.saved_model", "model.pdmodel", "model.tflite", "model.pb"}
	for _, tt := range []struct {
		name, text string
		files      []string
		backend    string
		want       []string
	}{
		{name: "A008 model.onnx, a file", files: []string{"model.onnx"}, backend: "onnxruntime",
			want: []string{"model.onnx"}},
		{name: "A008 model.onnx, a folder with external data", files: []string{"model.onnx/"}, backend: "onnxruntime",
			want: []string{"model.onnx"}},
		{name: "A009 model.plan", files: []string{"model.plan"}, backend: "tensorrt", want: []string{"model.plan"}},
		{name: "A009 model.pt", files: []string{"model.pt"}, backend: "pytorch",
			want: []string{"model.pt", "model.pt2", "model.py"}},
		{name: "A009 model.pt2", files: []string{"model.pt2"}, backend: "pytorch", want: []string{"model.pt2"}},
		{name: "A009 model.py", files: []string{"model.py"}, backend: "python", want: []string{"model.py"}},
		{name: "A009 model.dali", text: `backend: "dali"`, files: []string{"model.dali"}, backend: "dali",
			want: []string{"model.dali"}},
		{name: "A010 model.savedmodel", files: []string{"model.savedmodel/"}, backend: "tensorflow",
			want: []string{"model.savedmodel"}},
		{name: "A010 model.graphdef", files: []string{"model.graphdef"}, backend: "tensorflow",
			want: []string{"model.graphdef"}},
		{name: "A010 by backend alone", text: `backend: "tensorflow"`, files: []string{"model.graphdef"},
			backend: "tensorflow", want: []string{"model.graphdef"}},
		{name: "A010 by platform alone", text: `platform: "tensorflow_savedmodel"`, backend: "tensorflow",
			want: []string{"model.savedmodel"}},
		{name: "A010 nothing there yet", text: `backend: "tensorflow"`, backend: "tensorflow",
			want: []string{"model.savedmodel", "model.graphdef"}},
		{name: "A011 model.xml with model.bin", files: []string{"model.xml", "model.bin"}, backend: "openvino",
			want: openVINO},
		{name: "A011 a TensorFlow model for OpenVINO",
			text:    `backend: "openvino" default_model_filename: "model.saved_model"`,
			backend: "openvino", want: []string{"model.saved_model"}},
		{name: "A011 a PaddlePaddle model", text: `backend: "openvino" default_model_filename: "model.pdmodel"`,
			backend: "openvino", want: []string{"model.pdmodel"}},
		{name: "A011 a TensorFlow Lite model", text: `backend: "openvino" default_model_filename: "model.tflite"`,
			backend: "openvino", want: []string{"model.tflite"}},
		{name: "A011 an ONNX model for OpenVINO", text: `backend: "openvino" default_model_filename: "model.onnx"`,
			files: []string{"model.onnx"}, backend: "openvino", want: []string{"model.onnx"}},
		{name: "A012 oneflow's model folder", text: `backend: "oneflow"`, files: []string{"model/"}, backend: "oneflow",
			want: []string{"model"}},
		{name: "A013 xgboost", text: fil("xgboost"), backend: "fil", want: []string{"xgboost.model"}},
		{name: "A013 xgboost_json", text: fil("xgboost_json"), backend: "fil", want: []string{"xgboost.json"}},
		{name: "A013 xgboost_ubj", text: fil("xgboost_ubj"), backend: "fil", want: []string{"xgboost.ubj"}},
		{name: "A013 lightgbm", text: fil("lightgbm"), backend: "fil", want: []string{"model.txt"}},
		{name: "A013 treelite_checkpoint", text: fil("treelite_checkpoint"), backend: "fil",
			want: []string{"checkpoint.tl"}},
		{name: "A013 no model type", text: `backend: "fil"`, backend: "fil",
			want: []string{"xgboost.model", "xgboost.json", "xgboost.ubj", "model.txt", "checkpoint.tl"}},
		{name: "A014 default_model_filename", text: `default_model_filename: "model.onnx"`, backend: "onnxruntime",
			want: []string{"model.onnx"}},
		{name: "A014 a name of one's own", text: `backend: "onnxruntime" default_model_filename: "net.v2"`,
			backend: "onnxruntime", want: []string{"net.v2"}},
		{name: "cc_model_filenames: not by themselves",
			text: `backend: "tensorrt" default_model_filename: "x.plan" ` +
				`cc_model_filenames { key: "8.0" value: "a100.plan" }`,
			backend: "tensorrt", want: []string{"x.plan"}},
		{name: "a default that another platform has", text: `platform: "torch_aoti"`, backend: "pytorch",
			want: []string{"model.pt2"}},
		{name: "runtime", text: `backend: "pytorch" runtime: "model.py"`, backend: "pytorch",
			want: []string{"model.py", "model.pt"}},
		{name: "vLLM", text: `backend: "vllm"`, backend: "vllm", want: []string{"model.json"}},
		{name: "a backend without files", text: `backend: "identity"`, backend: "identity"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := parse(t, tt.text)
			if faults := modelconfig.CompleteBackend(cfg, "m", folder(t, tt.files...)); len(faults) > 0 {
				t.Fatal(faults)
			}
			got := modelconfig.ModelFiles(cfg)
			if cfg.Backend != tt.backend || !slices.Equal(got, tt.want) {
				t.Errorf("backend %q with files %q, want %q with %q", cfg.Backend, got, tt.backend, tt.want)
			}
		})
	}
}
