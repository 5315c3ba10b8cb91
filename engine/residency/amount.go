package residency

import (
	"nereid/engine/model"
)

// Host is the key of the machine's memory in an Amount.
const Host = -1

// Amount is memory in bytes by place. A place is Host or the number of a GPU.
type Amount map[int]int64

// AmountOf returns the memory of a model by place.
func AmountOf(m model.Memory) Amount {
	a := Amount{}
	if m.Host > 0 {
		a[Host] = m.Host
	}
	for gpu, n := range m.GPU {
		a[gpu] = n
	}
	return a
}

func (a Amount) add(b Amount) {
	for p, n := range b {
		a[p] += n
	}
}

func (a Amount) sub(b Amount) {
	for p, n := range b {
		a[p] -= n
	}
}

// raise sets each place of a to that of b where b has more.
func (a Amount) raise(b Amount) {
	for p, n := range b {
		a[p] = max(a[p], n)
	}
}

// sources says how an amount is known, for each kind of memory. Of several sources it keeps the least exact one.
type sources struct{ host, gpu model.MemorySource }

func (s *sources) add(m model.Memory) {
	s.host, s.gpu = model.Weaker(s.host, m.Source), model.Weaker(s.gpu, m.GPUSource)
}

func (a Amount) memory(from sources) model.Memory {
	m := model.Memory{Host: a[Host], Source: from.host, GPUSource: from.gpu}
	for p, n := range a {
		if p != Host {
			if m.GPU == nil {
				m.GPU = map[int]int64{}
			}
			m.GPU[p] = n
		}
	}
	return m
}

// measure asks models how much memory they take now.
func measure(models []*model.Model) (total Amount, from sources) {
	total = Amount{}
	for _, m := range models {
		mem := m.Memory()
		total.add(AmountOf(mem))
		from.add(mem)
	}
	return total, from
}

// Measure asks models how much memory they take now.
func Measure(models []*model.Model) Amount {
	total, _ := measure(models)
	return total
}
