package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	_ "embed"

	"nereid/engine/deviation"
)

// areas name the first letters of the row ids.
var areas = []struct{ letter, title string }{
	{"A", "Model repository and storage"},
	{"B", "Protocols"},
	{"C", "Scheduling and execution"},
	{"D", "Backends"},
	{"E", "Observability"},
	{"F", "Tools and clients"},
	{"G", "Deployment"},
	{"H", "Command line"},
	{"I", "Behaviour groups of Triton's own tests"},
}

//go:embed compatibility.md
var introduction string

// runCompatibility writes the page, or compares it with what it would write.
func runCompatibility(root, mode string) error {
	rows, err := readRows(root + "/docs/rows.csv")
	if err != nil {
		return err
	}
	reasons, err := readReasons(root + "/docs/not-supported.md")
	if err != nil {
		return err
	}
	names, err := sourceNames(root)
	if err != nil {
		return err
	}
	faults, err := checkDeviations(root)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "\n"))
	}
	cases, err := countCases(root)
	if err != nil {
		return err
	}
	path, text := root+"/docs/compatibility.md", compatibility(rows, idsOf(names), reasons, cases)
	if mode == "write" {
		return os.WriteFile(path, []byte(text), 0o644)
	}
	have, err := os.ReadFile(path)
	if err == nil && string(have) != text {
		err = fmt.Errorf("%s is not up to date; run make compatibility", path)
	}
	return err
}

// compatibility returns docs/compatibility.md: what an engineer who moves from Triton wants to know. tested is by row id.
func compatibility(rows []row, tested, reasons map[string]string, cases int) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(introduction, "CASES", fmt.Sprint(cases)))
	b.WriteString("\n## How much is there\n\n| area | works | not (yet) |\n|---|---|---|\n")
	for _, a := range areas {
		works, not := split(rows, a.letter, tested)
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %d |\n", a.title, anchor(a.title), len(works), len(not))
	}
	b.WriteString("\n## Where answers differ on purpose\n\nEach row has a test that carries its id; the answers of Triton were recorded from 2.51.\n\n" +
		"| id | over | what is asked, or happens | Triton | Nereid | why |\n|---|---|---|---|---|---|\n")
	for _, d := range deviation.All() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", d.ID, d.Protocol, cell(d.Request), cell(d.Triton), cell(d.Ours), cell(d.Why))
	}
	for _, a := range areas {
		works, not := split(rows, a.letter, tested)
		fmt.Fprintf(&b, "\n## %s\n", a.title)
		if len(works) > 0 {
			b.WriteString("\nWorks, with a test for each:\n\n")
			for _, r := range works {
				fmt.Fprintf(&b, "- %s %s\n", r.id, cell(r.title))
			}
		}
		writeMissing(&b, not, reasons)
	}
	return b.String()
}

// writeMissing lists what has the commonest reason in short, and the others with theirs.
func writeMissing(b *strings.Builder, rows []row, reasons map[string]string) {
	var later []string
	var others []row
	for _, r := range rows {
		if reasons[r.id] == notBuilt {
			later = append(later, r.id+" "+cell(r.title))
		} else {
			others = append(others, r)
		}
	}
	if len(others) > 0 {
		b.WriteString("\nNot supported:\n\n| id | feature | why |\n|---|---|---|\n")
		for _, r := range others {
			fmt.Fprintf(b, "| %s | %s | %s |\n", r.id, cell(r.title), reasons[r.id])
		}
	}
	if len(later) > 0 {
		b.WriteString("\nPlanned; today a clear error says so, or it is not offered:\n\n")
		for _, l := range later {
			b.WriteString("- " + l + "\n")
		}
	}
}

const notBuilt = "not built yet"

func split(rows []row, letter string, tested map[string]string) (works, not []row) {
	for _, r := range rows {
		switch {
		case !strings.HasPrefix(r.id, letter):
		case tested[r.id] != "":
			works = append(works, r)
		default:
			not = append(not, r)
		}
	}
	return works, not
}

// cell keeps a text from ending a table's cell or starting HTML.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "\n", " ", "*", `\*`).Replace(s)
}

func anchor(title string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(title), "'", ""), " ", "-")
}

var (
	deviationID = regexp.MustCompile(`\bDV[0-9]{2}\b|_(DV[0-9]{2})`)
	caseLine    = regexp.MustCompile(`(?m)^"[^"]+": `)
)

// checkDeviations compares the table of deviations with the ids in tests and tables of cases; each must be in both.
func checkDeviations(root string) ([]string, error) {
	carried := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "dist" || base == "testdata" || base == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		python := strings.HasSuffix(base, ".py") && (strings.HasPrefix(base, "test_") || strings.HasPrefix(base, "cases"))
		if !python && !strings.HasSuffix(base, "_test.go") || strings.HasSuffix(filepath.Dir(path), "deviation") {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range deviationID.FindAllString(string(data), -1) {
			carried[strings.TrimPrefix(m, "_")] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, d := range deviation.All() {
		if !carried[d.ID] {
			faults = append(faults, fmt.Sprintf("%s (%s): no test carries its id", d.ID, d.Request))
		}
		delete(carried, d.ID)
	}
	for id := range carried {
		faults = append(faults, id+": carried by a test, but there is no such deviation")
	}
	slices.Sort(faults)
	return faults, nil
}

// countCases counts the answers that were recorded from Triton.
func countCases(root string) (int, error) {
	data, err := os.ReadFile(filepath.Join(root, "build/conformance/reference.json"))
	return len(caseLine.FindAll(data, -1)), err
}
