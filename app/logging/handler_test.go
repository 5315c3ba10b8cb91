package logging

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nereid/engine"
)

func TestLogLines(t *testing.T) {
	var b bytes.Buffer
	o := defaults()
	log := slog.New(newHandler(o, &b))
	log.Info("loading: add_sub:1")
	log.Error("two\nlines \x1b[31m", "err", errors.New("a\nb"), "n", 3)
	log.Debug("not shown")
	Table(log, [][]string{{"Model", "Version"}, {"a\nb", "1"}})
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{
		`^I\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ handler_test\.go:\d+\] "loading: add_sub:1"$`,
		`^E\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ handler_test\.go:\d+\] "two\\nlines \\u001b\[31m err=\\"a\\\\nb\\" n=3"$`,
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
	o.Settings.Format, o.Settings.Error = "ISO8601", false
	b.Reset()
	log = slog.New(newHandler(o, &b))
	log.Error("hidden")
	log.With("model", "a b").WithGroup("g").Warn("x", "k", "v")
	const want = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ W \d+ handler_test\.go:\d+\] "x model=\\"a b\\" g\.k=v"\n$`
	if !regexp.MustCompile(want).MatchString(b.String()) {
		t.Errorf("%q does not match %s", b.String(), want)
	}
}

func TestLogSettingsChangeWhileTheLogIsInUse(t *testing.T) {
	var b bytes.Buffer
	h := newHandler(defaults(), &b)
	log := slog.New(h).With("k", "v") // made before the change
	for _, tt := range []struct {
		name string
		u    engine.LogUpdate
		want string // the lines of an info, a warning, an error and a verbose message
	}{
		{"E045 at the start", engine.LogUpdate{}, "IWE"},
		{"E045 no information", engine.LogUpdate{Info: new(bool)}, "WE"},
		{"E045 no warnings", engine.LogUpdate{Warning: new(bool)}, "E"},
		{"E045 no errors", engine.LogUpdate{Error: new(bool)}, ""},
		{"E045 verbose", engine.LogUpdate{Verbose: ptr[uint32](2)}, "I"},
		{"E045 all again", engine.LogUpdate{Info: ptr(true), Warning: ptr(true), Error: ptr(true),
			Verbose: ptr[uint32](0)}, "IWE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.Reset()
			h.control.UpdateLog(tt.u)
			log.Info("m")
			log.Warn("m")
			log.Error("m")
			log.Debug("m")
			got := ""
			for line := range strings.Lines(b.String()) {
				got += line[:1]
			}
			if got != tt.want {
				t.Errorf("letters %q of\n%s, want %q", got, b.String(), tt.want)
			}
		})
	}
	t.Run("E046 ISO8601 while it runs", func(t *testing.T) {
		b.Reset()
		h.control.UpdateLog(engine.LogUpdate{Format: ptr("ISO8601")})
		log.Info("m")
		want := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I \d+ handler_test\.go:\d+\] "m k=v"\n$`)
		if !want.MatchString(b.String()) {
			t.Errorf("%q does not match %s", b.String(), want)
		}
	})
}

func defaults() Options {
	return Options{Settings: engine.LogSettings{Info: true, Warning: true, Error: true, Format: "default"}}
}

func ptr[T any](v T) *T { return &v }

func TestAFullFileIsRenamedAndAnOlderOneIsRemoved(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "nereid.log")
	if err := os.WriteFile(path, []byte("of an earlier start\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Settings: engine.LogSettings{File: path, Info: true}, FileMaxBytes: 1<<20 - 1}
	log, _, closeLog, err := Open(o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeLog() })
	line := strings.Repeat("x", 10_000)
	for i := range 350 { // 3.5 MB
		log.Info(line, "i", i)
	}
	var files []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		// Old files are removed in the background.
		if files, _ = filepath.Glob(filepath.Join(folder, "nereid*.log")); len(files) == 2 {
			break
		}
	}
	if len(files) != 2 {
		t.Fatalf("files: %v, want the file and an older one", files)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 1<<20 || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte("i=349")) {
		t.Errorf("the newest line is not in the file: %v", err)
	}
}

func TestLinesHaveUniversalTime_E046(t *testing.T) {
	at := time.Date(2026, 11, 28, 23, 30, 0, 5000, time.FixedZone("", -5*3600))
	for format, want := range map[string]string{
		"default": "I1129 04:30:00.000005 ", "ISO8601": "2026-11-29T04:30:00Z I ",
	} {
		var b bytes.Buffer
		o := defaults()
		o.Settings.Format = format
		if err := newHandler(o, &b).Handle(t.Context(), slog.NewRecord(at, slog.LevelInfo, "x", 0)); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(b.String(), want) {
			t.Errorf("%s: %q, want %q", format, b.String(), want)
		}
	}
}
