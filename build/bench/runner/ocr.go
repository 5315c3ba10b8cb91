package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ocrHTTP is the ensemble of docs/examples/ocr: clients send pictures and receive words.
const ocrHTTP = "ocr-http"

func ocrLoad() load {
	pages := "input_image:UINT8:@docs/examples/ocr/pages/*.jpg"
	return load{ocrHTTP, "http", pages, [2]string{"ocr", "ocr"}, "same", []int{1, 8}}
}

// ocrPython runs an ONNX file as a Python model. Requests of a batch run as one execution, as in a well-written model.
const ocrPython = `import json
import pathlib

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        here = pathlib.Path(args["model_repository"]) / args["model_version"]
        self.session = ort.InferenceSession(str(here / "model.onnx"), providers=["CPUExecutionProvider"])
        config = json.loads(args["model_config"])
        self.batches = config["max_batch_size"] > 0
        self.input = config["input"][0]["name"]
        self.outputs = [o["name"] for o in config["output"]]

    def execute(self, requests):
        rows = [pb.get_input_tensor_by_name(r, self.input).as_numpy() for r in requests]
        if not self.batches:
            return [self.answer(self.session.run(self.outputs, {self.input: x})) for x in rows]
        results = self.session.run(self.outputs, {self.input: np.concatenate(rows)})
        ends = np.cumsum([len(x) for x in rows])
        return [
            self.answer([np.ascontiguousarray(y[end - len(x) : end]) for y in results]) for x, end in zip(rows, ends)
        ]

    def answer(self, arrays):
        return pb.InferenceResponse([pb.Tensor(name, array) for name, array in zip(self.outputs, arrays)])
`

// runOCR measures the ensemble on both servers. They run the same files with the same Python. The reference has no
// backend for ONNX, so there a Python model runs the two networks with onnxruntime.
func (b *bench) runOCR(ctx context.Context) error {
	programs, err := b.programs(ctx)
	if err != nil {
		return err
	}
	root := filepath.Join(b.work, "ocr")
	folders := []string{filepath.Join(root, "ours"), filepath.Join(root, "theirs")}
	for side := range programs {
		if err := ocrRepository(folders[side], side == 0); err != nil {
			return err
		}
	}
	programs[0].env = append(programs[0].env, "PATH="+filepath.Join(b.work, "venv", "bin")+":"+os.Getenv("PATH"))
	servers, err := startAll(ctx, programs, folders)
	if err != nil {
		return err
	}
	defer stopAll(servers)
	return b.compareLoads(ctx, []load{ocrLoad()}, servers)
}

// ocrRepository copies the example's models. For the reference the networks become Python models.
func ocrRepository(root string, ours bool) error {
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	if err := os.CopyFS(root, os.DirFS("docs/examples/ocr/models")); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(root, "ocr_bls")); err != nil || ours {
		return err
	}
	for _, name := range []string{"text_detection", "text_recognition"} {
		path := filepath.Join(root, name, "config.pbtxt")
		config, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := strings.Replace(string(config), `"onnxruntime"`, `"python"`, 1)
		if changed == string(config) {
			return fmt.Errorf("%s does not name the backend onnxruntime", path)
		}
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			return err
		}
		versions, err := filepath.Glob(filepath.Join(root, name, "[0-9]*"))
		if err != nil {
			return err
		}
		for _, v := range versions {
			if err := os.WriteFile(filepath.Join(v, "model.py"), []byte(ocrPython), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
