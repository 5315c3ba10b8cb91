package app

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

func TestLogLines(t *testing.T) {
	var b bytes.Buffer
	c := defaults(false)
	log := slog.New(newLogHandler(c, &b))
	log.Info("loading: add_sub:1")
	log.Error("two\nlines \x1b[31m", "err", errors.New("a\nb"), "n", 3)
	log.Debug("not shown")
	logTable(log, [][]string{{"Model", "Version"}, {"a\nb", "1"}})
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{
		`^I\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ log_test\.go:\d+\] "loading: add_sub:1"$`,
		`^E\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ log_test\.go:\d+\] "two\\nlines \\x1b\[31m" err="a\\nb" n=3$`,
		`^I.*\] $`,
		`^\+-------\+---------\+$`,
		`^\| Model \| Version \|$`,
		`^\+-------\+---------\+$`,
		`^\| a b   \| 1       \|$`,
		`^\+-------\+---------\+$`,
	} {
		if i >= len(lines) || !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Fatalf("line %d of\n%s\ndoes not match %s", i+1, b.String(), want)
		}
	}
	c.LogFormat, c.LogError = "ISO8601", false
	b.Reset()
	log = slog.New(newLogHandler(c, &b))
	log.Error("hidden")
	log.With("model", "a b").WithGroup("g").Warn("x", "k", "v")
	if want := `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \d+ W log_test\.go:\d+\] "x" model="a b" g\.k=v\n$`; !regexp.MustCompile(want).MatchString(b.String()) {
		t.Errorf("%q does not match %s", b.String(), want)
	}
}
