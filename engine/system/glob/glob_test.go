package glob_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nereid/engine/system/glob"
)

func TestInFindsFilesInFoldersWhoseNamesLookLikePatterns(t *testing.T) {
	for _, name := range []string{"plain", "one[1]", "open[", "star*", "what?", `back\slash`, "-a space"} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), name)
			var want []string
			for _, file := range []string{"1/a.so", "2/b.so", "2/c.txt"} {
				path := filepath.Join(folder, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if filepath.Ext(file) == ".so" {
					want = append(want, path)
				}
			}
			if got := glob.In(folder, "*/*.so"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestInFindsNothingWithoutAFolder(t *testing.T) {
	for _, folder := range []string{"", filepath.Join(t.TempDir(), "missing")} {
		if got := glob.In(folder, "*"); len(got) > 0 {
			t.Errorf("in %q it found %q", folder, got)
		}
	}
}
