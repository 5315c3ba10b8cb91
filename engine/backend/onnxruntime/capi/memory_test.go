package capi

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSharedAllocator runs the C code of the allocator alone, where allocations can be made to fail.
func TestSharedAllocator(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to make the program with")
	}
	program := filepath.Join(t.TempDir(), "memory_test")
	build := exec.CommandContext(t.Context(), cc, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fexceptions",
		"-pthread", "-o", program, filepath.Join("testdata", "memory_test.c"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), program).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
