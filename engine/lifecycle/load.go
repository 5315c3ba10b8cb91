package lifecycle

import (
	"context"

	"nereid/engine/repo"
	"nereid/engine/status"
)

// operation is one load of a model, and of the models of its steps if it is an ensemble.
type operation struct {
	m    *Manager
	seen map[string]bool // models of steps that were looked at: each only once
	// acyclic holds the models from which no steps lead back to where the operation began.
	acyclic map[string]bool
	loaded  []string // the models of steps that were not kept as they were, in the order in which they were loaded
	// skipHeld: the models of steps that were unloaded on request are left alone.
	skipHeld bool
	// evenUnchanged: the models of the steps of an ensemble are looked at although the ensemble is unchanged.
	evenUnchanged bool
}

func newOperation(m *Manager) *operation {
	return &operation{m: m, seen: map[string]bool{}, acyclic: map[string]bool{}}
}

// The kinds of loads. Each returns whether it kept the model as it was.

// loadAtStart loads a model that the scan at the start found.
func (o *operation) loadAtStart(ctx context.Context, src *repo.Model) (kept bool, err error) {
	c, err := o.m.begin(ctx, src.Key, nil, func(*entry) (*repo.Model, error) { return src, nil })
	if c == nil {
		return true, err
	}
	defer c.end()
	c.markRequested()
	if c.unchanged() {
		return true, nil
	}
	return c.load(o)
}

// loadRequested loads a model for a load request, whose override is nil if it brings none. As in Triton, it brings the
// models of an ensemble's steps up to date even if the ensemble itself has not changed.
func (o *operation) loadRequested(ctx context.Context, key string, over *override) (kept bool, err error) {
	c, err := o.m.begin(ctx, key, over, func(*entry) (*repo.Model, error) {
		if over.hasFiles() {
			return over.scan(key), nil
		}
		return o.m.find(key)
	})
	if c == nil {
		return true, err
	}
	defer c.end()
	c.whenFull = waitForRoom
	c.markRequested()
	c.dropChoices()
	o.evenUnchanged = true
	if c.unchanged() {
		_ = o.loadSteps(c)
		return true, nil
	}
	return c.load(o)
}

// loadSingle loads one version beside those in service.
func (o *operation) loadSingle(ctx context.Context, key string, version int64) (kept bool, err error) {
	c, err := o.m.begin(ctx, key, nil, func(*entry) (*repo.Model, error) { return o.m.find(key) })
	if c == nil {
		return true, err
	}
	defer c.end()
	c.whenFull, c.only = waitForRoom, version
	c.markRequested()
	if c.unchanged() {
		return true, nil
	}
	return c.load(o)
}

// loadPolled loads a model that polling found changed, and that look finds again. A model that was unloaded on request
// is left alone.
func (o *operation) loadPolled(ctx context.Context, src *repo.Model, look func() (*repo.Model, error)) (kept bool,
	err error) {
	o.skipHeld = true
	c, err := o.m.begin(ctx, src.Key, nil, func(e *entry) (*repo.Model, error) {
		if o.isHeld(e) {
			return nil, nil
		}
		return look()
	})
	if c == nil {
		return true, err
	}
	defer c.end()
	if c.unchanged() {
		return true, nil
	}
	return c.load(o)
}

// loadStep loads the model of an ensemble's step from the repository.
func (o *operation) loadStep(ctx context.Context, key string) {
	c, _ := o.m.begin(ctx, key, nil, func(e *entry) (*repo.Model, error) {
		if o.skipHeld && o.isHeld(e) {
			return nil, nil
		}
		return o.m.find(key)
	})
	if c == nil {
		return // the ensemble's load reports what is wrong
	}
	defer c.end()
	if !c.unchanged() {
		if kept, _ := c.load(o); !kept {
			o.loaded = append(o.loaded, key)
		}
	} else if o.evenUnchanged {
		_ = o.loadSteps(c)
	}
}

// reloadEnsemble loads an ensemble again because a model of its steps has changed. Models of its steps that were
// unloaded on request stay so.
func (o *operation) reloadEnsemble(key string) (kept bool, err error) {
	o.skipHeld = true
	c, err := o.m.begin(o.m.open, key, nil, o.source)
	if c == nil {
		return true, err
	}
	defer c.end()
	c.keepOverride()
	return c.load(o)
}

// reloadEvicted loads an evicted model, for the requests that wait for it.
func (o *operation) reloadEvicted(key string) error {
	c, err := o.m.begin(o.m.open, key, nil, func(e *entry) (*repo.Model, error) {
		if !o.isEvicted(e) {
			return nil, nil
		}
		return o.source(e)
	})
	if c == nil {
		return err
	}
	defer c.end()
	c.whenFull = stayEvicted
	c.keepOverride()
	_, err = c.load(o)
	return err
}

// source finds what a model comes from: the files of a load request, or its folder.
func (o *operation) source(e *entry) (*repo.Model, error) {
	o.m.mu.Lock()
	over := e.override
	o.m.mu.Unlock()
	if over.hasFiles() {
		return over.scan(e.name), nil
	}
	return o.m.find(e.name)
}

// isHeld reports whether a model was unloaded on request, so that polling leaves it alone.
func (o *operation) isHeld(e *entry) bool {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	return e.held
}

// isEvicted reports whether a version of a model is evicted.
func (o *operation) isEvicted(e *entry) bool {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	for _, v := range e.versions {
		if v.evicted {
			return true
		}
	}
	return false
}

// notPolled is Triton's error for a model whose folder or configuration is at fault.
func notPolled(name string, err error) error {
	return status.Errorf(status.Internal, "failed to load '%s', failed to poll from model repository: %w", name, err)
}
