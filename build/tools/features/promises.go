package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	promiseRow = regexp.MustCompile(`(?m)^\| ([A-H][0-9]{1,2}) \|.*\| (.*) \|$`)
	quoted     = regexp.MustCompile("`([^`]+)`")
)

// checkPromises demands that every promise of docs/reliability.md names tests, that each of them exists, and that none
// of them failed or was skipped. names are the names of tests in the sources.
func checkPromises(root string, names []string, ran *outcomes) ([]string, error) {
	page := filepath.Join(root, "docs/reliability.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	exists := map[string]bool{}
	for _, n := range names {
		exists[strings.TrimSpace(n)] = true
	}
	var faults []string
	fault := func(id, what string) {
		faults = append(faults, fmt.Sprintf("%s: docs/reliability.md names %s", id, what))
	}
	for _, row := range promiseRow.FindAllStringSubmatch(string(text), -1) {
		tests := quoted.FindAllStringSubmatch(row[2], -1)
		if len(tests) == 0 {
			fault(row[1], "no test for this promise")
		}
		for _, test := range tests {
			outcome := ran.tests[test[1]]
			switch {
			case !exists[test[1]]:
				fault(row[1], test[1]+", but there is no such test")
			case outcome == "" && len(ran.missing) == 0:
				fault(row[1], test[1]+", which did not run")
			case outcome != "" && outcome != "pass":
				fault(row[1], fmt.Sprintf("%s, with the result %q", test[1], outcome))
			}
		}
	}
	return faults, nil
}
