// Command features checks the list of Triton's features, docs/features.csv, against the tests. It prints the counts,
// and exits with 1 if a feature is wrong.
//
// A test proves a feature when its name has the feature's id as a word: TestDynamicBatch_C001, t.Run("C001 preferred
// size"), def test_B018_binary, test("E001 ..."). A name has at most maxIDs ids. The names come from the sources, and
// each id must be that of a feature.
//
// What happened to the tests comes from the files that runtests wrote at this commit, one for each stage. A feature is
// proven only if all tests with its id that ran have passed and none was skipped. A feature without a result is "not
// run"; this is a fault only if every stage ran. The same holds for the deliberate differences of docs/deviations.csv,
// whose ids are DV01 and so on. It also checks the tests that docs/reliability.md names.
package main

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// maxIDs is how many features one test may prove. A test of more checks none of them well.
const maxIDs = 4

func main() {
	results := flag.String("results", ".cache/test-logs/results", "folder with the results of the stages")
	page := flag.String("compatibility", "",
		"write: only write docs/compatibility.md; check: fail unless it is up to date")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	var err error
	if *page != "" {
		err = runCompatibility(*root, *page)
	} else {
		commit, _ := exec.Command("git", "-C", *root, "rev-parse", "HEAD").Output()
		err = run(*root, *results, strings.TrimSpace(string(commit)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "features:", err)
		os.Exit(1)
	}
}

// A feature's class says what its tests prove. A feature of the ordinary class, "", works, or docs/not-supported.md
// has the reason why not. A class that begins with "make " names the target whose tests prove the feature, which
// "make test" does not run.
const (
	classNoEffect = "no effect" // an option that is accepted and changes nothing
	classStandIn  = "stand-in"  // built, and tested with stand-ins for a GPU only
	classTarget   = "make "
)

// feature is one line of docs/features.csv. Its fourth column, the description, is for readers only.
type feature struct{ id, title, priority, class string }

func run(root, results, commit string) error {
	features, err := readFeatures(root + "/docs/features.csv")
	if err != nil {
		return err
	}
	reasons, err := readReasons(root + "/docs/not-supported.md")
	if err != nil {
		return err
	}
	named, err := sourceNames(root)
	if err != nil {
		return err
	}
	ran, err := readResults(results, commit)
	if err != nil {
		return err
	}
	promises, err := checkPromises(root, named, ran)
	if err != nil {
		return err
	}
	deviations, err := readDeviations(root)
	if err != nil {
		return err
	}
	unknown, err := checkDeviations(root, deviations)
	if err != nil {
		return err
	}
	sum, faults := check(features, idsOf(named), reasons, ran)
	faults = slices.Concat(faults, promises, checkNames(features, named), unknown, checkProven(deviations, ran))
	sort.Strings(faults)
	for _, f := range faults {
		fmt.Println(f)
	}
	fmt.Println(sum)
	if len(ran.missing) > 0 {
		fmt.Println("stages without results at this commit:", strings.Join(ran.missing, ", "))
	}
	if n := len(faults); n > 0 {
		return fmt.Errorf("%d features, promises, deviations or names of tests are wrong", n)
	}
	return nil
}

// check compares the list with the named tests (id to the name of one), with the reasons of what is not supported, and
// with the results.
func check(features []feature, tested, reasons map[string]string, ran *outcomes) (summary string, faults []string) {
	fault := func(r feature, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s %s: ", r.id, r.title)+fmt.Sprintf(format, args...))
	}
	known, count := map[string]bool{}, map[string]int{}
	for _, r := range features {
		known[r.id] = true
		test, reason := tested[r.id], reasons[r.id]
		_, listed := reasons[r.id]
		switch {
		case listed && reason == "":
			fault(r, "listed as not supported without a reason")
		case listed && test != "" && r.class != classNoEffect:
			fault(r, "in the name of %s and also listed as not supported", test)
		case !listed && r.class == classNoEffect:
			fault(r, "has no effect, but docs/not-supported.md does not list it")
		case !listed && test == "":
			fault(r, "neither in a test's name nor listed as not supported")
		}
		if test == "" {
			count["not supported"]++
			continue
		}
		bad, elsewhere := ran.bad[r.id], strings.HasPrefix(r.class, classTarget)
		switch {
		case bad != "" && !elsewhere: // "make test" skips what another target proves
			fault(r, "not proven: %s", bad)
		case ran.passed[r.id] && r.class == "":
			count["proven"]++
		case ran.passed[r.id] || elsewhere:
			count[r.class]++
		case len(ran.missing) == 0:
			fault(r, "in the name of %s, but no test with this id ran", test)
		default:
			count["not run"]++
		}
	}
	for id := range reasons {
		if !known[id] {
			faults = append(faults, id+": listed as not supported, but there is no such feature")
		}
	}
	var parts []string
	for what, n := range count {
		parts = append(parts, fmt.Sprintf("%d %s", n, what))
	}
	sort.Strings(parts)
	return fmt.Sprintf("features: %d: %s", len(features), strings.Join(parts, ", ")), faults
}

// checkNames demands that the names of tests have only ids of features, and not too many.
func checkNames(features []feature, names []string) []string {
	known := map[string]bool{}
	for _, r := range features {
		known[r.id] = true
	}
	var faults []string
	for _, name := range names {
		n := 0
		for id := range idsOf([]string{name}) {
			if n++; !known[id] {
				faults = append(faults, fmt.Sprintf("%s: in the name of %s, but there is no such feature", id, name))
			}
		}
		if n > maxIDs {
			faults = append(faults, fmt.Sprintf("%s: one test has %d ids, more than %d", name, n, maxIDs))
		}
	}
	return faults
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

// readFeatures reads docs/features.csv: id, title, priority, description, class. Ids are unique.
func readFeatures(path string) ([]feature, error) {
	rows, err := readTable(path, 5)
	if err != nil {
		return nil, err
	}
	var features []feature
	seen := map[string]bool{}
	for i, l := range rows {
		switch class := l[4]; {
		case !idPattern.MatchString(l[0]) || seen[l[0]] || l[1] == "" || l[3] == "":
			return nil, fmt.Errorf("%s: line %d: bad or repeated id %q, or no title or description", path, i+2, l[0])
		case !slices.Contains([]string{"", classNoEffect, classStandIn}, class) &&
			!strings.HasPrefix(class, classTarget):
			return nil, fmt.Errorf("%s: %s has the unknown class %q", path, l[0], class)
		}
		seen[l[0]] = true
		features = append(features, feature{l[0], l[1], l[2], l[4]})
	}
	if len(features) == 0 {
		return nil, errors.New(path + " has no features")
	}
	return features, nil
}

var (
	idPattern  = regexp.MustCompile(`^[A-I][0-9]{3}$`)
	pageRow    = regexp.MustCompile(`^\| ([A-I][0-9]{3}) \|(?:[^|\\]|\\.)*\| *(.*?) *\|$`)
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

// idsOf returns the ids of features that are words of the names, each with one name that has it.
func idsOf(names []string) map[string]string { return idsLike(idPattern, names) }

// idsLike is idsOf for ids of another form.
func idsLike(form *regexp.Regexp, names []string) map[string]string {
	ids := map[string]string{}
	for _, name := range names {
		for _, word := range separators.Split(name, -1) {
			if form.MatchString(word) && ids[word] == "" {
				ids[word] = name
			}
		}
	}
	return ids
}
