package licenses_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"nereid/app/licenses"
)

// Every module and package that is in the program is named with its licence.
func TestLicences_G025(t *testing.T) {
	var b strings.Builder
	if err := licenses.Write(&b); err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		if of, ok := strings.CutPrefix(strings.TrimSpace(line), "== "); ok {
			for name := range strings.SplitSeq(of, ", ") {
				covered[name] = true
			}
		}
	}
	want := []string{"Go", "ONNX Runtime", "svelte"}
	cmd := exec.Command("go", "list", "-e", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}",
		".")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	want = append(want, strings.Fields(string(out))...)
	text, err := os.ReadFile("../../frontend/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatal(err)
	}
	for name := range page.Dependencies {
		want = append(want, name)
	}
	if len(want) < 50 {
		t.Errorf("only %d parts are looked for", len(want))
	}
	for _, name := range want {
		if !covered[name] {
			t.Errorf("the licence of %s is missing; run go run ./build/tools/licenses", name)
		}
	}
	if !strings.Contains(b.String(), "Copyright 2009 The Go Authors") {
		t.Error("Go's own licence is not there")
	}
	for _, words := range []string{"Permission is hereby granted, free of charge", "Apache License",
		"Redistribution and use in source and binary forms"} {
		if !strings.Contains(b.String(), words) {
			t.Errorf("the words %q are in no licence", words)
		}
	}
}
