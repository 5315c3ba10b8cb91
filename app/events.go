package app

import (
	"fmt"
	"time"

	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/status"
)

// events writes what happens to models into the log, with Triton's lines, and into the history, and pokes the page.
func (s *server) events() engine.EventListener {
	return engine.EventListener{
		Loading: func(model string, version int64) { s.log.Info(fmt.Sprintf("loading: %s:%d", model, version)) },
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
			s.recorder.Event(history.Event{Kind: history.Unload, Model: model, Version: version, Text: "left memory; its next request loads it"})
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
