package residency

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"nereid/engine/status"
)

// checkInterval is how often a load that waits for room checks whether a model has become idle.
const checkInterval = 2 * time.Millisecond

// Fits reports whether need would fit beside all that is in memory, being loaded or being closed.
func (a *Account) Fits(need Amount) bool {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	used := a.l.used()
	used.add(need)
	return len(a.l.o.Budget.over(used)) == 0
}

// Reserve reserves need for a load, after evicting as many models as that takes; EndLoad drops the reservation. loaded
// says that need is in memory already and only has to fit; of several such loads at once the first one stays. Errors:
// Unavailable with what is short, Cancelled when ctx ends.
func (a *Account) Reserve(ctx context.Context, need Amount, loaded bool) error {
	budget := &a.l.o.Budget
	if !budget.Enabled() {
		return nil
	}
	a.l.measure()
	begin := time.Now()
	patience, wait := cmp.Or(budget.Patience, time.Second), cmp.Or(budget.Wait, time.Minute)
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	a.l.mu.Lock()
	a.reserved, a.oversize = nil, loaded
	if loaded {
		a.reserved = need
	}
	a.l.mu.Unlock()
	defer func() {
		a.l.mu.Lock()
		a.oversize = false
		a.l.mu.Unlock()
	}()
	for {
		r := a.tryReserve(need, loaded, time.Since(begin) > patience)
		switch {
		case r.done:
			return nil
		case r.evicted:
			continue
		case !r.hope || time.Since(begin) > wait:
			return a.tooLarge(need, r.short)
		}
		if a.l.o.Waiting != nil {
			a.l.o.Waiting()
		}
		select {
		case <-r.freed:
		case <-tick.C:
		case <-ctx.Done():
			return status.Errorf(status.Cancelled,
				"load of model '%s' was given up while it waited for memory: %w", a.name, ctx.Err())
		}
	}
}

// attempt is the outcome of one try to reserve memory.
type attempt struct {
	done    bool // it is reserved
	evicted bool // a model was evicted: try again
	hope    bool // waiting may help
	freed   <-chan struct{}
	short   Amount
}

// tryReserve reserves need if it fits, and otherwise evicts one model.
func (a *Account) tryReserve(need Amount, loaded, urgent bool) (r attempt) {
	l := a.l
	l.evicting.Lock()
	defer l.evicting.Unlock()
	l.mu.Lock()
	used := l.usedByOthers(a, loaded)
	used.add(need)
	if r.short = l.o.Budget.over(used); len(r.short) == 0 {
		a.reserved, a.oversize, a.refused = need, false, nil
		l.mu.Unlock()
		return attempt{done: true}
	}
	r.freed = l.freed
	used.sub(l.leaving)
	short := l.o.Budget.over(used)
	if len(short) == 0 { // it will fit once what left service is closed
		r.hope = true
		l.mu.Unlock()
		return r
	}
	names := victims(l.tenants(a), short, urgent)
	l.mu.Unlock()
	if r.evicted = l.evictFirst(names, "room for "+a.name); !r.evicted {
		r.hope = a.mayFit(r.short)
	}
	return r
}

// usedByOthers returns what all take without the reservation of a, and, if loaded, without those of other loads that
// are in memory and do not fit yet. mu is held.
func (l *Ledger) usedByOthers(a *Account, loaded bool) Amount {
	used := l.used()
	for other := range l.accounts {
		if other == a || loaded && other.oversize {
			used.sub(other.reserved)
		}
	}
	return used
}

// mayFit reports whether waiting may help: a model that holds memory of that kind is being closed, loaded or executed.
func (a *Account) mayFit(short Amount) bool {
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(victims(l.tenants(a), short, true)) > 0 {
		return true
	}
	for p := range short {
		if l.leaving[p] > 0 {
			return true
		}
		for other := range l.accounts {
			if other != a && other.reserved[p] > 0 {
				return true
			}
		}
	}
	return false
}

// tooLarge returns why a reservation failed, and notes it for Refused.
func (a *Account) tooLarge(need, short Amount) error {
	var reasons []string
	for _, p := range slices.Sorted(maps.Keys(short)) {
		limit, _ := a.l.o.Budget.limit(p)
		what, option := "memory", "--model-memory-budget"
		if p != Host {
			what, option = fmt.Sprintf("memory of GPU %d", p), "--model-memory-budget-gpu"
		}
		reasons = append(reasons,
			fmt.Sprintf("it needs %d bytes of %s and is %d bytes short of fitting into the budget of %d bytes (%s)",
				need[p], what, short[p], limit, option))
	}
	err := status.Errorf(status.Unavailable,
		"model '%s' does not fit into memory: %s; raise the budget, or unpin or unload another model",
		a.name, strings.Join(reasons, ", and "))
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.refused = err
	return err
}
