package repo

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// listing is a Remote with one object. It records what is fetched.
type listing struct {
	file    File
	fetched []File
}

func (l *listing) List(string) ([]File, error) { return []File{l.file}, nil }
func (l *listing) Folder(model string) string  { return filepath.Join("/local/copies", model) }
func (l *listing) Fetch(_ context.Context, _ string, files []File, _ func(string) bool, _ Progress) error {
	l.fetched = append(l.fetched, files...)
	return nil
}

// FuzzRemoteNames checks that no name of an object in a bucket leads out of its model's local folder.
func FuzzRemoteNames(f *testing.F) {
	for _, name := range []string{
		"m/1/model.onnx", "m/config.pbtxt", "m/../../x", "../x/y", "m/1/../../../../etc/passwd", "m//x", "m/./x",
		`m/..\x`, "m/\x00", "m/.hidden", "/etc/passwd", "m/1/a/", "..", "m/1/\xff",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		l := &listing{file: File{Path: name, Size: 1, Tag: "t"}}
		models, err := scanRemote("s3://bucket", l, &Options{ConfigName: "host"})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range models {
			if m.Config != "" && !inside(m.Config, m.Folder) {
				t.Errorf("%q: the configuration is %s", name, m.Config)
			}
			if !inside(m.Folder, "/local/copies") || filepath.Dir(m.Folder) != "/local/copies" {
				t.Errorf("%q: the folder is %s", name, m.Folder)
			}
			if err := m.fetch(t.Context(), func(string) bool { return true }, nil); err != nil {
				t.Fatal(err)
			}
			for _, file := range l.fetched {
				if local := filepath.Join("/local/copies", filepath.FromSlash(file.Path)); !inside(local, m.Folder) {
					t.Errorf("%q is fetched to %s", name, local)
				}
			}
		}
	})
}

// inside reports whether path is below folder.
func inside(path, folder string) bool {
	return strings.HasPrefix(path, folder+string(filepath.Separator))
}
