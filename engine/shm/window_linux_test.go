package shm

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// A client may shrink an object between the look at its size and the copy.
func TestCopyGuarded(t *testing.T) {
	key, path := object(t, counting(3*4096))
	g := registry(t, Options{})
	check(t, g.RegisterSystem("r", key, 10, 3*4096-10), 0, "")
	s := g.regions["r"].mem.(*systemMemory)
	mine, theirs := make([]byte, 3*4096-10), s.window[10:]
	for _, around := range []bool{false, true} {
		clear(mine)
		if !copyGuarded(mine, theirs, around) || !bytes.Equal(mine, counting(3 * 4096)[10:]) {
			t.Errorf("the region is not read, around the caches: %v", around)
		}
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	for _, around := range []bool{false, true} {
		if copyGuarded(mine, theirs, around) {
			t.Errorf("C5 memory that is not there is read, around the caches: %v", around)
		}
		if copyGuarded(theirs, mine, around) {
			t.Errorf("C5 memory that is not there is written, around the caches: %v", around)
		}
	}
}

// Outputs go around the caches where there are many of them, and are the same.
func TestCrowd(t *testing.T) {
	const size, all = 5 << 20, 4 * 5 << 20
	want := make([]byte, all)
	for i := range want {
		want[i] = byte(i*7>>3 ^ i>>20) // every slot's are others
	}
	key, path := object(t, want)
	g := registry(t, Options{OnDevice: func(string, int64, int) bool { return true }})
	check(t, g.RegisterSystem("r", key, 0, all), 0, "")
	var slots []*slot
	for i, crowded := range []bool{false, false, true} {
		s, err := g.Slot(Range{Region: "r", Offset: uint64(i) * size, Size: size})
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, s.(*slot))
		if slots[i].crowded() != crowded {
			t.Errorf("with %d outputs of %d bytes crowded is %v", i+1, size, !crowded)
		}
	}
	if err := slots[0].Write(want[size : 2*size]); err != nil {
		t.Error(err)
	}
	if err := slots[1].Write(want[3*size:]); err != nil {
		t.Error(err)
	}
	for _, s := range slots {
		s.Release()
	}
	if g.outgoing.Load() != 0 {
		t.Errorf("%d bytes go somewhere when nobody waits for an output", g.outgoing.Load())
	}
	copy(want, want[size:2*size])
	copy(want[size:2*size], want[3*size:])
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the outputs differ, %v", err)
	}
}

func TestShrunkMeanwhile(t *testing.T) {
	const size = 1 << 20
	key, path := object(t, make([]byte, size))
	g := registry(t, Options{})
	check(t, g.RegisterSystem("r", key, 0, size), 0, "")
	slot, err := g.Slot(Range{Region: "r", Size: size})
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, n := range []int64{0, size} {
				if err := os.Truncate(path, n); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	t.Run("C5 an object that is shrunk while it is used", func(t *testing.T) {
		for range 200 {
			if _, err := read(g, Range{Region: "r", Size: size}, tensor.Uint8); err != nil && status.CodeOf(err) != status.InvalidArg {
				t.Fatal(err)
			}
			if err := slot.Write(make([]byte, size)); err != nil && status.CodeOf(err) != status.InvalidArg {
				t.Fatal(err)
			}
		}
	})
	close(stop)
	wg.Wait()
}
