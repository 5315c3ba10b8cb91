package gpumem

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
)

// grain is the alignment of blocks. It is that of CUDA's allocations, which TensorRT requires.
const grain = 256

// Aligned reports whether an address is aligned as CUDA's allocations are. Kernels may read several elements at once,
// and fault on a tensor with less alignment, which aborts all work on the GPU.
func Aligned(address uintptr) bool { return address%grain == 0 }

// span is a part of a pool.
type span struct{ at, size int64 }

// pool allocates blocks in one piece of memory, first fit. Its methods are safe for concurrent use.
type pool struct {
	name    string
	limit   int64
	reserve func(n int) (address uintptr, free func() error, err error)
	log     *slog.Logger

	mu     sync.Mutex // guards all below
	base   uintptr    // 0: not allocated yet
	free   func() error
	spare  []span // sorted and merged
	used   int64
	misses int64
	failed bool // the allocation failed; it is not tried again
	warned bool // that it is exhausted
	closed bool
}

// get returns a block of n bytes, nil if there is no room.
func (p *pool) get(n int) *Block {
	if n <= 0 || p.limit < grain {
		return nil
	}
	size := (int64(n) + grain - 1) &^ (grain - 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !p.allocate() {
		p.misses++
		return nil
	}
	i := slices.IndexFunc(p.spare, func(s span) bool { return s.size >= size })
	if i < 0 {
		p.misses++
		if !p.warned {
			p.warned = true
			p.log.Warn("a memory pool is used up; tensors that do not fit take the slower way until there is room",
				"pool", p.name, "bytes", p.limit, "used", p.used, "wanted", size)
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

// allocate allocates the pool's memory, once, and reports whether the pool has memory. p.mu is held.
func (p *pool) allocate() bool {
	if p.base != 0 || p.failed {
		return !p.failed
	}
	size := p.limit &^ (grain - 1)
	base, free, err := p.reserve(int(size))
	if err != nil {
		p.failed = true
		p.log.Warn("a memory pool cannot be allocated; tensors take the slower way until the server is started again",
			"pool", p.name, "bytes", size, "err", err)
		return false
	}
	p.base, p.free, p.spare = base, free, []span{{0, size}}
	return true
}

// put returns a block.
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
		p.release()
	}
}

// close frees the memory when the last block is freed.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.used == 0 {
		p.release()
	}
}

// release frees the memory. p.mu is held.
func (p *pool) release() {
	if p.free == nil {
		return
	}
	if err := p.free(); err != nil {
		p.log.Warn("the memory of a pool cannot be freed", "pool", p.name, "err", err)
	}
	p.base, p.free, p.spare = 0, nil, nil
}

func (p *pool) stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Total: p.limit, Used: p.used, Misses: p.misses}
}
