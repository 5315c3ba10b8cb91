package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoTests(t *testing.T) {
	const a = `{"Action":"output","Package":"p","Output":"x"}
`
	for _, tt := range []struct {
		name, in             string
		pass, fail, skip     int
		wantName, wantOutput string
	}{
		{name: "a passing test", in: `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" +
			`{"Action":"pass","Package":"p"}`, pass: 1},
		{name: "a parent counts through its subtests", in: `{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"skip","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA"}`, pass: 1, skip: 1},
		{name: "a parent that fails by itself", in: `{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`, pass: 1, fail: 1, wantName: "p TestA"},
		{name: "a parent that fails through a subtest",
			in: `{"Action":"output","Package":"p","Test":"TestA/x","Output":"got 1\n"}
{"Action":"fail","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`, fail: 1, wantName: "p TestA/x", wantOutput: "got 1"},
		{name: "fuzz seeds are one test", in: `{"Action":"pass","Package":"p","Test":"FuzzA/seed#0"}
{"Action":"pass","Package":"p","Test":"FuzzA/seed#1"}
{"Action":"pass","Package":"p","Test":"FuzzA"}`, pass: 1},
		{name: "a package that does not build",
			in: `{"ImportPath":"p [p.test]","Action":"build-output","Output":"syntax error\n"}
{"Action":"fail","Package":"p"}`, fail: 1, wantName: "p", wantOutput: "syntax error"},
		{name: "a package that reaches its time limit",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}`, pass: 1, fail: 1, wantName: "p", wantOutput: "TestA did not end:\n=== RUN TestA"},
		{name: "a package without tests", in: a + `{"Action":"skip","Package":"p"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := goTests(strings.NewReader(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if p, f, s := count(got, passed), count(got, failed), count(got, skipped); p != tt.pass || f != tt.fail ||
				s != tt.skip {
				t.Errorf("goTests = %d passed, %d failed, %d skipped; want %d, %d, %d: %+v", p, f, s, tt.pass, tt.fail,
					tt.skip, got)
			}
			for _, g := range got {
				if g.result == failed && (g.name != tt.wantName || !strings.Contains(g.output, tt.wantOutput)) {
					t.Errorf("failed test is %q with output %q; want %q with %q", g.name, g.output, tt.wantName,
						tt.wantOutput)
				}
			}
		})
	}
}

func TestStepTests(t *testing.T) {
	log := "noise\nok   drop a file (12 ms)\nagain it was lost\nFAIL save: no button\nskip go back: why\n1 failed\n"
	got := stepTests([]byte(log))
	if len(got) != 3 || count(got, passed) != 1 || count(got, failed) != 1 || got[1].name != "save: no button" ||
		got[0].again != 1 || got[2].result != skipped || got[2].name != "go back" || got[2].output != "why" {
		t.Errorf("stepTests = %+v; want one passed, one failed and one skipped", got)
	}
}

func TestJUnitTests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.xml")
	const report = `<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="a.b" name="ok">
<properties><property name="again" value="it hung"/></properties></testcase>
<testcase classname="a.b" name="bad"><failure message="1 != 2">trace</failure></testcase>
<testcase classname="a.b" name="broken"><error message="no fixture"/></testcase>
<testcase classname="a.b" name="later"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>`
	if err := os.WriteFile(path, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := junitTests(path)
	if err != nil {
		t.Fatal(err)
	}
	if p, f, s := count(got, passed), count(got, failed), count(got, skipped); p != 1 || f != 2 || s != 1 {
		t.Errorf("junitTests = %d passed, %d failed, %d skipped; want 1, 2, 1", p, f, s)
	}
	if r := repeats(got); r != ", 1 repeats" {
		t.Errorf("repeats = %q, want one", r)
	}
	if _, err := junitTests(path + ".absent"); err == nil {
		t.Error("junitTests of an absent report = nil error; a runner that left no report has not passed")
	}
}

func TestStageRun(t *testing.T) {
	for _, tt := range []struct {
		name    string
		argv    []string
		parse   func(*stage, []byte) ([]test, error)
		fail    int
		wantErr string
	}{
		{name: "a command that succeeds", argv: []string{"true"}},
		{name: "a command that fails is a failed test", argv: []string{"false"}, fail: 1},
		{name: "no test ran", argv: []string{"true"}, parse: func(*stage, []byte) ([]test, error) { return nil, nil },
			wantErr: "ran no test"},
		{name: "fails though every test passed", argv: []string{"false"},
			parse:   func(*stage, []byte) ([]test, error) { return []test{{name: "x", result: passed}}, nil },
			wantErr: "although no test failed"},
		{name: "a command that is not there", argv: []string{"/nonexistent/command"}, fail: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stage{name: "s", timeout: 60e9, argv: tt.argv, parse: tt.parse}
			got, err := s.run(t.Context(), t.TempDir())
			if n := count(got, failed); n != tt.fail {
				t.Errorf("run: %d failed, want %d", n, tt.fail)
			}
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("run: error %v, want one with %q", err, tt.wantErr)
			}
		})
	}
}
