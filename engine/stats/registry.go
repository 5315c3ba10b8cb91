package stats

import (
	"cmp"
	"slices"
	"sync"
)

type key struct {
	model   string
	version int64
}

// Registry holds the statistics of every model version from its first load to its unload. Its methods are safe for
// concurrent use.
type Registry struct {
	mu       sync.Mutex
	versions map[key]*Version // guarded by mu, as is epoch
	epoch    uint64
	keep     Detail
}

// NewRegistry returns an empty registry. The zero Detail keeps only sums of latencies.
func NewRegistry(keep Detail) *Registry {
	return &Registry{versions: map[key]*Version{}, keep: keep}
}

// Version returns the statistics of a version. If it has none, they start with a new epoch.
func (g *Registry) Version(model string, version int64) *Version {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := key{model, version}
	v := g.versions[k]
	if v == nil {
		g.epoch++
		v = &Version{model: model, version: version, epoch: g.epoch, keep: g.keep}
		g.versions[k] = v
	}
	return v
}

// Remove removes the statistics of a version that is unloaded.
func (g *Registry) Remove(model string, version int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.versions, key{model, version})
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
