package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// stages are those of "make test" whose tests carry ids. Without the results of one, what only it proves is "not run".
var stages = []string{"go", "cuda", "frontend", "conformance", "e2e", "desktop", "soak", "frameworks"}

// outcomes is what happened to the tests, by id and by the name of a test.
type outcomes struct {
	passed  map[string]bool   // a test with this id, of a feature or a deviation, passed
	bad     map[string]string // a test with this id failed or was skipped: which one
	tests   map[string]string // by name, with and without package and parameters: "pass", or what was worse
	missing []string          // stages without results
}

// readResults reads the files STAGE.tsv that runtests wrote into a folder: the commit, then "outcome<TAB>name" for each
// test. Files of another commit count as missing.
func readResults(folder, commit string) (*outcomes, error) {
	o := &outcomes{passed: map[string]bool{}, bad: map[string]string{}, tests: map[string]string{}}
	for _, stage := range stages {
		data, err := os.ReadFile(filepath.Join(folder, stage+".tsv"))
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		lines := strings.Split(string(data), "\n")
		if err != nil || lines[0] != commit {
			o.missing = append(o.missing, stage)
			continue
		}
		for _, line := range lines[1:] {
			if outcome, name, ok := strings.Cut(line, "\t"); ok {
				o.add(stage, outcome, name)
			}
		}
	}
	return o, nil
}

func (o *outcomes) add(stage, outcome, name string) {
	ids := idsOf([]string{name})
	maps.Copy(ids, idsLike(deviationID, []string{name}))
	for id := range ids {
		if outcome == "pass" {
			o.passed[id] = true
		} else {
			o.bad[id] = fmt.Sprintf("%s: %s (%s)", stage, name, outcome)
		}
	}
	// "package Test/sub" or "file test[parameters]"; the browser tests have titles.
	_, test, _ := strings.Cut(name, " ")
	if at := strings.IndexAny(test, "/["); at >= 0 {
		test = test[:at]
	}
	for _, n := range []string{name, test} {
		if was := o.tests[n]; was == "" || was == "pass" {
			o.tests[n] = outcome
		}
	}
}
