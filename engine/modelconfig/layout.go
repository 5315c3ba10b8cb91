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

// ModelFiles returns the names that the model of a completed configuration may have in a version folder. Backends use
// the first one that exists. That is default_model_filename, unless it is missing or is what CompleteBackend fills in.
// Then the names are those of the backend. None: the backend needs no file, or is not known.
//
// cc_model_filenames does not count: package model puts the name for its GPUs into default_model_filename.
//
// A name is a file or a folder, as in Triton's backends. model.onnx may be a folder that contains model.onnx and
// external data. model.savedmodel and OneFlow's model are folders.
func ModelFiles(cfg *inferencepb.ModelConfig) []string {
	if f := cfg.GetDefaultModelFilename(); f != "" && f != usualFile(cfg) {
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
		return forestFiles(cfg)
	case BackendOpenVINO:
		return []string{"model.xml", "model.onnx", "model.saved_model", "model.pdmodel", "model.tflite", "model.pb"}
	case BackendPyTorch:
		if cfg.GetRuntime() == "model.py" {
			return []string{"model.py", "model.pt"}
		}
		if usualFile(cfg) == "model.pt" {
			return []string{"model.pt", "model.pt2", "model.py"}
		}
	}
	var all []string
	for _, a := range artifacts {
		if a.fits(cfg) && !slices.Contains(all, a.file) {
			all = append(all, a.file)
		}
	}
	return all
}

// usualFile is the default_model_filename with which a configuration is completed that has none, "" if there is none.
func usualFile(cfg *inferencepb.ModelConfig) string {
	if i := slices.IndexFunc(artifacts, func(a artifact) bool { return a.fits(cfg) }); i >= 0 {
		return artifacts[i].file
	}
	return ""
}

func forestFiles(cfg *inferencepb.ModelConfig) []string {
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
