package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEveryTargetRunsAndAFaultIsFound(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	t.Setenv("GOFLAGS", "-mod=mod")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const fuzzer = "\nfunc Fuzz%(f *testing.F) { f.Add([]byte(\"ab\")); f.Fuzz(func(t *testing.T, b []byte) { @ }) }\n"
	target := func(name, body string) string { return strings.NewReplacer("%", name, "@", body).Replace(fuzzer) }
	const head = "package x\n\nimport \"testing\"\n"
	write("go.mod", "module example\n\ngo 1.26\n")
	write("good/x_test.go", head+target("One", "")+target("Two", ""))
	write("bad/x_test.go", head+target("Three", `if len(b) > 0 && b[0] != 'a' { t.Fatal("found") }`))
	if err := run(t.Context(), time.Second, "One|Two"); err != nil {
		t.Error("targets without faults:", err)
	}
	if err := run(t.Context(), time.Minute, "Three"); err == nil {
		t.Error("the fault was not found")
	}
	if kept, _ := filepath.Glob("bad/testdata/fuzz/FuzzThree/*"); len(kept) != 1 {
		t.Error("inputs that were kept:", kept)
	}
	write("bad/x_test.go", head+"nonsense")
	if err := run(t.Context(), time.Second, "One"); err != nil {
		t.Error("a package of no wanted target must not be built:", err)
	}
}
