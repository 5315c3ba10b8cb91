package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"nereid/app/console"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/status"
	"nereid/store"
)

// events writes what happens to models into the log, with Triton's lines, and into the history, and pokes the page.
func (s *server) events() engine.EventListener {
	return engine.EventListener{
		Loading:     func(model string, version int64) { s.log.Info(fmt.Sprintf("loading: %s:%d", model, version)) },
		Downloading: s.downloading(),
		Loaded: func(model string, version int64, took time.Duration, reload bool) {
			kind := history.Load
			if reload {
				kind = history.Reload
			}
			s.recorder.Event(history.Event{Kind: kind, Model: model, Version: version, Detail: history.Took(took)})
		},
		Ready:  func(model string) { s.log.Info(fmt.Sprintf("successfully loaded '%s'", model)) },
		Failed: s.modelFailed,
		Unloaded: func(model string, version int64) {
			s.log.Info(fmt.Sprintf("successfully unloaded '%s' version %d", model, version))
			s.recorder.Event(history.Event{Kind: history.Unload, Model: model, Version: version})
		},
		Replaced: func(model string, version int64) { // in Triton's log the old one of a reload is unloaded too
			s.log.Info(fmt.Sprintf("successfully unloaded '%s' version %d", model, version))
		},
		Evicted: func(model string, version int64) {
			s.log.Info(fmt.Sprintf("'%s' version %d has left memory; its next request loads it", model, version))
			s.recorder.Event(history.Event{Kind: history.Evict, Model: model, Version: version, Text: "left memory; its next request loads it"})
		},
		VersionsChosen: func(model string, before, after []int64) {
			s.keepRevision(console.VersionsRevision(model, before, after))
		},
		Overridden: func(model, before, config string) {
			s.keepRevision(console.OverrideRevision(model, before, config))
		},
		ScanFailed: func(err error) {
			s.log.Error("a model repository cannot be read; what is loaded goes on serving", "err", err)
			s.recorder.Event(history.Event{Kind: history.RepositoryError, Text: err.Error()})
		},
		Changed: func() {
			if c := s.console.Load(); c != nil {
				c.ModelsChanged()
			}
		},
	}
}

// downloading logs a download every few seconds, and its end.
func (s *server) downloading() func(model string, version int64, done, total int64) {
	const every = 5 * time.Second
	var mu sync.Mutex
	last := map[string]time.Time{} // guarded by mu
	return func(model string, version int64, done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last[model]) < every && done < total {
			return
		}
		last[model] = time.Now()
		s.log.Info(fmt.Sprintf("downloading: %s:%d", model, version), "done", done, "total", total)
	}
}

// keepRevision stores a change of a model that came through the engine. The change is made already: an error is logged.
func (s *server) keepRevision(r store.Revision) {
	if _, err := s.store.AddRevision(context.Background(), r); err != nil {
		s.log.Warn("a change of a model is not recorded", "model", r.Model, "err", err)
	}
}

func (s *server) modelFailed(model string, version int64, err error, kept bool) {
	kind := history.LoadFailed
	if kept {
		kind = history.ReloadFailed
	}
	s.recorder.Event(history.Event{Kind: kind, Model: model, Version: version, Text: status.Reason(err)})
	if version == 0 {
		s.log.Error(fmt.Sprintf("Poll failed for model directory '%s': %s", model, err))
		return
	}
	s.log.Error(fmt.Sprintf("failed to load '%s' version %d: %s", model, version, status.Reason(err)))
}
