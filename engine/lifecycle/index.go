package lifecycle

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// ModelStatus is what is known of one model.
type ModelStatus struct {
	Name       string // with namespaces the key; see repo.Split
	Repository string // "" if the model was never tried
	Folder     string
	ConfigPath string // "" if there is no file
	ConfigText string // as it was at the last change
	// Config is the effective configuration at the last change, nil if none could be made. It must not be changed.
	Config *inferencepb.ModelConfig
	// Err says why the last change failed as a whole; versions may serve all the same.
	Err error
	// Waits says why a change in the repository is not made yet, nil if none is known of.
	Waits      error
	Overridden bool
	// Memory is what the loaded versions take, as measured last; 0 if nothing is loaded or ever was measured.
	Memory model.Memory
	Pinned bool // never evicted
	// Short says why the last load did not fit into the memory budget, nil if it did.
	Short    error
	Versions []VersionStatus
}

// VersionStatus is what is known of one version.
type VersionStatus struct {
	Version int64
	State   State
	// Reason is why the version is not, or not newly, loaded, with its code's name in front; "" if all is well.
	Reason string
	// Evicted: nothing is loaded, and the next request loads it; the state is READY all the same.
	Evicted bool
	Since   time.Time // in service since; zero: it is not
	// Fetched and Fetching are the bytes of its files that have been downloaded, and all that are needed; Fetching is 0
	// unless that is under way.
	Fetched, Fetching int64
	Reloads           int
	// Model is the served version, nil unless the state is READY and nothing is evicted; also of a version in service
	// that its backend says is out of order, whose state is UNAVAILABLE.
	Model *model.Model
}

// Models returns the status of every known model, by name.
func (m *Manager) Models() []ModelStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]ModelStatus, 0, len(m.entries))
	for _, name := range slices.Sorted(maps.Keys(m.entries)) {
		all = append(all, m.entries[name].status(m.downloads))
	}
	return all
}

// Untried returns the keys of models in local repositories that are not known yet, such as those whose folders appeared
// after the start. It reads the repositories.
func (m *Manager) Untried() (keys []string) {
	folders := repo.Folders(m.scanOptions())
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range folders {
		if m.entries[key] == nil && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Model returns the status of one model; false if there is none, or several of the name.
func (m *Manager) Model(name string) (ModelStatus, bool) {
	key, err := m.key(name)
	if err != nil {
		return ModelStatus{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil {
		return ModelStatus{}, false
	}
	return e.status(m.downloads), true
}

// status returns what is known of a model. Manager.mu is held.
func (e *entry) status(d *downloads) ModelStatus {
	s := ModelStatus{
		Name: e.name, ConfigText: e.text, Config: e.cfg, Err: e.err, Waits: e.waits, Overridden: e.override != nil,
	}
	s.Memory, s.Pinned = e.account.Status()
	s.Short = e.account.Refused()
	if e.src != nil {
		s.Repository, s.Folder, s.ConfigPath = e.src.Root, e.src.Folder, e.src.Config
	}
	for n, v := range e.versions {
		s.Versions = append(s.Versions, v.status(n))
	}
	d.addTo(&s)
	slices.SortFunc(s.Versions, func(a, b VersionStatus) int { return cmp.Compare(a.Version, b.Version) })
	return s
}

func (v standing) status(n int64) VersionStatus {
	s := VersionStatus{Version: n, State: v.state, Model: v.model, Reloads: v.reloads, Evicted: v.evicted}
	switch {
	case v.reason == errUnloaded:
		s.Reason = "unloaded"
	case v.reason != nil:
		s.Reason = status.Reason(v.reason)
	}
	if v.model != nil {
		s.Since = v.since
		if err := v.model.Healthy(); err != nil {
			s.State, s.Reason = Unavailable, status.Reason(err)
		}
	}
	return s
}

// AllReady reports whether every model that is to be served has a version in service: strict readiness. A failed reload
// does not count while the version loaded before serves. An ensemble does not count while a model below it is
// unloaded on request.
func (m *Manager) AllReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.wanted && !e.serves() && !m.stepUnloaded(e, map[string]bool{}) {
			return false
		}
	}
	return true
}

// stepUnloaded reports whether an ensemble, or one among the models of its steps, lacks a model that was unloaded on
// request. seen are the models that were looked at. mu is held.
func (m *Manager) stepUnloaded(e *entry, seen map[string]bool) bool {
	return slices.ContainsFunc(e.stepKeys(), func(key string) bool {
		step := m.entries[key]
		if step == nil || seen[key] || step.serves() {
			return false
		}
		seen[key] = true
		return step.held || m.stepUnloaded(step, seen)
	})
}

// readyWithin is how long a model may take to say whether it is ready: Triton's limit.
const readyWithin = 5 * time.Second

// VersionReady reports whether a version is in service, evicted or not, its backend in order, and ready if it can be
// asked, which may take until readyWithin.
func (m *Manager) VersionReady(name string, version int64) bool {
	if mod, err := m.Find(name, version); err == nil {
		ctx, stop := context.WithTimeout(context.Background(), readyWithin)
		defer stop()
		return mod.Ready(ctx) == nil
	}
	_, err := m.Config(name, version)
	return err == nil
}
