package lifecycle

import (
	"context"
	"slices"

	"nereid/engine/inferencepb"
)

// resourcesFirst reports whether a reload is to give memory back before it takes new: the policy of the model, else the
// server's.
func (m *Manager) resourcesFirst(cfg *inferencepb.ModelConfig) bool {
	switch cfg.GetParameters()[reloadParameter].GetStringValue() {
	case ReloadResources:
		return true
	case ReloadAvailability:
		return false
	}
	return m.o.ResourcesFirst
}

// The reload policies, as the model parameter reload_policy and the option name them.
const (
	reloadParameter = "reload_policy"
	// ReloadAvailability: the version in service serves until the new one is ready. Both take memory meanwhile.
	ReloadAvailability = "availability_first"
	// ReloadResources: it gives its memory back first. Requests that come meanwhile wait for the new one.
	ReloadResources = "resources_first"
)

// Parameters are the names of the model parameters that the server itself reads, whatever the backend.
func Parameters() []string { return []string{pinParameter, reloadParameter} }

// stepAside takes what is to be replaced out of memory and waits until it is closed. Requests wait meanwhile. A
// model with a live sequence stays for that. e.op is held.
func (m *Manager) stepAside(ctx context.Context, e *entry, p *plan, wanting []*outcome) {
	var leave []int64
	m.mu.Lock()
	for n, v := range e.versions {
		replaced := slices.ContainsFunc(wanting, func(r *outcome) bool { return r.number == n })
		if v.model != nil && !v.model.HasSequences() && (replaced || !slices.Contains(p.versions, n)) {
			leave = append(leave, n)
		}
	}
	if len(leave) > 0 {
		m.step(e, banished{leave})
	}
	m.mu.Unlock()
	for {
		m.mu.Lock()
		freed := m.freed
		open := slices.ContainsFunc(leave, func(n int64) bool { return e.versions[n].drains > 0 })
		m.mu.Unlock()
		if !open {
			return
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return
		}
	}
}
