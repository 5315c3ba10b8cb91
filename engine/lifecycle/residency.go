package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"nereid/engine/infer"
	"nereid/engine/model"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// Residency says how much memory models may take. Those that do not fit stay in service without being loaded: their next
// request loads them, and the one that was used longest ago leaves for it. A model that works, has a live sequence or is
// pinned does not leave.
type Residency struct {
	// Host is the budget of the machine's memory in bytes. 0: no bound.
	Host int64
	// GPU is the budget of each GPU. One that is not in it has no bound.
	GPU map[int]int64
	// Idle, if not 0, is after how long without a request a model leaves although there is room.
	Idle time.Duration
	// Patience is how long a load waits for working models to rest; after it, one that still works takes no more requests,
	// ends those that it has, and leaves. 0: 1 s.
	Patience time.Duration
	// Wait is how long a load waits for room at all. 0: 60 s.
	Wait time.Duration
}

func (r *Residency) on() bool { return r.Host > 0 || len(r.GPU) > 0 || r.Idle > 0 }

// pinParameter in a configuration keeps a model in memory where its value is pinValue.
const (
	pinParameter = "residency"
	pinValue     = "pinned"
)

// tenants returns the models in memory, but for one that is being changed. m.mu is held.
func (m *Manager) tenants(but *entry) (all []tenant) {
	for name, e := range m.entries {
		t := tenant{name: name, memory: e.memory, pinned: m.pinned(e), resting: true}
		loaded := false
		for _, v := range e.versions {
			if v.model == nil {
				continue
			}
			loaded = true
			t.used = max(t.used, v.model.LastUse(), e.loaded)
			t.resting = t.resting && v.model.Resting()
			t.bound = t.bound || v.model.HasSequences()
		}
		if loaded && e != but {
			all = append(all, t)
		}
	}
	return all
}

// pinned reports whether a model stays in memory. m.mu is held.
func (m *Manager) pinned(e *entry) bool {
	if pin, said := m.pins[e.name]; said {
		return pin
	}
	return strings.EqualFold(e.cfg.GetParameters()[pinParameter].GetStringValue(), pinValue)
}

// taken returns what models take: those in memory, those being loaded and those that are not closed yet. m.mu is held.
func (m *Manager) taken() amount {
	used := maps.Clone(m.closing)
	for _, e := range m.entries {
		used.add(e.memory)
		used.add(e.reserved)
	}
	return used
}

// takenBesides returns what all take but for the reservation of e, and, if fits, for those of other loads that are in memory
// and do not fit yet. m.mu is held.
func (m *Manager) takenBesides(e *entry, fits bool) amount {
	used := m.taken()
	for _, other := range m.entries {
		if other == e || fits && other.unfit {
			used.sub(other.reserved)
		}
	}
	return used
}

// measure asks every loaded model what it takes now: they grow as they work.
func (m *Manager) measure() {
	m.mu.Lock()
	loaded := map[*entry][]*model.Model{}
	for _, e := range m.entries {
		for _, v := range e.versions {
			if v.model != nil && e.reserved == nil { // else it counts by what is reserved until it is released
				loaded[e] = append(loaded[e], v.model)
			}
		}
	}
	m.mu.Unlock()
	for e, models := range loaded {
		total, from := amount{}, sources{}
		for _, mod := range models {
			mem := mod.Memory()
			total.add(amountOf(mem))
			from.add(mem)
		}
		m.mu.Lock()
		same := len(models)
		for _, v := range e.versions {
			if v.model != nil && slices.Contains(models, v.model) {
				same--
			} else if v.model != nil {
				same = -1 // it came meanwhile, and counts already
				break
			}
		}
		if same == 0 { // else what left counts as closing
			e.remember(total, from)
		}
		m.mu.Unlock()
	}
}

// remember notes what a model takes. m.mu is held.
func (e *entry) remember(now amount, from sources) {
	e.memory, e.source = now, from
	if e.peak == nil {
		e.peak = amount{}
	}
	e.peak.most(now)
}

// leaves counts a model that leaves as closing. m.mu is held.
func (m *Manager) leaves(e *entry, d leaving) amount {
	if d.model == nil {
		return nil
	}
	if !m.o.Residency.on() {
		if !e.inMemory() {
			e.memory = nil
		}
		return nil
	}
	size := amountOf(d.model.Memory())
	m.closing.add(size)
	rest := amount{}
	if e.inMemory() {
		for p, n := range e.memory {
			if n -= size[p]; n > 0 {
				rest[p] = n
			}
		}
	}
	e.memory = rest
	return size
}

// admit sees to it that versions may be loaded: it makes room for them, and with the policy resources first takes what
// they replace out of memory before. shelved: they stay in service without being loaded, until their first request.
func (m *Manager) admit(ctx context.Context, e *entry, src *repo.Model, p *plan, wanting []*outcome, t task) (shelved bool, err error) {
	if len(wanting) == 0 {
		return false, nil
	}
	if m.resourcesFirst(p.cfg) {
		m.stepAside(ctx, e, p, wanting)
	}
	if !m.o.Residency.on() {
		return false, nil
	}
	need := m.estimate(e, src, p, wanting)
	m.mu.Lock()
	first := !e.serves()
	used := m.taken()
	used.add(need)
	full := len(m.o.Residency.over(used)) > 0
	pinned := strings.EqualFold(p.cfg.GetParameters()[pinParameter].GetStringValue(), pinValue)
	m.mu.Unlock()
	if full && first && !t.byHand && !t.wake && !pinned && p.cfg.GetEnsembleScheduling() == nil {
		for _, r := range wanting {
			if r.face, r.err = newFace(p.src, p, r.number); r.err != nil {
				r.face = nil
			}
		}
		return true, nil
	}
	return false, m.makeRoom(ctx, e, need, false)
}

func newFace(src *repo.Model, p *plan, n int64) (infer.Served, error) {
	f, err := model.NewFace(src.Name, n, p.cfg, src.Folder)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// estimate says what versions will take: what they took before, else the size of their files.
func (m *Manager) estimate(e *entry, src *repo.Model, p *plan, wanting []*outcome) amount {
	m.mu.Lock()
	if e.src != nil && e.src.Equal(src) && len(e.peak) > 0 && !e.inMemory() {
		defer m.mu.Unlock()
		return maps.Clone(e.peak)
	}
	e.peak = nil // of other files
	m.mu.Unlock()
	need := amount{}
	for _, r := range wanting {
		need.add(amountOf(model.EstimateMemory(p.cfg, versionFolder(p.src, r.number))))
	}
	for place, n := range need { // files may be larger than what comes of them: only a measured size refuses a model
		if limit, bound := m.o.Residency.limit(place); bound {
			need[place] = min(n, limit)
		}
	}
	return need
}

// inMemory reports whether a version is loaded. m.mu is held.
func (e *entry) inMemory() bool {
	for _, v := range e.versions {
		if v.model != nil {
			return true
		}
	}
	return false
}

// fit holds what was loaded against the budget, now that it can be measured.
func (m *Manager) fit(ctx context.Context, e *entry, loaded []*outcome) error {
	if !m.o.Residency.on() {
		return nil
	}
	need := amount{}
	for _, r := range loaded {
		if r.model != nil {
			need.add(amountOf(r.model.Memory()))
		}
	}
	return m.makeRoom(ctx, e, need, true)
}

// release gives back what a load has reserved, and measures what came of it. e.op is held.
func (m *Manager) release(e *entry) {
	m.mu.Lock()
	e.loaded = infer.Now()
	var models []*model.Model
	for _, v := range e.versions {
		if v.model != nil {
			models = append(models, v.model)
		}
	}
	m.mu.Unlock()
	total, from := amount{}, sources{}
	for _, mod := range models {
		mem := mod.Memory()
		total.add(amountOf(mem))
		from.add(mem)
	}
	m.mu.Lock()
	e.reserved = nil // in one step with what takes its place: between the two another load would find room that is not there
	if len(models) > 0 {
		e.remember(total, from)
	}
	m.wakeWaiters()
	m.mu.Unlock()
}

// wakeWaiters lets loads that wait for room look again. m.mu is held.
func (m *Manager) wakeWaiters() {
	close(m.freed)
	m.freed = make(chan struct{})
}

// look is how often a load that waits for room looks whether a model rests.
const look = 2 * time.Millisecond

// makeRoom reserves need for e, after as many models have left as that takes. held says that it is in memory already, and
// only to be found fitting: of several such at once the first stays. Errors: Unavailable, with what is short.
func (m *Manager) makeRoom(ctx context.Context, e *entry, need amount, held bool) error {
	m.measure()
	begin := time.Now()
	patience, wait := cmp.Or(m.o.Residency.Patience, time.Second), cmp.Or(m.o.Residency.Wait, time.Minute)
	tick := time.NewTicker(look)
	defer tick.Stop()
	m.mu.Lock()
	e.reserved, e.unfit = nil, held
	if held {
		e.reserved = need
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		e.unfit = false
		m.mu.Unlock()
	}()
	for {
		m.mu.Lock()
		used := m.takenBesides(e, held)
		used.add(need)
		short := m.o.Residency.over(used)
		if len(short) == 0 {
			e.reserved, e.unfit = need, false
			m.mu.Unlock()
			return nil
		}
		used.sub(m.closing)
		coming := len(m.o.Residency.over(used)) == 0 // what has left is enough, once it is closed
		if !coming && m.evictOne(e, m.o.Residency.over(used), time.Since(begin) > patience) {
			m.mu.Unlock()
			continue
		}
		freed := m.freed
		hope := coming || m.hope(e, short)
		m.mu.Unlock()
		if !hope || time.Since(begin) > wait {
			return m.tooLarge(e.name, need, short)
		}
		select {
		case <-freed:
		case <-tick.C:
		case <-ctx.Done():
			return status.Errorf(status.Cancelled, "load of model '%s' was given up while it waited for memory: %w", e.name, ctx.Err())
		}
	}
}

// evictOne takes one model out of memory. m.mu is held.
func (m *Manager) evictOne(but *entry, short amount, urgent bool) bool {
	for _, name := range leavers(m.tenants(but), short, urgent) {
		v := m.entries[name]
		if !v.op.TryLock() { // it is being changed
			continue
		}
		m.step(v, banished{})
		v.op.Unlock()
		why := "those in memory have grown"
		if but != nil {
			why = "room for " + but.name
		}
		m.o.Log.Info("a model leaves memory", "model", name, "why", why)
		return true
	}
	return false
}

// hope reports whether waiting may help: something that holds memory is being closed, loaded or at work. m.mu is held.
func (m *Manager) hope(but *entry, short amount) bool {
	for _, name := range leavers(m.tenants(but), short, true) {
		if name != "" {
			return true
		}
	}
	for p := range short {
		if m.closing[p] > 0 {
			return true
		}
		for _, e := range m.entries {
			if e != but && e.reserved[p] > 0 {
				return true
			}
		}
	}
	return false
}

func (m *Manager) tooLarge(name string, need, short amount) error {
	var parts []string
	for _, p := range slices.Sorted(maps.Keys(short)) {
		limit, _ := m.o.Residency.limit(p)
		what, option := "memory", "--model-memory-budget"
		if p != host {
			what, option = fmt.Sprintf("memory of GPU %d", p), "--model-memory-budget-gpu"
		}
		parts = append(parts, fmt.Sprintf("it needs %d bytes of %s and is %d bytes short of fitting into the budget of %d bytes (%s)", need[p], what, short[p], limit, option))
	}
	return status.Errorf(status.Unavailable, "model '%s' does not fit into memory: %s; raise the budget, or unpin or unload another model",
		name, strings.Join(parts, ", and "))
}

// tend takes models out of memory that had no request for long, and others when those in it have grown over the budget.
func (m *Manager) tend() {
	defer m.wg.Done()
	every := time.Second
	if idle := m.o.Residency.Idle; idle > 0 {
		every = min(every, max(idle/4, look))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-m.open.Done():
			return
		case <-tick.C:
		}
		m.measure()
		m.mu.Lock()
		m.evictIdle()
		for {
			used := m.taken()
			used.sub(m.closing)
			if short := m.o.Residency.over(used); len(short) == 0 || !m.evictOne(nil, short, false) {
				break
			}
		}
		m.mu.Unlock()
	}
}

// evictIdle takes models out of memory that had no request for long. m.mu is held.
func (m *Manager) evictIdle() {
	idle := m.o.Residency.Idle
	if idle <= 0 {
		return
	}
	for _, t := range m.tenants(nil) {
		e := m.entries[t.name]
		if t.pinned || !t.resting || infer.Now().Sub(t.used) < idle || e.cfg.GetEnsembleScheduling() != nil || !e.op.TryLock() {
			continue
		}
		m.step(e, banished{})
		e.op.Unlock()
	}
}

// Pin keeps a model in memory, or no longer, whatever its configuration says; nil: as that says.
func (m *Manager) Pin(name string, pinned *bool) {
	key, err := m.key(name)
	if err != nil {
		key = name // of several: none of them
	}
	m.mu.Lock()
	if m.pins == nil {
		m.pins = map[string]bool{}
	}
	delete(m.pins, key)
	if pinned != nil {
		m.pins[key] = *pinned
	}
	m.mu.Unlock()
	m.o.Events.changed()
}

// Evict gives a model's memory back; its next request loads it again. Errors: NotFound, Unavailable while it works or is
// being changed.
func (m *Manager) Evict(name string) error {
	key, err := m.key(name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil || !e.inMemory() {
		return status.Errorf(status.NotFound, "model '%s' is not in memory", name)
	}
	if e.cfg.GetEnsembleScheduling() != nil {
		return status.Errorf(status.InvalidArg, "model '%s' is an ensemble, which takes no memory; evict the models of its steps", name)
	}
	for _, v := range e.versions {
		if v.model != nil && !v.model.Resting() {
			return status.Errorf(status.Unavailable, "model '%s' is at work", name)
		}
	}
	if !e.op.TryLock() {
		return status.Errorf(status.Unavailable, "model '%s' is being changed", name)
	}
	defer e.op.Unlock()
	m.step(e, banished{})
	return nil
}

// ResidencyStatus is the budget and what it is used for.
type ResidencyStatus struct {
	On     bool
	Budget Residency
	Used   model.Memory
}

// ResidencyStatus returns the budget and what models take, as measured now.
func (m *Manager) ResidencyStatus() ResidencyStatus {
	m.measure()
	m.mu.Lock()
	defer m.mu.Unlock()
	return ResidencyStatus{On: m.o.Residency.on(), Budget: m.o.Residency, Used: m.taken().memory(sources{})}
}
