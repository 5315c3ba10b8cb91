//go:build cuda && linux && amd64

package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"unsafe"

	"nereid/engine/gpumem"
	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// pools returns a driver's pools, each of 64 KiB. None of their memory may be in use when the test ends.
func pools(t *testing.T) (*Driver, *gpumem.Memory) {
	t.Helper()
	d := driver(t)
	m := gpumem.New(gpumem.Options{Driver: d, PinnedBytes: 64 << 10,
		DeviceBytes: map[int]int64{0: 64 << 10, 1: 64 << 10}})
	t.Cleanup(func() {
		m.Close()
		if n := held(t, "pinned"); n != 0 {
			t.Errorf("%d pieces of pinned memory are left", n)
		}
	})
	return d, m
}

func TestPools(t *testing.T) {
	d, m := pools(t)
	if held(t, "context") != 0 {
		t.Error("the driver is touched before anybody wants memory")
	}
	b := m.Pinned(gpumem.AnyNode, 1000)
	if b == nil || held(t, "pinned") != 1 {
		t.Fatalf("%v, %d pieces of pinned memory; want one", b, held(t, "pinned"))
	}
	copy(b.Bytes(), counting(1000))
	if !bytes.Equal(b.Bytes(), counting(1000)) {
		t.Error("pinned memory does not keep what is written")
	}
	b.Free()
	t.Run("copies are made at once, between any places, and the right way round", func(t *testing.T) {
		handle, path := export(t, 1, counting(4096))
		region, err := d.Import(handle, 1, 4096)
		if err != nil {
			t.Fatal(err)
		}
		from := region.(shm.DeviceMemory)
		block := m.Device(1, 4096)
		if block == nil {
			t.Fatal("no memory of the GPU")
		}
		before := d.Traffic()
		var wg sync.WaitGroup
		for i := range 8 { // each turns its part round, 16 bytes at a time
			wg.Go(func() {
				var list []gpumem.Copy
				for k := range 32 {
					list = append(list, gpumem.Copy{To: block.Address + uintptr(i*512+k*16),
						From: from.Address() + uintptr(i*512+(31-k)*16), Size: 16})
				}
				if err := m.Copy(1, append(list, gpumem.Copy{})); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := from.CopyFrom(block.Address, 4096, 0); err != nil {
			t.Error(err)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		was := counting(4096)
		for i := range 256 {
			j := i/32*32 + 31 - i%32
			if !bytes.Equal(now[16*i:16*i+16], was[16*j:16*j+16]) {
				t.Fatalf("part %d has not come from %d", i, j)
			}
		}
		if after := d.Traffic(); after.Within-before.Within != 2*4096 || after.ToHost != before.ToHost ||
			after.FromHost != before.FromHost {
			t.Errorf("%+v after %+v", after, before)
		}
		if err := region.Close(); err != nil {
			t.Error(err)
		}
		block.Free()
	})
	t.Run("errors are CUDA's", func(t *testing.T) {
		err := m.Copy(0, []gpumem.Copy{{To: 4096, From: 8192, Size: 1}})
		if err == nil || err.Error() != "copies within GPU 0: CUDA says invalid argument (CUDA_ERROR_INVALID_VALUE)" {
			t.Error(err)
		}
		if err := m.Copy(7, nil); !errors.Is(err, invalidDevice) {
			t.Error(err)
		}
		fail(t, "cuStreamSynchronize", 700)
		block := m.Device(0, 512)
		defer block.Free()
		if err := m.Copy(0, []gpumem.Copy{{To: block.Address, From: block.Address + 256, Size: 256}}); err == nil ||
			!errors.Is(err, Result(700)) {
			t.Error(err)
		}
	})
}

func TestAllocationErrors(t *testing.T) {
	_, m := pools(t)
	fail(t, "cuMemHostAlloc", 2)
	if m.Pinned(gpumem.AnyNode, 1) != nil || m.Stats().Pinned.Misses != 1 {
		t.Error("C070 pinned memory that there is not")
	}
	fail(t, "cuMemAlloc", 2)
	if m.Device(0, 1) != nil || m.Stats().Devices[0].Misses != 1 {
		t.Error("C071 memory of a GPU that there is not")
	}
	heal(t)
}

// For random sets of slots and outputs, the data of an output on a GPU arrives in its slot, and nothing else in the
// region changes.
func TestOutputsFromDevices(t *testing.T) {
	d, m := pools(t)
	g := shm.New(shm.Options{CUDA: d, OnDevice: func(string, int64, int) bool { return true }})
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	const size = 8192
	var paths [2]string
	for card := range 2 {
		var handle [shm.HandleSize]byte
		handle, paths[card] = export(t, uint32(card), counting(size))
		if err := g.RegisterCUDA([]string{"zero", "one"}[card], handle[:], int64(card), size); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(9, 9))
	var pool tensor.Pool
	for range 300 {
		card, from := rng.IntN(2), rng.IntN(2)
		n := 1 + rng.IntN(2000)
		at, src := rng.IntN(size-n), rng.IntN(size-n)
		r := infer.New()
		slot, err := g.Slot(shm.Range{Region: []string{"zero", "one"}[card], Offset: uint64(at), Size: uint64(n)})
		if err != nil {
			t.Fatal(err)
		}
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: "o", Shared: slot})
		in, err := g.Read(r, &pool, shm.Range{Region: []string{"zero", "one"}[from], Offset: uint64(src),
			Size: uint64(n)}, tensor.Uint8, &shm.Quota{})
		if err != nil {
			t.Fatal(err)
		}
		dev := in.Device()
		if dev == nil || in.Bytes() != nil || dev.GPU != from || dev.Size != n {
			t.Fatalf("an input of %d bytes on GPU %d is %+v", n, from, dev)
		}
		want := make([]byte, n)
		if err := dev.ReadAll(want); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(paths[card])
		if err != nil {
			t.Fatal(err)
		}
		if block := m.Device(from, n); block != nil && rng.IntN(2) == 0 { // else it comes from the region itself
			if err := m.Copy(from, []gpumem.Copy{{To: block.Address, From: dev.Address, Size: n}}); err != nil {
				t.Fatal(err)
			}
			in.Release()
			in = tensor.NewDeviceBuffer(tensor.Device{GPU: from, Address: block.Address, Size: n, Read: dev.Read},
				func(*tensor.Buffer) { block.Free() })
		} else {
			block.Free()
			if card == from && at != src && at < src+n && src < at+n {
				in.Release() // what overlaps is not copied so
				r.Release()
				continue
			}
		}
		resp := r.NewResponse()
		resp.AddOutput("o", tensor.Uint8, []int64{int64(n)}, nil, in)
		traffic := d.Traffic()
		if err := shm.Store(r, resp); err != nil {
			t.Fatal(err)
		}
		moved := d.Traffic().FromHost - traffic.FromHost
		if through := card != from; through != (moved == int64(n)) || !through && moved != 0 {
			t.Errorf("from GPU %d to %d %d bytes went by way of the host", from, card, moved)
		}
		now, err := os.ReadFile(paths[card])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(now, bytes.Join([][]byte{before[:at], want, before[at+n:]}, nil)) {
			t.Fatalf("%d bytes from GPU %d at %d to GPU %d at %d are not there", n, from, src, card, at)
		}
		resp.Release()
		r.Release()
	}
	if n := m.Stats().Devices[0].Used + m.Stats().Devices[1].Used; n != 0 {
		t.Errorf("%d bytes of the pools are still used", n)
	}
	t.Run("C7 one that does not fit", func(t *testing.T) {
		r := infer.New()
		defer r.Release()
		slot, err := g.Slot(shm.Range{Region: "zero", Size: 10})
		if err != nil {
			t.Fatal(err)
		}
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: "o", Shared: slot})
		resp := r.NewResponse()
		resp.AddOutput("o", tensor.Uint8, []int64{11}, nil,
			tensor.NewDeviceBuffer(tensor.Device{Address: uintptr(unsafe.Pointer(t)), Size: 11}, nil))
		defer resp.Release()
		if err := shm.Store(r, resp); status.CodeOf(err) != status.Internal ||
			err.Error() != "shared memory size specified with the request for output 'o' (10 bytes) should be at "+
				"least 11 bytes to hold the results" {
			t.Error(err)
		}
	})
}
