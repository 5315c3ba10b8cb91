package configs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFilesDigestFollowsNamesSizesAndTimes(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string, at time.Time) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Unix(1_700_000_000, 0)
	write("model.py", "one", at)
	write("sub/weights", "w", at)
	outside := filepath.Join(t.TempDir(), "labels")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{filepath.Join(folder, "labels"): outside, folder + "-link": folder} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	first := FilesDigest(folder)
	write("model.py", "two", at) // a copy that keeps size and time is taken for the same
	if again := FilesDigest(folder); first == "" || again != first {
		t.Errorf("of the same names, sizes and times: %q and %q", first, again)
	}
	seen := map[string]bool{first: true}
	for _, change := range []func(){
		func() { write("model.py", "two", at.Add(time.Second)) },
		func() { write("sub/weights", "ww", at) },
		func() { write("sub/more", "", at) },
		func() {
			if err := os.WriteFile(outside, []byte("cat"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		change()
		if d := FilesDigest(folder); seen[d] {
			t.Errorf("a change keeps the digest %q", d)
		} else {
			seen[d] = true
		}
	}
	if d := FilesDigest(folder + "-link"); d != FilesDigest(folder) {
		t.Errorf("a link to the folder has the digest %q", d)
	}
	if d := FilesDigest(filepath.Join(folder, "absent")); d != "" {
		t.Errorf("a folder that is absent has the digest %q", d)
	}
}
