package imports

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A journal comes from a folder that others may write. Whatever it says, it names folders in the repository.
func FuzzReadJournal(f *testing.F) {
	for _, text := range []string{"", "{", "[]", "null", `{"place":"m","hidden":".nereid-ABCDEFGHIJKLMNOP"}`,
		`{"place":"..","hidden":"."}`, `{"place":"/","hidden":""}`, `{"place":"a/b","hidden":"../h"}`, `{"place":5}`,
		`{"place":"a\u0000b"}`} {
		f.Add([]byte(text))
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(folder, journalName)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := readJournal(folder, journalName)
		if err != nil || j == nil {
			t.Fatalf("readJournal = %v, %v", j, err)
		}
		defer j.close()
		if (j.Place == "") != (j.Hidden == "") {
			t.Errorf("half of a journal: %q, %q", j.Place, j.Hidden)
		}
		for _, name := range []string{j.Place, j.Hidden} {
			if name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				t.Errorf("%q is no name of a folder in the repository", name)
			}
		}
	})
}
