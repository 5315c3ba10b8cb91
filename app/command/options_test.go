package command

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

func TestOptionsParseAndShowTheirHelp(t *testing.T) {
	var list []string
	var quiet bool
	n := 3
	sections := []Section{{Title: "Load", Options: []Option{
		Opt("-n, --number", "N", "how many; default 3", &n),
		Opt("--name", "TEXT", strings.Repeat("word ", 20), &list),
		Opt("-q", "", "prints nothing", &quiet),
		Opt("--old", "N", "", &n),
	}}}
	f := NewFlagSet("test", sections)
	if err := f.Parse([]string{"--number=5", "--name", "a", "--name=b", "-q", "rest"}); err != nil {
		t.Fatal(err)
	}
	if n != 5 || !quiet || !slices.Equal(list, []string{"a", "b"}) || f.Arg(0) != "rest" {
		t.Errorf("n %d, quiet %v, names %q, arguments %q", n, quiet, list, f.Args())
	}
	help := Help(sections)
	if !strings.HasPrefix(help, "\nLoad\n  -n, --number N  ") || strings.Contains(help, "--old") {
		t.Errorf("help:\n%s", help)
	}
	for line := range strings.Lines(help) {
		if len(line) > helpWidth+1 {
			t.Errorf("the line %q is longer than %d", line, helpWidth)
		}
	}
	for _, tt := range [][2]string{
		{"--nosuch", "unknown option -nosuch; test --help lists the options"},
		{"-n=x", `invalid value "x" for flag -n: parse error`},
	} {
		if err := FlagError("test", f.Parse([]string{tt[0]})); err == nil || err.Error() != tt[1] {
			t.Errorf("%s: %v, want %s", tt[0], err, tt[1])
		}
	}
}

func TestOptionsStandBeforeBetweenAndAfterArguments(t *testing.T) {
	for _, tt := range []struct{ args, rest []string }{
		{[]string{"-n=1", "a", "b"}, []string{"a", "b"}},
		{[]string{"a", "-n=1", "b"}, []string{"a", "b"}},
		{[]string{"a", "b", "-n", "1"}, []string{"a", "b"}},
		{[]string{"-n=1", "a", "--", "-n=2"}, []string{"a", "-n=2"}},
		{[]string{"-n=1"}, nil},
	} {
		flags := flag.NewFlagSet("x", flag.ContinueOnError)
		n := flags.Int("n", 0, "")
		if status, done := (&Env{}).Parse(flags, tt.args, ""); done || *n != 1 || !slices.Equal(flags.Args(), tt.rest) {
			t.Errorf("%q: status %d, n %d, rest %q; want %q", tt.args, status, *n, flags.Args(), tt.rest)
		}
	}
}
