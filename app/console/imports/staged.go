package imports

import (
	"errors"
	"fmt"
	"os"
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
	maxImports     = 64
)

var errCommitting = rest.Errorf(api.CodeConflict, "the import is being committed")

// imports are the staged imports.
type imports struct {
	dir string

	mu  sync.Mutex
	all map[string]*staged // guarded by mu
}

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

// newImports starts with an empty folder: it removes what an earlier process left.
func newImports(dir string) (*imports, error) {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return &imports{dir: dir, all: map[string]*staged{}}, nil
}

// removeAll removes all imports.
func (m *imports) removeAll() error {
	m.mu.Lock()
	all := m.all
	m.all = map[string]*staged{}
	m.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.remove())
	}
	return errors.Join(errs...)
}

func (m *imports) get(id string) (*staged, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.all[id]
	if s == nil {
		return nil, rest.Errorf(api.CodeNotFound,
			"there is no import %s; it may have been left alone for too long, drop the model again", rest.Quote(id))
	}
	return s, nil
}

// add makes an import with an empty Area.
func (m *imports) add(v api.Import, l staging.Limits) (*staged, error) {
	v.ID, v.State, v.Progress = folders.NewID(), api.ImportUploading, -1
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) >= maxImports {
		return nil, rest.Errorf(api.CodeUnavailable, "%d imports are open already; finish or close some", maxImports)
	}
	area, err := staging.NewArea(filepath.Join(m.dir, v.ID), l)
	if err != nil {
		return nil, err
	}
	s := &staged{area: area, view: v, touched: time.Now()}
	m.all[v.ID] = s
	return s, nil
}

func (m *imports) drop(id string) error {
	m.mu.Lock()
	s := m.all[id]
	delete(m.all, id)
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.remove()
}

// expired returns the imports that nobody has used for their lifetime.
func (m *imports) expired() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.all {
		if s.idle() > importLifetime {
			ids = append(ids, id)
		}
	}
	return ids
}

// use locks an import for a change and marks it as used. It refuses one that is being committed or is done.
func (m *imports) use(id string) (*staged, error) {
	s, err := m.get(id)
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

func (s *staged) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = true
	return s.area.Remove()
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
