package lifecycle

import (
	"errors"

	"nereid/engine/infer"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// waking is the load of an evicted model that requests wait for.
type waking struct{ requests []*infer.Request }

// maxWaiting is how many requests may wait for one model to be loaded.
const maxWaiting = 4096

// Await takes a request to a version that is not in memory: the request waits until the model is loaded, and then runs.
// It does not block. On nil every response, errors too, comes through r.Next; what the request sees as Served is set. On
// an error there is no response. Errors: NotFound if the version has left service meanwhile, Unavailable when too many
// wait.
func (m *Manager) Await(r *infer.Request) error {
	for {
		mod, err := m.AcquireFor(r)
		if err == nil {
			return mod.Infer(r) // it has come meanwhile
		}
		if !errors.Is(err, ErrEvicted) {
			return err
		}
		key, err := m.key(r.ModelName)
		if err != nil {
			return err
		}
		m.mu.Lock()
		if m.closed {
			m.mu.Unlock()
			return errStopping
		}
		e := m.entries[key]
		face := e.face(r.Version)
		if face == nil {
			m.mu.Unlock()
			continue // the table has changed since
		}
		defer m.mu.Unlock()
		if e.waking == nil {
			e.waking = &waking{}
			m.wg.Add(1)
			go m.wake(e)
		}
		if len(e.waking.requests) >= maxWaiting {
			return status.Errorf(status.Unavailable, "%d requests wait for model '%s' to be loaded; try again later", maxWaiting, r.ModelName)
		}
		if r.Served == nil {
			r.Served = face
		}
		if r.Times.Arrived == 0 {
			r.Times.Arrived = infer.Now()
		}
		e.waking.requests = append(e.waking.requests, r.Retain())
		return nil
	}
}

// face returns what requests see of a version that is evicted, nil if it is not. Manager.mu is held.
func (e *entry) face(version int64) infer.Served {
	if e == nil {
		return nil
	}
	if version < 0 {
		for n, v := range e.versions {
			if v.serves() {
				version = max(version, n)
			}
		}
	}
	if v := e.versions[version]; v.evicted {
		return v.face
	}
	return nil
}

// asleep reports whether a version is evicted.
func (m *Manager) asleep(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range e.versions {
		if v.evicted {
			return true
		}
	}
	return false
}

// look finds what a model comes from: what a load request brought, or its folder.
func (m *Manager) look(e *entry) func() (*repo.Model, error) {
	return func() (*repo.Model, error) {
		m.mu.Lock()
		over := e.override
		m.mu.Unlock()
		if over != nil && over.folder != "" {
			return over.look(e.name), nil
		}
		return m.find(e.name)
	}
}

// wake loads an evicted model and then runs the requests that waited for it.
func (m *Manager) wake(e *entry) {
	defer m.wg.Done()
	// What waits runs before the ensembles that the model is part of are looked at: one that is being loaded may be who waits.
	_, _, err := m.changeOne(m.open, e.name, task{look: m.look(e), wake: true, seen: map[string]bool{}, clear: map[string]bool{}})
	m.mu.Lock()
	waited := e.waking.requests
	e.waking = nil
	m.mu.Unlock()
	for _, r := range waited {
		m.resume(r, err)
		r.Release()
	}
	m.updateDependents(e.name, "", map[string]bool{})
}

// resume runs a request that has waited, or answers it with why it cannot.
func (m *Manager) resume(r *infer.Request, failed error) {
	if r.Cancelled() {
		r.Fail(status.New(status.Cancelled, "request was cancelled while it waited for its model to be loaded"))
		return
	}
	mod, err := m.Acquire(r.ModelName, r.Served.Version())
	if err != nil && !errors.Is(err, ErrEvicted) && r.Version < 0 {
		mod, err = m.Acquire(r.ModelName, r.Version) // another version has taken its place
	}
	switch {
	case err == nil:
		err = mod.Infer(r)
	case failed != nil:
		err = failed
	case errors.Is(err, ErrEvicted): // it had to leave again
		err = m.Await(r)
	}
	if err != nil {
		r.Fail(err)
	}
}
