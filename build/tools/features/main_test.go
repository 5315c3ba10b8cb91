package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository writes a small repository and returns its root.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	features = "id,title,priority,description\nA001,one,P0,does one\nA002,two,P1,does two\n"
	page     = "# Not supported\n\n## Area\n\n### Part\n\n| id | title | reason |\n|---|---|---|\n| A002 | two \\| " +
		"half | not built yet |\n"
)

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name    string
		files   map[string]string
		results string
		wantErr bool
	}{
		{name: "a Go function", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001() {}\n"}},
		{name: "a Go subtest", files: map[string]string{"x_test.go": "package x\nvar s = \"A001 does one\"\n"}},
		{name: "a Python test", files: map[string]string{"test_x.py": "def test_A001_one():\n    pass\n"}},
		{name: "a title in the browser tests",
			files: map[string]string{"frontend/e2e/x.mjs": "test('A001 one', () => {})\n"}},
		{name: "no test at all", files: map[string]string{"x.go": "package x\n// A001\n"}, wantErr: true},
		{name: "tested and excused", files: map[string]string{"x_test.go": "package x\nfunc TestAll_A001_A002() {}\n"},
			wantErr: true},
		{name: "an id that is only part of a word",
			files: map[string]string{"x_test.go": "package x\nfunc TestXA001b() {}\n"}, wantErr: true},
		{name: "a promise with its test", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001() {}\n",
			"docs/reliability.md": "| A1 | a fault | a promise | `TestOne_A001` |\n"}},
		{name: "a promise with a test that is gone", wantErr: true, files: map[string]string{
			"x_test.go":           "package x\nfunc TestOne_A001() {}\n",
			"docs/reliability.md": "| A1 | a fault | a promise | `TestGone` |\n"}},
		{name: "a promise without a test", wantErr: true, files: map[string]string{
			"x_test.go":           "package x\nfunc TestOne_A001() {}\n",
			"docs/reliability.md": "| A1 | a fault | a promise |  |\n"}},
		{name: "named and passed", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			results: "pass\tgo: x TestOne_A001\n"},
		{name: "named and skipped", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			results: "skip\tgo: x TestOne_A001\n", wantErr: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.files["docs/features.csv"], tt.files["docs/not-supported.md"] = features, page
			if tt.files["docs/reliability.md"] == "" {
				tt.files["docs/reliability.md"] = "# Reliability\n"
			}
			root, results := repository(t, tt.files), ""
			if tt.results != "" {
				results = filepath.Join(t.TempDir(), "names.tsv")
				if err := os.WriteFile(results, []byte(tt.results), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := run(root, results, false); (err != nil) != tt.wantErr {
				t.Errorf("run = %v; want an error: %v", err, tt.wantErr)
			}
		})
	}
}

func TestFixDropsTestedFeatures(t *testing.T) {
	root := repository(t, map[string]string{
		"docs/features.csv": features, "docs/not-supported.md": page, "docs/reliability.md": "# Reliability\n",
		"x_test.go": "package x\nfunc TestAll_A001_A002() {}\n",
	})
	if err := run(root, "", true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs/not-supported.md"))
	if err != nil || strings.TrimSpace(string(got)) != "# Not supported" {
		t.Errorf("page after -fix = %q, %v; want only its title", got, err)
	}
}
