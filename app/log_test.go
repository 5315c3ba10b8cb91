package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nereid/engine"
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

func TestLogSettingsChangeWhileTheLogIsInUse(t *testing.T) {
	var b bytes.Buffer
	h := newLogHandler(defaults(false), &b)
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
		{"E045 all again", engine.LogUpdate{Info: ptr(true), Warning: ptr(true), Error: ptr(true), Verbose: ptr[uint32](0)}, "IWE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.Reset()
			h.state.UpdateLog(tt.u)
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
		h.state.UpdateLog(engine.LogUpdate{Format: ptr("ISO8601")})
		log.Info("m")
		if want := `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \d+ I log_test\.go:\d+\] "m" k=v\n$`; !regexp.MustCompile(want).MatchString(b.String()) {
			t.Errorf("%q does not match %s", b.String(), want)
		}
	})
}

func TestLogEscapes(t *testing.T) {
	const message = "loading 'a\nE1121 00:00:00.000000 1 forged.go:1] b\x1b[31m'"
	for _, tt := range []struct {
		name, env string
		lines     int
	}{
		{"A19 E046 a message with a line break and a terminal escape is one line", "", 1},
		{"E046 TRITON_SERVER_ESCAPE_LOG_MESSAGES=1", "1", 1},
		{"E046 H090 TRITON_SERVER_ESCAPE_LOG_MESSAGES=0 writes messages as they are", "0", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(false, []string{"--data-dir=" + t.TempDir()}, func(name string) (string, bool) {
				return tt.env, name == "TRITON_SERVER_ESCAPE_LOG_MESSAGES" && tt.env != ""
			})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			slog.New(newLogHandler(c, &b)).Info(message, "id", "x\ny")
			if n := strings.Count(b.String(), "\n"); n != tt.lines {
				t.Errorf("%d lines, want %d: %q", n, tt.lines, b.String())
			}
			if tt.lines == 1 && strings.Contains(b.String(), "\x1b") {
				t.Errorf("the terminal escape is in %q", b.String())
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestStartTables(t *testing.T) {
	more := t.TempDir()
	if err := os.MkdirAll(filepath.Join(more, "broken", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(more, "broken", "config.pbtxt"), []byte("backend: \"nosuch\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runServer(t, "", "--model-repository="+more, "--load-model=broken", "--strict-readiness=false", "--cache-config=local,size=1048576", "--id=mine")
	text := r.out.String()
	// A table begins a line after the log's prefix, as in Triton; every line of it begins with + or |, and all have one length.
	tables := regexp.MustCompile(`(?m)^I\d{4} [0-9:.]+ \d+ table\.go:\d+\] \n((?:[+|].*\n)+)\n`).FindAllStringSubmatch(text, -1)
	if len(tables) != 4 {
		t.Fatalf("%d tables, want those of agents, backends, models and options in\n%s", len(tables), text)
	}
	for i, tt := range []struct {
		name string
		rows []string // regular expressions, the header first
	}{
		{"E047 repository agents", []string{"Repository Agent +\\| Path", "checksum +\\| <built in>"}},
		{"E047 backends", []string{"Backend +\\| Path +\\| Config", "identity +\\| <built in> +\\| {}", "onnxruntime .*"}},
		{"E047 models with status and reason", []string{"Model +\\| Version +\\| Status", "broken +\\| (1|-) +\\| (UNAVAILABLE|Not loaded): .*nosuch.*", "good +\\| 1 +\\| READY"}},
		{"E047 options", []string{"Option +\\| Value", "server_id +\\| mine", "server_version +\\| 2\\.51\\.0", "model_repository_path\\[1\\] +\\| " + regexp.QuoteMeta(more),
			"model_control_mode +\\| MODE_EXPLICIT", "strict_readiness +\\| 0", "cache_enabled +\\| 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := tables[i][1]
			for n, row := range tt.rows {
				if !regexp.MustCompile(`(?m)^\| `+row+` +\|$`).MatchString(table) || n == 0 && !strings.Contains(strings.SplitN(table, "\n", 3)[1], row[:5]) {
					t.Errorf("no row %s in\n%s", row, table)
				}
			}
			for line := range strings.Lines(table) {
				if len(line) != strings.Index(table, "\n")+1 {
					t.Errorf("line %q has another length", line)
				}
			}
		})
	}
}
