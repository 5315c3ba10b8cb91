package desktop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// NamesFile reports whether the first word of a command line, which is no command, is meant as a file. Other words are
// misspelled commands.
func NamesFile(word string) bool {
	_, err := os.Lstat(word)
	return err == nil || strings.ContainsRune(word, filepath.Separator) || filepath.Ext(word) != ""
}

// Absolute returns the absolute paths of files of the command line. A file that does not exist is an error.
func Absolute(files []string) ([]string, error) {
	paths := make([]string, len(files))
	for i, file := range files {
		var err error
		if paths[i], err = filepath.Abs(file); err != nil {
			return nil, err
		}
		if _, err := os.Stat(paths[i]); err != nil {
			var p *fs.PathError
			if errors.As(err, &p) {
				err = p.Err // it has the path in other words
			}
			return nil, fmt.Errorf("%s cannot be opened: %w", file, err)
		}
	}
	return paths, nil
}

// maxShow is the largest body of a second start's request, in bytes. Linux allows command lines of 2 MiB.
const maxShow = 8 << 20

// showRequest is the body of a second start's request.
type showRequest struct {
	Files []string `json:"files"` // to open; absolute
}

func parseShow(body io.Reader) (files []string, err error) {
	var s showRequest
	if err := json.NewDecoder(io.LimitReader(body, maxShow)).Decode(&s); err != nil {
		return nil, fmt.Errorf("the request of a second start: %w", err)
	}
	for _, file := range s.Files {
		if !filepath.IsAbs(file) {
			return nil, fmt.Errorf("the request of a second start: %q is no absolute path", file)
		}
	}
	return s.Files, nil
}
