package lifecycle

import (
	"slices"
	"strings"

	"nereid/engine/ensemble"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// dependents brings ensembles in line with the models of their steps after a change of these.
type dependents struct {
	m *Manager
	// reloaded holds the ensembles that were reloaded for the change, with the outcome: one that fails is not tried
	// again for each way that leads to it.
	reloaded map[string]error
	checking map[string]bool // ensembles whose check is under way: what refused configurations say may be a circle
}

func dependentsOf(m *Manager) *dependents {
	return &dependents{m, map[string]error{}, map[string]bool{}}
}

// change runs a load of a model, and then brings the ensembles that it is a step of in line with it.
func (d *dependents) change(key string, load func(*operation) (kept bool, err error)) error {
	o := newOperation(d.m)
	kept, err := load(o)
	except := key
	if kept { // it may not fit the models of its steps any more
		except = ""
	} else {
		d.refitLoaded(key)
	}
	for _, step := range o.loaded {
		d.update(step, except)
	}
	if !kept {
		d.update(key, "")
	}
	return err
}

// refitLoaded is refit for an ensemble that was loaded: a model of its steps may have left since.
func (d *dependents) refitLoaded(key string) {
	m := d.m
	m.mu.Lock()
	e := m.entries[key]
	ensembles := e != nil && slices.ContainsFunc(e.models(), func(mod *model.Model) bool {
		return mod.Config().GetEnsembleScheduling() != nil
	})
	m.mu.Unlock()
	if !ensembles {
		return // it does not wait for another load of the model
	}
	if e = m.lock(key, false); e != nil {
		d.refit(e)
		e.op.Unlock()
	}
}

// update checks the ensembles that a model is a step of, without except. One that does not fit any more leaves service
// with the reason; one that fits again is loaded.
func (d *dependents) update(key, except string) {
	m := d.m
	m.mu.Lock()
	var all []string
	for other, e := range m.entries {
		if other != except && other != key && e.wanted && e.mayHaveStep(key) {
			all = append(all, other)
		}
	}
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return
	}
	slices.Sort(all)
	for _, other := range all {
		d.check(other)
	}
}

// configs returns the configuration that was tried last, and those of the loaded versions, which may be older. Some may
// be nil. Manager.mu is held.
func (e *entry) configs() []*inferencepb.ModelConfig {
	all := []*inferencepb.ModelConfig{e.cfg, e.refused}
	for _, mod := range e.models() {
		all = append(all, mod.Config())
	}
	return all
}

// stepKeys returns the keys of the models of an ensemble's steps, also of versions that are older than its
// configuration. Manager.mu is held.
func (e *entry) stepKeys() (all []string) {
	for _, cfg := range e.configs() {
		all = append(all, ensemble.StepKeys(cfg)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// mayHaveStep reports whether a step of an ensemble runs a model, or may have to run it now that it has changed.
// Manager.mu is held.
func (e *entry) mayHaveStep(key string) bool {
	_, name := repo.Split(key)
	return slices.ContainsFunc(e.configs(), func(cfg *inferencepb.ModelConfig) bool {
		return slices.ContainsFunc(cfg.GetEnsembleScheduling().GetStep(),
			func(s *inferencepb.ModelEnsembling_Step) bool { return s.GetModelName() == name })
	})
}

// check checks an ensemble against the models of its steps.
func (d *dependents) check(key string) {
	m := d.m
	e := m.lock(key, false)
	if e == nil {
		return
	}
	if d.checking[key] {
		e.op.Unlock()
		return
	}
	d.checking[key] = true
	defer delete(d.checking, key)
	if d.moved(e) || d.switched(e) {
		e.op.Unlock()
		if d.reload(key) == nil {
			return
		}
		// What was loaded before goes on serving, and may not fit the models of its steps.
		if e = m.lock(key, false); e == nil {
			return
		}
	}
	m.mu.Lock()
	loaded, failed, wanted := len(e.models()) > 0, e.failed(), e.wanted && !m.closed
	m.mu.Unlock()
	d.refit(e)
	e.op.Unlock()
	if !wanted {
		return
	}
	if !loaded || failed {
		_ = d.reload(key)
	}
	if loaded { // ensembles that it is a step of are to be checked too
		d.update(key, "")
	}
}

// refit takes an ensemble out of service if it does not fit the models of its steps. e.op is held.
func (d *dependents) refit(e *entry) {
	m := d.m
	m.mu.Lock()
	models := e.models()
	m.mu.Unlock()
	var unfit error
	for _, mod := range models {
		if err := mod.Refit(steps{m}.config); err != nil {
			unfit = err
		}
	}
	if unfit != nil {
		m.mu.Lock()
		m.step(e, suspended{unfit})
		m.mu.Unlock()
		m.o.Events.failed(e.name, 0, unfit, false)
	}
}

// moved reports whether a step of an ensemble is to run another repository's model than it does. e.op is held.
func (d *dependents) moved(e *entry) bool {
	m := d.m
	m.mu.Lock()
	src, cfg, over := e.src, e.cfg, e.override
	m.mu.Unlock()
	if !m.o.Namespaces || src == nil || len(cfg.GetEnsembleScheduling().GetStep()) == 0 {
		return false
	}
	p := &plan{src: src}
	if m.loader.read(p, over) != nil {
		return false
	}
	_ = m.link(src, p.cfg) // the load reports what is missing
	return !slices.Equal(ensemble.StepKeys(p.cfg), ensemble.StepKeys(cfg))
}

// switched reports whether a loaded ensemble is decoupled and the models of its steps are not any more, or the reverse.
// e.op is held.
func (d *dependents) switched(e *entry) bool {
	d.m.mu.Lock()
	cfg, loaded := e.cfg, len(e.models()) > 0
	d.m.mu.Unlock()
	if !loaded || cfg.GetEnsembleScheduling() == nil {
		return false
	}
	decoupled, err := ensemble.Decoupled(cfg, steps{d.m}.config)
	return err == nil && decoupled != cfg.GetModelTransactionPolicy().GetDecoupled()
}

// reload loads an ensemble for a change of the models of its steps, unless it did. The outcome is also in the index and
// the events. Of a reload that is under way it is nil.
func (d *dependents) reload(key string) error {
	if err, ok := d.reloaded[key]; ok {
		return err
	}
	d.reloaded[key] = nil
	d.reloaded[key] = d.change(key, func(o *operation) (bool, error) { return o.reloadEnsemble(key) })
	return d.reloaded[key]
}

// loadSteps loads the models of an ensemble's steps as they are in the repository now. Their failures show when the
// ensemble is loaded. Errors: InvalidArg for ensembles that are steps of each other.
func (o *operation) loadSteps(c *change) error {
	steps := o.m.loader.steps(c.src, c.over)
	if err := circular(o.cycle([]string{c.src.Key}, steps)); err != nil {
		return err
	}
	defer o.m.awaitStep(c.e, "")
	for _, step := range steps {
		if o.seen[step] {
			continue
		}
		if err := circular(o.m.awaitStep(c.e, step)); err != nil {
			return err
		}
		o.seen[step] = true
		o.loadStep(c.ctx, step)
	}
	return nil
}

// circular returns the error for a way over the steps of ensembles that leads back; nil for none.
func circular(way []string) error {
	if way == nil {
		return nil
	}
	return status.Errorf(status.InvalidArg, "circular dependency between ensembles: %s", strings.Join(way, " -> "))
}

// awaitStep notes that the load of an ensemble, which holds its op, waits for that of a step; "": it does not. Loads
// must not wait for each other: if the step's waits for this one, awaitStep notes nothing and returns the way back.
func (m *Manager) awaitStep(e *entry, step string) (circle []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	way := []string{e.name}
	for key := step; key != ""; {
		way = append(way, key)
		if key == e.name {
			return way
		}
		next := m.entries[key]
		if next == nil {
			break
		}
		key = next.awaits
	}
	e.awaits = step
	return nil
}

// wayBack returns a way from an ensemble over the models of its steps, as they are in service, back to it; nil if there
// is none. What is in service may be older than the files.
func (m *Manager) wayBack(key string, steps []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string]bool{}
	var walk func(path, steps []string) []string
	walk = func(path, steps []string) []string {
		for _, step := range steps {
			way := append(slices.Clone(path), step)
			if step == key {
				return way
			}
			e := m.entries[step]
			if e == nil || seen[step] {
				continue
			}
			seen[step] = true
			for _, mod := range e.models() {
				if found := walk(way, ensemble.StepKeys(mod.Config())); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return walk([]string{key}, steps)
}

// cycle returns a way from the first model of a path over the steps of its last model back to one on the path; nil if
// there is none.
func (o *operation) cycle(path, steps []string) []string {
	for _, step := range steps {
		way := append(slices.Clone(path), step)
		if slices.Contains(path, step) {
			return way
		}
		if o.acyclic[step] {
			continue
		}
		src, err := o.m.find(step)
		if err != nil {
			continue // the load reports that there is no such model
		}
		if found := o.cycle(way, o.m.loader.steps(src, nil)); found != nil {
			return found
		}
		o.acyclic[step] = true
	}
	return nil
}

// steps answers what ensembles ask about the models of their steps.
type steps struct{ m *Manager }

// config returns the configuration of the model of a step; see ensemble.Lookup.
func (s steps) config(name string, version int64) (*inferencepb.ModelConfig, error) {
	cfg, err := s.m.Config(name, version)
	if err == nil {
		return cfg, nil
	}
	state, known := s.m.Model(name)
	if !known {
		return nil, err
	}
	for _, v := range state.Versions {
		if v.Reason != "" && (version < 0 || v.Version == version) {
			return nil, status.Errorf(status.CodeOf(err), "version %d of model '%s': %s", v.Version, name, v.Reason)
		}
	}
	if state.Err != nil {
		return nil, status.Errorf(status.CodeOf(err), "model '%s' loading failed with error: %w", name, state.Err)
	}
	return nil, err
}

// labels returns the class labels of an output of a model in service, nil if it has none.
func (s steps) labels(name string, version int64, output string) []string {
	mod, err := s.m.Find(name, version)
	if err != nil {
		return nil
	}
	return mod.Labels(output)
}

// hold holds a version in service; see ensemble.Holder.
func (s steps) hold(name string, version int64) infer.Held {
	for {
		mod, err := s.m.Find(name, version)
		if err != nil {
			return nil // the request of the step waits for the model, or gets the error
		}
		if mod.Hold() {
			return mod
		}
		// It began to close after we looked, so the table has been replaced: look again.
	}
}

// UnloadAll unloads a model. If it is an ensemble, it also unloads the models of its steps, except for those that
// another ensemble in service needs, or that were loaded by their own names.
func (m *Manager) UnloadAll(name string) {
	for _, key := range m.knownKeys(name) {
		m.unloadAll(key)
	}
}

func (m *Manager) unloadAll(key string) {
	for _, step := range m.unload(key) {
		m.mu.Lock()
		needed := m.entries[step] != nil && m.entries[step].requested
		for _, e := range m.entries {
			needed = needed || e.wanted && slices.Contains(e.stepKeys(), step)
		}
		m.mu.Unlock()
		if !needed {
			m.unloadAll(step)
		}
	}
}
