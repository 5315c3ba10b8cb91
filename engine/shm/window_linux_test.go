package shm

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"nereid/engine/status"
	"nereid/engine/tensor"
)

// A client may shrink an object after its size was checked and before the copy.
func TestCopyGuarded(t *testing.T) {
	key, path := object(t, counting(3*4096))
	g := registry(t, Options{})
	check(t, g.RegisterSystem("r", key, 10, 3*4096-10, Self), 0, "")
	s := g.regions["r"].mem.(*systemMemory)
	mine, theirs := make([]byte, 3*4096-10), s.window[10:]
	if !copyGuarded(mine, theirs) || !bytes.Equal(mine, counting(3 * 4096)[10:]) {
		t.Error("the region is not read")
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if copyGuarded(mine, theirs) {
		t.Error("C5 memory that does not exist is read")
	}
	if copyGuarded(theirs, mine) {
		t.Error("C5 memory that does not exist is written")
	}
}

func TestAnObjectThatShrinksDuringACopyIsAnError(t *testing.T) {
	const size = 1 << 20
	key, path := object(t, make([]byte, size))
	g := registry(t, Options{})
	check(t, g.RegisterSystem("r", key, 0, size, Self), 0, "")
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
			if _, err := read(g, Range{Region: "r", Size: size}, tensor.Uint8); err != nil &&
				status.CodeOf(err) != status.InvalidArg {
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
