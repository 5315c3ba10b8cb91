package imports

import (
	"maps"
	"path/filepath"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/console/imports/staging"
	"nereid/app/console/rest"
)

const (
	importLifetime = time.Hour // without a call
	maxImports     = 64        // open, or done and kept for whoever asks how they ended
)

var errCommitting = rest.Errorf(api.CodeConflict, "the import is being committed")

// staged is one import. Lock order: a model's lock, then an import's.
type staged struct {
	mu      sync.Mutex // guards the following
	area    *staging.Area
	view    api.Import
	dir     string // of the arranged model; "" before
	touched time.Time
	writing int  // number of files that are arriving
	edited  bool // the user changed the configuration
	removed bool
}

func (h *Handler) get(id string) (*staged, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.staged[id]
	if s == nil {
		return nil, rest.Errorf(api.CodeNotFound,
			"there is no import %s; it may have been left alone for too long, drop the model again", rest.Quote(id))
	}
	return s, nil
}

// add makes an import with an empty Area.
func (h *Handler) add(origin api.ImportOrigin, source string) (*staged, error) {
	v := api.Import{ID: folders.NewID(), Origin: origin, Source: source, Repository: h.Catalog.Repositories[0],
		State: api.ImportUploading, Progress: -1}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.staged) >= maxImports && !h.forgetDone() {
		return nil, rest.Errorf(api.CodeUnavailable, "%d imports are open already; finish or close some", maxImports)
	}
	area, err := staging.NewArea(filepath.Join(h.DataDir, "imports", v.ID), h.Limits)
	if err != nil {
		return nil, err
	}
	s := &staged{area: area, view: v, touched: time.Now()}
	h.staged[v.ID] = s
	return s, nil
}

// forgetDone forgets the import that is done and was touched first. It reports whether there was one. h.mu is held.
func (h *Handler) forgetDone() bool {
	var first string
	var when time.Time
	for id, s := range h.staged {
		if !s.mu.TryLock() {
			continue // in use
		}
		if s.view.State == api.ImportLoaded && (first == "" || s.touched.Before(when)) {
			first, when = id, s.touched
		}
		s.mu.Unlock()
	}
	delete(h.staged, first) // its files are in the repository
	return first != ""
}

// drop removes an import and its files.
func (h *Handler) drop(id string) error {
	h.mu.Lock()
	s := h.staged[id]
	delete(h.staged, id)
	h.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = true
	return s.area.Remove()
}

// Expire removes imports that nobody has used for an hour.
func (h *Handler) Expire() {
	h.mu.Lock()
	all := maps.Clone(h.staged)
	h.mu.Unlock()
	for id, s := range all {
		if s.idle() <= importLifetime {
			continue
		}
		if err := h.drop(id); err != nil {
			h.Log.Warn("an import that was left alone cannot be removed", "import", id, "err", err)
		}
	}
}

// use locks an import for a change and marks it as used. It refuses one that is being committed or is done.
func (h *Handler) use(id string) (*staged, error) {
	s, err := h.get(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.touched = time.Now()
	switch {
	case s.removed:
		err = rest.Errorf(api.CodeNotFound, "the import was removed")
	case s.view.State == api.ImportCommitting:
		err = errCommitting
	case s.view.State == api.ImportLoaded:
		err = rest.Errorf(api.CodeConflict, "the import is done")
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return s, nil
}

// idle returns how long the import was not used. An import whose lock is held is in use.
func (s *staged) idle() time.Duration {
	if !s.mu.TryLock() {
		return 0
	}
	defer s.mu.Unlock()
	if s.view.State == api.ImportCommitting || s.writing > 0 {
		return 0
	}
	return time.Since(s.touched)
}

// startFile returns where an arriving file is written to. The import does not expire until endFile is called.
func (s *staged) startFile() (*staging.Area, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.State == api.ImportCommitting || s.view.State == api.ImportLoaded {
		return nil, rest.Errorf(api.CodeConflict, "the import takes no more files; it is %s", s.view.State)
	}
	s.writing++
	return s.area, nil
}

func (s *staged) endFile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing--
	s.touched = time.Now()
}
