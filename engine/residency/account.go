package residency

import (
	"maps"
	"slices"
	"strings"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
)

// PinParameter in a model configuration keeps the model in memory where its value is pinValue.
const (
	PinParameter = "residency"
	pinValue     = "pinned"
)

// Account is the memory of one model.
type Account struct {
	l    *Ledger
	name string

	// Ledger.mu guards what follows.
	cfg      *inferencepb.ModelConfig
	models   []*model.Model // the loaded versions
	memory   Amount         // as measured last
	source   sources
	peak     Amount // the most that was measured of the model's present files
	reserved Amount // by a load under way
	// oversize: the reservation is in memory already and does not fit yet.
	oversize bool
	refused  error       // why the last reservation failed, nil if it did not
	loaded   infer.Stamp // when the last load ended
}

// Open returns a new account for a model. The caller closes it.
func (l *Ledger) Open(name string) *Account {
	a := &Account{l: l, name: name}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[a] = true
	return a
}

// Close removes the account. Memory of models that are still being closed counts until Closed.
func (a *Account) Close() {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	delete(a.l.accounts, a)
}

// SetConfig sets the configuration that the model has.
func (a *Account) SetConfig(cfg *inferencepb.ModelConfig) {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.cfg = cfg
}

// SetModels sets the versions that are loaded, in a fixed order.
func (a *Account) SetModels(models []*model.Model) {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.models = models
}

// Leave counts a model that left service as being closed, and returns its size, which the caller passes to Closed once
// the model is closed. SetModels is called before it.
func (a *Account) Leave(m *model.Model) Amount {
	enabled := a.l.o.Budget.Enabled()
	var size Amount
	if enabled {
		size = AmountOf(m.Memory())
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if !enabled {
		if len(a.models) == 0 {
			a.memory = nil
		}
		return nil
	}
	a.l.leaving.add(size)
	rest := Amount{}
	if len(a.models) > 0 {
		for p, n := range a.memory {
			if n -= size[p]; n > 0 {
				rest[p] = n
			}
		}
	}
	a.memory = rest
	return size
}

// Estimate returns what a load will need: what the model took before if its files are the same, else the sum of sizes.
// A size that exceeds the budget counts as the budget: files may be larger than the loaded model, and only a measured
// size makes a load fail.
func (a *Account) Estimate(same bool, sizes func() []model.Memory) Amount {
	a.l.mu.Lock()
	if same && len(a.peak) > 0 && len(a.models) == 0 {
		defer a.l.mu.Unlock()
		return maps.Clone(a.peak)
	}
	a.peak = nil // of other files
	a.l.mu.Unlock()
	need := Amount{}
	for _, size := range sizes() {
		need.add(AmountOf(size))
	}
	for place, n := range need {
		if limit, ok := a.l.o.Budget.limit(place); ok {
			need[place] = min(n, limit)
		}
	}
	return need
}

// EndLoad drops the reservation of a load and measures what is loaded now.
func (a *Account) EndLoad() {
	a.l.mu.Lock()
	a.loaded = infer.Now()
	models := a.models
	a.l.mu.Unlock()
	total, from := measure(models)
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	// The measured size replaces the reservation in one step: otherwise another load could find room that is not there.
	a.reserved = nil
	if len(models) > 0 {
		a.remember(total, from)
	}
	a.l.signal()
}

// remember notes what the model takes. Ledger.mu is held.
func (a *Account) remember(now Amount, from sources) {
	a.memory, a.source = now, from
	if a.peak == nil {
		a.peak = Amount{}
	}
	a.peak.raise(now)
}

// Status returns what the loaded versions take, as measured last, and whether the model is pinned.
func (a *Account) Status() (m model.Memory, pinned bool) {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	return a.memory.memory(a.source), a.pinned()
}

// Refused returns why the last load did not fit into the budget, nil if it did.
func (a *Account) Refused() error {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	return a.refused
}

// pinned reports whether the model is never evicted. Ledger.mu is held.
func (a *Account) pinned() bool {
	if pin, ok := a.l.pins[a.name]; ok {
		return pin
	}
	return PinnedBy(a.cfg)
}

// PinnedBy reports whether a configuration keeps its model in memory.
func PinnedBy(cfg *inferencepb.ModelConfig) bool {
	return strings.EqualFold(cfg.GetParameters()[PinParameter].GetStringValue(), pinValue)
}

// tenant describes the model for a choice of what to evict. Ledger.mu is held.
func (a *Account) tenant() tenant {
	t := tenant{name: a.name, memory: a.memory, pinned: a.pinned(), ensemble: a.cfg.GetEnsembleScheduling() != nil}
	t.resting = !slices.ContainsFunc(a.models, func(m *model.Model) bool { return !m.Resting() })
	t.sequence = slices.ContainsFunc(a.models, (*model.Model).HasSequences)
	t.used = a.loaded
	for _, m := range a.models {
		t.used = max(t.used, m.LastUse())
	}
	return t
}
