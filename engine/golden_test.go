package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/cache"
	"nereid/engine/residency"
)

// goldenPair is a golden request of pairConfig: 5 and 3, with the sum that it is to give.
func goldenPair(sum int) string {
	return fmt.Sprintf(`{"data": [{"INPUT0": [5], "INPUT1": [3]}], "validation_data": [{"OUTPUT0": [%d]}]}`, sum)
}

func TestEnsembleAnswersGoldenRequests(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
	}{
		{"right", goldenPair(8), ""},
		{"wrong", goldenPair(9), "does not answer its golden requests: a.json request 0: output 'OUTPUT0' differs " +
			"from the expected data"},
		{"not JSON", "{", "a.json: unexpected EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			put(t, root, "part", oneConfig)
			put(t, root, "sum", pairConfig("part", "OUTPUT0", "OUTPUT1"))
			write(t, root+"/sum/golden/a.json", tt.text)
			w := &twins{t: t, Engine: start(t, engine.Options{
				ModelOptions: engine.ModelOptions{Repositories: []string{root}},
				Mode:         engine.ModeExplicit,
			})}
			err := w.LoadModel(t.Context(), "sum", engine.LoadParameters{})
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				w.gives("sum", 8)
				resp, err := w.ModelStatistics("sum", -1)
				if err != nil || resp.GetModelStats()[0].GetInferenceStats().GetSuccess().GetCount() != 1 {
					t.Errorf("statistics %v, %v; want the one request and not the golden one", resp, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("LoadModel = %v, want %q in it", err, tt.want)
			}
			w.gives("part", 8)
		})
	}
	t.Run("of a part that is not in memory", func(t *testing.T) {
		root := t.TempDir()
		put(t, root, "part", oneConfig)
		put(t, root, "sum", pairConfig("part", "OUTPUT0", "OUTPUT1"))
		w := &twins{t: t, Engine: start(t, engine.Options{
			ModelOptions: engine.ModelOptions{Repositories: []string{root},
				Residency: residency.Budget{Idle: time.Hour}},
			Mode: engine.ModeExplicit, StartupModels: []string{"part", "sum"},
		})}
		for sum := 8; sum <= 9; sum++ {
			if err := w.Evict("part"); err != nil {
				t.Fatal(err)
			}
			write(t, root+"/sum/golden/a.json", goldenPair(sum))
			if err := w.LoadModel(t.Context(), "sum", engine.LoadParameters{}); (err == nil) != (sum == 8) {
				t.Errorf("LoadModel with the golden answer %d = %v", sum, err)
			}
			w.gives("sum", 8) // as it was before
		}
	})
}

// A probe is executed by the model also if its response is in the cache, and counts as a request of a client.
func TestProbesAreExecuted(t *testing.T) {
	root := t.TempDir()
	put(t, root, "sum", "response_cache { enable: true }"+oneConfig)
	put(t, root, "bare", oneConfig)
	write(t, root+"/sum/golden/a.json", goldenPair(8))
	store, err := cache.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for probed, want := range map[string]error{"sum": nil, "bare": engine.ErrNoProbe, "nosuch": engine.ErrNoProbe} {
		e := start(t, engine.Options{ModelOptions: engine.ModelOptions{Repositories: []string{root}, Cache: store,
			Probed: probed}})
		for range 3 {
			if err := e.Probe(t.Context()); !errors.Is(err, want) {
				t.Errorf("Probe of %s = %v, want %v", probed, err, want)
			}
		}
		if want != nil {
			continue
		}
		resp, err := e.ModelStatistics(probed, -1)
		if err != nil {
			t.Fatal(err)
		}
		s := resp.GetModelStats()[0]
		if s.GetExecutionCount() != 3 || s.GetInferenceStats().GetSuccess().GetCount() != 3 {
			t.Errorf("statistics %v; want three executions and successes", s)
		}
	}
}
