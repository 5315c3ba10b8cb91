package lifecycle

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/backend"
	"nereid/engine/device"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/residency"
	"nereid/engine/stats"
)

// Manager serves the models of the repositories. Its methods are safe for concurrent use.
type Manager struct {
	*Repositories
	o         Options
	stats     *stats.Registry
	downloads *downloads
	agents    *agents
	loader    *loader
	memory    *residency.Ledger
	waiting   residency.Waiting
	poller    poller
	table     atomic.Pointer[table]
	loads     chan struct{} // a token for each load under way

	wg     sync.WaitGroup  // changes and drains
	hard   context.Context // ends when Close waits no longer
	cancel context.CancelFunc
	open   context.Context // ends when Close begins; no load goes on after
	shut   context.CancelFunc

	// Lock order: an entry's op, mu, the locks of the parts above.
	mu      sync.Mutex
	entries map[string]*entry // guarded by mu, as are the entries' fields
	// overrides are what loaded models came from; guarded by mu.
	overrides map[*model.Model]*override
	leaving   map[*model.Model]*entry // left service and are not closed yet; guarded by mu
	closed    bool
}

// entry is what the manager knows of one model.
type entry struct {
	name string     // its key; see repo.Key
	op   sync.Mutex // held during a change of this model

	life
	src       *repo.Model // what the present state came from; nil: never tried
	override  *override
	cfg       *inferencepb.ModelConfig // in service, or last tried
	refused   *inferencepb.ModelConfig // of the last change, if it was refused before it was complete
	text      string                   // the configuration file as it was then
	busy      bool                     // a change that polling started is under way
	waits     error                    // why a change that polling saw is not made yet
	giveUp    context.CancelCauseFunc  // cancels the change under way; nil: there is none that loads
	awaits    string                   // the model of a step that a load of this ensemble waits for; "": none
	requested bool                     // it was loaded by its own name, not only as a step of an ensemble
	// lingering ends the wait for the sequences of models that left service.
	lingering map[*model.Model]context.CancelFunc
	account   *residency.Account
	shadow    *shadowing // the candidate, also after it has ended; nil: there never was one
}

// NewManager returns a manager that serves nothing yet. host is what backends may ask of the server.
func NewManager(o Options, host backend.Host, registry *stats.Registry) *Manager {
	o.Settle = cmp.Or(o.Settle, time.Second)
	m := &Manager{
		o: o, Repositories: newRepositories(&o), stats: registry, entries: map[string]*entry{},
		overrides: map[*model.Model]*override{}, leaving: map[*model.Model]*entry{},
		loads: make(chan struct{}, cmp.Or(o.LoadThreads, 4)),
	}
	m.hard, m.cancel = context.WithCancel(context.Background())
	m.open, m.shut = context.WithCancel(m.hard)
	m.memory = residency.NewLedger(residency.Options{Budget: o.Residency, Evict: m.evict,
		Waiting: func() { m.dropHolds(nil) }, Activity: registry.Waiter().Activity, Log: o.Log})
	m.downloads = newDownloads(m.open, &m.o)
	m.agents = &agents{o: &m.o, chains: map[*model.Model]*agentChain{}}
	m.poller = poller{m: m, waiting: map[string]pending{}, again: make(chan struct{}, 1)}
	m.loader = &loader{
		o: &m.o, host: host, stats: registry, repos: m.Repositories, downloads: m.downloads, agents: m.agents,
		backends: map[string]backend.Backend{}, stepOf: steps{m}.config, labelsOf: steps{m}.labels,
		hold: steps{m}.hold, started: steps{m}.started, cores: device.NewCores(nil),
	}
	for _, b := range o.Backends {
		m.loader.backends[b.Name()] = b
	}
	empty := &table{}
	if o.Namespaces {
		empty.names = names{}
	}
	m.table.Store(empty)
	m.wg.Go(func() { m.memory.Run(m.open) })
	return m
}

// add makes the entry of a model. mu is held.
func (m *Manager) add(key string) *entry {
	e := &entry{name: key, account: m.memory.Open(key)}
	m.entries[key] = e
	return e
}

// forget removes the entry of a model. mu is held.
func (m *Manager) forget(e *entry) {
	delete(m.entries, e.name)
	e.account.Close()
}

// lock returns a model's entry with op held; the caller unlocks it. If there is no entry, it makes one if add is set.
// If not, and when the manager is closed, it returns nil.
func (m *Manager) lock(key string, add bool) *entry {
	for {
		m.mu.Lock()
		e := m.entries[key]
		if e == nil && add && !m.closed {
			e = m.add(key)
		}
		m.mu.Unlock()
		if e == nil {
			return nil
		}
		e.op.Lock()
		m.mu.Lock()
		current := m.entries[key] == e
		m.mu.Unlock()
		if current {
			return e
		}
		e.op.Unlock() // it was forgotten while we waited
	}
}

// LoadAll loads every model of the repositories, as at start, and waits. A model that fails is in the index with its
// reason, and in failed; only a repository that cannot be read is an error.
func (m *Manager) LoadAll(ctx context.Context) (failed []error, err error) {
	found, err := m.scan()
	if err != nil {
		return nil, err
	}
	m.downloads.prefetch(found)
	var ensembles, others []*repo.Model // ensembles after the others, so that no step is tried twice
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if m.loader.steps(found[key], nil) != nil {
			ensembles = append(ensembles, found[key])
		} else {
			others = append(others, found[key])
		}
	}
	failed = m.loadFound(ctx, others)
	return append(failed, m.loadFound(ctx, ensembles)...), nil
}

// loadFound loads models, all at once, and returns why some failed.
func (m *Manager) loadFound(ctx context.Context, found []*repo.Model) (failed []error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, src := range found {
		wg.Go(func() {
			err := dependentsOf(m).change(src.Key, func(o *operation) (bool, error) { return o.loadAtStart(ctx, src) })
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
	}
	wg.Wait()
	return failed
}

// Discover notes the repositories' models without loading them, as in explicit mode.
func (m *Manager) Discover() error {
	found, err := m.scan()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range found {
		if m.entries[key] == nil {
			m.add(key)
		}
	}
	return nil
}

// Load loads a model, or what changed in it, and waits. over, if not nil, replaces its configuration and files. Errors
// have Triton's texts: Internal "failed to load 'x', failed to poll from model repository" if it does not exist or its
// configuration cannot be used, InvalidArg for an invalid name and "load failed for model 'x': …" if a version cannot
// be loaded. Also InvalidArg if an override's file would lie outside the model's folder.
func (m *Manager) Load(ctx context.Context, name string, over *Override) error {
	if err := m.checkName(name); err != nil {
		return err
	}
	if err := over.check(name); err != nil {
		return err
	}
	keys := m.loadKeys(name)
	if len(keys) > 1 && over != nil && len(over.Files) > 0 {
		return ambiguous(name, len(keys))
	}
	return each(keys, func(key string) error {
		ov, err := m.o.unpack(name, key, over)
		if err != nil {
			return err
		}
		return dependentsOf(m).change(key, func(o *operation) (bool, error) { return o.loadRequested(ctx, key, ov) })
	})
}

// Unload takes a model out of service and returns once no new request reaches it; requests that it has are executed. A
// model that is not loaded is no error.
func (m *Manager) Unload(name string) {
	for _, key := range m.knownKeys(name) {
		m.unload(key)
	}
}

// unload returns the steps of the model if it is an ensemble in service. It reads them once no load is under way.
func (m *Manager) unload(key string) (steps []string) {
	e := m.lockToUnload(key)
	if e == nil {
		return nil
	}
	m.mu.Lock()
	if e.wanted {
		steps = e.stepKeys()
	}
	m.mu.Unlock()
	m.retire(e, retired{byHand: true}, true)
	e.op.Unlock()
	dependentsOf(m).update(key, "")
	return steps
}

// retire takes all versions out of service, and forgets the model unless it is to stay known. e.op is held.
func (m *Manager) retire(e *entry, ev retired, known bool) {
	m.mu.Lock()
	m.step(e, ev)
	for _, stop := range e.lingering {
		stop()
	}
	e.src, e.requested = nil, false
	if !known {
		m.table.Store(m.table.Load().withFormer(e.name, slices.Collect(maps.Keys(e.versions))))
		m.forget(e)
	}
	e.override.release()
	e.override = nil
	m.mu.Unlock()
	m.o.Events.changed()
}

// StopLoads cancels the loads under way, and refuses others from now on. Close does it too.
func (m *Manager) StopLoads() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.shut()
}

// Close refuses all requests from now on, gives up loads under way, lets requests finish until ctx ends, then stops
// them, and waits until every model is closed.
func (m *Manager) Close(ctx context.Context) {
	m.mu.Lock()
	m.closed = true
	m.shut()
	entries := slices.Collect(maps.Values(m.entries))
	m.mu.Unlock()
	stop := context.AfterFunc(ctx, m.cancel)
	defer stop()
	var wg sync.WaitGroup
	for _, e := range entries {
		wg.Go(func() {
			e.op.Lock() // a change under way ends first
			defer e.op.Unlock()
			m.retire(e, retired{}, true)
		})
	}
	wg.Wait()
	m.wg.Wait()
	m.cancel()
}
