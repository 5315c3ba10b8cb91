package imports

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/app/durable"
	"nereid/store"
)

// TestCleanUp_B23: whatever the moment of a crash, the next start leaves whole models, and nothing is lost.
func TestCleanUp_B23(t *testing.T) {
	const hidden = ".nereid-ABCDEFGHIJKLMNOP"
	for _, tt := range []struct {
		name  string
		files map[string]string // in the repository; "JOURNAL" is that of an import of m
		locks string            // the journal that another server has
		want  []string          // files and contents afterwards; those of the trash are under "trash/"
	}{
		{"half copied", map[string]string{"m/x": "old", hidden + "/.nereid-import": "JOURNAL", hidden + "/x": "new"},
			"", []string{"m/x=old"}},
		{"a journal that is half written", map[string]string{"m/x": "old", hidden + "/.nereid-import": "{"}, "",
			[]string{"m/x=old"}},
		{"in its place, not in service", map[string]string{"m/.nereid-import": "JOURNAL", "m/x": "new",
			hidden + "/x": "old"}, "", []string{"m/x=old", "trash/x=new"}},
		{"new, in its place, not in service", map[string]string{"m/.nereid-import": "JOURNAL", "m/x": "new"}, "",
			[]string{"trash/x=new"}},
		{"in service", map[string]string{"m/.nereid-imported": "JOURNAL", "m/x": "new", hidden + "/x": "old"}, "",
			[]string{"m/x=new", "trash/x=old"}},
		{"in service, the old one is in the trash", map[string]string{"m/.nereid-imported": "JOURNAL", "m/x": "new"},
			"", []string{"m/x=new"}},
		{"between two renames", map[string]string{hidden + "/.nereid-import": "JOURNAL", hidden + "/x": "new",
			hidden + "-old/x": "old"}, "", []string{"m/x=old"}},
		{"after two renames", map[string]string{"m/.nereid-import": "JOURNAL", "m/x": "new", hidden + "-old/x": "old"},
			"", []string{"m/x=old", "trash/x=new"}},
		{"half moved between file systems", map[string]string{hidden + "-part/x": "half"}, "", nil},
		{"of an older program", map[string]string{hidden + "/x": "old"}, "", []string{"trash/x=old"}},
		{"of another server, being copied", map[string]string{hidden + "/.nereid-import": "JOURNAL"},
			hidden + "/.nereid-import", []string{hidden + "/.nereid-import=JOURNAL"}},
		{"of another server, being loaded", map[string]string{"m/.nereid-import": "JOURNAL", hidden + "/x": "old"},
			"m/.nereid-import", []string{hidden + "/x=old", "m/.nereid-import=JOURNAL"}},
		{"a journal that points elsewhere", map[string]string{
			hidden + "/.nereid-import": `{"place":"../../p","hidden":"../../h"}`}, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHandler(t)
			root := h.Catalog.Repositories[0]
			journal := `{"place":"m","hidden":"` + hidden + `"}`
			for path, text := range tt.files {
				at := filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(strings.Replace(text, "JOURNAL", journal, 1)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if tt.locks != "" {
				f, err := os.Open(filepath.Join(root, tt.locks))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if err := durable.Lock(f); err != nil {
					t.Fatal(err)
				}
			}
			for round := range 2 { // the second start finds nothing to do
				h.cleanUp()
				got := append(contents(t, root, "", journal), contents(t, h.Trash.Dir, "trash/", journal)...)
				if !slices.Equal(got, tt.want) {
					t.Errorf("start %d: the folders have %q, want %q", round+1, got, tt.want)
				}
			}
		})
	}
}

// The revision of an import says after a crash what became of it, also if its configuration is the one that was there.
func TestCleanUpSettlesTheRevisionOfAnImport_B23(t *testing.T) {
	const hidden = ".nereid-ABCDEFGHIJKLMNOP"
	for _, tt := range []struct {
		name, folder, journal string
		want                  api.SaveOutcome
	}{
		{"complete, not in its place", hidden, journalName, api.SaveFailed},
		{"in its place, not in service", "m", journalName, api.SaveFailed},
		{"in service", "m", placedName, api.SaveLoaded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHandler(t)
			folder := filepath.Join(h.Catalog.Repositories[0], tt.folder)
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			journal := `{"place":"m","hidden":"` + hidden + `"}`
			if err := os.WriteFile(filepath.Join(folder, tt.journal), []byte(journal), 0o600); err != nil {
				t.Fatal(err)
			}
			text := "max_batch_size: 4\n"
			rev, err := h.Writer.Store.AddRevision(t.Context(), store.Revision{Model: "m", Source: store.SourceImport,
				Before: &text, After: &text})
			if err != nil {
				t.Fatal(err)
			}
			h.cleanUp()
			if rev, err = h.Writer.Store.Revision(t.Context(), rev.ID); err != nil || rev.Outcome != string(tt.want) {
				t.Errorf("the outcome is %q, %v; want %q", rev.Outcome, err, tt.want)
			}
		})
	}
}

// contents lists the files below a folder. Of an item of the trash it lists the model.
func contents(t *testing.T, dir, prefix, journal string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "item.json" {
			return err
		}
		text, err := os.ReadFile(p)
		rel := strings.TrimPrefix(p, dir+"/")
		if _, in, ok := strings.Cut(rel, "/model/"); ok {
			rel = in
		}
		out = append(out, prefix+rel+"="+strings.Replace(string(text), journal, "JOURNAL", 1))
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return out
}
