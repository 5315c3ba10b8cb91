package console_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
)

// withNames is an ONNX file that has only the metadata property names.
func withNames(value string) string {
	text := func(number byte, s string) string {
		return string(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(s)))) + s
	}
	return text(14, text(1, "names")+text(2, value))
}

func TestImportsUseLabels(t *testing.T) {
	four := "a\nb\nc\nd\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // the label file
	}{
		{"a file of labels", map[string]string{"m.onnx": "good", "my_classes.txt": four}, "my_classes.txt"},
		{"a file of names", map[string]string{"m.onnx": "good", "coco.names": four}, "coco.names"},
		{"another text", map[string]string{"m.onnx": "good", "notes.txt": four}, ""},
		{"another number of labels", map[string]string{"m.onnx": "good", "labels.txt": "a\nb\n"}, ""},
		{"in the metadata", map[string]string{"m.onnx": withNames(`{0: 'a', 1: 'b', 2: 'c', 3: 'd'}`)}, "labels.txt"},
		{"another number in the metadata", map[string]string{"m.onnx": withNames(`['a', 'b']`)}, ""},
		{"the file goes before the metadata",
			map[string]string{"m.onnx": withNames(`['1', '2', '3', '4']`), "labels.txt": four}, "labels.txt"},
		{"a configuration stays as it is", map[string]string{"m/1/model.onnx": "good", "m/labels.txt": four,
			"m/config.pbtxt": `backend: "onnxruntime"`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, engine.ModeExplicit)
			im := r.Upload("m.onnx", tt.files)
			if got := strings.Contains(im.Config, `label_filename: "`+tt.want+`"`); got != (tt.want != "") ||
				tt.want == "" && strings.Contains(im.Config, "label_filename") {
				t.Fatalf("want label file %q in %s", tt.want, im.Config)
			}
			if im = commit(r, im, api.ImportCommit{}); im.State != api.ImportLoaded {
				t.Fatalf("import = %+v", im)
			}
			m := get[api.ModelDetail](r, 200, "GET", "/api/models/"+im.Name, nil)
			if want := tt.want != ""; slices.Equal(m.Labels["OUTPUT0"], []string{"a", "b", "c", "d"}) != want {
				t.Errorf("labels = %v", m.Labels)
			}
		})
	}
}
