package app

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nereid/app/options"
)

// Each option and each command is in the manual, no line of a text is taken for a request of the formatter, and the
// pages depend on nothing but the program and SOURCE_DATE_EPOCH.
func TestManualPagesHaveEveryCommandAndOption(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var dirs [2]string
	for i := range dirs {
		dirs[i] = t.TempDir()
		if status := Main([]string{"nereid", "__manual", dirs[i]}, os.Stdout, os.Stderr); status != 0 {
			t.Fatalf("status %d", status)
		}
	}
	read := func(dir, page string) string {
		b, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	pages, err := filepath.Glob(filepath.Join(dirs[0], "*.1"))
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	request := regexp.MustCompile(`(?m)^['.]([^\s]*)`)
	known := regexp.MustCompile(`^(TH|SH|SS|TP|B|BR|nf|fi)$`)
	for _, page := range pages {
		text := read(dirs[0], filepath.Base(page))
		if text != read(dirs[1], filepath.Base(page)) {
			t.Errorf("%s is not the same twice", filepath.Base(page))
		}
		if !strings.HasPrefix(text, ".TH ") || !strings.Contains(text, `"2023-11-14"`) {
			t.Errorf("%s has no head: %.80s", filepath.Base(page), text)
		}
		for _, m := range request.FindAllStringSubmatch(text, -1) {
			if !known.MatchString(m[1]) {
				t.Errorf("%s: a line of text begins with %q", filepath.Base(page), m[0])
			}
		}
	}
	plain := strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\-`, "-")
	serve, main := plain.Replace(read(dirs[0], "nereid-serve.1")), plain.Replace(read(dirs[0], "nereid.1"))
	for _, name := range regexp.MustCompile(`(?m)^  (--\S+)`).FindAllStringSubmatch(options.Usage("nereid"), -1) {
		if option, value, ok := strings.Cut(name[1], "=<"); !strings.Contains(serve, option) ||
			ok && !strings.Contains(serve, option+"="+strings.TrimSuffix(value, ">")) {
			t.Errorf("nereid-serve.1 lacks %s", name[1])
		}
	}
	for _, c := range commands() {
		if !c.Hidden && c.Help != "" && !strings.Contains(main, "\nnereid "+c.Names[0]) && c.Names[0] != "" {
			t.Errorf("nereid.1 lacks %s", c.Names[0])
		}
	}
	if bytes.Contains([]byte(main), []byte("__")) {
		t.Error("nereid.1 shows hidden commands")
	}
}
