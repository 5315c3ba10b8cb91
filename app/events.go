package app

import (
	"context"
	"time"

	"nereid/app/console/configs"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/status"
	"nereid/store"
)

// events writes what happens to models into the log, with Triton's lines, and into the history, and pokes the page.
func (s *server) events() engine.EventListener {
	logged := engine.LogEvents(s.log)
	return engine.EventListener{
		Loading: logged.Loading, Downloading: logged.Downloading, Ready: logged.Ready, Replaced: logged.Replaced,
		Loaded: func(model string, version int64, took time.Duration, reload bool) {
			kind := history.Load
			if reload {
				kind = history.Reload
			}
			s.recorder.Event(history.Event{Kind: kind, Model: model, Version: version, Detail: history.Took(took)})
		},
		Failed: func(model string, version int64, err error, kept bool) {
			kind := history.LoadFailed
			if kept {
				kind = history.ReloadFailed
			}
			s.recorder.Event(history.Event{Kind: kind, Model: model, Version: version, Text: status.Reason(err)})
			logged.Failed(model, version, err, kept)
		},
		Unloaded: func(model string, version int64) {
			logged.Unloaded(model, version)
			s.recorder.Event(history.Event{Kind: history.Unload, Model: model, Version: version})
		},
		Evicted: func(model string, version int64) {
			logged.Evicted(model, version)
			s.recorder.Event(history.Event{Kind: history.Evict, Model: model, Version: version, Text: "left memory; its next request loads it"})
		},
		VersionsChosen: func(model string, before, after []int64) {
			s.keepRevision(configs.VersionsRevision(model, before, after))
		},
		Overridden: func(model, before, config string) {
			s.keepRevision(configs.OverrideRevision(model, before, config))
		},
		ScanFailed: func(err error) {
			logged.ScanFailed(err)
			s.recorder.Event(history.Event{Kind: history.RepositoryError, Text: err.Error()})
		},
		Changed: func() {
			if c := s.console.Load(); c != nil {
				c.ModelsChanged()
			}
		},
	}
}

// keepRevision stores a change of a model that came through the engine. The change is made already: an error is logged.
func (s *server) keepRevision(r store.Revision) {
	if _, err := s.store.AddRevision(context.Background(), r); err != nil {
		s.log.Warn("a change of a model is not recorded", "model", r.Model, "err", err)
	}
}
