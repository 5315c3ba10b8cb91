package onnxruntime

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/status"
)

// checkFile refuses a model file that declares more data than there is, or that refers to files outside the model's
// folder. ONNX Runtime itself verifies files in its own format (.ort).
func checkFile(path string, s backend.Spec) (*onnxfile.Info, error) {
	if strings.HasSuffix(path, ".ort") {
		unread := onnxfile.Danger{Op: "the graph", Why: "is in ONNX Runtime's own format, which is not read"}
		return &onnxfile.Info{Ops: map[string]int{"unknown": 1}, Dangers: []onnxfile.Danger{unread}}, nil
	}
	folder := s.ModelFolder
	if rel, err := filepath.Rel(folder, path); folder == "" || err != nil || !filepath.IsLocal(rel) {
		folder = filepath.Dir(path)
	}
	if file, err := os.Stat(path); err == nil && file.Size() == 0 {
		return nil, status.Errorf(status.Internal,
			"onnx runtime error 2: Load model from %s failed:No graph was found in the protobuf. The file is empty; "+
				"copy or export it again", path)
	}
	info, err := onnxfile.Check(path, folder)
	switch {
	case err == nil:
		return info, nil
	case errors.Is(err, onnxfile.ErrMalformed):
		s.Log.Warn("model file is damaged", "model", s.ModelName, "file", path, "reason", err)
		return nil, status.Errorf(status.Internal,
			"onnx runtime error 7: Load model from %s failed:Protobuf parsing failed. %s", path,
			describeFile(path, err))
	}
	return nil, status.Errorf(status.InvalidArg, "model file %s: %w", path, err)
}

// describeFile returns a sentence that says what a damaged model file contains and how to correct it.
func describeFile(path string, err error) string {
	head := make([]byte, 64)
	f, ferr := os.Open(path)
	if ferr == nil {
		n, _ := io.ReadFull(f, head) // a short file has fewer
		head, ferr = head[:n], f.Close()
	}
	line, _, _ := strings.Cut(string(head), "\n")
	switch {
	case ferr != nil:
	case strings.HasPrefix(line, "version https://git-lfs"):
		return "The file is a Git LFS pointer in place of the model; run git lfs pull in the repository that it " +
			"came from"
	case strings.HasPrefix(line, "PK\x03\x04"):
		return "The file is a zip archive (a PyTorch model, or one to unpack first); give an ONNX model"
	case line != "" && utf8.Valid(head[:len(line)]) &&
		strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != '\r' && r != '\t' }) < 0:
		return fmt.Sprintf("The file is text (%q); give an ONNX model", line)
	}
	return fmt.Sprintf("The file is cut off or damaged (%v); copy or export it again", err)
}
