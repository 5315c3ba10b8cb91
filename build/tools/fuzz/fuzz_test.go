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

func TestFuzzersOwnFault(t *testing.T) {
	const broken = "fuzz: elapsed: 6m15s, execs: 993311\npanic: the number of coverage bits changed: before=1, " +
		"after=2\n"
	for _, tt := range []struct {
		name, out string
		want      bool
	}{
		{"the fuzzer breaks off", broken, true},
		{"an input was found before", "--- FAIL: FuzzX\n    Failing input written to testdata/fuzz/FuzzX/1\n" +
			broken, false},
		{"a target panics", "--- FAIL: FuzzX\npanic: runtime error\n    Failing input written to " +
			"testdata/fuzz/FuzzX/1\n", false},
		{"it does not compile", "x.go:1:1: undefined: y\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fuzzerCrashed([]byte(tt.out)); got != tt.want {
				t.Errorf("fuzzerCrashed(%q) = %v", tt.out, got)
			}
		})
	}
}

func TestEndedByTime(t *testing.T) {
	const over = "fuzz: elapsed: 2s, execs: 9 (4/sec)\n--- FAIL: FuzzX (2.05s)\n    context deadline exceeded\nFAIL\n"
	for _, tt := range []struct {
		name, out string
		want      bool
	}{
		{"nothing was found", over, true},
		{"an input was found before", "    Failing input written to testdata/fuzz/FuzzX/1\n" + over, false},
		{"a target reports a deadline", "--- FAIL: FuzzX (2.05s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: " +
			"context deadline exceeded\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := endedByTime([]byte(tt.out)); got != tt.want {
				t.Errorf("endedByTime(%q) = %v", tt.out, got)
			}
		})
	}
}
