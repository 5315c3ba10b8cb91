package lifecycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"nereid/engine/backend"
)

// 200 models are loaded at once: the limit on concurrent loads holds, each load is reported, and they can be cancelled.
func TestManyConcurrentLoads_B22(t *testing.T) {
	const models, threads = 200, 3
	var mu sync.Mutex
	begun, done := 0, 0
	r := newRig(t, func(o *Options) {
		o.LoadThreads = threads
		o.Events.Loading = func(string, int64) { mu.Lock(); defer mu.Unlock(); begun++ }
		o.Events.Ready = func(string) { mu.Lock(); defer mu.Unlock(); done++ }
	})
	for i := range models {
		r.write(fmt.Sprintf("m%d/config.pbtxt", i), policy("all {}"))
		r.write(fmt.Sprintf("m%d/1/file", i), "")
	}
	ctx, giveUp := context.WithCancel(t.Context())
	r.b.load = func(ctx context.Context, _ backend.Spec) error {
		mu.Lock()
		n := begun
		mu.Unlock()
		if n > 20 {
			giveUp()
		}
		return ctx.Err()
	}
	failed, err := r.LoadAll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(failed) < models/2 {
		t.Errorf("%d of %d loads failed after they were given up", len(failed), models)
	}
	r.b.load = nil
	if failed, err = r.LoadAll(t.Context()); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	open, _, most := r.b.count()
	if open != models || most > threads {
		t.Errorf("%d models are open, want %d; up to %d loaded at once, want %d at most", open, models, most, threads)
	}
	mu.Lock()
	defer mu.Unlock()
	if begun < models || done != models {
		t.Errorf("notified of %d loads that began and %d models that are ready, want %d", begun, done, models)
	}
}

// A file that is not regular or cannot be read fails its model, but neither polling nor other models.
func TestIrregularFilesAreRefused_B7(t *testing.T) {
	r := newRig(t, nil)
	for _, name := range []string{"good", "loop", "fifo", "outside"} {
		r.write(name+"/config.pbtxt", policy("all {}"))
		r.write(name+"/1/other", "")
	}
	r.write("good/1/file", "")
	at := func(path string) string { return filepath.Join(r.root, path) }
	if err := os.Symlink(at("loop/1"), at("loop/1/file")); err != nil { // a link that leads back
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo/config.pbtxt.new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at("fifo/config.pbtxt.new"), at("fifo/config.pbtxt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nonexistent/file", at("outside/1/file")); err != nil {
		t.Fatal(err)
	}
	r.pollAll()
	r.check("among odd ones", "good", 1)
	for _, name := range []string{"loop", "fifo", "outside"} {
		r.check("odd", name)
		if r.reason(name, 0) == "" && r.reason(name, 1) == "" {
			t.Errorf("%s is not served, and there is no reason", name)
		}
	}
	if err := r.ask("good"); err != nil {
		t.Error(err)
	}
}

// A repository that is replaced by a file unloads nothing. When it is a folder again, polling continues.
func TestRepositoryReplacedByFile_B16(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	r.pollAll()
	aside := t.TempDir() + "/aside"
	if err := os.Rename(r.root, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.root, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.pollAll()
	r.check("while it is a file", "m", 1)
	if err := r.ask("m"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(r.root); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, r.root); err != nil {
		t.Fatal(err)
	}
	r.write("m/2/file", "")
	r.pollAll()
	r.check("back", "m", 1, 2)
}
