package main

import (
	"os"
	"path/filepath"
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
	features = "id,title,priority,description,class\nA001,one,P0,does one,\nA002,two,P1,does two,\n"
	page     = "# Not supported\n\n## Area\n\n### Part\n\n| id | title | reason |\n|---|---|---|\n| A002 | two \\| " +
		"half | not built yet |\n"
)

const (
	deviationsHead = "id,protocol,request,triton,nereid,why\n"
	oneDeviation   = deviationsHead + "DV01,HTTP,a,b,c,d\n"
)

// deviates returns a repository with one deviation, whose id is in a test's source.
func deviates() map[string]string {
	const source = "package x\n// DV01\nfunc TestOne_A001() {}\n"
	return map[string]string{"x_test.go": source, "docs/deviations.csv": oneDeviation}
}

// example is a repository, the results of its tests, and whether run must find a fault.
type example struct {
	name    string
	files   map[string]string
	csv     string // more features
	results string // of the first stage; the others then have none, or did not run
	partly  bool
	commit  string // of the results
	wantErr bool
}

func (tt example) check(t *testing.T) {
	tt.files["docs/features.csv"], tt.files["docs/not-supported.md"] = features+tt.csv, page
	for path, text := range map[string]string{
		"docs/reliability.md": "# Reliability\n", "docs/deviations.csv": deviationsHead,
	} {
		if tt.files[path] == "" {
			tt.files[path] = text
		}
	}
	results := map[string]string{}
	for i, stage := range stages {
		switch {
		case tt.results == "" || tt.partly && i > 0:
		case i == 0:
			results[stage+".tsv"] = tt.commit + "\n" + tt.results
		default:
			results[stage+".tsv"] = tt.commit + "\n"
		}
	}
	if err := run(repository(t, tt.files), repository(t, results), ""); (err != nil) != tt.wantErr {
		t.Errorf("run = %v; want an error: %v", err, tt.wantErr)
	}
}

func TestNamesAndReasons(t *testing.T) {
	for _, tt := range []example{
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
		{name: "a promise with a test that failed", wantErr: true, files: map[string]string{
			"x_test.go":           "package x\nfunc TestOne_A001() {}\nfunc TestTwo() {}\n",
			"docs/reliability.md": "| A1 | a fault | a promise | `TestTwo` |\n"},
			results: "pass\tx TestOne_A001\nfail\tx TestTwo/a\npass\tx TestTwo/b\n"},
		{name: "an unknown id", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001_A009() {}\n"},
			wantErr: true},
		{name: "too many ids", files: map[string]string{
			"x_test.go": "package x\nfunc TestOne_A001() {}\nfunc TestAll_A001_A003_A004_A005_A006() {}\n"},
			csv: "A003,a,P0,b,\nA004,a,P0,b,\nA005,a,P0,b,\nA006,a,P0,b,\n", wantErr: true},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestResultsAndClasses(t *testing.T) {
	for _, tt := range []example{
		{name: "named and passed", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			results: "pass\tx TestOne_A001\n"},
		{name: "named and skipped", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			results: "skip\tx TestOne_A001\n", wantErr: true},
		{name: "one of two skipped", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			results: "pass\tx TestOne_A001/a\nskip\tx TestOne_A001/b\n", wantErr: true},
		{name: "named, and no stage had it", files: map[string]string{
			"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			results: "pass\tx TestOther\n", wantErr: true},
		{name: "named, and not every stage ran", files: map[string]string{
			"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			results: "pass\tx TestOther\n", partly: true},
		{name: "results of another commit", files: map[string]string{
			"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			results: "fail\tx TestOne_A001\n", commit: "old"},
		{name: "another target runs it", files: map[string]string{
			"x_test.go": "package x\nfunc TestOne_A001() {}\nfunc TestTwo_A003() {}\n"},
			csv: "A003,three,P0,does three,make test-three\n", results: "pass\tx TestOne_A001\nskip\tx TestTwo_A003\n"},
		{name: "a deviation with a test that passed", files: deviates(), results: "pass\tx TestOne_A001/DV01_a\n"},
		{name: "a deviation with a test that was skipped", files: deviates(), wantErr: true,
			results: "pass\tx TestOne_A001/DV01_a\nskip\tx TestOne_A001/a DV01_DV02\n"},
		{name: "a deviation with a test that failed", files: deviates(), wantErr: true,
			results: "pass\tx TestOne_A001\nfail\tx test_b[DV01 x]\n"},
		{name: "a deviation whose id is only in a comment", files: deviates(), wantErr: true,
			results: "pass\tx TestOne_A001\n"},
		{name: "a deviation, and not every stage ran", files: deviates(), results: "pass\tx TestOne_A001\n",
			partly: true},
		{name: "a deviation without a test", wantErr: true, files: map[string]string{
			"x_test.go": "package x\nfunc TestOne_A001() {}\n", "docs/deviations.csv": oneDeviation}},
		{name: "without effect, and not listed", files: map[string]string{
			"x_test.go": "package x\nfunc TestOne_A001_A003() {}\n"},
			csv: "A003,three,P0,does nothing,no effect\n", wantErr: true},
		{name: "an unknown class", files: map[string]string{"x_test.go": "package x\nfunc TestOne_A001() {}\n"},
			csv: "A003,three,P0,does three,good\n", wantErr: true},
	} {
		t.Run(tt.name, tt.check)
	}
}
