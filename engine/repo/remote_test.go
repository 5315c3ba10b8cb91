package repo

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// bucket is a Remote with objects by their paths, which are never copied.
type bucket struct {
	paths []string
	local string
}

func (b *bucket) List(string) (all []File, _ error) {
	for _, p := range b.paths {
		all = append(all, File{Path: p, Tag: "t"})
	}
	return all, nil
}

func (b *bucket) Folder(model string) string { return filepath.Join(b.local, model) }

func (b *bucket) Fetch(context.Context, string, []File, func(string) bool, Progress) error {
	return nil
}

// A version of a remote model may be a folder alone, as one of an ensemble: a bucket has a marker of it, or a file that
// does not count.
func TestVersionsWithoutFiles_A005_A016(t *testing.T) {
	b := &bucket{local: t.TempDir(), paths: []string{
		"ens/config.pbtxt", "ens/1/", "ens/2/.keep", "ens/3", "ens/04/", "ens/sub/5/", "folder/", "folder/1/",
	}}
	models, _ := Scan(Options{Roots: []string{"s3://b"}, Remotes: map[string]Remote{"s3://b": b}})
	ens := models["ens"]
	if len(models) != 1 || ens == nil || ens.Err != nil || !slices.Equal(ens.Numbers(), []int64{1, 2}) {
		t.Fatalf("models %v, versions of ens %v; want ens alone, with 1 and 2", models, ens.Numbers())
	}
	for _, n := range []string{"1", "2"} {
		if err := ens.FetchVersion(t.Context(), int64(n[0]-'0'), nil); err != nil {
			t.Error(err)
		}
		if entries, err := os.ReadDir(filepath.Join(ens.Folder, n)); err != nil || len(entries) != 0 {
			t.Errorf("the folder of version %s has %v, %v", n, entries, err)
		}
	}
}
