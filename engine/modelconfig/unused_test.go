package modelconfig_test

import (
	"encoding/csv"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nereid/engine/modelconfig"
)

// notSupported returns the ids of docs/not-supported.md with what docs/features.csv says about each.
func notSupported(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/not-supported.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("../../docs/features.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, row := range rows[1:] {
		if strings.Contains(string(page), "\n| "+row[0]+" |") {
			out[row[0]] = row[1] + " " + row[3]
		}
	}
	if len(out) < 20 {
		t.Fatalf("docs/not-supported.md lists %d features, want at least 20", len(out))
	}
	return out
}

// The help of the editor says of exactly those fields that they are not supported which docs/not-supported.md lists.
func TestTheHelpOfFieldsFollowsTheListOfFeatures(t *testing.T) {
	missing := notSupported(t)
	named := map[string]bool{} // fields that a missing feature is about, by path or the last part of it
	for id, text := range missing {
		if !strings.HasPrefix(id, "C") { // scheduling and execution: the features of config.pbtxt
			continue
		}
		for _, word := range regexp.MustCompile(`[a-z_.]+(\[\])?`).FindAllString(text, -1) {
			if strings.ContainsAny(word, "_[.") {
				named[strings.TrimSuffix(word, "[]")] = true
			}
		}
	}
	groups := []string{"optimization", "instance_group", "input"}
	found := 0
	for _, f := range modelconfig.Describe() {
		name := f.Path[strings.LastIndex(f.Path, ".")+1:]
		top, _, _ := strings.Cut(f.Path, ".")
		switch {
		case f.Support != "" && missing[f.Feature] == "":
			t.Errorf("the help says of %s: %q, but docs/not-supported.md does not list %q", f.Path, f.Support,
				f.Feature)
		case f.Support == "" && (named[name] || named[f.Path]) && slices.Contains(groups, top):
			t.Errorf("docs/not-supported.md lists %s, and the help says nothing about it", f.Path)
		case f.Support != "":
			found++
		}
	}
	if found < 10 {
		t.Errorf("%d fields have a remark, want at least 10", found)
	}
}

func TestFieldsWithoutEffectAreWarnedOf(t *testing.T) {
	const text = `backend: "onnxruntime"
instance_group { count: 1 secondary_devices { kind: KIND_NVDLA device_id: 1 } }
optimization {
  priority: PRIORITY_MAX
  cuda { graphs: true busy_wait_events: true }
  eager_batching: true
  graph { level: 1 }
}
`
	cfg, pos, faults := modelconfig.Parse("config.pbtxt", []byte(text))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	got := map[string]int{} // lines, by path
	for _, f := range modelconfig.Validate(cfg, modelconfig.ValidateOptions{Positions: pos}) {
		if f.Severity == modelconfig.SeverityWarning && strings.Contains(f.Message, "has no effect in this server") {
			got[f.Path] = f.Line
		}
	}
	want := map[string]int{"instance_group[0].secondary_devices": 2, "optimization.priority": 4,
		"optimization.cuda": 5, "optimization.eager_batching": 6}
	if len(got) != len(want) {
		t.Errorf("warnings at %v, want %v", got, want)
	}
	for path, line := range want {
		if got[path] != line {
			t.Errorf("%s is warned of in line %d, want %d", path, got[path], line)
		}
	}
}
