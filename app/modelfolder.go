package app

import (
	"os"
	"path/filepath"
	"strconv"
)

// modelFolder tells whether path holds one model rather than models: a config.pbtxt, or a folder with a number for its
// name and a model file in it. above is the repository that was meant then.
func modelFolder(path string) (above string, is bool) {
	path, err := filepath.Abs(path)
	if err != nil || path == filepath.Dir(path) {
		return "", false
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		if e.Name() == "config.pbtxt" && !e.IsDir() {
			return filepath.Dir(path), true
		}
		if _, err := strconv.ParseUint(e.Name(), 10, 63); err != nil {
			continue
		}
		if files, err := filepath.Glob(filepath.Join(path, e.Name(), "model.*")); err == nil && len(files) > 0 {
			return filepath.Dir(path), true
		}
	}
	return "", false
}
