package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/console/api"
)

// A file from elsewhere may have any name in it.
func TestInspectionDoesNotControlTheTerminal(t *testing.T) {
	var b strings.Builder
	x := &api.Inspection{Producer: "a\x1b[2Jb", Inputs: api.List[api.FilePort]{{Name: "x\ty\u009b1m"}}}
	if err := printInspection(&b, x); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.ContainsAny(text, "\x1b\u009b\t") || !strings.Contains(text, "a?[2Jb") {
		t.Errorf("%q", text)
	}
}

// The only ONNX file of a folder is the one that is meant. The name of the folder is no pattern.
func TestInspectionFindsTheONNXFileOfAFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "models[1]")
	file := filepath.Join(folder, "net.onnx")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := onnxFile(folder); err != nil || got != file {
		t.Errorf("onnxFile = %s, %v; want %s", got, err, file)
	}
}

// A change that gains under one load and loses under another is not offered, nor one whose answers differ.
func TestOnlyChangesWithoutALossAreOffered(t *testing.T) {
	list := []Suggestion{
		{Change: "a", Ratio: 1.3, Apply: "apply a 8"}, {Change: "a", Ratio: 1.2, Apply: "apply a 1"},
		{Change: "b", Ratio: 1.4}, {Change: "b", Ratio: 0.6}, {Change: "c", Ratio: 1.05},
		{Change: "d", Ratio: 2, Differs: "labels differ"}, {Change: "e", Ratio: 1.2, Apply: "apply e"},
		{Change: "e", Failed: "no figures"},
	}
	var b strings.Builder
	if err := printSuggestions(&b, list); err != nil {
		t.Fatal(err)
	}
	_, offered, _ := strings.Cut(b.String(), "\nTo apply")
	if want := " a:\n  apply a 8\n\nTo apply e:\n  apply e\n"; offered != want {
		t.Errorf("offered %q, want %q", offered, want)
	}
}

func TestShapesAreWrittenAsInTheListOfInputs(t *testing.T) {
	if got := shapes(api.List[api.List[int64]]{{1, 784}, {}, {3}}); got != "[1,784] [] [3]" {
		t.Error(got)
	}
}
