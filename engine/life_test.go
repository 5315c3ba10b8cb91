package engine_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/builtin"
	"nereid/engine/infer"
	"nereid/engine/status"
)

// The rows of the repository index, through a model's life.
func TestRepositoryIndexRows_B013_A077(t *testing.T) {
	root := t.TempDir()
	c := newChanges()
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Events: engine.EventListener{Changed: c.note}},
		Mode:         engine.ModeExplicit,
	})
	index := func(ready bool) string {
		var b strings.Builder
		for _, r := range e.RepositoryIndex(ready) {
			b.WriteString(r.Name + "|" + r.Version + "|" + r.State + "|" + r.Reason + "\n")
		}
		return b.String()
	}
	for _, step := range []struct {
		name  string
		do    func() error
		fails bool
		want  string // rows; a row that ends in … is the beginning of one
		ready string
	}{
		{"nothing", func() error { return nil }, false, "", ""},
		{"load without a configuration that parses", func() error {
			write(t, root+"/id/config.pbtxt", "what: 1")
			write(t, root+"/id/1/x", "")
			return e.LoadModel(t.Context(), "id", engine.LoadParameters{})
		}, true, "id||UNAVAILABLE|Invalid argument: failed to read text proto from…", ""},
		{"load", func() error {
			write(t, root+"/id/config.pbtxt", identityConfig)
			write(t, root+"/id/12/x", "")
			return e.LoadModel(t.Context(), "id", engine.LoadParameters{})
		}, false, "id|1|READY|\nid|12|READY|\n", "id|1|READY|\nid|12|READY|\n"},
		{"failed reload", func() error {
			write(t, root+"/id/config.pbtxt", "what: 2")
			return e.LoadModel(t.Context(), "id", engine.LoadParameters{})
		}, true, "id|1|READY|reload failed, what was loaded before goes on serving: Invalid argument: failed to read…",
			"id|1|READY|reload failed…"},
		{"unload", func() error { return e.UnloadModel(t.Context(), "id", false) }, false,
			"id|1|UNAVAILABLE|unloaded\nid|12|UNAVAILABLE|unloaded\n", ""},
		{"failed load after the unload", func() error {
			return e.LoadModel(t.Context(), "id",
				engine.LoadParameters{})
		}, true,
			"id|1|UNAVAILABLE|Invalid argument: failed to read…", ""},
		{"mended", func() error {
			write(t, root+"/id/config.pbtxt", strings.Replace(identityConfig, "all {}", "specific { versions: 12 }", 1))
			return e.LoadModel(t.Context(), "id", engine.LoadParameters{})
		}, false, "id|1|UNAVAILABLE|unloaded\nid|12|READY|\n", "id|12|READY|\n"},
	} {
		if err := step.do(); (err != nil) != step.fails {
			t.Errorf("%s: error %v, want one: %v", step.name, err, step.fails)
		}
		agree := func(got, want string) bool {
			begin, open := strings.CutSuffix(want, "…")
			return got == want || open && strings.HasPrefix(got, begin)
		}
		c.until(t, step.name+": nothing drains", func() bool { return !strings.Contains(index(false), "UNLOADING") })
		if got := index(false); !agree(got, step.want) {
			t.Errorf("%s: index\n%swant\n%s", step.name, got, step.want)
		}
		if got := index(true); !agree(got, step.ready) {
			t.Errorf("%s: index of what is ready\n%swant\n%s", step.name, got, step.ready)
		}
	}
}

// Close during Start stops the loads, and no polling starts.
func TestCloseDuringStart(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		e, err := engine.New(engine.Options{
			ModelOptions: engine.ModelOptions{Repositories: []string{repository(t)},
				Backends: []backend.Backend{builtin.Identity()}},
			Mode: engine.ModePoll, PollInterval: time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := e.Start(t.Context()); err != nil && status.CodeOf(err) != status.Unavailable {
				t.Errorf("Start = %v, want nil or Unavailable", err)
			}
		})
		wg.Go(func() { e.Close(context.Background()) })
		wg.Wait()
		if e.Live() || e.Ready() {
			t.Errorf("after Close: live %v, ready %v", e.Live(), e.Ready())
		}
		if ok, _ := e.ModelReady("id", infer.LatestVersion); ok {
			t.Error("a model serves after Close")
		}
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}
