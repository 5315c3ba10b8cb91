package convert

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/console/api"
)

func TestKindIsRecognisedByName(t *testing.T) {
	for file, want := range map[string]string{
		"a.PKL": "sklearn", "a.b.joblib": "sklearn", "m.json": "xgboost", "m.ubj": "xgboost", "m.txt": "lightgbm",
		"m.onnx": "onnx", "m.pt": "pytorch", "m.torchscript": "pytorch",
		"m.pt2": "pytorch", "m.keras": "tensorflow", "m.cbm": "catboost",
		"m.pdmodel": "paddle", "predict_net.pb": "caffe2", "init_net.pb": "",
		"m.netdef": "caffe2", "init_m.netdef": "", "m.pb": "tensorflow", "m.plan": "", "m.mlmodel": "", "m": "",
	} {
		if got, err := kindOf(file); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", file, got, err, want)
		}
	}
}

// A format that cannot be converted says why, and what to do instead.
func TestFormatsWithoutAConverterSayWhatToDo(t *testing.T) {
	for end, what := range map[string]string{
		".caffemodel": "Convert it with OpenVINO", ".params": "mxnet.onnx.export_model writes ONNX",
		".mlmodel": "Convert the model that it was made from", ".mlpackage": "Convert the model that it was made from",
		".plan": "Convert the ONNX model that it was built from", ".gguf": "Serve it with a Python model",
		".engine": "Convert the ONNX model that it was built from", ".ckpt": "rename it to .pt and say --class",
		".index": "Export a SavedModel", ".mar": "Bring it with nereid get", ".bin": "under a name that ends in .pt",
		".xml": "The OpenVINO backend serves", ".mlir": "Convert the model that it was made from",
		".rds": "Save it in the format of XGBoost or LightGBM",
	} {
		_, err := kindOf("net" + end)
		if err == nil || !strings.Contains(err.Error(), what) || !strings.HasPrefix(err.Error(), "net"+end) {
			t.Errorf("%s: %v, want %q", end, err, what)
		}
	}
	if len(refused) != 14 {
		t.Errorf("%d formats are refused, and the test has 14", len(refused))
	}
}

func TestKindIsRecognisedByWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"saved/saved_model.pb", "p.json", "p.pdiparams", "x.json", "other/file"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{
		"saved": "tensorflow", "p.json": "paddle", "x.json": "xgboost", "other": "",
	} {
		if got, err := kindOf(filepath.Join(dir, file)); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", file, got, err, want)
		}
	}
}

func TestShapesOfInputs(t *testing.T) {
	for text, want := range map[string]string{
		"-1,3,224,224": "{ float32 [-1 3 224 224]}", "x:1,2": "{x float32 [1 2]}",
		"t:int64:-1, 16": "{t int64 [-1 16]}",
		"":               "", "x:": "", "a:FP99:1": "", "0,1": "", "-2": "", "a:b:c:1": "", "1,,2": "",
		"99999999999": "",
	} {
		got, err := parseShape(text)
		if (err == nil) != (want != "") || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%q is %v, %v; want %q", text, got, err, want)
		}
	}
}

func TestConversionDiffers(t *testing.T) {
	numbers := func(e float64) api.ParityOutput { return api.ParityOutput{Output: "y", Rows: 4, MaxAbs: &e, Error: &e} }
	labels := func(same int) api.ParityOutput { return api.ParityOutput{Output: "label", Rows: 4, Same: &same} }
	for _, tt := range []struct {
		outputs []api.ParityOutput
		want    string
	}{
		{[]api.ParityOutput{labels(4), numbers(1e-4)}, ""},
		{[]api.ParityOutput{labels(3), numbers(0)}, "1 of 4 labels of the output label differ"},
		{[]api.ParityOutput{labels(4), numbers(1.1e-4)}, "numbers of the output y differ by up to 0.00011"},
		{[]api.ParityOutput{numbers(math.NaN())}, "numbers of the output y differ by up to NaN"},
	} {
		r := api.ParityReport{Outputs: tt.outputs}
		if got := differs(&r, 1e-4); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestLowPrecisionMayChangeOneLabelInAHundred(t *testing.T) {
	small := 0.05
	for same, want := range map[int]string{99: "", 98: "2 of 100 labels of the output y differ"} {
		r := api.ParityReport{Low: true, Outputs: []api.ParityOutput{
			{Output: "y", Rows: 100, Error: &small, Same: &same},
		}}
		if got := differs(&r, 0.1); got != want {
			t.Errorf("%d the same: %q, want %q", same, got, want)
		}
	}
}

func TestConvertChecksItsOptions(t *testing.T) {
	shape := []inputShape{{}}
	for _, tt := range []struct {
		o         converter
		kind      string
		tolerance float64
		want      string
	}{
		{converter{tolerance: -1, trust: true}, kindPickle, 1e-4, ""},
		{converter{tolerance: -1}, kindPickle, 1e-4, "say --trust"},
		{converter{tolerance: -1, fp16: true}, kindONNX, 0.01, ""},
		{converter{tolerance: -1, int8: true}, kindONNX, 0.1, ""},
		{converter{tolerance: 0, int8: true}, kindONNX, 0, ""},
		{converter{external: true, tolerance: -1}, kindONNX, 1e-4, ""},
		{converter{opset: 20, tolerance: -1, shapes: shape}, kindPyTorch, 1e-4, ""},
		{converter{}, kindONNX, 0, "is an ONNX model already"},
		{converter{fp16: true}, kindXGBoost, 0, "are for ONNX models"},
		{converter{opset: 20}, kindXGBoost, 0, "--opset is not for"},
		{converter{fp16: true, int8: true}, kindONNX, 0, "exclude each other"},
		{converter{shapes: shape}, kindTensorFlow, 0, "--shape is for models of PyTorch"},
		{converter{arguments: "{}"}, kindPyTorch, 0, "--arguments is for"},
		{converter{scale: "half"}, kindPyTorch, 0, "none of unit"},
		{converter{source: source{class: "timm:a"}, arguments: "[1]"}, kindPyTorch, 0, "must be a JSON object"},
		{converter{source: source{class: "net.py:Net"}}, kindPyTorch, 0, "runs the code in net.py"},
		{converter{tolerance: -1, optimize: optimizeOptions{on: true}}, kindONNX, 1e-4, ""},
		{converter{fp16: true, optimize: optimizeOptions{on: true}}, kindONNX, 0, "leave --fp16 and --int8 out"},
		{converter{optimize: optimizeOptions{budgetMs: 5}}, kindPaddle, 0, "are for --optimize"},
		{converter{optimize: optimizeOptions{on: true, budgetMs: -5}}, kindPaddle, 0, "is no time"},
		{converter{optimize: optimizeOptions{on: true, objective: "cost"}}, kindPaddle, 0, "none of throughput"},
	} {
		tt.o.source.kind, tt.o.source.file = tt.kind, "m"
		err := tt.o.check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.o, err, tt.want)
		}
		if err == nil && tt.o.tolerance != tt.tolerance {
			t.Errorf("%+v: the tolerance is %g, want %g", tt.o, tt.o.tolerance, tt.tolerance)
		}
	}
}
