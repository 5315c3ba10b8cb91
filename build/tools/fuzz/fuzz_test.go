package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	src := "package x\n\nfunc FuzzParse(f *testing.F) {}\n\nfunc helperFuzz(f *testing.F) {}\n"
	if err := os.WriteFile(filepath.Join(root, "x_test.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := find(root)
	if err != nil || len(got) != 1 || got[0].name != "FuzzParse" {
		t.Errorf("find = %v, %v; want FuzzParse alone", got, err)
	}
}
