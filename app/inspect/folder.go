package inspect

import (
	"os"
	"path/filepath"
	"strconv"

	"nereid/engine/system/glob"
)

// ModelFolder reports whether path is the folder of one model and not a repository: it has a config.pbtxt, or a folder
// whose name is a number and which has a model file. above is then the repository that was probably meant.
func ModelFolder(path string) (above string, is bool) {
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
		if len(glob.In(path, e.Name()+"/model.*")) > 0 {
			return filepath.Dir(path), true
		}
	}
	return "", false
}
