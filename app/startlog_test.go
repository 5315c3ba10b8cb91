package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheStartLogsTritonsTables(t *testing.T) {
	more := t.TempDir()
	if err := os.MkdirAll(filepath.Join(more, "broken", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(more, "broken", "config.pbtxt"), []byte("backend: \"nosuch\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	scale := filepath.Join(directory, "scale", "model.py")
	if err := os.Mkdir(filepath.Dir(scale), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(scale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := runServer(t, "", "--backend-directory="+directory, "--backend-config=scale,by=2",
		"--model-repository="+more, "--load-model=broken", "--strict-readiness=false",
		"--cache-config=local,size=1048576", "--id=mine")
	text := r.out.String()
	// As in Triton, a table begins on the line after the log's prefix. All its lines begin with + or | and are equally
	// long.
	table := regexp.MustCompile(`(?m)^I\d{4} [0-9:.]+ \d+ table\.go:\d+\] \n((?:[+|].*\n)+)\n`)
	tables := table.FindAllStringSubmatch(text, -1)
	if len(tables) != 4 {
		t.Fatalf("%d tables, want those of agents, backends, models and options in\n%s", len(tables), text)
	}
	for i, tt := range []struct {
		name string
		rows []string // regular expressions, the header first
	}{
		{"E047 repository agents", []string{"Repository Agent +\\| Path", "checksum +\\| <built in>"}},
		{"E047 backends", []string{"Backend +\\| Path +\\| Config", "identity +\\| <built in> +\\| {}",
			"onnxruntime .*", "scale +\\| " + regexp.QuoteMeta(scale) + " +\\| {\"cmdline\":{\"by\":\"2\"}}"}},
		{"E047 models with status and reason", []string{"Model +\\| Version +\\| Status",
			"broken +\\| (1|-) +\\| (UNAVAILABLE|Not loaded): .*nosuch.*", "good +\\| 1 +\\| READY"}},
		{"E047 options", []string{"Option +\\| Value", "server_id +\\| mine", "server_version +\\| 2\\.51\\.0",
			"model_repository_path\\[1\\] +\\| " + regexp.QuoteMeta(more),
			"model_control_mode +\\| MODE_EXPLICIT", "strict_readiness +\\| 0", "cache_enabled +\\| 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := tables[i][1]
			for n, row := range tt.rows {
				if !regexp.MustCompile(`(?m)^\| `+row+` +\|$`).MatchString(table) || n == 0 &&
					!strings.Contains(strings.SplitN(table, "\n", 3)[1], row[:5]) {
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
