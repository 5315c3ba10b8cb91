package imports

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"nereid/app/console/configs"
	"nereid/engine/backend/onnxruntime/onnxfile"
)

const (
	labelFile  = "labels.txt"
	maxLabels  = 100_000
	labelBytes = 4 << 20 // of a file that may be of labels
)

var (
	labelNames = regexp.MustCompile(`(?i)(label|class|names).*\.txt$|\.names$`)
	// literals are the texts, numbers and signs of a Python or JSON list or map.
	literals = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d+|[][{}:,]|\S`)
)

// useLabels gives the output of a generated configuration that has as many values as there are labels a label file: one
// that came with the model, or one made of the labels that its ONNX file has. It reports whether it made one.
func useLabels(dir string, versions []string, d *configs.Checked) (made bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // the check reports it
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > labelBytes ||
			!labelNames.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil && d.UseLabels(e.Name(), len(strings.Split(strings.TrimRight(string(text), "\r\n"), "\n"))) {
			return false
		}
	}
	if len(versions) == 0 {
		return false
	}
	props, err := onnxfile.Metadata(filepath.Join(dir, versions[len(versions)-1], "model.onnx"))
	if err != nil {
		return false // not of ONNX, or broken
	}
	for _, key := range []string{"names", "labels", "classes", "id2label"} {
		labels := parseLabels(props[key])
		if len(labels) == 0 || !d.UseLabels(labelFile, len(labels)) {
			continue
		}
		path := filepath.Join(dir, labelFile)
		if _, err := os.Lstat(path); err == nil {
			return false // a file of that name came with the model, and has other labels
		}
		return os.WriteFile(path, []byte(strings.Join(labels, "\n")+"\n"), 0o600) == nil
	}
	return false
}

// parseLabels reads labels from a Python or JSON list, or from a map from their numbers: {0: 'person', 1: 'car'}. It
// returns nil if the text has another form, or the numbers are not 0, 1, 2 and so on.
func parseLabels(text string) []string {
	tokens := literals.FindAllString(text, maxLabels*4+2)
	if len(tokens) < 3 || len(tokens) > maxLabels*4+1 {
		return nil
	}
	first, last := tokens[0], tokens[len(tokens)-1]
	isMap := first == "{" && last == "}"
	if !isMap && (first != "[" || last != "]") {
		return nil
	}
	var out []string
	for rest := tokens[1 : len(tokens)-1]; len(rest) > 0; {
		if isMap {
			if len(rest) < 3 || rest[1] != ":" || strings.Trim(rest[0], `'"`) != strconv.Itoa(len(out)) {
				return nil
			}
			rest = rest[2:]
		}
		label, ok := unquoted(rest[0])
		if rest = rest[1:]; !ok || len(rest) > 0 && rest[0] != "," {
			return nil
		}
		out, rest = append(out, label), rest[min(1, len(rest)):]
	}
	return out
}

// unquoted returns the text of a quoted literal, on one line.
func unquoted(literal string) (text string, ok bool) {
	if len(literal) < 2 || !strings.ContainsAny(literal[:1], `'"`) {
		return "", false
	}
	inner := literal[1 : len(literal)-1]
	if literal[0] == '\'' { // as Go and JSON write it
		inner = strings.ReplaceAll(strings.ReplaceAll(inner, `\'`, `'`), `"`, `\"`)
	}
	if plain, err := strconv.Unquote(`"` + inner + `"`); err == nil {
		inner = plain
	}
	return strings.Join(strings.Fields(inner), " "), true
}
