package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompatibility(t *testing.T) {
	features := []feature{{"A001", "a thing <x>|y", "P0", ""}, {"A002", "later", "P1", ""}, {"B001", "never", "P2", ""},
		{"A003", "a knob", "P2", classNoEffect}, {"A004", "a GPU", "P1", classStandIn},
		{"A005", "a wheel", "P1", "make test-wheels"}}
	deviations := []deviation{{"DV01", "HTTP", "a question", "one", "two", "a reason"}}
	got := compatibility(features, deviations,
		map[string]string{"A002": notBuilt, "A003": "it turns nothing", "B001": "needs a moon"}, 256)
	for _, want := range []string{
		"256 test cases with the real clients",
		"| [Model repository and storage](#model-repository-and-storage) | 1 | 1 | 1 | 1 | 1 |\n",
		"Accepted, without effect:\n\n- A003 a knob: it turns nothing\n",
		"Built, proven on a stand-in, not yet on a card:\n\n- A004 a GPU\n", "- A005 a wheel (`make test-wheels`)\n",
		"Works, with a test for each:\n\n- A001 a thing \\<x>\\|y\n", "or does not offer it:\n\n- A002 later\n",
		"| B001 | never | needs a moon |\n",
		"| DV01 | HTTP | a question | one | two | a reason |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func deviationsOfTheRepository(t *testing.T) []deviation {
	t.Helper()
	list, err := readDeviations("../../..")
	if err != nil || len(list) < 70 {
		t.Fatalf("%d deviations, %v", len(list), err)
	}
	return list
}

func TestIncompleteDeviationsAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, rows, want string }{
		{"complete", "DV01,HTTP,a,b,c,d\n", ""},
		{"not the next id", "DV02,HTTP,a,b,c,d\n", `want "DV01"`},
		{"unknown protocol", "DV01,UDP,a,b,c,d\n", "unknown protocol"},
		{"no reason", "DV01,HTTP,a,b,c,\n", "incomplete"},
		{"no difference", "DV01,HTTP,a,b,b,d\n", "no difference"},
		{"a repeated request", "DV01,HTTP,a,b,c,d\nDV02,HTTP,a,b,c,d\n", "repeats"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := repository(t, map[string]string{"docs/deviations.csv": deviationsHead + tt.rows})
			_, err := readDeviations(root)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("readDeviations: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCheckDeviations(t *testing.T) {
	deviations := deviationsOfTheRepository(t)
	var all strings.Builder
	for _, d := range deviations {
		all.WriteString("def test_B001_" + d.id + "_x(): pass\n")
	}
	for _, tt := range []struct{ name, file, text, want string }{
		{"all are carried", "test_a.py", all.String(), ""},
		{"one is missing", "test_a.py", strings.Replace(all.String(), "DV05", "", 1), "DV05 ("},
		{"one is too much", "a_test.go", strings.ReplaceAll(all.String(), "_DV", " DV") + `t.Run("DV999 x")`,
			"DV999: a test"},
		{"what is no test does not count", "helper.py", all.String(), "DV01 ("},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			text := tt.text
			if strings.HasSuffix(tt.file, ".go") {
				text = strings.ReplaceAll(text, "_x", " x")
			}
			if err := os.WriteFile(filepath.Join(root, tt.file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			faults, err := checkDeviations(root, deviations)
			if got := strings.Join(faults, "\n"); err != nil || !strings.HasPrefix(got, tt.want) ||
				tt.want == "" && got != "" {
				t.Errorf("checkDeviations = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestCompatibilityPage(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "docs"), os.DirFS("../../../docs")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "build/conformance"), 0o755); err != nil {
		t.Fatal(err)
	}
	var carried strings.Builder
	for _, d := range deviationsOfTheRepository(t) {
		carried.WriteString("# " + d.id + "\n")
	}
	for name, text := range map[string]string{"reference.json": "{\n\"a/b\": 1\n}\n", "test_a.py": carried.String()} {
		if err := os.WriteFile(filepath.Join(root, "build/conformance", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := runCompatibility(root, "check"); err == nil || !strings.Contains(err.Error(), "run make compatibility") {
		t.Errorf("a page of other tests is up to date: %v", err)
	}
	if err := runCompatibility(root, "write"); err != nil {
		t.Fatal(err)
	}
	if err := runCompatibility(root, "check"); err != nil {
		t.Errorf("a page that was just written: %v", err)
	}
}
