package lifecycle

import (
	"slices"
	"time"

	"nereid/engine/backend"
)

// Events are functions that are called at changes; nil ones are skipped. They are called from the goroutine that makes
// the change, without locks held, must not block for long and must not call back into the manager's changing methods.
type Events struct {
	// Loading: a version is about to be loaded.
	Loading func(model string, version int64)
	// Downloading: done bytes of a version in a remote repository have been downloaded; called a few times a second.
	Downloading func(model string, version int64, done, total int64)
	// Loaded: a version is in service; reload says that it replaced one of the same number.
	Loaded func(model string, version int64, took time.Duration, reload bool)
	// Resized: a version in service has other instances, or the model another version policy; it was not loaded.
	Resized func(model string, version int64)
	// Ready: a change of a model succeeded.
	Ready func(model string)
	// Failed: a change failed; version is 0 if the configuration or the folder as a whole is at fault. kept says that
	// something that was in service before still is.
	Failed func(model string, version int64, err error, kept bool)
	// Unloaded: a version has left service and is closed.
	Unloaded func(model string, version int64)
	// Replaced: a model that was replaced by a reload is closed; the version stays in service.
	Replaced func(model string, version int64)
	// Evicted: a version's memory is released; its next request loads it again.
	Evicted func(model string, version int64)
	// Process: a process of a version has ended without being asked to, or runs again. Called by any goroutine.
	Process func(model string, version int64, e backend.ProcessEvent)
	// VersionsChosen: a version was loaded or unloaded alone; before and after are the versions in service, ascending.
	VersionsChosen func(model string, before, after []int64)
	// Overridden: a load request brought a configuration, JSON, in the place of before, the text of the file or the
	// JSON of an earlier request.
	Overridden func(model, before, config string)
	// ScanFailed: a repository cannot be read; nothing is unloaded.
	ScanFailed func(err error)
	// Changed: some state changed; called after each of the above too.
	Changed func()
}

func (e *Events) loading(model string, version int64) {
	if e.Loading != nil {
		e.Loading(model, version)
	}
	e.changed()
}

func (e *Events) downloading(model string, version int64, done, total int64) {
	if e.Downloading != nil {
		e.Downloading(model, version, done, total)
	}
	e.changed()
}

func (e *Events) loaded(model string, version int64, took time.Duration, reload bool) {
	if e.Loaded != nil {
		e.Loaded(model, version, took, reload)
	}
	e.changed()
}

func (e *Events) resized(model string, version int64) {
	if e.Resized != nil {
		e.Resized(model, version)
	}
	e.changed()
}

func (e *Events) ready(model string) {
	if e.Ready != nil {
		e.Ready(model)
	}
	e.changed()
}

func (e *Events) failed(model string, version int64, err error, kept bool) {
	if e.Failed != nil {
		e.Failed(model, version, err, kept)
	}
	e.changed()
}

func (e *Events) unloaded(model string, version int64) {
	if e.Unloaded != nil {
		e.Unloaded(model, version)
	}
	e.changed()
}

func (e *Events) replaced(model string, version int64) {
	if e.Replaced != nil {
		e.Replaced(model, version)
	}
	e.changed()
}

// ofProcesses returns what a version calls with the events of its processes.
func (e *Events) ofProcesses(model string, version int64) func(backend.ProcessEvent) {
	return func(p backend.ProcessEvent) {
		if e.Process != nil {
			e.Process(model, version, p)
		}
		e.changed()
	}
}

func (e *Events) versionsChosen(model string, before, after []int64) {
	if e.VersionsChosen != nil && !slices.Equal(before, after) {
		e.VersionsChosen(model, before, after)
	}
	e.changed()
}

func (e *Events) overridden(model, before, config string) {
	if e.Overridden != nil && before != config {
		e.Overridden(model, before, config)
	}
}

func (e *Events) evicted(model string, version int64) {
	if e.Evicted != nil {
		e.Evicted(model, version)
	}
	e.changed()
}

func (e *Events) changed() {
	if e.Changed != nil {
		e.Changed()
	}
}
