package residency

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"nereid/engine/infer"
	"nereid/engine/model"
)

// Options say what a Ledger keeps to.
type Options struct {
	Budget Budget
	// Evict takes a model out of memory. It returns false if it cannot, because the model is being changed; a model
	// that is not in memory is no such case. It is called without the ledger's lock.
	Evict func(name string) bool
	// Waiting is called when a load waits for memory, repeatedly and without a lock: models that left service are to be
	// closed as soon as possible. nil: nothing is to be done.
	Waiting func()
	// Activity returns a channel that receives at the next request, load or unload. nil: it is not known.
	Activity func() <-chan struct{}
	Log      *slog.Logger
}

// Ledger keeps account of the memory of all models. It is safe for concurrent use.
type Ledger struct {
	o Options

	// evicting is held while a model to evict is chosen and evicted, so that two loads do not evict more than they
	// need.
	evicting sync.Mutex // taken before mu, and before the locks that Options.Evict takes

	mu       sync.Mutex
	accounts map[*Account]bool // guarded by mu, as are the accounts' fields and what follows
	leaving  Amount            // of models that left service and are not closed yet
	freed    chan struct{}     // closed and replaced when memory was released
	pins     map[string]bool   // by model; they override the configuration
}

// NewLedger returns a ledger without accounts.
func NewLedger(o Options) *Ledger {
	return &Ledger{
		o: o, accounts: map[*Account]bool{}, leaving: Amount{}, freed: make(chan struct{}), pins: map[string]bool{},
	}
}

// Closed notes that a model whose size Account.Leave has returned is closed.
func (l *Ledger) Closed(size Amount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving.sub(size)
	l.signal()
}

// Freed returns a channel that is closed when memory is released next.
func (l *Ledger) Freed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.freed
}

// signal wakes the loads that wait for room. mu is held.
func (l *Ledger) signal() {
	close(l.freed)
	l.freed = make(chan struct{})
}

// Pin keeps a model in memory or not, whatever its configuration says; nil: as the configuration says.
func (l *Ledger) Pin(name string, pinned *bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pins, name)
	if pinned != nil {
		l.pins[name] = *pinned
	}
}

// Status is the budget and what is used of it.
type Status struct {
	On     bool
	Budget Budget
	Used   model.Memory
}

// Status measures all models and returns what they take.
func (l *Ledger) Status() Status {
	l.measure()
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{On: l.o.Budget.Enabled(), Budget: l.o.Budget, Used: l.used().memory(sources{})}
}

// Used returns what models take, as measured last: those in memory, those being loaded and those not closed yet.
func (l *Ledger) Used() Amount {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used()
}

// used is Used, with mu held.
func (l *Ledger) used() Amount {
	used := maps.Clone(l.leaving)
	for a := range l.accounts {
		used.add(a.memory)
		used.add(a.reserved)
	}
	return used
}

// tenants returns the models in memory except one, which may be nil. mu is held.
func (l *Ledger) tenants(except *Account) (all []tenant) {
	for a := range l.accounts {
		if a != except && len(a.models) > 0 {
			all = append(all, a.tenant())
		}
	}
	return all
}

// measure asks every loaded model what it takes now: models grow as they execute.
func (l *Ledger) measure() {
	l.mu.Lock()
	loaded := map[*Account][]*model.Model{}
	for a := range l.accounts {
		if a.reserved == nil && len(a.models) > 0 { // until EndLoad its reservation counts
			loaded[a] = a.models
		}
	}
	l.mu.Unlock()
	for a, models := range loaded {
		total, from := measure(models)
		l.mu.Lock()
		if slices.Equal(models, a.models) { // otherwise what was measured is being closed, or something was added
			a.remember(total, from)
		}
		l.mu.Unlock()
	}
}

// Run evicts idle models, and others when those in memory have grown over the budget, until ctx ends. Without a budget
// it returns at once.
func (l *Ledger) Run(ctx context.Context) {
	if !l.o.Budget.Enabled() {
		return
	}
	every := time.Second
	if idle := l.o.Budget.Idle; idle > 0 {
		every = min(every, max(idle/4, checkInterval))
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	p, pending := newPace(every, l.o.Activity, time.Now()), false
	for {
		wait, wake := p.next(time.Now())
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-wake:
			p.woken(time.Now())
			continue
		case <-timer.C:
		}
		p.looked(time.Now(), pending)
		l.measure()
		pending = l.evictIdle()
		for l.evictGrown() {
		}
	}
}

// evictIdle evicts the models without a request for Budget.Idle. It reports whether others wait for that.
func (l *Ledger) evictIdle() (pending bool) {
	idle := l.o.Budget.Idle
	if idle <= 0 {
		return false
	}
	l.evicting.Lock()
	defer l.evicting.Unlock()
	l.mu.Lock()
	tenants := l.tenants(nil)
	l.mu.Unlock()
	for _, t := range tenants {
		switch {
		case t.pinned || t.ensemble:
		case t.resting && infer.Now().Sub(t.used) >= idle && l.o.Evict(t.name):
		default:
			pending = true
		}
	}
	return pending
}

// evictGrown evicts one model if those in memory exceed the budget, and reports whether it did.
func (l *Ledger) evictGrown() bool {
	l.evicting.Lock()
	defer l.evicting.Unlock()
	l.mu.Lock()
	used := l.used()
	used.sub(l.leaving)
	names := victims(l.tenants(nil), l.o.Budget.over(used), false)
	l.mu.Unlock()
	return l.evictFirst(names, "those in memory have grown")
}

// evictFirst evicts the first of some models that can be evicted. evicting is held.
func (l *Ledger) evictFirst(names []string, why string) bool {
	for _, name := range names {
		if l.o.Evict(name) {
			l.o.Log.Info("a model leaves memory", "model", name, "why", why)
			return true
		}
	}
	return false
}
