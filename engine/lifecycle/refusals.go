package lifecycle

import (
	"slices"

	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

// refusals say why the server does not have some of Triton's backends, and what to do instead. By the backend's name.
var refusals = map[string]string{
	modelconfig.BackendTensorRT: "runs engines that TensorRT has built for one kind of GPU and one of its releases, " +
		"which are not loaded here; " +
		"serve the ONNX model that the engine was built from, with optimization { execution_accelerators { " +
		"gpu_execution_accelerator: [ { name: \"tensorrt\" } ] } } on a machine with a GPU",
	modelconfig.BackendCaffe2: "ran Caffe2's networks, and nothing does any more: PyTorch has dropped Caffe2; " +
		"convert the model to ONNX with nereid convert, which installs the last that has it",
	modelconfig.BackendDALI: "needs NVIDIA's DALI as a library of Triton's, which is not loaded here; " +
		"put the pipeline into a Python model (pip install nvidia-dali-cuda120, and nvidia.dali in its model.py), " +
		"or its operators into an ONNX model",
	modelconfig.BackendVLLM: "is one that is written in Python and does not come with this server; " +
		"install vllm, put the vllm/model.py of its makers into --backend-directory and name its environment by the " +
		"parameter EXECUTION_ENV_PATH",
	"tensorrtllm": "needs TensorRT-LLM as a library of Triton's, which is not loaded here; " +
		"put a tensorrtllm/model.py that runs TensorRT-LLM's Python API into --backend-directory, or serve the " +
		"model with vLLM in that way",
}

// Refused returns why the server may not have one of Triton's backends, and what to do instead; "" for other names.
func Refused(name string) string {
	if why := refusals[name]; why != "" {
		return why
	}
	if slices.Contains(others, name) {
		return "is not part of this server"
	}
	return ""
}

// Unsupported returns why a configuration cannot be loaded that Triton supports and this server does not, and the path
// of the field. hasBackend: the server has the backend that cfg names. The error is nil, and the path empty, if there
// is no such reason.
func Unsupported(cfg *inferencepb.ModelConfig, hasBackend bool) (path string, err error) {
	if hasBackend {
		return "", nil
	}
	if why := Refused(cfg.GetBackend()); why != "" {
		return "backend", status.Errorf(status.Unsupported, "backend '%s' %s", cfg.GetBackend(), why)
	}
	return "", nil
}

// others are backends that a program with this engine may leave out.
var others = []string{modelconfig.BackendPyTorch, modelconfig.BackendTensorFlow, modelconfig.BackendOpenVINO,
	modelconfig.BackendFIL, modelconfig.BackendOneFlow}
