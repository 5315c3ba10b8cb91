package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"nereid/engine/model"
	"nereid/engine/residency"
)

// step applies an event to a model and carries out its effects. mu is held.
func (m *Manager) step(e *entry, ev event) effects {
	var fx effects
	e.life, fx = next(e.life, ev)
	why := e.whyEnd(ev)
	if why != "" {
		e.shadow.ended = why
	}
	e.account.SetModels(e.inMemory())
	if why != "" {
		Shadows{m}.end(e)
	}
	if fx.publish {
		m.table.Store(m.table.Load().with(e.name, e.serving(), e.wanted))
	}
	for _, d := range fx.drain {
		var size residency.Amount
		if d.model != nil {
			m.leaving[d.model] = e
			size = e.account.Leave(d.model)
		}
		m.wg.Go(func() { m.drain(e, d, size) })
	}
	for _, n := range fx.gone {
		if !m.usedAgain(e, n) {
			m.stats.Remove(e.name, n)
		}
	}
	return fx
}

// drain closes a model that left service once its last request is answered.
func (m *Manager) drain(e *entry, d leaving, size residency.Amount) {
	if d.model != nil {
		if d.why == evicted { // a request that holds one of its versions loads the model again
			m.dropHolds(e)
		}
		m.linger(e, d.model)
		closed := m.agents.unload(d.model)
		if err := d.model.Close(m.hard); err != nil {
			m.o.Log.Error("closing a model failed", "model", e.name, "version", d.number, "err", err)
		}
		closed()
	}
	m.mu.Lock()
	m.overrides[d.model].release()
	delete(m.overrides, d.model)
	delete(m.leaving, d.model)
	m.step(e, drained{d.number})
	m.memory.Closed(size)
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

// dropHolds lets the models of an entry, or of all for nil, that left service close although requests of ensembles hold
// them. Otherwise a load that such a request needs could wait for their memory, and they for the request.
func (m *Manager) dropHolds(of *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for mod, e := range m.leaving {
		if of == nil || of == e {
			mod.DropHolds()
		}
	}
}

// lingerMost is the longest time for which a model that has been replaced is kept for its sequences.
const lingerMost = 10 * time.Minute

// linger waits while a model that has been replaced has live sequences, at most for lingerMost, and not longer than the
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
	m.table.Store(m.table.Load().withoutLingering(e.name, old))
}

// LiveSequences returns the versions in service, or kept for their sequences, that hold live sequences, and how many.
func (m *Manager) LiveSequences() map[*model.Model]int { return m.counts((*model.Model).LiveSequences) }

// counts returns the versions in service, or kept for their sequences, for which of is not 0.
func (m *Manager) counts(of func(*model.Model) int) map[*model.Model]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[*model.Model]int{}
	for _, e := range m.entries {
		for _, mod := range slices.AppendSeq(e.models(), maps.Keys(e.lingering)) {
			if n := of(mod); n > 0 {
				found[mod] = n
			}
		}
	}
	return found
}

// LogRunning logs every second how many requests of each version have no final response yet, until ctx is done.
func (m *Manager) LogRunning(ctx context.Context) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		for mod, n := range m.counts((*model.Model).Running) {
			m.logInFlight(mod, n)
		}
	}
}

func (m *Manager) logInFlight(mod *model.Model, n int) {
	m.o.Log.Info(fmt.Sprintf("Model '%s' (version %d) has %d in-flight inferences", // Triton's line
		mod.Config().GetName(), mod.Version(), n))
}

// AwaitSequences waits until no sequence is live, or ctx is done. The caller makes sure that none begins. It logs the
// numbers of live sequences whenever they change.
func (m *Manager) AwaitSequences(ctx context.Context) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	var told map[*model.Model]int
	for live := m.LiveSequences(); len(live) > 0; live = m.LiveSequences() {
		for mod, n := range live {
			if told[mod] != n {
				m.logInFlight(mod, n)
			}
		}
		told = live
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// usedAgain reports whether a version of a forgotten entry is in use by the entry of the same name that came after: the
// two share its statistics. mu is held.
func (m *Manager) usedAgain(e *entry, number int64) bool {
	now := m.entries[e.name]
	if now == nil || now == e {
		return false
	}
	v := now.versions[number]
	return v.serves() || v.drains > 0 || v.state == Loading
}
