package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/status"
)

// picky is the identity backend, but it fails to load version folders that contain a file named broken.
type picky struct{ backend.Backend }

func (p picky) Load(ctx context.Context, s backend.Spec) (backend.Model, error) {
	if _, err := os.Stat(filepath.Join(s.VersionFolder, "broken")); err == nil {
		return nil, status.New(status.Internal, "this file is broken")
	}
	return p.Backend.Load(ctx, s)
}

func TestBrokenVersionLeavesOldInService(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/id/config.pbtxt", strings.Replace(identityConfig, "all {}", "latest { num_versions: 1 }", 1))
	write(t, root+"/id/1/.keep", "")
	c := newChanges()
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{root}, Settle: time.Millisecond,
			Backends: []backend.Backend{picky{builtin.Identity()}},
			Events:   engine.EventListener{Changed: c.note},
		},
		Mode: engine.ModePoll, PollInterval: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	serves := func(v int64) bool { ok, _ := e.ModelReady("id", v); return ok }
	reason := func(version, want string) bool {
		for _, row := range e.RepositoryIndex(false) {
			if row.Name == "id" && row.Version == version && strings.Contains(row.Reason, want) {
				return true
			}
		}
		return false
	}
	write(t, root+"/id/2/broken", "")
	c.until(t, "the broken version is in the index with its reason",
		func() bool { return reason("2", "Internal: this file is broken") })
	if !serves(1) || !e.Ready() {
		t.Errorf("version 1 served: %v, ready: %v; want both", serves(1), e.Ready())
	}
	r := request(1, 1)
	if _, err := ask(e, r); err != nil || r.Served.Version() != 1 {
		t.Errorf("the latest version answers %v, from %v; want version 1", err, r.Served)
	}
	r.Release()
	if err := os.Remove(root + "/id/2/broken"); err != nil {
		t.Fatal(err)
	}
	c.until(t, "mending it heals without a restart", func() bool { return serves(2) && !serves(1) })

	// The file of the version in service breaks: the version stays in service, and the index has the reason.
	write(t, root+"/id/2/broken", "")
	c.until(t, "the failed reload shows",
		func() bool { return reason("2", "the version loaded before goes on serving") })
	if ok, _ := e.ModelReady("id", infer.LatestVersion); !ok {
		t.Error("the model left service")
	}
}
