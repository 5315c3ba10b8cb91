package lifecycle

import (
	"cmp"
	"slices"

	"nereid/engine/infer"
	"nereid/engine/model"
)

// host is the place of the machine's memory in an amount.
const host = -1

// amount is bytes by place: host, or the number of a GPU.
type amount map[int]int64

func amountOf(m model.Memory) amount {
	a := amount{}
	if m.Host > 0 {
		a[host] = m.Host
	}
	for gpu, n := range m.GPU {
		a[gpu] = n
	}
	return a
}

func (a amount) add(b amount) {
	for p, n := range b {
		a[p] += n
	}
}

func (a amount) sub(b amount) {
	for p, n := range b {
		a[p] -= n
	}
}

// most raises a to b where that is more.
func (a amount) most(b amount) {
	for p, n := range b {
		a[p] = max(a[p], n)
	}
}

// sources says how an amount is known: the weakest way of each kind of memory.
type sources struct{ host, gpu model.MemorySource }

func (s *sources) add(m model.Memory) {
	s.host, s.gpu = model.Weaker(s.host, m.Source), model.Weaker(s.gpu, m.GPUSource)
}

func (a amount) memory(from sources) model.Memory {
	m := model.Memory{Host: a[host], Source: from.host, GPUSource: from.gpu}
	for p, n := range a {
		if p != host {
			if m.GPU == nil {
				m.GPU = map[int]int64{}
			}
			m.GPU[p] = n
		}
	}
	return m
}

// over returns by how much used is over the budget, by place; empty: it fits.
func (r *Residency) over(used amount) amount {
	short := amount{}
	for p, n := range used {
		if limit, bound := r.limit(p); bound && n > limit {
			short[p] = n - limit
		}
	}
	return short
}

func (r *Residency) limit(place int) (int64, bool) {
	if place == host {
		return r.Host, r.Host > 0
	}
	limit, bound := r.GPU[place]
	return limit, bound
}

// tenant is a model in memory, as the choice of who leaves sees it.
type tenant struct {
	name    string
	memory  amount
	used    infer.Stamp // when its last request came
	pinned  bool
	resting bool // has neither a request nor a live sequence
	bound   bool // has a live sequence
}

// leavers returns who may leave to free bytes where they are short, the one used longest ago first. urgent counts those
// that work too. It is a pure function.
func leavers(tenants []tenant, short amount, urgent bool) []string {
	var fit []tenant
	for _, t := range tenants {
		helps := false
		for p := range short {
			helps = helps || t.memory[p] > 0
		}
		if helps && !t.pinned && (t.resting || urgent && !t.bound) {
			fit = append(fit, t)
		}
	}
	slices.SortFunc(fit, func(a, b tenant) int { return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.name, b.name)) })
	names := make([]string, 0, len(fit))
	for _, t := range fit {
		names = append(names, t.name)
	}
	return names
}
