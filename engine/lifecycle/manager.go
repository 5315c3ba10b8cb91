package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/agent"
	"nereid/engine/backend"
	"nereid/engine/cache"
	"nereid/engine/device"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/instance"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/stats"
	"nereid/engine/status"
	"nereid/engine/system/affinity"
)

// Options say what a Manager manages.
type Options struct {
	Repositories []string
	// Remotes holds the repositories that are no folders of this machine, by their names in Repositories.
	Remotes map[string]repo.Remote
	// Namespaces lets repositories have models of one name: --model-namespacing.
	Namespaces bool
	// ConfigName is --model-config-name.
	ConfigName string
	Backends   []backend.Backend
	Agents     []agent.Agent
	Host       backend.Host
	Stats      *stats.Registry
	Cache      cache.Store       // nil: there is no response cache
	Limiter    *instance.Limiter // nil: there is no rate limiter
	Machine    *device.Machine   // nil: there are no GPUs
	// HostPolicies are the server's, by name.
	HostPolicies map[string]affinity.Policy
	// GPULimits are the shares of GPUs' memory, by their number, over which no model is loaded onto them.
	GPULimits map[int]float64
	Log       *slog.Logger
	Events    Events
	// AutoComplete fills in configurations from model files (default in Triton; off by --disable-auto-complete-config).
	AutoComplete bool
	// DefaultMaxBatchSize is the backend option default-max-batch-size; 0 turns batching off where nothing asks for it.
	DefaultMaxBatchSize int
	// DefaultMaxBatchSizes are those of single backends, by name.
	DefaultMaxBatchSizes map[string]int
	// LoadThreads is how many models load at once. 0: 4.
	LoadThreads int
	// LoadRetries is how often a version that fails to load is tried again.
	LoadRetries int
	// Settle is how long a changed folder must rest before it is loaded by polling. 0: 1 s.
	Settle time.Duration
	// ResourcesFirst makes ReloadResources the policy of models that name none.
	ResourcesFirst bool
	// Residency bounds the memory of the models.
	Residency Residency
	// OverrideFolder is where load overrides with files are unpacked. "": the system's temporary folder.
	OverrideFolder string
}

// Manager serves the models of the repositories.
type Manager struct {
	o        Options
	backends map[string]backend.Backend
	table    atomic.Pointer[table]
	loads    chan struct{} // a token for each load under way
	cores    *device.Cores
	slices   instance.Slices

	wg     sync.WaitGroup  // changes and drains
	hard   context.Context // ends when Close waits no longer
	cancel context.CancelFunc
	open   context.Context // ends when Close begins; no load goes on after
	shut   context.CancelFunc
	again  chan struct{} // capacity 1: a change that polling started has ended

	mu      sync.Mutex
	entries map[string]*entry // guarded by mu, as are the entries' fields
	// The repositories, and the models' names in those that were registered with others than their folders'. Both are
	// replaced, not changed. Guarded by mu.
	roots     []string
	names     map[string]map[string]string
	chains    map[*model.Model]*chain // what agents prepared a model
	pins      map[string]bool         // by model, over what its configuration says
	closing   amount                  // of models that have left and are not closed yet
	freed     chan struct{}           // closed and replaced whenever one is
	transfers transfers               // downloads under way, and those that failed
	closed    bool
}

// entry is what the manager knows of one model.
type entry struct {
	name string     // its key; see repo.Key
	op   sync.Mutex // held during a change of this model; taken before Manager.mu

	life
	src      *repo.Model // what the present state came from; nil: never tried
	override *override
	cfg      *inferencepb.ModelConfig // in service, or last tried
	text     string                   // the configuration file as it was then
	busy     bool                     // a change that polling started is under way
	waits    error                    // why a change that polling saw is not made yet
	asked    bool                     // it was loaded by its own name, not for an ensemble alone
	// lingering ends the wait for the sequences of models that left.
	lingering map[*model.Model]context.CancelFunc

	memory   amount // of its models, as measured last
	peak     amount // the most that was measured of what src describes
	source   sources
	reserved amount      // of a load under way
	unfit    bool        // what is reserved is in memory already, and does not fit yet
	loaded   infer.Stamp // when it was loaded last
	waking   *waking     // requests that wait for it to be loaded
}

// NewManager returns a manager that serves nothing yet.
func NewManager(o Options) *Manager {
	o.Settle = cmp.Or(o.Settle, time.Second)
	m := &Manager{
		o: o, roots: o.Repositories, backends: map[string]backend.Backend{}, entries: map[string]*entry{},
		loads: make(chan struct{}, cmp.Or(o.LoadThreads, 4)), again: make(chan struct{}, 1),
		cores: device.NewCores(nil),
	}
	m.closing, m.freed, m.chains = amount{}, make(chan struct{}), map[*model.Model]*chain{}
	m.hard, m.cancel = context.WithCancel(context.Background())
	m.open, m.shut = context.WithCancel(m.hard)
	for _, b := range o.Backends {
		m.backends[b.Name()] = b
	}
	empty := &table{}
	if o.Namespaces {
		empty.names = names{}
	}
	m.table.Store(empty)
	if o.Residency.on() {
		m.wg.Add(1)
		go m.tend()
	}
	return m
}

// lock returns a model's entry with op held; the caller unlocks it. It makes the entry if there is none and add is set;
// else, and when the manager is closed, it returns nil.
func (m *Manager) lock(name string, add bool) *entry {
	for {
		m.mu.Lock()
		e := m.entries[name]
		if e == nil && add && !m.closed {
			e = &entry{name: name}
			m.entries[name] = e
		}
		m.mu.Unlock()
		if e == nil {
			return nil
		}
		e.op.Lock()
		m.mu.Lock()
		current := m.entries[name] == e
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
	found, unread := repo.Scan(m.scanOptions())
	if err := unreadError(unread); err != nil {
		return nil, err
	}
	m.prefetch(found)
	var ensembles, others []string // those after these, so that no part is tried twice
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if m.dependenciesOf(found[name], nil) != nil {
			ensembles = append(ensembles, name)
		} else {
			others = append(others, name)
		}
	}
	failed = m.loadFound(ctx, found, others)
	return append(failed, m.loadFound(ctx, found, ensembles)...), nil
}

// loadFound loads models side by side and returns why some failed.
func (m *Manager) loadFound(ctx context.Context, found map[string]*repo.Model, names []string) (failed []error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, name := range names {
		wg.Go(func() {
			if err := m.change(ctx, name, task{look: func() (*repo.Model, error) { return found[name], nil }, asked: true}); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
	}
	wg.Wait()
	return failed
}

// unreadError joins the reasons why repositories could not be read, nil if there are none.
func unreadError(unread map[string]error) error {
	var all []error
	for _, root := range slices.Sorted(maps.Keys(unread)) {
		all = append(all, unread[root])
	}
	if err := errors.Join(all...); err != nil {
		return status.Errorf(status.Internal, "%w", err)
	}
	return nil
}

// Discover notes the repositories' models without loading them, as in explicit mode.
func (m *Manager) Discover() error {
	found, unread := repo.Scan(m.scanOptions())
	if err := unreadError(unread); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range found {
		if m.entries[name] == nil {
			m.entries[name] = &entry{name: name}
		}
	}
	return nil
}

func (m *Manager) scanOptions() repo.Options {
	m.mu.Lock()
	defer m.mu.Unlock()
	return repo.Options{Roots: m.roots, Names: m.names, Namespaces: m.o.Namespaces, ConfigName: m.o.ConfigName, Remotes: m.o.Remotes}
}

// Load loads a model or what changed in it, and waits. over, if not nil, replaces its configuration and files.
// Errors have Triton's words: Internal "failed to load 'x', failed to poll from model repository" when it is not there or its
// configuration cannot be used, InvalidArg for what cannot be a name, and "load failed for model 'x': …" when a version cannot be loaded. InvalidArg too when
// an override's file would lie outside the model's folder.
func (m *Manager) Load(ctx context.Context, name string, over *Override) error {
	if err := m.checkName(name); err != nil {
		return err
	}
	if err := over.check(); err != nil {
		return err
	}
	keys := m.keys(name)
	if len(keys) > 1 && over != nil && len(over.Files) > 0 {
		return ambiguous(name, len(keys))
	}
	return each(keys, func(key string) error {
		ov, err := m.unpack(key, over)
		if err != nil {
			return notPolled(name, err)
		}
		look := func() (*repo.Model, error) { return m.find(key) }
		if ov != nil && ov.folder != "" {
			look = func() (*repo.Model, error) { return ov.look(key), nil }
		}
		return m.change(ctx, key, task{look: look, over: ov, byHand: true, asked: true, deep: true})
	})
}

// notPolled is Triton's error for a model whose folder or configuration is at fault.
func notPolled(name string, err error) error {
	return status.Errorf(status.Internal, "failed to load '%s', failed to poll from model repository: %w", name, err)
}

// find looks for a model in the repositories by its key.
func (m *Manager) find(key string) (*repo.Model, error) {
	o := m.scanOptions()
	o.Within, o.Only = repo.Split(key)
	found, unread := repo.Scan(o)
	if src := found[key]; src != nil {
		return src, nil
	}
	if err := unreadError(unread); err != nil {
		return nil, err
	}
	return nil, status.Errorf(status.NotFound, "model '%s' is in none of the model repositories", key)
}

// Unload takes a model out of service and returns once no new request reaches it; what it has runs to its end. A model
// that is not loaded is no error.
func (m *Manager) Unload(name string) {
	for _, key := range m.loaded(name) {
		m.unload(key)
	}
}

func (m *Manager) unload(key string) {
	e := m.lock(key, false)
	if e == nil {
		return
	}
	m.retire(e, retired{byHand: true}, true)
	e.op.Unlock()
	m.updateDependents(key, "", map[string]bool{})
}

// retire takes all versions out of service, and forgets the model unless it is to stay known. e.op is held.
func (m *Manager) retire(e *entry, ev retired, known bool) {
	m.mu.Lock()
	m.step(e, ev)
	for _, stop := range e.lingering {
		stop()
	}
	e.src, e.asked = nil, false
	if !known {
		m.table.Store(m.table.Load().without(e.name))
		delete(m.entries, e.name)
	}
	e.override.remove()
	e.override = nil
	m.mu.Unlock()
	m.o.Events.changed()
}

// step is what becomes of a model at an event, carried out. m.mu is held.
func (m *Manager) step(e *entry, ev event) effects {
	var fx effects
	e.life, fx = next(e.life, ev)
	if fx.publish {
		m.table.Store(m.table.Load().with(e.name, e.serving(), e.wanted))
	}
	for _, d := range fx.drain {
		m.wg.Add(1)
		go m.drain(e, d, m.leaves(e, d))
	}
	for _, n := range fx.gone {
		if !m.usedAnew(e, n) {
			m.o.Stats.Remove(e.name, n)
		}
	}
	return fx
}

// drain closes a model that left service when its last request is answered.
func (m *Manager) drain(e *entry, d leaving, size amount) {
	defer m.wg.Done()
	if d.model != nil {
		m.linger(e, d.model)
		closed := m.unbind(d.model)
		if err := d.model.Close(m.hard); err != nil {
			m.o.Log.Error("closing a model failed", "model", e.name, "version", d.number, "err", err)
		}
		closed()
	}
	m.mu.Lock()
	m.step(e, drained{d.number})
	m.closing.sub(size)
	m.wakeWaiters()
	closed := m.closed
	m.mu.Unlock()
	if !closed {
		debug.FreeOSMemory()
	}
	switch d.why {
	case unloaded:
		m.o.Events.unloaded(e.name, d.number)
	case replaced:
		m.o.Events.replaced(e.name, d.number)
	case evicted:
		m.o.Events.evicted(e.name, d.number)
	}
}

// lingerMost bounds how long a model that has been replaced is kept for the sequences that it holds.
const lingerMost = 10 * time.Minute

// linger keeps a model that has been replaced while it holds live sequences, at most for lingerMost, and not longer than the
// model's name is served.
func (m *Manager) linger(e *entry, old *model.Model) {
	if !old.Sequenced() {
		return
	}
	ctx, cancel := context.WithTimeout(m.hard, lingerMost)
	defer cancel()
	m.mu.Lock()
	stays := m.table.Load().lingers(e.name, old)
	if stays {
		if e.lingering == nil {
			e.lingering = map[*model.Model]context.CancelFunc{}
		}
		e.lingering[old] = cancel
	}
	m.mu.Unlock()
	if !stays {
		return
	}
	old.Linger(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(e.lingering, old)
	m.table.Store(m.table.Load().over(e.name, old))
}

// usedAnew reports whether a version of a forgotten entry's name is in use again by the entry that came after: the two
// share its statistics. m.mu is held.
func (m *Manager) usedAnew(e *entry, number int64) bool {
	now := m.entries[e.name]
	if now == nil || now == e {
		return false
	}
	v := now.versions[number]
	return v.serves() || v.drains > 0 || v.state == Loading
}

// Close refuses all requests from now on, gives up loads under way, lets requests inside finish until ctx ends, then
// stops them, and waits until every model is closed.
func (m *Manager) Close(ctx context.Context) {
	m.mu.Lock()
	m.closed = true
	m.shut()
	entries := slices.SortedFunc(func(yield func(*entry) bool) {
		for _, e := range m.entries {
			if !yield(e) {
				return
			}
		}
	}, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	m.mu.Unlock()
	stop := context.AfterFunc(ctx, m.cancel)
	defer stop()
	var wg sync.WaitGroup
	for _, e := range entries {
		wg.Add(1)
		go func() {
			defer wg.Done()
			e.op.Lock() // a change under way ends first
			defer e.op.Unlock()
			m.retire(e, retired{}, true)
		}()
	}
	wg.Wait()
	m.wg.Wait()
	m.cancel()
}
