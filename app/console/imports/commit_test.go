package imports

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
)

// A folder that somebody copies to the place of a new model while the import is under way stays, and the import fails.
func TestImportKeepsAFolderThatAppearedMeanwhile_B23(t *testing.T) {
	for name, files := range map[string][]string{"a model": {"1/model.onnx"}, "an empty folder": nil} {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t)
			root := h.Catalog.Repositories[0]
			place, part := filepath.Join(root, "m"), folders.Hidden(root)
			write := func(folder, file, text string) {
				t.Helper()
				at := filepath.Join(folder, file)
				err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644))
				if err != nil {
					t.Fatal(err)
				}
			}
			write(part, "1/model.onnx", "ours")
			j, err := writeJournal(part, place)
			if err != nil {
				t.Fatal(err)
			}
			defer j.close()
			if err := os.Mkdir(place, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				write(place, f, "theirs")
			}
			replaced, err := h.swapAndLoad(t.Context(), j, part, place, incoming{name: "m"})
			var refused *rest.Error
			if replaced || !errors.As(err, &refused) || refused.Code != api.CodeConflict ||
				!strings.Contains(err.Error(), "stays") {
				t.Errorf("replaced %t, %v; want a conflict", replaced, err)
			}
			for _, f := range files {
				if text, err := os.ReadFile(filepath.Join(place, f)); err != nil || string(text) != "theirs" {
					t.Errorf("the folder has %q, %v", text, err)
				}
			}
			if list, err := os.ReadDir(place); err != nil || len(list) != len(files) {
				t.Errorf("the folder has %v, %v", list, err)
			}
		})
	}
}
