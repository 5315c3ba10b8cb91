package engine

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"nereid/engine/status"
)

// downloadLogInterval is how often a download is logged while it runs.
const downloadLogInterval = 5 * time.Second

// LogEvents returns a listener that writes Triton's lines about the lives of models to log, whose handler is the
// program's own: what a log callback is in Triton. A program that wants more of some events calls these from listeners
// of its own.
func LogEvents(log *slog.Logger) EventListener {
	var mu sync.Mutex
	downloads := map[string]time.Time{} // when each was logged; guarded by mu
	unloaded := func(model string, version int64) {
		log.Info(fmt.Sprintf("successfully unloaded '%s' version %d", model, version))
	}
	return EventListener{
		Loading: func(model string, version int64) { log.Info(fmt.Sprintf("loading: %s:%d", model, version)) },
		Downloading: func(model string, version int64, done, total int64) {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(downloads[model]) < downloadLogInterval && done < total {
				return
			}
			downloads[model] = time.Now()
			log.Info(fmt.Sprintf("downloading: %s:%d", model, version), "done", done, "total", total)
		},
		Ready: func(model string) { log.Info(fmt.Sprintf("successfully loaded '%s'", model)) },
		Failed: func(model string, version int64, err error, _ bool) {
			if version == 0 {
				log.Error(fmt.Sprintf("Poll failed for model directory '%s': %s", model, err))
				return
			}
			log.Error(fmt.Sprintf("failed to load '%s' version %d: %s", model, version, status.Reason(err)))
		},
		Unloaded: unloaded,
		Replaced: unloaded, // in Triton's log the old one of a reload is unloaded too
		Evicted: func(model string, version int64) {
			log.Info(fmt.Sprintf("'%s' version %d has left memory; its next request loads it", model, version))
		},
		ScanFailed: func(err error) {
			log.Error("a model repository cannot be read; what is loaded goes on serving", "err", err)
		},
	}
}
