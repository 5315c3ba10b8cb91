package lifecycle

import (
	"errors"

	"nereid/engine/infer"
	"nereid/engine/residency"
	"nereid/engine/status"
)

// Await takes a request for a version that is not in memory: the request waits until the model is loaded, and is then
// executed. It does not block. On nil every response, errors too, comes through r.Next; r.Served is set. On an error
// there is no response. Errors: NotFound if the version has left service meanwhile, Unavailable when too many requests
// wait.
func (m *Manager) Await(r *infer.Request) error {
	for {
		mod, err := m.AcquireFor(r)
		if err == nil {
			return mod.Infer(r) // it was loaded meanwhile
		}
		if !errors.Is(err, ErrEvicted) {
			return err
		}
		key, err := m.key(r.ModelName)
		if err != nil {
			return err
		}
		waits, err := waiter{m}.add(key, r)
		if waits || err != nil {
			return err
		}
		// The table has changed since.
	}
}

// waiter has requests wait for evicted models, and loads these.
type waiter struct{ *Manager }

// add lets a request wait for a model, and has the model loaded. It returns false if the version is not evicted any
// more.
func (m waiter) add(key string, r *infer.Request) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, errStopping
	}
	stub := m.entries[key].stub(r.Version)
	if stub == nil {
		return false, nil
	}
	served := r.Served
	if served == nil {
		r.Served = stub
	}
	if r.Times.Arrived == 0 {
		r.Times.Arrived = infer.Now()
	}
	first, err := m.waiting.Add(key, r)
	if err != nil {
		r.Served = served
		return false, err
	}
	if first {
		m.wg.Go(func() { m.reload(key) })
	}
	return true, nil
}

// stub returns what requests see of a version that is evicted, nil if it is not. Manager.mu is held.
func (e *entry) stub(version int64) infer.Served {
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
		return v.stub
	}
	return nil
}

// reload loads an evicted model and then runs the requests that wait for it.
func (m waiter) reload(key string) {
	// The requests run before the ensembles with this step are checked: the load of an ensemble may wait for one of
	// them.
	err := newOperation(m.Manager).reloadEvicted(key)
	for _, r := range m.waiting.Take(key) {
		m.resume(r, err)
		r.Release()
	}
	dependentsOf(m.Manager).update(key, "")
}

// resume runs a request that has waited for its model. failed is the error of the load.
func (m waiter) resume(r *infer.Request, failed error) {
	if r.Cancelled() {
		r.Fail(status.New(status.Cancelled, "request was cancelled while it waited for its model to be loaded"))
		return
	}
	mod, err := m.Acquire(r.ModelName, r.Served.Version())
	if err != nil && !errors.Is(err, ErrEvicted) && r.Version < 0 {
		mod, err = m.Acquire(r.ModelName, r.Version) // another version has replaced it
	}
	switch {
	case err == nil:
		err = mod.Infer(r)
	case failed != nil:
		err = failed
	case errors.Is(err, ErrEvicted): // it was evicted again
		err = m.Await(r)
	}
	if err != nil {
		r.Fail(err)
	}
}

// Pin keeps a model in memory or not, whatever its configuration says; nil: as that says.
func (m *Manager) Pin(name string, pinned *bool) {
	key, err := m.key(name)
	if err != nil {
		key = name // of several models: none of them
	}
	m.memory.Pin(key, pinned)
	m.o.Events.changed()
}

// Evict releases a model's memory; its next request loads it again. Errors: NotFound, Unavailable while it executes
// requests or is being changed.
func (m *Manager) Evict(name string) error {
	key, err := m.key(name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil || len(e.models()) == 0 {
		return status.Errorf(status.NotFound, "model '%s' is not in memory", name)
	}
	if e.cfg.GetEnsembleScheduling() != nil {
		return status.Errorf(status.InvalidArg,
			"model '%s' is an ensemble, which takes no memory; evict the models of its steps", name)
	}
	for _, mod := range e.models() {
		if !mod.Resting() {
			return status.Errorf(status.Unavailable, "model '%s' is at work", name)
		}
	}
	if !e.op.TryLock() {
		return status.Errorf(status.Unavailable, "model '%s' is being changed", name)
	}
	defer e.op.Unlock()
	m.step(e, eviction{})
	return nil
}

// evict takes a model out of memory; see residency.Options.
func (m *Manager) evict(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil {
		return true
	}
	if !e.op.TryLock() {
		return false
	}
	defer e.op.Unlock()
	m.step(e, eviction{})
	return true
}

// ResidencyStatus returns the budget and what models take, as measured now.
func (m *Manager) ResidencyStatus() residency.Status { return m.memory.Status() }
