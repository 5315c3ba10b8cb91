package model

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// readLabels reads the label files that the outputs name: one label a line, the first line for class 0. It returns
// InvalidArg for a file that cannot be read.
func readLabels(folder string, cfg *inferencepb.ModelConfig) (map[string][]string, error) {
	var labels map[string][]string
	for _, out := range cfg.GetOutput() {
		name := out.GetLabelFilename()
		if name == "" {
			continue
		}
		if !filepath.IsLocal(name) {
			return nil, status.Errorf(status.InvalidArg,
				"output '%s' of model '%s': label_filename %q must be inside the model's folder",
				out.GetName(), cfg.GetName(), name)
		}
		b, err := readFile(folderOf(folder, name))
		if err != nil {
			return nil, status.Errorf(status.InvalidArg, "output '%s' of model '%s': cannot read label_filename: %w",
				out.GetName(), cfg.GetName(), err)
		}
		if labels == nil {
			labels = map[string][]string{}
		}
		text := strings.TrimRight(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
		if text != "" {
			labels[out.GetName()] = strings.Split(text, "\n")
		}
	}
	return labels, nil
}

// maxFile bounds what is read of a label or warmup file.
const maxFile = 1 << 30

// readFile reads a regular file. Others are refused unopened: opening a pipe waits for a writer, and a device may have
// no end.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", path, info.Size(), maxFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	return io.ReadAll(io.LimitReader(f, maxFile))
}
