package onnxruntime_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine/backend/onnxruntime"
	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/status"
)

const digits = "../../../models-sample/digits/1/model.onnx"

func TestInspect(t *testing.T) {
	b := open(t)
	x, err := b.Inspect(t.Context(), digits, onnxruntime.InspectOptions{Runs: 3, Dims: map[string]int64{"batch": 5}})
	if err != nil {
		t.Fatal(err)
	}
	// Its layers: 5x5 and 3x3 convolutions, and two products, with their offsets.
	const weights = 16*25 + 16 + 32*16*9 + 32 + 48*32*9 + 48 + 2352*64 + 64 + 64*10 + 10
	if w := x.Total(); w.Elements != weights || w.Bytes != 4*weights || w.Tensors != 10 || x.Opsets[""] != 17 {
		t.Errorf("weights %+v, operator sets %v; want %d numbers", w, x.Opsets, weights)
	}
	if x.Ops["Conv"] != 3 || x.Inputs[0].DimNames[0] != "batch" || x.Outputs[0].Dims[1] != 10 {
		t.Errorf("operators %v, ports %+v %+v", x.Ops, x.Inputs, x.Outputs)
	}
	r := x.Run
	if len(r.Times) != 3 || !slices.Equal(r.Shapes[0], []int64{5, 1, 28, 28}) || r.MemoryBytes < 4*weights {
		t.Errorf("the runs are %+v", r)
	}
	const products = 5 * 2 * (16*784*25 + 32*196*16*9 + 48*49*32*9 + 64*2352 + 10*64)
	sum := int64(0)
	for _, n := range r.Profile.Nodes {
		sum += n.FLOPs
	}
	if sum != products {
		t.Errorf("the nodes %+v have %d operations, want %d", r.Profile.Nodes, sum, products)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "nereid-profile-*")); err != nil || len(left) > 0 {
		t.Errorf("profiles are left: %v, %v", left, err)
	}
}

// Only with OpenVINO (see TestOpenVINO_D008) a provider takes parts of the model; without it, the error says so.
func TestInspectShowsWhatOpenVINOTakes(t *testing.T) {
	b := open(t)
	providers, err := b.Providers()
	if err != nil {
		t.Fatal(err)
	}
	for name, provider := range map[string]string{"openvino": "OpenVINOExecutionProvider",
		"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"} {
		x, err := b.Inspect(t.Context(), digits, onnxruntime.InspectOptions{Runs: 1, Provider: name})
		switch {
		case !slices.Contains(providers, provider):
			if status.CodeOf(err) != status.Unsupported || !strings.Contains(err.Error(), "execution provider") {
				t.Errorf("%s: %v, want Unsupported", name, err)
			}
		case err != nil:
			if name == "openvino" {
				t.Error(err) // the others need a GPU
			}
		case x.Run.Profile.Providers[provider] == 0:
			t.Errorf("%s takes no part: %v", name, x.Run.Profile.Providers)
		}
	}
	_, err = b.Inspect(t.Context(), digits, onnxruntime.InspectOptions{Provider: "abacus"})
	if status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), "choose openvino, cuda or tensorrt") {
		t.Errorf("an unknown provider: %v", err)
	}
}

// The inputs and outputs that a file lists are those of its session, so a file that does not load can be described too.
func TestInputsOfAFileAreThoseOfItsSession_F052(t *testing.T) {
	files, err := filepath.Glob("../../../models-sample/*/1/model.onnx")
	more, err2 := filepath.Glob("testdata/*.onnx")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	b, loaded := open(t), 0
	for _, file := range append(files, more...) {
		d, err := onnxfile.Describe(file)
		x, err2 := b.Inspect(t.Context(), file, onnxruntime.InspectOptions{})
		if err != nil || err2 != nil || x.LoadError != "" || len(x.Unsupported) > 0 {
			continue
		}
		loaded++
		text := func(ports []onnxruntime.Port) string { return fmt.Sprintf("%+v", ports) }
		if text(d.Inputs) != text(x.Inputs) || text(d.Outputs) != text(x.Outputs) {
			t.Errorf("%s lists\n%+v %+v, its session has\n%+v %+v", file, d.Inputs, d.Outputs, x.Inputs, x.Outputs)
		}
	}
	if loaded < 15 {
		t.Errorf("only %d files were loaded", loaded)
	}
}

func TestInspectNamesUnsupportedOperators(t *testing.T) {
	b := open(t)
	for name, want := range map[string]string{"custom_op": "test.nereid:Twice", "unknown_op": "Frobnicate"} {
		path := filepath.Join("testdata", name+".onnx")
		x, err := b.Inspect(t.Context(), path, onnxruntime.InspectOptions{})
		if err != nil || !slices.Equal(x.Unsupported, []string{want}) || x.Opsets[""] != 17 {
			t.Errorf("%s: %+v, %v; want the operator %s", name, x, err, want)
		}
		if _, err := b.Inspect(t.Context(), path, onnxruntime.InspectOptions{Runs: 1}); err == nil {
			t.Errorf("%s ran", name)
		}
	}
	x, err := b.Inspect(t.Context(), "testdata/own_function.onnx", onnxruntime.InspectOptions{})
	if err != nil || !slices.Equal(x.Unsupported, []string{"other.nereid:Frobnicate", "test.nereid:Once"}) {
		t.Errorf("a file with a function: %+v, %v", x, err)
	}
	read := onnxruntime.InspectOptions{}
	x, err = b.Inspect(t.Context(), "testdata/opset_too_new.onnx", read)
	if err != nil || !strings.Contains(x.LoadError, "opset") || len(x.Inputs) == 0 || len(x.Outputs) == 0 {
		t.Errorf("an operator set that is too new: %+v, %v", x, err)
	}
	read.Runs = 1
	if _, err = b.Inspect(t.Context(), "testdata/opset_too_new.onnx", read); err == nil ||
		!strings.Contains(err.Error(), "opset") {
		t.Errorf("a run of an operator set that is too new: %v", err)
	}
	alone := filepath.Join(t.TempDir(), "model.onnx") // without its weights
	if data, err := os.ReadFile("testdata/external.onnx"); err != nil || os.WriteFile(alone, data, 0o600) != nil {
		t.Fatal(err)
	}
	x, err = b.Inspect(t.Context(), alone, onnxruntime.InspectOptions{})
	if err != nil || !strings.Contains(x.LoadError, "is missing") || len(x.Inputs) == 0 || len(x.Outputs) == 0 {
		t.Errorf("a file without its weights: %+v, %v", x, err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "nereid-probe-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

func TestInspectRefuses(t *testing.T) {
	cut, err := os.ReadFile(digits)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(broken, cut[:len(cut)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	shapes := func(s map[string][]int64) onnxruntime.InspectOptions {
		return onnxruntime.InspectOptions{Runs: 1, Shapes: s}
	}
	b := open(t)
	for _, c := range []struct {
		path string
		o    onnxruntime.InspectOptions
		want string
	}{
		{broken, shapes(nil), "not a protocol buffer"},
		{digits, shapes(map[string][]int64{"picture": {1}}), "the model has no input picture"},
		{digits, shapes(map[string][]int64{"image": {1, 1, 28}}), "which has 4 dimensions"},
		{digits, shapes(map[string][]int64{"image": {1, 3, 28, 28}}), "whose shape is [-1 1 28 28]"},
		{digits, shapes(map[string][]int64{"image": {1 << 40, 1, 28, 28}}), "too large"},
		{digits, shapes(map[string][]int64{"image": {0, 1, 28, 28}}), ""},
	} {
		_, err := b.Inspect(t.Context(), c.path, c.o)
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || status.CodeOf(err) != status.InvalidArg || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Inspect with %v = %v, want %q", c.o.Shapes, err, c.want)
		}
	}
}
