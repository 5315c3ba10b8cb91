package engine_test

import (
	"strings"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/residency"
)

// The index says of a model that is not in memory why its last load failed, and not that it goes on serving.
func TestIndexOfAModelThatIsNotInMemory_A077(t *testing.T) {
	root := t.TempDir()
	put(t, root, "part", oneConfig)
	w := &twins{t: t, Engine: start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Residency: residency.Budget{Idle: time.Hour}},
		Mode:         engine.ModeExplicit, StartupModels: []string{"part"},
	})}
	if err := w.Evict("part"); err != nil {
		t.Fatal(err)
	}
	write(t, root+"/part/config.pbtxt", oneConfig+"nosuch: 1")
	if got, err := w.run("part"); err == nil {
		t.Errorf("a request for a model whose configuration is wrong gets %d", got)
	}
	reason := w.RepositoryIndex(false)[0].GetReason()
	if !strings.HasPrefix(reason, "not in memory; its next request loads it, which failed last time: ") ||
		!strings.Contains(reason, "nosuch") {
		t.Errorf("the index says %q", reason)
	}
}
