package repo

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watch sends on the returned channel (capacity 1) when something in the repositories may have changed. It is prompt
// where the file system reports changes. It also sends after every poll interval, because network file systems do not
// report them. It ends with ctx and then closes the channel. poll must be positive.
func Watch(ctx context.Context, roots []string, poll time.Duration, log *slog.Logger) <-chan struct{} {
	out := make(chan struct{}, 1)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("cannot watch the model repositories; changes are found by polling only", "err", err)
	}
	go func() {
		defer close(out)
		watch(ctx, w, roots, poll, out)
	}()
	return out
}

func watch(ctx context.Context, w *fsnotify.Watcher, roots []string, poll time.Duration, out chan<- struct{}) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if w != nil {
		defer w.Close() // an error does not matter any more
		events, errs = w.Events, w.Errors
		for _, root := range roots {
			addTree(w, root, 0)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if e.Has(fsnotify.Create) {
				addTree(w, e.Name, 1)
			}
			if base := filepath.Base(e.Name); base != ReadyName && (e.Op == fsnotify.Chmod || Ignored(base)) {
				continue
			}
		case _, ok := <-errs: // for example an overflow: anything may have changed
			if !ok {
				errs = nil
				continue
			}
		}
		select {
		case out <- struct{}{}:
		default:
		}
	}
}

// addTree watches a folder and those below it. Folders that cannot be watched are only polled.
func addTree(w *fsnotify.Watcher, path string, depth int) {
	if depth > maxDepth {
		return
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() || w.Add(path) != nil {
		return
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return
	}
	for _, e := range entries {
		if (e.IsDir() || e.Type()&fs.ModeSymlink != 0) && !Ignored(e.Name()) {
			addTree(w, filepath.Join(path, e.Name()), depth+1)
		}
	}
}
