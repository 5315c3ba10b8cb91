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
func checkFile(path string, s backend.Spec) error {
	if strings.HasSuffix(path, ".ort") {
		return nil
	}
	folder := s.ModelFolder
	if rel, err := filepath.Rel(folder, path); folder == "" || err != nil || !filepath.IsLocal(rel) {
		folder = filepath.Dir(path)
	}
	err := onnxfile.Check(path, folder)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, onnxfile.ErrMalformed):
		s.Log.Warn("model file is damaged", "model", s.ModelName, "file", path, "reason", err)
		return status.Errorf(status.Internal, "onnx runtime error 7: Load model from %s failed:Protobuf parsing failed.", path)
	}
	return status.Errorf(status.InvalidArg, "model file %s: %w", path, err)
}
