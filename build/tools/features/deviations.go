package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// deviation is an answer that differs from Triton 2.51 on purpose: one line of docs/deviations.csv.
type deviation struct {
	id       string // "DV01"; ids are given in order, and never twice
	protocol string // "HTTP", "gRPC", "both" or "server"
	request  string // what the client asks, or what happens
	triton   string // what Triton answers or does
	nereid   string
	why      string
}

var (
	deviationID   = regexp.MustCompile(`^DV[0-9]{2,3}$`)
	deviationText = regexp.MustCompile(`\bDV[0-9]{2,3}\b|_(DV[0-9]{2,3})`)
)

// readDeviations reads docs/deviations.csv. Each row must be complete, have the next id, and ask something new.
func readDeviations(root string) ([]deviation, error) {
	path := filepath.Join(root, "docs/deviations.csv")
	rows, err := readTable(path, 6)
	if err != nil {
		return nil, err
	}
	var list []deviation
	requests := map[string]bool{}
	for i, l := range rows {
		d := deviation{l[0], l[1], l[2], l[3], l[4], l[5]}
		switch want := fmt.Sprintf("DV%02d", i+1); {
		case d.id != want:
			return nil, fmt.Errorf("%s: line %d has the id %q, want %q", path, i+2, d.id, want)
		case !slices.Contains([]string{"HTTP", "gRPC", "both", "server"}, d.protocol):
			return nil, fmt.Errorf("%s: %s: unknown protocol %q", path, d.id, d.protocol)
		case slices.Contains(l, "") || d.triton == d.nereid || requests[d.request]:
			return nil, fmt.Errorf("%s: %s is incomplete, states no difference, or repeats a request", path, d.id)
		}
		requests[d.request] = true
		list = append(list, d)
	}
	return list, nil
}

// checkProven demands that a test with the id of each deviation passed, and that none with it failed or was skipped. A
// deviation without a result is a fault only if every stage ran.
func checkProven(deviations []deviation, ran *outcomes) []string {
	var faults []string
	for _, d := range deviations {
		switch {
		case ran.bad[d.id] != "":
			faults = append(faults, fmt.Sprintf("%s (%s): not proven: %s", d.id, d.request, ran.bad[d.id]))
		case !ran.passed[d.id] && len(ran.missing) == 0:
			faults = append(faults, fmt.Sprintf("%s (%s): no test with this id in its name ran", d.id, d.request))
		}
	}
	return faults
}

// checkDeviations compares the deviations with the ids in the sources of tests and of tables of cases. Each must be in
// both.
func checkDeviations(root string, deviations []deviation) ([]string, error) {
	tested := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			return skipFolder(path == root, base, "tools")
		}
		python := strings.HasSuffix(base, ".py") && (strings.HasPrefix(base, "test_") ||
			strings.HasPrefix(base, "cases"))
		if !python && !strings.HasSuffix(base, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, id := range deviationText.FindAllString(string(data), -1) {
			tested[strings.TrimPrefix(id, "_")] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, d := range deviations {
		if !tested[d.id] {
			faults = append(faults, fmt.Sprintf("%s (%s): no test has its id", d.id, d.request))
		}
		delete(tested, d.id)
	}
	for id := range tested {
		faults = append(faults, id+": a test has this id, but there is no such deviation")
	}
	slices.Sort(faults)
	return faults, nil
}
