package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	header = "# package: ./x\n# tests: TestA\n# broken: the sum is wrong\n"
	diff   = "\n--- a/x/x.go\n+++ b/x/x.go\n@@ -2,3 +2,3 @@\n const one = 1\n-const sum = 1 + 1\n+const sum = 1 - " +
		"1\n const two = 2\n"
)

func TestReadHeader(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		proofs   int // 0: refused
	}{
		{name: "one pair", in: header + diff, proofs: 1},
		{name: "two pairs", in: "# package: ./y\n# tests: TestB\n" + header + diff, proofs: 2},
		{name: "no diff", in: header},
		{name: "no tests", in: "# package: ./x\n# broken: b\n" + diff},
		{name: "nothing said to be broken", in: "# package: ./x\n# tests: TestA\n" + diff},
		{name: "tests without a package", in: "# tests: TestA\n# broken: b\n" + diff},
		{name: "a bad regular expression", in: "# package: ./x\n# tests: Test(\n# broken: b\n" + diff},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m mutant
			err := m.readHeader(tt.in)
			if (err != nil) != (tt.proofs == 0) || err == nil && len(m.proofs) != tt.proofs {
				t.Errorf("readHeader = %v with %d pairs, want %d pairs", err, len(m.proofs), tt.proofs)
			}
		})
	}
}

func TestApplyTo(t *testing.T) {
	for _, tt := range []struct{ name, source, wantErr string }{
		{name: "the file is as the patch knows it",
			source: "package x\nconst one = 1\nconst sum = 1 + 1\nconst two = 2\n"},
		{name: "lines moved",
			source: "// Package x adds.\n\npackage x\nconst one = 1\nconst sum = 1 + 1\nconst two = 2\n"},
		{name: "the line has changed", source: "package x\nconst one = 1\nconst sum = 2 + 2\nconst two = 2\n",
			wantErr: "no longer applies"},
		{name: "the file is gone", wantErr: "no longer applies"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, copies := t.TempDir(), t.TempDir()
			file, patch := filepath.Join(root, "x/x.go"), filepath.Join(root, "sum.patch")
			write(t, patch, header+diff)
			if tt.source != "" {
				write(t, file, tt.source)
			}
			overlay, err := applyTo(context.Background(), patch, root, copies)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("applyTo = %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Replace map[string]string }
			data, err := os.ReadFile(overlay)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			mutated, err := os.ReadFile(got.Replace[file])
			if err != nil || !strings.Contains(string(mutated), "1 - 1") {
				t.Errorf("the copy is %q, %v", mutated, err)
			}
			if original, _ := os.ReadFile(file); string(original) != tt.source {
				t.Errorf("the original changed: %q", original)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCountEvents(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     result
	}{
		{name: "a pass and a failure", in: `{"Action":"pass","Test":"TestA"}
{"Action":"fail","Test":"TestB"}
{"Action":"fail"}`, want: result{passed: 1, failed: 1}},
		{name: "a package that dies", in: `{"Action":"fail"}`, want: result{failed: 1}},
		{name: "a mutant that does not compile", in: `{"Action":"build-fail"}
{"Action":"fail","FailedBuild":"x"}`, want: result{broken: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := countEvents([]byte(tt.in)); got != tt.want {
				t.Errorf("countEvents = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestPatchesApply checks the patches of the repository, which must follow the code.
func TestPatchesApply(t *testing.T) {
	list, err := readMutants("../../mutants")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			if _, err := applyTo(context.Background(), m.patch, "../../..", t.TempDir()); err != nil {
				t.Error(err)
			}
		})
	}
}
