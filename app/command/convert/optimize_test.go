package convert

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/command"
	"nereid/app/console/api"
)

func TestTheBestVariantIsChosen(t *testing.T) {
	v := func(rate, p99 float64) variant { return variant{Tuned: Tuned{Rate: rate, P99Ms: p99}} }
	failed := variant{Failed: "it does not load", Tuned: Tuned{Rate: 1000}}
	for name, tt := range map[string]struct {
		objective string
		all       []variant
		want      int
	}{
		"a gain that may be noise":    {"throughput", []variant{v(100, 5), v(109, 1)}, 0},
		"a real gain":                 {"throughput", []variant{v(100, 5), v(111, 9)}, 1},
		"the larger of two gains":     {"throughput", []variant{v(100, 5), v(150, 5), v(151, 5), v(149, 5)}, 2},
		"latency":                     {"latency", []variant{v(100, 5), v(900, 4.9), v(50, 2)}, 2},
		"a failed one is never taken": {"throughput", []variant{v(100, 5), failed}, 0},
		"only the last one works":     {"throughput", []variant{failed, failed, v(1, 5)}, 2},
		"none works":                  {"throughput", []variant{failed, failed}, -1},
	} {
		if got := choose(tt.all, tt.objective); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// The folder of the best variant has its configuration, and the figures of all.
func TestTheTakenVariantHasTheConfigurationThatWasFound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "m", "1", "model.onnx")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("graph"), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := converter{name: "m", repository: "models", env: &command.Env{Stderr: io.Discard, Lookup: os.LookupEnv},
		dataDir: t.TempDir(), python: filepath.Join(dir, "no-python"), optimize: optimizeOptions{objective: "latency",
			budgetMs: 7, tune: func(_ context.Context, folder, _, objective string, budget float64) (Tuned, error) {
				asked = append(asked, folder)
				if objective != "latency" || budget != 7 {
					t.Errorf("the search is for %s under %g", objective, budget)
				}
				return Tuned{Config: "name: \"m\"\n", Rate: 10, P99Ms: 1}, nil
			}}}
	out := optimized{ParityReport: &api.ParityReport{}}
	best, err := o.findBest(ctx, filepath.Join(dir, "work"), filepath.Join(dir, "m"), &out)
	if err != nil || best != filepath.Join(dir, "m") || len(asked) != 1 || asked[0] != best {
		t.Fatalf("%s, %v; searched in %v", best, err, asked)
	}
	for name, want := range map[string]string{"config.pbtxt": "name: \"m\"\n", variantsName: `"taken": true`} {
		if text, err := os.ReadFile(filepath.Join(best, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	for _, v := range out.Variants[1:] { // they need a Python, which is not there
		if v.Failed == "" || v.Taken {
			t.Errorf("%+v", v)
		}
	}
	var said strings.Builder
	if err := printVariants(&said, out.Variants); err != nil || !strings.Contains(said.String(), "converted (taken)") {
		t.Errorf("%v: %s", err, said.String())
	}

	o.optimize.tune = func(context.Context, string, string, string, float64) (Tuned, error) {
		return Tuned{}, errors.New("no measurement keeps it")
	}
	if _, err := o.findBest(ctx, filepath.Join(dir, "more"), filepath.Join(dir, "m"), &out); err == nil ||
		!strings.Contains(err.Error(), "converted: no measurement keeps it; fp16: ") {
		t.Error(err)
	}
	cancel()
	if _, err := o.findBest(ctx, filepath.Join(dir, "last"), filepath.Join(dir, "m"), &out); err == nil ||
		!strings.Contains(err.Error(), "cancelled") {
		t.Error(err)
	}
}
