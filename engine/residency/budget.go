package residency

import (
	"cmp"
	"slices"
	"time"

	"nereid/engine/infer"
)

// Budget says how much memory models may take; tensor.Budget is that of requests. A model that does not fit stays in
// service without being loaded. Its next request loads it, and the models used longest ago are evicted for it. A model
// that has a live sequence or is pinned is not evicted. A model that executes requests is evicted only after Patience.
type Budget struct {
	// Host is the budget of the machine's memory in bytes. 0: no limit.
	Host int64
	// GPU is the budget of each GPU in bytes, by its number. A GPU that is missing has no limit.
	GPU map[int]int64
	// Idle, if not 0, is the time without a request after which a model is evicted although there is room.
	Idle time.Duration
	// Patience is how long a load waits until models that execute requests are idle. After that time one of them is
	// evicted all the same, as soon as the requests that it has are answered. 0: 1 s.
	Patience time.Duration
	// Wait is how long a load waits for room in all. 0: 60 s.
	Wait time.Duration
}

// Enabled reports whether anything is limited.
func (b *Budget) Enabled() bool { return b.Host > 0 || len(b.GPU) > 0 || b.Idle > 0 }

// over returns by how much used exceeds the budget, by place. It is empty if all fits.
func (b *Budget) over(used Amount) Amount {
	short := Amount{}
	for p, n := range used {
		if limit, ok := b.limit(p); ok && n > limit {
			short[p] = n - limit
		}
	}
	return short
}

func (b *Budget) limit(place int) (n int64, ok bool) {
	if place == Host {
		return b.Host, b.Host > 0
	}
	n, ok = b.GPU[place]
	return n, ok
}

// tenant is what the choice of a model to evict depends on.
type tenant struct {
	name     string
	ensemble bool
	memory   Amount
	used     infer.Stamp // when its last request came
	pinned   bool
	resting  bool // has neither a request nor a live sequence
	sequence bool // has a live sequence
}

// victims returns the models that may be evicted to free memory where it is short, the one used longest ago first.
// urgent includes those that execute requests. It is a pure function.
func victims(tenants []tenant, short Amount, urgent bool) []string {
	var fit []tenant
	for _, t := range tenants {
		helps := false
		for p := range short {
			helps = helps || t.memory[p] > 0
		}
		if helps && !t.pinned && (t.resting || urgent && !t.sequence) {
			fit = append(fit, t)
		}
	}
	slices.SortFunc(fit, func(a, b tenant) int {
		return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.name, b.name))
	})
	names := make([]string, 0, len(fit))
	for _, t := range fit {
		names = append(names, t.name)
	}
	return names
}
