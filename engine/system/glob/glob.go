// Package glob finds files by patterns below a folder. It starts no goroutines.
package glob

import (
	"io/fs"
	"os"
	"path/filepath"
)

// In returns the paths below a folder that match a pattern, each with the folder before it. The pattern is that of
// path.Match, with slashes on all systems. Unlike in filepath.Glob, the name of the folder is no pattern: it may have
// brackets. What cannot be read is left out, and "" is no folder. In panics if the pattern is malformed.
func In(folder, pattern string) []string {
	found, err := fs.Glob(os.DirFS(folder), pattern)
	if err != nil {
		panic("glob: " + pattern + ": " + err.Error())
	}
	for i, name := range found {
		found[i] = filepath.Join(folder, filepath.FromSlash(name))
	}
	return found
}
