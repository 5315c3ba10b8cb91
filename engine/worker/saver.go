package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"nereid/engine/infer"
)

// The bounds of what is saved in a folder.
const (
	maxSavedFiles = 32
	maxSavedBytes = 256 << 20
)

// saver writes inputs that crash a model into a folder, as bodies of HTTP requests in Triton's binary form. The
// number at the end of a file's name is the length of the JSON part, which goes into the header
// Inference-Header-Content-Length.
type saver struct {
	folder string // "": nothing is saved
	mu     sync.Mutex
}

func (s *saver) save(r *infer.Request, d digest, log *slog.Logger) {
	if s.folder == "" {
		return
	}
	path, err := s.write(r, d)
	if err != nil {
		log.Warn("an input that crashes a model's process was not saved", "model", r.ModelName, "err", err)
		return
	}
	log.Info("an input that crashes a model's process was saved", "model", r.ModelName, "file", path)
}

// write writes the file, unless it exists or the folder is full.
func (s *saver) write(r *infer.Request, d digest) (path string, err error) {
	head, err := json.Marshal(headOf(r))
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkRoom(int64(len(head) + inputBytes(r))); err != nil {
		return "", err
	}
	path = filepath.Join(s.folder, fmt.Sprintf("%s-%x-%d.bin", r.ModelName, d[:8], len(head)))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(head)
	for i := range r.Inputs {
		if err == nil {
			_, err = f.Write(r.Inputs[i].Data)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}

// checkRoom reports a folder that is full. Files are never removed: they are the operator's.
func (s *saver) checkRoom(more int64) error {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return err
	}
	files := 0
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".bin") {
			files++
			more += info.Size()
		}
	}
	if files >= maxSavedFiles || more > maxSavedBytes {
		return fmt.Errorf("%s would have more than %d files or %d bytes; remove some", s.folder, maxSavedFiles,
			maxSavedBytes)
	}
	return nil
}

// headOf returns the JSON part of a request with binary inputs.
func headOf(r *infer.Request) any {
	type input struct {
		Name       string         `json:"name"`
		Datatype   string         `json:"datatype"`
		Shape      []int64        `json:"shape"`
		Parameters map[string]int `json:"parameters"`
	}
	inputs := make([]input, 0, len(r.Inputs))
	for _, t := range r.Inputs {
		inputs = append(inputs, input{t.Name, t.DataType.String(), t.Shape,
			map[string]int{"binary_data_size": len(t.Data)}})
	}
	return map[string]any{"inputs": inputs}
}
