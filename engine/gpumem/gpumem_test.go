package gpumem

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// fake is a driver whose memory is the host's.
type fake struct {
	mu    sync.Mutex
	held  map[uintptr][]byte // guarded by mu, as is the next
	calls int
	err   error
}

func (f *fake) Pin(n int) (uintptr, func() error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err != nil {
		return 0, nil, f.err
	}
	b := make([]byte, n+grain)
	at := (uintptr(unsafe.Pointer(&b[0])) + grain - 1) &^ (grain - 1)
	if f.held == nil {
		f.held = map[uintptr][]byte{}
	}
	f.held[at] = b
	return at, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.held, at)
		return nil
	}, nil
}

func (f *fake) Allocate(_, n int) (uintptr, func() error, error) { return f.Pin(n) }
func (f *fake) Copy(int, []Copy) error                           { return nil }
func (f *fake) Traffic() Traffic                                 { return Traffic{ToHost: 7} }

func memory(f *fake, pinned, device int64) (*Memory, *strings.Builder) {
	var log strings.Builder
	return New(Options{Driver: f, PinnedBytes: pinned, DeviceBytes: map[int]int64{1: device},
		Log: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

// Several goroutines allocate and release thousands of random blocks. No two blocks overlap, all are aligned and inside
// the pool, the statistics are right, and in the end the pool is one free block again.
func TestBlocksDoNotOverlap(t *testing.T) {
	const total, workers = 1 << 16, 4
	f := &fake{}
	m, _ := memory(f, total, total)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 8))
			var mine []*Block
			check := func(b *Block) {
				if !bytes.Equal(b.Bytes(), bytes.Repeat([]byte{byte(w + 1)}, b.Size)) {
					t.Errorf("worker %d: its block was written by another", w)
				}
				b.Free()
			}
			for range 5000 {
				if len(mine) > 0 && rng.IntN(2) == 0 {
					i := rng.IntN(len(mine))
					check(mine[i])
					mine = slices.Delete(mine, i, i+1)
					continue
				}
				n := 1 + rng.IntN(4000)
				b := m.Pinned(AnyNode, n)
				if b == nil {
					continue
				}
				if b.Size != n || !Aligned(b.Address) {
					t.Errorf("a block of %d bytes at %#x for %d", b.Size, b.Address, n)
				}
				for i := range b.Bytes() {
					b.Bytes()[i] = byte(w + 1)
				}
				mine = append(mine, b)
			}
			for _, b := range mine {
				check(b)
			}
		})
	}
	wg.Wait()
	if s := m.Stats(); s.Pinned.Used != 0 || s.Pinned.Total != total || len(m.hostPool(AnyNode).spare) != 1 ||
		m.hostPool(AnyNode).spare[0] != (span{0, total}) {
		t.Errorf("%+v with %v spare after all is given back", s.Pinned, m.hostPool(AnyNode).spare)
	}
	if f.calls != 1 {
		t.Errorf("the driver was asked %d times, want once", f.calls)
	}
	m.Close()
	if len(f.held) != 0 {
		t.Error("the pool is not given back")
	}
}

func TestPools(t *testing.T) {
	t.Run("C070 one that is used up gives nothing, counts it, and says so once", func(t *testing.T) {
		m, log := memory(&fake{}, 1024, 0)
		a := m.Pinned(AnyNode, 1000)
		for range 3 {
			if m.Pinned(AnyNode, 1) != nil {
				t.Error("more than there is")
			}
		}
		if s := m.Stats().Pinned; s != (PoolStats{Total: 1024, Used: 1024, Misses: 3}) ||
			strings.Count(log.String(), "used up") != 1 {
			t.Errorf("%+v, log %q", s, log)
		}
		a.Free()
		b := m.Pinned(AnyNode, 1024)
		if b == nil {
			t.Fatal("what was given back is not there")
		}
		b.Free()
	})
	t.Run("C070 one that cannot be allocated is asked for once", func(t *testing.T) {
		f := &fake{err: errors.New("out of memory")}
		m, log := memory(f, 1<<20, 0)
		for range 3 {
			if m.Pinned(AnyNode, 1) != nil {
				t.Error("memory that there is not")
			}
		}
		if s := m.Stats().Pinned; f.calls != 1 || s.Misses != 3 || s.Used != 0 ||
			!strings.Contains(log.String(), "out of memory") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%d calls, %+v, log %q", f.calls, s, log)
		}
	})
	t.Run("H080 C071 each GPU has its own, of the size that it was given or 64 MiB", func(t *testing.T) {
		f := &fake{}
		m, _ := memory(f, 0, 512)
		if m.Pinned(AnyNode, 1) != nil {
			t.Error("pinned memory of none")
		}
		if m.Device(1, 513) != nil || m.Device(1, 512) == nil || m.Device(0, 63<<20) == nil || m.Device(1, 1) != nil {
			t.Error("GPU 1 has 512 bytes, GPU 0 the default")
		}
		if s := m.Stats(); s.Devices[1] != (PoolStats{512, 512, 2}) || s.Devices[0].Total != DefaultDeviceBytes ||
			s.Traffic.ToHost != 7 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("C070 each NUMA node has its own, allocated by the thread that reserves it", func(t *testing.T) {
		f := &fake{}
		m, _ := memory(f, 1024, 0)
		m.Reserve(1)
		m.Reserve(1)
		a, b := m.Pinned(1, 1024), m.Pinned(AnyNode, 1024)
		if a == nil || b == nil || m.Pinned(1, 1) != nil || f.calls != 2 {
			t.Errorf("%v and %v of two nodes, after %d calls", a, b, f.calls)
		}
		if s := m.Stats().Pinned; s != (PoolStats{2048, 2048, 1}) {
			t.Errorf("%+v", s)
		}
		a.Free()
		b.Free()
		m.Close()
		m.Reserve(1)
		if len(f.held) != 0 {
			t.Error("a closed pool is allocated")
		}
	})
	t.Run("closed while blocks are used", func(t *testing.T) {
		f := &fake{}
		m, _ := memory(f, 4096, 0)
		b := m.Pinned(AnyNode, 10)
		m.Close()
		if m.Pinned(AnyNode, 10) != nil || len(f.held) != 1 {
			t.Error("a closed pool gives blocks, or has taken the memory away")
		}
		b.Free()
		if len(f.held) != 0 {
			t.Error("the memory stays when the last block is free")
		}
	})
	t.Run("no memory at all", func(t *testing.T) {
		var m *Memory
		if m.Pinned(AnyNode, 1) != nil || m.Device(0, 1) != nil || m.Copy(0, nil) == nil {
			t.Error("there is something")
		}
		m.Close()
		(*Block)(nil).Free()
	})
}
