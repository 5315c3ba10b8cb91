// Command features checks the list of Triton's features, docs/features.csv. Each feature must be in the name of a test,
// or in docs/not-supported.md with a reason, and never in both. It prints the counts, and exits with 1 if a feature is
// wrong.
//
// A feature is in the name of a test when the name has its id as a word: TestDynamicBatch_C001,
// t.Run("C001 preferred size"), def test_B018_binary, test("E001 ..."). By default the names come from the sources.
// With -results they come from the list of tests that ran, and only those that passed count. It also checks that the
// tests named in docs/reliability.md exist.
package main

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
)

func main() {
	results := flag.String("results",
		"", "file with the tests that ran, one 'outcome<TAB>name' per line; empty: read the sources")
	fix := flag.Bool("fix", false, "remove features that have a test from docs/not-supported.md")
	page := flag.String("compatibility", "",
		"write: only write docs/compatibility.md; check: fail unless it is up to date")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if *page != "" {
		if err := runCompatibility(*root, *page); err != nil {
			fmt.Fprintln(os.Stderr, "features:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*root, *results, *fix); err != nil {
		fmt.Fprintln(os.Stderr, "features:", err)
		os.Exit(1)
	}
}

// feature is one line of docs/features.csv. Its fourth column, the description, is for readers only.
type feature struct{ id, title, priority string }

func run(root, results string, fix bool) error {
	features, err := readFeatures(root + "/docs/features.csv")
	if err != nil {
		return err
	}
	page := root + "/docs/not-supported.md"
	reasons, err := readReasons(page)
	if err != nil {
		return err
	}
	named, err := sourceNames(root)
	if err != nil {
		return err
	}
	tested := idsOf(named)
	var faults []string
	unproven := map[string]bool{} // reported here, so not again as missing
	if results != "" {
		ran, err := passedNames(results)
		if err != nil {
			return err
		}
		proven := idsOf(ran)
		for _, r := range features {
			if where, ok := tested[r.id]; ok && proven[r.id] == "" {
				faults = append(faults,
					fmt.Sprintf("%s %s: in the name of %s, but no test with this id passed in this run", r.id,
						r.title, where))
				unproven[r.id] = true
			}
		}
		tested = proven
	}
	if fix {
		if err := dropFeatures(page, tested); err != nil {
			return err
		}
		if reasons, err = readReasons(page); err != nil {
			return err
		}
	}
	promises, err := checkPromises(root, named)
	if err != nil {
		return err
	}
	faults = append(faults, promises...)
	sum, more := check(features, tested, reasons)
	more = slices.DeleteFunc(more, func(f string) bool { return unproven[f[:4]] })
	for _, f := range append(faults, more...) {
		fmt.Println(f)
	}
	fmt.Println(sum)
	if n := len(faults) + len(more); n > 0 {
		return fmt.Errorf("%d features are wrong", n)
	}
	return nil
}

// check compares the list with the tested features (id to the name of a test) and with the reasons of the others.
func check(features []feature, tested, reasons map[string]string) (summary string, faults []string) {
	known := map[string]bool{}
	byPriority := map[string][2]int{}
	for _, r := range features {
		known[r.id] = true
		test, isTested := tested[r.id]
		reason, isExcused := reasons[r.id]
		n := byPriority[r.priority]
		n[1]++
		switch {
		case isTested && isExcused:
			faults = append(faults, fmt.Sprintf("%s %s: tested by %s and also listed as not supported (%s)", r.id,
				r.title, test, reason))
		case !isTested && !isExcused:
			faults = append(faults, fmt.Sprintf("%s %s: neither in a test's name nor listed as not supported", r.id,
				r.title))
		case isExcused && reason == "":
			faults = append(faults, fmt.Sprintf("%s %s: listed as not supported without a reason", r.id, r.title))
		case isTested:
			n[0]++
		}
		byPriority[r.priority] = n
	}
	for id := range reasons {
		if !known[id] {
			faults = append(faults, fmt.Sprintf("%s: listed as not supported, but there is no such feature", id))
		}
	}
	sort.Strings(faults)
	var parts []string
	total := 0
	for _, p := range slices.Sorted(maps.Keys(byPriority)) {
		n := byPriority[p]
		total += n[0]
		parts = append(parts, fmt.Sprintf("%s %d of %d", p, n[0], n[1]))
	}
	return fmt.Sprintf("features: %d of %d tested (%s), %d not supported", total, len(features),
		strings.Join(parts, ", "), len(reasons)), faults
}

// readTable reads a CSV file and returns its lines without the head. Each must have the given number of columns.
func readTable(path string, columns int) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = columns
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return lines[min(1, len(lines)):], nil
}

// readFeatures reads docs/features.csv: id, title, priority, description. Ids are unique.
func readFeatures(path string) ([]feature, error) {
	rows, err := readTable(path, 4)
	if err != nil {
		return nil, err
	}
	var features []feature
	seen := map[string]bool{}
	for i, l := range rows {
		if !idPattern.MatchString(l[0]) || seen[l[0]] || l[1] == "" || l[3] == "" {
			return nil, fmt.Errorf("%s: line %d: bad or repeated id %q, or no title or description", path, i+2, l[0])
		}
		seen[l[0]] = true
		features = append(features, feature{l[0], l[1], l[2]})
	}
	if len(features) == 0 {
		return nil, errors.New(path + " has no features")
	}
	return features, nil
}

var (
	idPattern  = regexp.MustCompile(`^[A-I][0-9]{3}$`)
	pageRow    = regexp.MustCompile(`^\| ([A-I][0-9]{3}) \|(?:[^|\\]|\\.)*\| *(.*?) *\|$`)
	tableRule  = regexp.MustCompile(`^\|[-|]+\|$`)
	separators = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// readReasons reads the table rows of docs/not-supported.md: id to reason.
func readReasons(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	for i, line := range strings.Split(string(data), "\n") {
		m := pageRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if _, ok := reasons[m[1]]; ok {
			return nil, fmt.Errorf("%s: line %d: feature %s is listed twice", path, i+1, m[1])
		}
		reasons[m[1]] = m[2]
	}
	return reasons, nil
}

// dropFeatures removes tested features from the page, and the headings and tables that become empty.
func dropFeatures(path string, tested map[string]string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var kept []string
	for _, line := range strings.Split(string(data), "\n") {
		if m := pageRow.FindStringSubmatch(line); m != nil && tested[m[1]] != "" {
			continue
		}
		kept = append(kept, line)
	}
	return os.WriteFile(path, []byte(strings.Join(dropEmpty(kept), "\n")), 0o644)
}

// dropEmpty removes tables without rows, then headings without content, then repeated empty lines.
func dropEmpty(lines []string) []string {
	next := func(i int) string { // the next line that is not empty
		for _, l := range lines[i+1:] {
			if l != "" {
				return l
			}
		}
		return ""
	}
	for pass := range 3 {
		var out []string
		for i, l := range lines {
			n := next(i)
			switch {
			case pass == 0 && tableRule.MatchString(l) && !pageRow.MatchString(n):
				out = out[:len(out)-1] // the table's head, just kept
				continue
			case pass == 1 && strings.HasPrefix(l, "### ") && (strings.HasPrefix(n, "#") || n == ""):
				continue
			case pass == 2 && strings.HasPrefix(l, "## ") && (strings.HasPrefix(n, "## ") || n == ""):
				continue
			case l == "" && len(out) > 0 && out[len(out)-1] == "":
				continue
			}
			out = append(out, l)
		}
		lines = out
	}
	return lines
}

// idsOf returns the ids of features that are words of the names, each with one name that has it.
func idsOf(names []string) map[string]string {
	ids := map[string]string{}
	for _, name := range names {
		for _, word := range separators.Split(name, -1) {
			if idPattern.MatchString(word) && ids[word] == "" {
				ids[word] = name
			}
		}
	}
	return ids
}

// passedNames reads the names of the tests that passed from the list that runtests writes.
func passedNames(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("no list of the tests that ran: %w", err)
	}
	var names []string
	for _, line := range strings.Split(string(data), "\n") {
		if name, ok := strings.CutPrefix(line, "pass\t"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}
