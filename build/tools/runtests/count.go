package main

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

// outcome is what became of one test.
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
}

// goEvent is a line of "go test -json", as documented by "go doc test2json".
type goEvent struct {
	Action, Package, Test, Output, ImportPath string
}

// goTests reads the output of "go test -json" and returns the leaf tests: a test with subtests counts only through
// them, unless it failed and none of them did; the seeds of a fuzz target count as one test. A package that fails
// without a failing test (it does not compile, panics, or has a data race at exit) counts as one failed test.
func goTests(r io.Reader) ([]test, error) {
	type key struct{ pkg, name string }
	results := map[key]outcome{}
	output := map[key]*strings.Builder{}
	builds := map[string]*strings.Builder{}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<20), 64<<20)
	for sc.Scan() {
		var e goEvent
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			continue // a line of the go command itself
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			m, name := output, k
			if e.Action == "build-output" {
				if builds[e.ImportPath] == nil {
					builds[e.ImportPath] = &strings.Builder{}
				}
				builds[e.ImportPath].WriteString(e.Output)
				continue
			}
			if m[name] == nil {
				m[name] = &strings.Builder{}
			}
			m[name].WriteString(e.Output)
		case "pass", "fail", "skip":
			results[k] = outcome(e.Action)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("reading the output of go test: %w", err)
	}

	hasChild := map[key]bool{}
	failedChild := map[key]bool{} // by test, or by package with an empty name
	for k, o := range results {
		if k.name == "" {
			continue
		}
		for parent := k; ; {
			i := strings.LastIndexByte(parent.name, '/')
			if i < 0 {
				break
			}
			parent.name = parent.name[:i]
			hasChild[parent] = true
			if o == failed {
				failedChild[parent] = true
			}
		}
		if o == failed {
			failedChild[key{k.pkg, ""}] = true
		}
	}
	text := func(k key) string {
		if b := output[k]; b != nil {
			return b.String()
		}
		return ""
	}
	var tests []test
	for k, o := range results {
		fuzz := strings.HasPrefix(k.name, "Fuzz")
		switch {
		case k.name == "" && (o != failed || failedChild[k]):
			continue // a package is no test, unless it failed by itself
		case fuzz && strings.Contains(k.name, "/"):
			continue
		case k.name != "" && !fuzz && hasChild[k] && (o != failed || failedChild[k]):
			continue
		}
		t := test{name: strings.TrimSpace(k.pkg + " " + k.name), result: o, output: text(k)}
		if k.name == "" {
			for path, b := range builds {
				if strings.HasPrefix(path, k.pkg) {
					t.output += b.String()
				}
			}
		}
		tests = append(tests, t)
	}
	sort.Slice(tests, func(i, j int) bool { return tests[i].name < tests[j].name })
	return tests, nil
}

// stepTests reads lines such as "ok   name (12 ms)" and "FAIL name: why", as the browser tests print them.
func stepTests(log []byte) []test {
	var tests []test
	for _, line := range strings.Split(string(log), "\n") {
		if name, ok := strings.CutPrefix(line, "ok   "); ok {
			tests = append(tests, test{name: name, result: passed})
		} else if name, ok := strings.CutPrefix(line, "FAIL "); ok {
			tests = append(tests, test{name: name, result: failed, output: name})
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
		Name    string  `xml:"name,attr"`
		Class   string  `xml:"classname,attr"`
		Failure *detail `xml:"failure"`
		Error   *detail `xml:"error"`
		Skipped *detail `xml:"skipped"`
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
