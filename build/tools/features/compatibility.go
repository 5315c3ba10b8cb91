package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	_ "embed"
)

// areas name the first letters of the ids of features.
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
	features, err := readFeatures(root + "/docs/features.csv")
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
	deviations, err := readDeviations(root)
	if err != nil {
		return err
	}
	faults, err := checkDeviations(root, deviations)
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
	path, text := root+"/docs/compatibility.md", compatibility(features, deviations, idsOf(names), reasons, cases)
	if mode == "write" {
		return os.WriteFile(path, []byte(text), 0o644)
	}
	have, err := os.ReadFile(path)
	if err == nil && string(have) != text {
		err = fmt.Errorf("%s is not up to date; run make compatibility", path)
	}
	return err
}

// compatibility returns docs/compatibility.md, which is for engineers who move from Triton. tested maps a feature's id
// to the name of a test, and reasons to why it is not supported. cases is how many answers of a real Triton were
// recorded.
func compatibility(
	features []feature, deviations []deviation, tested, reasons map[string]string, cases int,
) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(introduction, "CASES", fmt.Sprint(cases)))
	b.WriteString("\n## Numbers\n\n| area | works | not (yet) |\n|---|---|---|\n")
	for _, a := range areas {
		works, not := split(features, a.letter, tested)
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %d |\n", a.title, anchor(a.title), len(works), len(not))
	}
	b.WriteString("\n## Where answers differ on purpose\n\nEach row has a test with its id. The answers of Triton " +
		"are those of 2.51.\n\n" +
		"| id | protocol | request or event | Triton | Nereid | why |\n|---|---|---|---|---|---|\n")
	for _, d := range deviations {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", d.id, d.protocol, cell(d.request), cell(d.triton),
			cell(d.nereid), cell(d.why))
	}
	for _, a := range areas {
		works, not := split(features, a.letter, tested)
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

// writeMissing lists the features that are not built yet by name, and the others with their reasons.
func writeMissing(b *strings.Builder, features []feature, reasons map[string]string) {
	var later []string
	var others []feature
	for _, r := range features {
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
		b.WriteString("\nPlanned. Today the server answers with a clear error, or does not offer it:\n\n")
		for _, l := range later {
			b.WriteString("- " + l + "\n")
		}
	}
}

const notBuilt = "not built yet"

func split(features []feature, letter string, tested map[string]string) (works, not []feature) {
	for _, r := range features {
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

// cell escapes what would end a cell of a Markdown table or start HTML.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "\n", " ", "*", `\*`).Replace(s)
}

func anchor(title string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(title), "'", ""), " ", "-")
}

var caseLine = regexp.MustCompile(`(?m)^"[^"]+": `)

// countCases counts the answers that were recorded from Triton.
func countCases(root string) (int, error) {
	data, err := os.ReadFile(filepath.Join(root, "build/conformance/reference.json"))
	return len(caseLine.FindAll(data, -1)), err
}
