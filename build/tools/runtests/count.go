package main

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// outcome is the result of one test.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
)

// test is one counted test.
type test struct {
	name   string // "package TestName/sub" or "file::test"
	result outcome
	output string // of a failed or skipped test, as far as it is known
	again  int    // how often the test repeated something for a fault that is not the server's
}

// goEvent is a line of "go test -json", as documented by "go doc test2json".
type goEvent struct {
	Action, Package, Test, Output, ImportPath string
}

// goTests reads the output of "go test -json" and returns the leaf tests. A test with subtests counts only through
// them, unless it failed and none of them did. The seeds of a fuzz target count as one test. A package that fails
// without a failing test (it does not compile, panics, or has a data race at exit) counts as one failed test.
func goTests(r io.Reader) ([]test, error) {
	log, err := readGoLog(r)
	if err != nil {
		return nil, err
	}
	var tests []test
	for k, o := range log.results {
		if log.counts(k, o) {
			t := test{name: strings.TrimSpace(k.pkg + " " + k.name), result: o, output: log.output.get(k)}
			if k.name == "" {
				t.output += log.buildOutput(k.pkg) + log.unfinished(k.pkg)
			}
			tests = append(tests, t)
		}
	}
	slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return tests, nil
}

// goTestName names a test; a package has an empty name.
type goTestName struct{ pkg, name string }

// goLog is what a run of "go test -json" printed.
type goLog struct {
	results      map[goTestName]outcome
	output       texts[goTestName]
	builds       texts[string] // output of the compiler, by import path
	hasSubtest   map[goTestName]bool
	failedWithin map[goTestName]bool // by test with a failed subtest, and by package with a failed test
}

// texts collects lines by key.
type texts[K comparable] map[K]*strings.Builder

func (t texts[K]) add(k K, line string) {
	if t[k] == nil {
		t[k] = &strings.Builder{}
	}
	t[k].WriteString(line)
}

func (t texts[K]) get(k K) string {
	if t[k] == nil {
		return ""
	}
	return t[k].String()
}

func readGoLog(r io.Reader) (*goLog, error) {
	log := &goLog{
		results: map[goTestName]outcome{}, output: texts[goTestName]{}, builds: texts[string]{},
		hasSubtest: map[goTestName]bool{}, failedWithin: map[goTestName]bool{},
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<20), 64<<20)
	for sc.Scan() {
		var e goEvent
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			continue // a line of the go command itself
		}
		k := goTestName{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			log.builds.add(e.ImportPath, e.Output)
		case "output":
			log.output.add(k, e.Output)
		case "pass", "fail", "skip":
			log.results[k] = outcome(e.Action)
			log.noteParents(k, e.Action == "fail")
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("reading the output of go test: %w", err)
	}
	return log, nil
}

// noteParents records for the tests above k, and for its package, that they have a subtest and whether it failed.
func (l *goLog) noteParents(k goTestName, failed bool) {
	if k.name == "" {
		return
	}
	if failed {
		l.failedWithin[goTestName{pkg: k.pkg}] = true
	}
	for i := strings.LastIndexByte(k.name, '/'); i >= 0; i = strings.LastIndexByte(k.name, '/') {
		k.name = k.name[:i]
		l.hasSubtest[k] = true
		if failed {
			l.failedWithin[k] = true
		}
	}
}

// counts reports whether k counts as a test in the totals.
func (l *goLog) counts(k goTestName, o outcome) bool {
	failedItself := o == failed && !l.failedWithin[k]
	switch {
	case k.name == "":
		return failedItself
	case strings.HasPrefix(k.name, "Fuzz"):
		return !strings.Contains(k.name, "/")
	}
	return !l.hasSubtest[k] || failedItself
}

// unfinished returns the last lines of the tests of a package that began and did not end, as after a time limit.
func (l *goLog) unfinished(pkg string) string {
	var b strings.Builder
	for k, text := range l.output {
		if _, ended := l.results[k]; k.pkg == pkg && k.name != "" && !ended {
			fmt.Fprintf(&b, "%s did not end:\n%s\n", k.name, tail(text.String(), 20))
		}
	}
	return b.String()
}

// buildOutput returns what the compiler printed about a package and its test variants.
func (l *goLog) buildOutput(pkg string) string {
	var b strings.Builder
	for path, text := range l.builds {
		if strings.HasPrefix(path, pkg) {
			b.WriteString(text.String())
		}
	}
	return b.String()
}

var duration = regexp.MustCompile(` \(\d+ ms\)$`)

// stepTests reads lines such as "ok   name (12 ms)", "FAIL name: why" and "skip name: why", as the browser tests print
// them. A line "again why" says that a test repeated something.
func stepTests(log []byte) []test {
	var tests []test
	for _, line := range strings.Split(string(log), "\n") {
		if name, ok := strings.CutPrefix(line, "ok   "); ok {
			tests = append(tests, test{name: duration.ReplaceAllString(name, ""), result: passed})
		} else if name, ok := strings.CutPrefix(line, "FAIL "); ok {
			tests = append(tests, test{name: name, result: failed, output: name})
		} else if line, ok := strings.CutPrefix(line, "skip "); ok {
			name, reason, _ := strings.Cut(line, ": ")
			tests = append(tests, test{name: name, result: skipped, output: reason})
		} else if strings.HasPrefix(line, "again ") && len(tests) > 0 {
			tests[len(tests)-1].again++
		}
	}
	return tests
}

// junitTests reads a JUnit XML report, as pytest, vitest and node's test runner write it.
func junitTests(path string) ([]test, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the test runner left no report: %w", err)
	}
	type detail struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type testcase struct {
		Name       string  `xml:"name,attr"`
		Class      string  `xml:"classname,attr"`
		Failure    *detail `xml:"failure"`
		Error      *detail `xml:"error"`
		Skipped    *detail `xml:"skipped"`
		Properties []struct {
			Name string `xml:"name,attr"`
		} `xml:"properties>property"`
	}
	var tests []test
	dec := xml.NewDecoder(strings.NewReader(string(data)))
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return tests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		start, ok := tok.(xml.StartElement)
		if !ok || start.Name.Local != "testcase" {
			continue
		}
		var c testcase
		if err := dec.DecodeElement(&c, &start); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		t := test{name: strings.TrimSpace(c.Class + " " + c.Name), result: passed}
		for _, p := range c.Properties {
			if p.Name == "again" {
				t.again++
			}
		}
		for _, d := range []struct {
			d *detail
			o outcome
		}{{c.Skipped, skipped}, {c.Failure, failed}, {c.Error, failed}} {
			if d.d != nil {
				t.result, t.output = d.o, d.d.Message+"\n"+d.d.Text
			}
		}
		tests = append(tests, t)
	}
}
