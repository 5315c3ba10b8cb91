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

// LogEvents returns a listener that logs the loading and unloading of models with Triton's messages. The handler of log
// does what a log callback does in Triton. A program that also handles events itself calls these functions from its own
// listener.
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
		Replaced: unloaded, // as in Triton's log
		Evicted: func(model string, version int64) {
			log.Info(fmt.Sprintf("'%s' version %d has left memory; its next request loads it", model, version))
		},
		ScanFailed: func(err error) {
			log.Error("a model repository cannot be read; what is loaded goes on serving", "err", err)
		},
	}
}
