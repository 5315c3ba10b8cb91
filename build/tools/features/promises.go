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

// checkPromises demands that every promise of docs/reliability.md names tests, and that each of them exists. names are
// the names of tests in the sources.
func checkPromises(root string, names []string) ([]string, error) {
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
	for _, row := range promiseRow.FindAllStringSubmatch(string(text), -1) {
		tests := quoted.FindAllStringSubmatch(row[2], -1)
		if len(tests) == 0 {
			faults = append(faults, row[1]+": docs/reliability.md names no test for this promise")
		}
		for _, test := range tests {
			if !exists[test[1]] {
				faults = append(faults, fmt.Sprintf("%s: docs/reliability.md names %s, but there is no such test",
					row[1], test[1]))
			}
		}
	}
	return faults, nil
}
