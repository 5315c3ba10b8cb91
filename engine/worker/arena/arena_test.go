//go:build linux

package arena

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func testArena(t testing.TB, size int64) *Arena {
	t.Helper()
	m, err := NewMapping("test", TableSize+size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return New(m, 64<<10)
}

// Slots in use never overlap and keep their content while others are allocated and freed. Free slots are reused.
func TestSlotsInUseDoNotOverlap(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	a := testArena(t, 64<<10)
	type slot struct {
		at   int64
		n    int
		fill byte
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var used []slot
	for i := range 20000 {
		if len(used) > 50 || len(used) > 0 && rng.IntN(2) == 0 {
			k := rng.IntN(len(used))
			s := used[k]
			if want := bytes.Repeat([]byte{s.fill}, s.n); !bytes.Equal(a.mem[s.at:s.at+int64(s.n)], want) {
				t.Fatalf("step %d: slot %+v has lost its content", i, s)
			}
			a.Free(s.at)
			used[k] = used[len(used)-1]
			used = used[:len(used)-1]
			continue
		}
		s := slot{n: rng.IntN(40000), fill: byte(i)}
		var err error
		if s.at, err = a.Alloc(s.n); err != nil {
			t.Fatal(err)
		}
		if s.at%HeaderSize != 0 || s.at < TableSize+HeaderSize || s.at+int64(s.n) > a.Size() {
			t.Fatalf("step %d: slot %+v in %d bytes", i, s, a.Size())
		}
		for j := range s.n {
			a.mem[s.at+int64(j)] = s.fill
		}
		used = append(used, s)
	}
	if size := a.Size(); size > 8<<20 {
		t.Errorf("50 slots of up to 40 kB made the arena grow to %d bytes", size)
	}
	for _, s := range used {
		a.Free(s.at)
	}
	a.mu.Lock()
	a.sweep()
	n := len(a.blocks)
	a.mu.Unlock()
	if n != 1 {
		t.Errorf("%d blocks after all are free, want 1", n)
	}
}

// A slot that a response borrows stays in use until the response is released, also if the worker has freed it.
func TestArenaBorrow(t *testing.T) {
	a := testArena(t, 64<<10)
	at, err := a.Alloc(1000)
	if err != nil {
		t.Fatal(err)
	}
	copy(a.mem[at:], "content")
	for _, bad := range []struct{ at, n uint64 }{{uint64(at) - 1, 1}, {uint64(at), 5000}, {0, 1}, {1 << 62, 1},
		{uint64(at), 1 << 63}, {uint64(at) + 4096, 1}} {
		if _, _, ok := a.Borrow(bad.at, bad.n); ok {
			t.Errorf("Borrow(%d, %d) has something, and the slot is 1000 bytes at %d", bad.at, bad.n, at)
		}
	}
	b, buf, ok := a.Borrow(uint64(at)+1, 6)
	if !ok || string(b) != "ontent" {
		t.Fatalf("Borrow = %q, %v", b, ok)
	}
	a.Free(at)
	if other, err := a.Alloc(60000); err != nil || other < at+1000 && other+60000 > at {
		t.Errorf("a slot at %d overlaps the borrowed one at %d: %v", other, at, err)
	}
	buf.Release()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	if b := a.blocks[0]; b.busy || b.at != at-HeaderSize {
		t.Errorf("the slot is not free again: %+v", b)
	}
}

func TestFullArenaRefuses(t *testing.T) {
	a := testArena(t, 64<<10)
	a.mem = a.mem[:TableSize+128<<10]
	if _, err := a.Alloc(100 << 10); err != nil {
		t.Error(err)
	}
	if _, err := a.Alloc(100 << 10); err == nil {
		t.Error("more than the address space holds was given out")
	}
}

func TestStateBytesAreReused(t *testing.T) {
	a := testArena(t, 0)
	seen := map[uint32]bool{}
	for range TableSize {
		s := a.NewState()
		if s == NoState || seen[s] {
			t.Fatalf("state %d after %d", s, len(seen))
		}
		seen[s] = true
	}
	if s := a.NewState(); s != NoState {
		t.Errorf("state %d although all are in use", s)
	}
	a.SetState(7, StateCancelled, true)
	a.SetState(NoState, StateCancelled, true)
	a.FreeState(7)
	if s := a.NewState(); s != 7 || a.mem[7] != 0 {
		t.Errorf("state %d is %d; want 7, and it clean", s, a.mem[s])
	}
}

// A large slot reuses memory that was just freed, before unused memory of the arena.
func TestArenaReusesWarmMemory(t *testing.T) {
	a := testArena(t, 8<<20)
	first, err := a.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		a.Free(first)
		if next, err := a.Alloc(1 << 20); err != nil || next != first {
			t.Fatalf("a slot at %d after that at %d was freed, %v", next, first, err)
		}
	}
}

// Memory that is reserved for an input stays in use until it is released; also while the worker has it.
func TestArenaReserve(t *testing.T) {
	a := testArena(t, 64<<10)
	buf := a.Reserve(5000)
	data := buf.Bytes()
	other, err := a.Alloc(59000) // which does not fit beside it
	if err != nil {
		t.Fatal(err)
	}
	a.Free(other)
	for _, no := range [][]byte{make([]byte, 10), data[64:], data[1:], a.mem[:100], a.mem[other : other+100], nil} {
		if at, ok := a.Claim(no); ok {
			t.Errorf("Claim of %d bytes that were not reserved = %d", len(no), at)
		}
	}
	at, ok := a.Claim(data)
	if !ok || &a.mem[at] != &data[0] {
		t.Fatalf("Claim = %d, %v", at, ok)
	}
	if _, again := a.Claim(data); again {
		t.Error("the worker has it already, and it is claimed again")
	}
	a.Free(at) // by the worker
	if _, again := a.Claim(data); !again {
		t.Error("the worker has freed it, and it cannot be given to it again")
	}
	buf.Release() // the worker has it still
	if next, err := a.Alloc(5000); err != nil || next == at {
		t.Errorf("a slot at %d, %v: the worker has that", next, err)
	}
	a.Free(at)
	a.mu.Lock()
	a.sweep()
	i, found := a.find(at - HeaderSize)
	a.mu.Unlock()
	if !found || a.blocks[i].busy {
		t.Error("the slot is not free after its last release")
	}
	size := a.Size()
	for range 100 { // for requests that are never sent
		a.Reserve(30000).Release()
	}
	if a.Size() != size {
		t.Errorf("the arena has grown from %d to %d bytes", size, a.Size())
	}
	a.mem = a.mem[:a.Size()]
	if buf := a.Reserve(1 << 20); buf != nil {
		t.Error("more than the address space holds was reserved")
	}
}
