package modelconfig

import (
	"slices"

	"nereid/engine/inferencepb"
)

// Backends with their own file names. Triton's configuration leaves default_model_filename empty for them.
const (
	BackendDALI    = "dali"
	BackendFIL     = "fil"
	BackendOneFlow = "oneflow"
	BackendVLLM    = "vllm"
	BackendCaffe2  = "caffe2" // no longer in Triton; its models are refused with a clear error
)

// filFiles are the file names of a FIL model by the parameter model_type, as in the FIL backend's documentation. They
// are in the order in which they are looked for if the model type is not given.
var filFiles = []struct{ modelType, file string }{
	{"xgboost", "xgboost.model"}, {"xgboost_json", "xgboost.json"}, {"xgboost_ubj", "xgboost.ubj"},
	{"lightgbm", "model.txt"}, {"treelite_checkpoint", "checkpoint.tl"},
}

// ModelFiles returns the names that the model of a completed configuration may have in a version folder. The first one
// that exists is used. They come from cc_model_filenames for the compute capability of a GPU ("8.0"; "" without one),
// else from default_model_filename, else from the backend. None: the backend needs no file, or is not known.
//
// A name is a file or a folder, as in Triton's backends. model.onnx may be a folder that contains model.onnx and
// external data. model.savedmodel and OneFlow's model are folders.
func ModelFiles(cfg *inferencepb.ModelConfig, capability string) []string {
	if f := cfg.GetCcModelFilenames()[capability]; f != "" && capability != "" {
		return []string{f}
	}
	if f := cfg.GetDefaultModelFilename(); f != "" {
		return []string{f}
	}
	switch cfg.GetBackend() {
	case BackendDALI:
		return []string{"model.dali"}
	case BackendOneFlow:
		return []string{"model"}
	case BackendVLLM:
		return []string{"model.json"}
	case BackendFIL:
		want := cfg.GetParameters()["model_type"].GetStringValue()
		var all []string
		for _, f := range filFiles {
			if f.modelType == want {
				return []string{f.file}
			}
			all = append(all, f.file)
		}
		return all
	}
	var all []string
	for _, a := range artifacts {
		fits := a.backend == cfg.GetBackend() && (cfg.GetPlatform() == "" || a.platform == cfg.GetPlatform())
		if fits && !slices.Contains(all, a.file) {
			all = append(all, a.file)
		}
	}
	return all
}
