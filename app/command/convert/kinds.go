package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The kinds of models. main.py has a loader for each.
const (
	kindPickle     = "sklearn"
	kindXGBoost    = "xgboost"
	kindLightGBM   = "lightgbm"
	kindCatBoost   = "catboost"
	kindONNX       = "onnx"
	kindPyTorch    = "pytorch"
	kindTensorFlow = "tensorflow"
	kindPaddle     = "paddle"
	kindCaffe2     = "caffe2"
)

// kinds are the formats that can be converted, by the end of a file's name.
var kinds = map[string]string{
	".pkl": kindPickle, ".pickle": kindPickle, ".joblib": kindPickle, ".json": kindXGBoost, ".ubj": kindXGBoost,
	".txt": kindLightGBM, ".cbm": kindCatBoost, ".onnx": kindONNX,
	".xgb": kindXGBoost, ".lgb": kindLightGBM, ".cb": kindCatBoost, // as MLflow names them
	".pt": kindPyTorch, ".pth": kindPyTorch, ".pt2": kindPyTorch, ".safetensors": kindPyTorch,
	".torchscript": kindPyTorch, // as Ultralytics names it
	".pb":          kindTensorFlow, ".keras": kindTensorFlow, ".h5": kindTensorFlow, ".hdf5": kindTensorFlow,
	".tflite": kindTensorFlow, ".pdmodel": kindPaddle, ".netdef": kindCaffe2,
}

// refused says for other formats what to do instead.
var refused = map[string]string{
	".caffemodel": "Caffe has no converter that is kept up. Convert it with OpenVINO 2022.3 (mo --input_model), " +
		"which the OpenVINO backend serves, or train the network again in PyTorch",
	".params": "MXNet is retired. Where MXNet 1.9 is installed, mxnet.onnx.export_model writes ONNX; import that file",
	".mlmodel": "Core ML runs on Apple's systems, and coremltools only converts to it. Convert the model that it was " +
		"made from",
	".mlpackage": "Core ML runs on Apple's systems, and coremltools only converts to it. Convert the model that it " +
		"was made from",
	".plan":   "a TensorRT engine holds code for one GPU and no graph. Convert the ONNX model that it was built from",
	".engine": "a TensorRT engine holds code for one GPU and no graph. Convert the ONNX model that it was built from",
	".gguf":   "it has the weights of a language model for llama.cpp. Serve it with a Python model",
	".ckpt": "it is a checkpoint: weights by name. For PyTorch rename it to .pt and say --class; for TensorFlow " +
		"export a SavedModel where the class is",
	".index": "it is a checkpoint of TensorFlow: weights without a graph. Export a SavedModel where the class is",
	".mar":   "it is an archive of TorchServe. Bring it with nereid get, or unpack it and convert the file of weights",
	".bin": "its name does not say what it is. OpenVINO serves model.xml with model.bin as they are; weights of " +
		"PyTorch are converted under a name that ends in .pt, with --class",
	".xml": "it is a model of OpenVINO, or PMML. The OpenVINO backend serves the first as it is; for PMML convert " +
		"the model that it was made from",
	".mlir": "MLIR has no converter to ONNX. Convert the model that it was made from",
	".rds":  "it is a model of R. Save it in the format of XGBoost or LightGBM, or write PMML's source model as ONNX",
}

// source is what is converted.
type source struct {
	kind  string
	file  string // "": the weights are those that the class makes
	class string // FILE.py:Class, torchvision:NAME or timm:NAME; only for PyTorch
}

// named says whether a name is that of a model of a library.
func named(s string) bool {
	return strings.HasPrefix(s, "torchvision:") || strings.HasPrefix(s, "timm:")
}

// code returns the Python file of a class, "" if a library has it.
func (s source) code() string {
	if s.class == "" || named(s.class) {
		return ""
	}
	return s.class[:max(0, strings.LastIndex(s.class, ":"))]
}

// findSource recognises what an argument names.
func findSource(arg, class string) (s source, err error) {
	if named(arg) {
		if class != "" {
			return s, errors.New("name either a model of a library, or a file of weights with --class")
		}
		return source{kind: kindPyTorch, class: arg}, nil
	}
	s = source{file: arg, class: class}
	if s.kind, err = kindOf(arg); err != nil {
		return s, err
	}
	if _, err := os.Stat(arg); err != nil {
		return s, err
	}
	if class == "" {
		return s, nil
	}
	file, name, _ := strings.Cut(class, ":")
	switch {
	case s.kind != kindPyTorch:
		return s, fmt.Errorf("--class is for weights of PyTorch, and %s is none", arg)
	case file == "" || name == "":
		return s, fmt.Errorf("--class %q is not of the form FILE.py:Class, torchvision:NAME or timm:NAME", class)
	case named(class):
		return s, nil
	}
	_, err = os.Stat(s.code())
	return s, err
}

// kindOf returns the format of a file by the end of its name, or of a folder by what is in it.
func kindOf(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if exists(filepath.Join(path, "saved_model.pb")) {
			return kindTensorFlow, nil
		}
		return "", fmt.Errorf("the folder %s is no SavedModel; name a file", path)
	}
	end := strings.ToLower(filepath.Ext(path))
	base := strings.ToLower(filepath.Base(path))
	switch {
	case strings.HasSuffix(base, "init_net.pb") || strings.HasPrefix(base, "init_") && end == ".netdef":
		return "", fmt.Errorf("%s has the weights of a model of Caffe2; name the file of the network beside it, "+
			"predict_net.pb or model.netdef", path)
	case strings.HasSuffix(base, "predict_net.pb"):
		return kindCaffe2, nil
	case end == ".json" && exists(strings.TrimSuffix(path, filepath.Ext(path))+".pdiparams"):
		return kindPaddle, nil
	}
	if why, ok := refused[end]; ok {
		return "", fmt.Errorf("%s cannot be converted: %s", path, why)
	}
	kind, ok := kinds[end]
	if !ok {
		return "", fmt.Errorf("the end of the name %s is of no format that can be converted; see nereid convert --help",
			path)
	}
	return kind, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// dtypes are NumPy's names of Triton's types.
var dtypes = map[string]string{
	"FP16": "float16", "FP32": "float32", "FP64": "float64", "INT8": "int8", "INT16": "int16", "INT32": "int32",
	"INT64": "int64", "UINT8": "uint8", "BOOL": "bool",
}

// inputShape is an input as --shape says it. main.py reads it.
type inputShape struct {
	Name  string  `json:"name"` // "": as the converter calls it
	DType string  `json:"dtype"`
	Dims  []int64 `json:"dims"` // -1: open
}

// parseShape parses [NAME:[TYPE:]]D1,D2,...
func parseShape(s string) (inputShape, error) {
	var in inputShape
	parts := strings.Split(s, ":")
	in.DType = "float32"
	if len(parts) > 1 {
		in.Name = parts[0]
	}
	if len(parts) == 3 {
		in.DType = dtypes[strings.ToUpper(parts[1])]
	}
	for d := range strings.SplitSeq(parts[len(parts)-1], ",") {
		n, perr := strconv.ParseInt(strings.TrimSpace(d), 10, 32)
		if perr != nil || n == 0 || n < -1 {
			in.Dims = nil
			break
		}
		in.Dims = append(in.Dims, n)
	}
	if in.Dims == nil || in.DType == "" || len(parts) > 3 {
		return in, fmt.Errorf("%q is no shape of an input such as -1,3,224,224 or tokens:INT64:-1,16", s)
	}
	return in, nil
}

// checkArguments looks whether --arguments is a JSON object.
func checkArguments(s string) error {
	var v map[string]any
	if s == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return fmt.Errorf(`--arguments must be a JSON object such as {"num_classes": 10}: %w`, err)
	}
	return nil
}
