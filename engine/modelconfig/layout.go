package modelconfig

import (
	"slices"

	"nereid/engine/inferencepb"
)

// Backends that name their model files themselves: Triton's configuration leaves default_model_filename empty.
const (
	BackendDALI    = "dali"
	BackendFIL     = "fil"
	BackendOneFlow = "oneflow"
	BackendVLLM    = "vllm"
	BackendCaffe2  = "caffe2" // ours, for what Triton has forgotten: its models are refused by name
)

// filFiles are the names of a FIL model by the parameter model_type, as in the FIL backend's documentation.
var filFiles = map[string]string{
	"xgboost": "xgboost.model", "xgboost_json": "xgboost.json", "xgboost_ubj": "xgboost.ubj",
	"lightgbm": "model.txt", "treelite_checkpoint": "checkpoint.tl",
}

// filOrder is the order in which FIL files are looked for where nothing says the model type.
var filOrder = []string{"xgboost", "xgboost_json", "xgboost_ubj", "lightgbm", "treelite_checkpoint"}

// ModelFiles returns the names in a version folder under which a completed configuration's model may lie, the first
// that is there counts: cc_model_filenames for the compute capability of a GPU ("8.0"; "" without one), then
// default_model_filename, else the backend's own names. None: the backend needs no file, or is not known.
//
// A name is a file or a folder as Triton's backends have it: model.onnx may be a folder with a model.onnx inside and external data
// beside it; model.savedmodel and OneFlow's model are folders.
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
		if f, ok := filFiles[cfg.GetParameters()["model_type"].GetStringValue()]; ok {
			return []string{f}
		}
		all := make([]string, 0, len(filOrder))
		for _, t := range filOrder {
			all = append(all, filFiles[t])
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
