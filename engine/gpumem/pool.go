package gpumem

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
)

// grain is what blocks begin and end at: the alignment of CUDA's own allocations, which TensorRT asks for.
const grain = 256

// Aligned reports whether an address is as good as one of CUDA's own allocations. Kernels may read several elements at once
// and fault where a tensor begins elsewhere, which ends all work on the GPU.
func Aligned(address uintptr) bool { return address%grain == 0 }

// span is a part of a pool.
type span struct{ at, size int64 }

// pool hands out parts of one piece of memory: the first that is large enough. Safe for concurrent use.
type pool struct {
	name    string
	limit   int64
	reserve func(n int) (address uintptr, free func() error, err error)
	log     *slog.Logger

	mu     sync.Mutex // guards all below
	base   uintptr    // 0: not allocated yet
	giveUp func() error
	spare  []span // sorted, none next to another
	used   int64
	misses int64
	failed bool // it could not be allocated, and is not tried again
	told   bool // that it is used up
	closed bool
}

// get returns a block of n bytes, nil if there is none.
func (p *pool) get(n int) *Block {
	if n <= 0 || p.limit < grain {
		return nil
	}
	size := (int64(n) + grain - 1) &^ (grain - 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !p.allocated() {
		p.misses++
		return nil
	}
	i := slices.IndexFunc(p.spare, func(s span) bool { return s.size >= size })
	if i < 0 {
		p.misses++
		if !p.told {
			p.told = true
			p.log.Warn("a memory pool is used up; tensors that do not fit take the slower way until there is room", "pool", p.name, "bytes", p.limit, "used", p.used, "wanted", size)
		}
		return nil
	}
	b := &Block{Address: p.base + uintptr(p.spare[i].at), Size: n, pool: p, span: span{p.spare[i].at, size}}
	if p.spare[i].size == size {
		p.spare = slices.Delete(p.spare, i, i+1)
	} else {
		p.spare[i].at += size
		p.spare[i].size -= size
	}
	p.used += size
	return b
}

// allocated makes the pool's memory, once. The caller holds mu.
func (p *pool) allocated() bool {
	if p.base != 0 || p.failed {
		return !p.failed
	}
	size := p.limit &^ (grain - 1)
	base, giveUp, err := p.reserve(int(size))
	if err != nil {
		p.failed = true
		p.log.Warn("a memory pool cannot be allocated; tensors take the slower way until the server is started again", "pool", p.name, "bytes", size, "err", err)
		return false
	}
	p.base, p.giveUp, p.spare = base, giveUp, []span{{0, size}}
	return true
}

// put takes a block back.
func (p *pool) put(s span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearchFunc(p.spare, s.at, func(x span, at int64) int { return cmp.Compare(x.at, at) })
	p.spare = slices.Insert(p.spare, i, s)
	if i+1 < len(p.spare) && s.at+s.size == p.spare[i+1].at {
		p.spare[i].size += p.spare[i+1].size
		p.spare = slices.Delete(p.spare, i+1, i+2)
	}
	if i > 0 && p.spare[i-1].at+p.spare[i-1].size == s.at {
		p.spare[i-1].size += p.spare[i].size
		p.spare = slices.Delete(p.spare, i, i+1)
	}
	if p.used -= s.size; p.used == 0 && p.closed {
		p.letGo()
	}
}

// close gives the memory back once no block is used any more.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.used == 0 {
		p.letGo()
	}
}

func (p *pool) letGo() {
	if p.giveUp == nil {
		return
	}
	if err := p.giveUp(); err != nil {
		p.log.Warn("the memory of a pool cannot be given back", "pool", p.name, "err", err)
	}
	p.base, p.giveUp, p.spare = 0, nil, nil
}

func (p *pool) stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Total: p.limit, Used: p.used, Misses: p.misses}
}
