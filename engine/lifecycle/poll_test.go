package lifecycle

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/repo"
	"nereid/engine/stats"
)

// A scan that began before a model was created must not unload it; one that finds its folder missing must.
func TestPollForgetsOnlyMissingModels(t *testing.T) {
	root := t.TempDir()
	const config = `backend: "identity" max_batch_size: 4 ` +
		`input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ] output [ { name: "OUTPUT0" data_type: ` +
		`TYPE_FP32 dims: [ 4 ] } ]`
	if err := os.MkdirAll(filepath.Join(root, "m/1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "m/config.pbtxt"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	m := NewManager(Options{Repositories: []string{root}, Backends: builtin.All(),
		Log: slog.New(slog.DiscardHandler)}, nil, stats.NewRegistry(stats.Detail{}))
	defer m.Close(context.Background())
	if err := m.Load(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	stale := map[string]*repo.Model{}
	m.poller.poll(stale, true)
	m.wg.Wait()
	if !m.VersionReady("m", 1) {
		t.Error("a scan from before the load unloaded the model")
	}
	if err := os.RemoveAll(filepath.Join(root, "m")); err != nil {
		t.Fatal(err)
	}
	m.poller.poll(stale, true)
	m.wg.Wait()
	if _, known := m.Model("m"); known {
		t.Error("a model whose folder is gone is still known")
	}
	for version, want := range map[int64]string{
		infer.LatestVersion: "Request for unknown model: 'm' has no available versions",
		1:                   "Request for unknown model: 'm' version 1 is not at ready state",
		9:                   "Request for unknown model: 'm' version 9 is not found",
	} {
		if _, err := m.Find("m", version); err == nil || err.Error() != want {
			t.Errorf("version %d of a model that left: %v, want %s", version, err, want)
		}
	}
}
