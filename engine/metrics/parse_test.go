package metrics_test

import (
	"os"
	"strings"
	"testing"

	"nereid/engine/metrics"
	"nereid/engine/metrics/custom"
	"nereid/engine/status"
)

func FuzzSample(f *testing.F) {
	f.Add(`nv_x{model="a",path="c:\\d \"e\""} 1e+06`)
	f.Add("go_goroutines 12 1700000000")
	f.Fuzz(func(t *testing.T, line string) {
		if m, ok := metrics.ParseSample(line); ok && (m.Name == "" || m.Value == "") {
			t.Fatalf("%q gives %+v", line, m)
		}
	})
}

func TestParseSampleReadsLabels(t *testing.T) {
	m, ok := metrics.ParseSample(`nv_x{model="a}",path="c:\\d \"e\""} 1e+06` + "\n")
	if !ok || m.Name != "nv_x" || m.Value != "1e+06" || m.Labels["model"] != "a}" || m.Labels["path"] != `c:\d "e"` {
		t.Errorf("%+v, %v", m, ok)
	}
	for _, line := range []string{"# HELP nv_x text", "", "nv_x{"} {
		if m, ok := metrics.ParseSample(line); ok {
			t.Errorf("%q gives %+v", line, m)
		}
	}
}

func TestModelsCannotTakeNamesOfTheServersMetrics(t *testing.T) {
	text, err := os.ReadFile("testdata/full.txt")
	if err != nil {
		t.Fatal(err)
	}
	var models custom.Registry
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" {
			if _, err := models.Family(f[2], "", custom.Counter); status.CodeOf(err) != status.AlreadyExists {
				t.Errorf("%s: %v, want AlreadyExists", f[2], err)
			}
		}
	}
}
