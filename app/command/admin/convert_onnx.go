package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"nereid/engine/backend/python"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// changers is the environment for ONNX models.
var changers = python.Framework{Name: "convert-onnx", Title: "the converters of ONNX models", Module: "onnxsim",
	Size: "240 MB", Requirements: "onnx==1.23.2\nonnxruntime==1.31.1\nonnxconverter-common==1.16.0\n" +
		"onnxsim==0.8.1\nnumpy\n"}

// check looks whether the options are for such a file, and sets the tolerance.
func (o *converter) check(file, kind string) error {
	change := o.fp16 || o.int8 || o.simplify || o.opset != 0
	switch {
	case kind == "onnx" && !change:
		return fmt.Errorf("%s is an ONNX model already; say what to change (--fp16, --int8, --simplify, --opset), "+
			"or import it", file)
	case kind != "onnx" && change:
		return fmt.Errorf("--fp16, --int8, --simplify and --opset are for ONNX models; convert %s without them first",
			file)
	case o.fp16 && o.int8:
		return errors.New("--fp16 and --int8 exclude each other")
	case o.tolerance >= 0:
	case o.fp16:
		o.tolerance = 0.01
	case o.int8:
		o.tolerance = 0.1
	default:
		o.tolerance = 1e-4
	}
	return nil
}

// suffix tells the new model from the one beside it.
func (o *converter) suffix() string {
	switch {
	case o.fp16:
		return "_fp16"
	case o.int8:
		return "_int8"
	case o.opset != 0:
		return fmt.Sprintf("_opset%d", o.opset)
	}
	return "_simple"
}

// changeArguments returns the arguments of convert_onnx.py, with its name.
func (o *converter) changeArguments(file, dir string) ([]string, error) {
	cfg, err := configOf(file)
	if err != nil {
		return nil, err
	}
	var batched *bool // nil: as the graph says
	if cfg != nil {
		batched = new(cfg.MaxBatchSize > 0)
	}
	order, err := json.Marshal(map[string]any{"file": file, "out": dir, "inputs": o.inputs, "tolerance": o.tolerance,
		"fp16": o.fp16, "int8": o.int8, "simplify": o.simplify, "opset": o.opset, "batched": batched})
	return []string{"convert_onnx.py", string(order)}, err
}

// configOf returns the configuration of the model folder that a file MODEL/VERSION/FILE is in; nil: it is in none.
func configOf(file string) (*inferencepb.ModelConfig, error) {
	path := filepath.Join(filepath.Dir(filepath.Dir(file)), repo.ConfigName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cfg, _, faults := modelconfig.Parse(path, text)
	return cfg, faults.Err()
}

// copyConfig writes the configuration of the model that was converted, and its labels. The tensors are the same.
func (o *converter) copyConfig(cfg *inferencepb.ModelConfig, file, dir string) error {
	if cfg == nil {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(filepath.Dir(file)))
	if err != nil {
		return err
	}
	defer root.Close()
	for _, out := range cfg.Output {
		if out.LabelFilename == "" {
			continue
		}
		text, err := root.ReadFile(filepath.FromSlash(out.LabelFilename))
		if err != nil {
			return err
		}
		out.LabelFilename = filepath.Base(out.LabelFilename)
		if err := os.WriteFile(filepath.Join(dir, out.LabelFilename), text, 0o644); err != nil {
			return err
		}
	}
	cfg.Name, cfg.DefaultModelFilename, cfg.VersionPolicy = o.name, "", nil
	return os.WriteFile(filepath.Join(dir, repo.ConfigName), []byte(modelconfig.Format(cfg)), 0o644)
}
