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
	path, text := root+"/docs/compatibility.md", compatibility(features, deviations, reasons, cases)
	if mode == "write" {
		return os.WriteFile(path, []byte(text), 0o644)
	}
	have, err := os.ReadFile(path)
	if err == nil && string(have) != text {
		err = fmt.Errorf("%s is not up to date; run make compatibility", path)
	}
	return err
}

// kinds of features that are not missing, in the order of the page, with the head of their list.
var kinds = []struct{ column, head string }{
	{"works", "Works, with a test for each"},
	{"elsewhere", "Works, with separate tests that `make test` does not run"},
	{"stand-in", "Built, proven on a stand-in, not yet on a card"},
	{"no effect", "Accepted, without effect"},
}

// kindOf is the place of a feature in kinds, or len(kinds) if it is not supported.
func kindOf(r feature, reasons map[string]string) int {
	_, missing := reasons[r.id]
	switch {
	case r.class == classNoEffect:
		return 3
	case missing:
		return len(kinds)
	case r.class == classStandIn:
		return 2
	case r.class != "":
		return 1
	}
	return 0
}

// compatibility returns docs/compatibility.md, which is for engineers who move from Triton. reasons maps the id of a
// feature to why it is not supported. cases is how many answers of a real Triton were recorded.
func compatibility(features []feature, deviations []deviation, reasons map[string]string, cases int) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(introduction, "CASES", fmt.Sprint(cases)))
	b.WriteString("\n## Numbers\n\n| area |")
	for _, k := range kinds {
		b.WriteString(" " + k.column + " |")
	}
	b.WriteString(" not (yet) |\n|---|---|---|---|---|---|\n")
	for _, a := range areas {
		fmt.Fprintf(&b, "| [%s](#%s) |", a.title, anchor(a.title))
		for _, list := range split(features, a.letter, reasons) {
			fmt.Fprintf(&b, " %d |", len(list))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Where answers differ on purpose\n\nEach row has a test with its id. The answers of Triton " +
		"are those of 2.51.\n\n" +
		"| id | protocol | request or event | Triton | Nereid | why |\n|---|---|---|---|---|---|\n")
	for _, d := range deviations {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", d.id, d.protocol, cell(d.request), cell(d.triton),
			cell(d.nereid), cell(d.why))
	}
	for _, a := range areas {
		lists := split(features, a.letter, reasons)
		fmt.Fprintf(&b, "\n## %s\n", a.title)
		for i, k := range kinds {
			if len(lists[i]) > 0 {
				b.WriteString("\n" + k.head + ":\n\n")
			}
			for _, r := range lists[i] {
				fmt.Fprintf(&b, "- %s %s%s\n", r.id, cell(r.title), note(r, reasons))
			}
		}
		writeMissing(&b, lists[len(kinds)], reasons)
	}
	return b.String()
}

// note is what follows the title of a feature that is not missing.
func note(r feature, reasons map[string]string) string {
	switch {
	case r.class == classNoEffect:
		return ": " + reasons[r.id]
	case strings.HasPrefix(r.class, classTarget):
		return " (`" + r.class + "`)"
	}
	return ""
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

// split returns the features of an area, by kind, and then those that are missing.
func split(features []feature, letter string, reasons map[string]string) [][]feature {
	lists := make([][]feature, len(kinds)+1)
	for _, r := range features {
		if strings.HasPrefix(r.id, letter) {
			k := kindOf(r, reasons)
			lists[k] = append(lists[k], r)
		}
	}
	return lists
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
