package model

import (
	"os"
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
		b, err := os.ReadFile(folderOf(folder, name))
		if err != nil {
			return nil, status.Errorf(status.InvalidArg, "output '%s' of model '%s': cannot read label_filename: %w", out.GetName(), cfg.GetName(), err)
		}
		if labels == nil {
			labels = map[string][]string{}
		}
		text := strings.TrimRight(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
		labels[out.GetName()] = strings.Split(text, "\n")
	}
	return labels, nil
}
