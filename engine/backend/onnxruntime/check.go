package onnxruntime

import (
	"errors"
	"path/filepath"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/status"
)

// checkFile refuses a model file that would make the runtime read what is not there or not the model's. Files in ONNX
// Runtime's own format (.ort) are left to its verifier.
func checkFile(path string, s backend.Spec) (*onnxfile.Info, error) {
	if strings.HasSuffix(path, ".ort") {
		return &onnxfile.Info{Ops: map[string]int{"unknown": 1}}, nil
	}
	folder := s.ModelFolder
	if rel, err := filepath.Rel(folder, path); folder == "" || err != nil || !filepath.IsLocal(rel) {
		folder = filepath.Dir(path)
	}
	info, err := onnxfile.Check(path, folder)
	switch {
	case err == nil:
		return info, nil
	case errors.Is(err, onnxfile.ErrMalformed):
		s.Log.Warn("model file is damaged", "model", s.ModelName, "file", path, "reason", err)
		return nil, status.Errorf(status.Internal, "onnx runtime error 7: Load model from %s failed:Protobuf parsing failed.", path)
	}
	return nil, status.Errorf(status.InvalidArg, "model file %s: %w", path, err)
}
