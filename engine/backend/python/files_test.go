package python

import (
	"regexp"
	"slices"
	"testing"

	"nereid/engine/backend/python/pyrt"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
)

// The programs of the backends look for the files that the configuration's rules name.
func TestModelFilesOfTheBackendsInPython(t *testing.T) {
	word := regexp.MustCompile(`"([a-z0-9]+\.[a-z0-9]+)"`)
	for _, tt := range []struct {
		backend, runtime string
		table            string // the names in the program, in order
	}{
		{"pytorch", "", `(?m)^    FILES = .*$`},
		{"pytorch", "model.py", `(?m)^    CLASSES = [^#]*`},
		{"fil", "", `(?s)\n_FILES = \{.*?\}`},
	} {
		text, err := pyrt.Backends.ReadFile("backends/" + tt.backend + "/model.py")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, w := range word.FindAllSubmatch(regexp.MustCompile(tt.table).Find(text), -1) {
			names = append(names, string(w[1]))
		}
		want := modelconfig.ModelFiles(&inferencepb.ModelConfig{Backend: tt.backend, Runtime: tt.runtime})
		if !slices.Equal(names, want) {
			t.Errorf("%s with runtime %q looks for %q, want %q", tt.backend, tt.runtime, names, want)
		}
	}
}
