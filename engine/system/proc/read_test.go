package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestReadFileReadsAsTheStandardLibraryDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 4095, 4096, 4097, 100_000} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := ReadFile(path); err != nil || len(b) != size || len(bytes.Trim(b, "x")) != 0 {
			t.Errorf("%d bytes of %d, %v", len(b), size, err)
		}
	}
	if _, err := ReadFile(path + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	if _, err := ReadFile(filepath.Dir(path)); err == nil {
		t.Error("a folder is read")
	}
}
