package stats

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type key struct {
	model   string
	version int64
}

// Registry holds the statistics of every model version from its first load to its unload. Its methods are safe for
// concurrent use.
type Registry struct {
	mu       sync.Mutex
	versions map[key]*Version // guarded by mu, as are the next three
	epoch    uint64
	follows  bool       // there was a call of Removed
	removed  []Snapshot // since the last one
	keep     Detail
	activity *activity
}

// NewRegistry returns an empty registry. The zero Detail keeps only sums of latencies.
func NewRegistry(keep Detail) *Registry {
	return &Registry{versions: map[key]*Version{}, keep: keep, activity: new(activity)}
}

// activity lets goroutines sleep until something is counted.
type activity struct {
	awaited atomic.Bool

	mu      sync.Mutex
	waiters []*Waiter // guarded by mu
}

// note is called after something was counted.
func (a *activity) note() {
	if !a.awaited.Load() || !a.awaited.Swap(false) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiters {
		select {
		case w.next <- struct{}{}:
		default:
		}
	}
}

// UntilNext returns how long it is to the next multiple of d, and a bit more. Who looks at an idle server now and then
// does so at these moments, so that it wakes up once for all.
func UntilNext(d time.Duration, now time.Time) time.Duration {
	return now.Truncate(d).Add(d + time.Millisecond).Sub(now)
}

// Waiter lets one goroutine sleep until something is counted.
type Waiter struct {
	activity *activity
	next     chan struct{} // capacity 1
}

// Waiter adds a waiter, which stays as long as the registry.
func (g *Registry) Waiter() *Waiter {
	w := &Waiter{activity: g.activity, next: make(chan struct{}, 1)}
	g.activity.mu.Lock()
	defer g.activity.mu.Unlock()
	g.activity.waiters = append(g.activity.waiters, w)
	return w
}

// Activity returns a channel that receives at the next request, at its begin or its end, and when a version is added
// or removed. What is not in a snapshot that is made after the call is received.
func (w *Waiter) Activity() <-chan struct{} {
	select {
	case <-w.next:
	default:
	}
	w.activity.awaited.Store(true)
	return w.next
}

// Version returns the statistics of a version. If it has none, they start with a new epoch.
func (g *Registry) Version(model string, version int64) *Version {
	defer g.activity.note()
	g.mu.Lock()
	defer g.mu.Unlock()
	k := key{model, version}
	v := g.versions[k]
	if v == nil {
		g.epoch++
		v = &Version{model: model, version: version, epoch: g.epoch, keep: g.keep,
			activity: g.activity}
		g.versions[k] = v
	}
	return v
}

// Remove removes the statistics of a version that is unloaded.
func (g *Registry) Remove(model string, version int64) {
	defer g.activity.note()
	g.mu.Lock()
	defer g.mu.Unlock()
	k := key{model, version}
	if v := g.versions[k]; v != nil && g.follows {
		var last Snapshot
		v.Snapshot(&last)
		g.removed = append(g.removed, last)
	}
	delete(g.versions, k)
}

// Removed returns the last counters of the versions that were removed since the call before, which is the only one that
// gets them. They are kept from the first call on.
func (g *Registry) Removed() []Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.follows = true
	removed := g.removed
	g.removed = nil
	return removed
}

// Snapshots returns a copy of every version's counters, ordered by model and version. It reuses dst's memory.
func (g *Registry) Snapshots(dst []Snapshot) []Snapshot {
	g.mu.Lock()
	versions := make([]*Version, 0, len(g.versions))
	for _, v := range g.versions {
		versions = append(versions, v)
	}
	g.mu.Unlock()
	slices.SortFunc(versions, func(a, b *Version) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.version, b.version))
	})
	for len(dst) < len(versions) {
		dst = append(dst, Snapshot{})
	}
	dst = dst[:len(versions)]
	for i, v := range versions {
		v.Snapshot(&dst[i])
	}
	return dst
}
