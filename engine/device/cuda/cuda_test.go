//go:build cuda && linux && amd64

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const folderVar = "FAKE_GPU_FOLDER"

// TestMain runs the tests in a process that finds the driver of testdata, which it compiles, in place of NVIDIA's.
func TestMain(m *testing.M) {
	if os.Getenv(folderVar) != "" {
		os.Exit(m.Run())
	}
	os.Exit(withDriver())
}

func withDriver() int {
	dir, err := os.MkdirTemp("", "nereid-cuda-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	cc := exec.Command("cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"),
		"testdata/cuda.c", "-lpthread")
	if out, err := cc.CombinedOutput(); err != nil { // CPATH has cuda.h, as for this package
		fmt.Fprintf(os.Stderr, "the driver for tests cannot be compiled: %v\n%s", err, out)
		return 1
	}
	self := exec.Command(os.Args[0], os.Args[1:]...)
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	self.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, folderVar+"="+dir)
	if err := self.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var ids uint64 = 1 << 60 // tests run one after the other

// export makes memory on a card as another process would, and returns its handle and the file that it is.
func export(t *testing.T, card uint32, content []byte) (handle [shm.HandleSize]byte, path string) {
	t.Helper()
	ids++
	copy(handle[:], "FAKEIPC")
	binary.LittleEndian.PutUint64(handle[8:], ids)
	binary.LittleEndian.PutUint64(handle[16:], uint64(len(content)))
	binary.LittleEndian.PutUint32(handle[24:], card)
	path = filepath.Join(os.Getenv(folderVar), fmt.Sprintf("memory.%016x", ids))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return handle, path
}

// fail makes a call of the driver return an error.
func fail(t *testing.T, call string, code Result) {
	t.Helper()
	path := filepath.Join(os.Getenv(folderVar), "fault")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s %d\n", call, int(code)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { heal(t) })
}

func heal(t *testing.T) {
	if err := os.Remove(filepath.Join(os.Getenv(folderVar), "fault")); err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}

// held counts what this process holds of the driver: "open" handles or "context"s.
func held(t *testing.T, what string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.Getenv(folderVar), fmt.Sprintf("%s.%d.*", what, os.Getpid())))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// driver returns a driver that must hold nothing when the test ends.
func driver(t *testing.T) *Driver {
	t.Helper()
	d := New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		d.Close()
		if h, c := held(t, "open"), held(t, "context"); h != 0 || c != 0 {
			t.Errorf("%d handles and %d contexts are left", h, c)
		}
	})
	return d
}

func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func TestCopies(t *testing.T) {
	d := driver(t)
	content := counting(1 << 20)
	handle, path := export(t, 1, content)
	m, err := d.Import(handle, 1, uint64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1000)
	if n, err := m.ReadAt(got, 12345); n != 1000 || err != nil || !bytes.Equal(got, content[12345:13345]) {
		t.Errorf("ReadAt = %d, %v, or another content", n, err)
	}
	var wg sync.WaitGroup
	for i := range 16 { // each writes its own part and reads it again
		wg.Go(func() {
			mine, back := bytes.Repeat([]byte{byte(i)}, 4096), make([]byte, 4096)
			for range 20 {
				if n, err := m.WriteAt(mine, int64(i)*4096); n != len(mine) || err != nil {
					t.Errorf("WriteAt = %d, %v", n, err)
				}
				if _, err := m.ReadAt(back, int64(i)*4096); err != nil || !bytes.Equal(mine, back) {
					t.Errorf("part %d has another content, %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		if !bytes.Equal(now[i*4096:(i+1)*4096], bytes.Repeat([]byte{byte(i)}, 4096)) {
			t.Errorf("part %d is not on the device", i)
		}
	}
	if !bytes.Equal(now[16*4096:], content[16*4096:]) {
		t.Error("bytes that were not written have changed")
	}
	if n, err := m.WriteAt(nil, 0); n != 0 || err != nil {
		t.Errorf("nothing written: %d, %v", n, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// A handle may be registered under several names. Contexts stay until the driver and the last region are closed.
func TestReferencesAreReleased(t *testing.T) {
	d := driver(t)
	if c := held(t, "context"); c != 0 {
		t.Errorf("%d contexts before the first region", c)
	}
	handle, _ := export(t, 0, counting(64))
	var all []shm.Memory
	for range 2 {
		m, err := d.Import(handle, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if h, c := held(t, "open"), held(t, "context"); h != 1 || c != 1 {
		t.Errorf("%d handles and %d contexts, want 1 and 1", h, c)
	}
	if err := all[0].Close(); err != nil {
		t.Error(err)
	}
	d.Close()
	if _, err := d.Import(handle, 0, 64); err == nil {
		t.Error("a closed driver opens memory")
	}
	got := make([]byte, 64)
	if _, err := all[1].ReadAt(got, 0); err != nil || !bytes.Equal(got, counting(64)) {
		t.Errorf("the region of a request that still runs: %v", err)
	}
	if err := all[1].Close(); err != nil {
		t.Error(err)
	}
}

func TestImportErrors(t *testing.T) {
	handle, _ := export(t, 0, counting(100))
	gone, path := export(t, 0, counting(100))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		handle [shm.HandleSize]byte
		device int64
		size   uint64
		call   string
		code   Result
		is     error
		text   string
	}{
		{name: "no handle", size: 100, text: "failed to open CUDA IPC handle: invalid argument"},
		{name: "the memory is freed", handle: gone, size: 100,
			text: "failed to open CUDA IPC handle: invalid argument"},
		{name: "a device that is not there", handle: handle, device: 2, size: 100,
			text: "failed to open CUDA IPC handle: invalid device ordinal"},
		{name: "a negative device", handle: handle, device: -1, size: 100,
			text: "failed to open CUDA IPC handle: invalid device ordinal"},
		{name: "a device over 2^32", handle: handle, device: 1 << 32, size: 100,
			text: "failed to open CUDA IPC handle: invalid device ordinal"},
		{name: "another device's", handle: handle, device: 1, size: 100,
			text: "failed to open CUDA IPC handle: peer access is not supported between these two devices"},
		{name: "C4 one byte more than there is", handle: handle, size: 101, is: shm.ErrBeyond},
		{name: "C4 a size over 2^63", handle: handle, size: math.MaxUint64, is: shm.ErrBeyond},
		{name: "no memory to map it", handle: handle, size: 100, call: "cuIpcOpenMemHandle", code: 2,
			text: "failed to open CUDA IPC handle: out of memory"},
		{name: "no memory for a context", handle: handle, device: 1, size: 100, call: "cuDevicePrimaryCtxRetain",
			code: 2,
			text: "the context of GPU 1 cannot be opened: out of memory"},
		{name: "no memory for a stream", handle: handle, size: 100, call: "cuStreamCreate", code: 2,
			text: "no stream can be made on the GPU: out of memory"},
		{name: "the size is unknown", handle: handle, size: 100, call: "cuMemGetAddressRange", code: 1,
			text: "the size of the memory is not known: invalid argument"},
		{name: "an error without a text", handle: handle, size: 100, call: "cuIpcOpenMemHandle", code: 12345,
			text: "failed to open CUDA IPC handle: CUDA error 12345"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := driver(t)
			if tt.call != "" {
				fail(t, tt.call, tt.code)
			}
			m, err := d.Import(tt.handle, tt.device, tt.size)
			if err == nil {
				t.Fatal("it is opened", m.Close())
			}
			if tt.is != nil && !errors.Is(err, tt.is) || tt.is == nil && err.Error() != tt.text {
				t.Errorf("%v; want %v%s", err, tt.is, tt.text)
			}
			if h := held(t, "open"); h != 0 {
				t.Errorf("%d handles are left open", h)
			}
			heal(t)
			if m, err = d.Import(handle, 0, 100); err != nil {
				t.Fatalf("what is right afterwards: %v", err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// If the driver does not start, the next region tries it again.
func TestNoDevice(t *testing.T) {
	var log bytes.Buffer
	d := driver(t)
	d.log = slog.New(slog.NewTextHandler(&log, nil))
	handle, _ := export(t, 0, counting(64))
	for call, code := range map[string]Result{"cuInit": noDevice, "cuDeviceGetCount": 999} {
		fail(t, call, code)
		if _, err := d.Import(handle, 0, 64); !errors.Is(err, shm.ErrNoGPU) || !errors.Is(err, code) {
			t.Errorf("%s fails: %v", call, err)
		}
		heal(t)
	}
	m, err := d.Import(handle, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("the log warns %d times, want once:\n%s", n, &log)
	}
}

// This runs in another process, because the library stays loaded.
func TestNoDriver(t *testing.T) {
	if os.Getenv("NEREID_TEST_NO_DRIVER") != "" {
		_, err := New(slog.New(slog.DiscardHandler)).Import([shm.HandleSize]byte{}, 0, 1)
		if !errors.Is(err, shm.ErrNoGPU) || !strings.Contains(err.Error(), "libcuda.so.1") {
			t.Errorf("%v; want that libcuda.so.1 is not there", err)
		}
		return
	}
	if found, _ := filepath.Glob("/usr/lib*/*/libcuda.so.1"); len(found) > 0 {
		t.Skip("this machine has NVIDIA's driver:", found[0])
	}
	self := exec.Command(os.Args[0], "-test.run=^TestNoDriver$", "-test.v")
	self.Env = append(os.Environ(), "LD_LIBRARY_PATH=", "NEREID_TEST_NO_DRIVER=1")
	if out, err := self.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestNoDriver")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// The registry works with the driver.
func TestRegions(t *testing.T) {
	d := driver(t)
	g := shm.New(shm.Options{CUDA: d, MaxRegions: 50})
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	var pool tensor.Pool
	handle, path := export(t, 0, counting(256))
	if err := g.RegisterCUDA("r", handle[:], 0, 200); err != nil {
		t.Fatal(err)
	}
	wantErr := func(t *testing.T, err error, code status.Code, text string) {
		t.Helper()
		if status.CodeOf(err) != code || err == nil || err.Error() != text {
			t.Errorf("%v: %v; want %v: %s", status.CodeOf(err), err, code, text)
		}
	}
	t.Run("C4 beyond the region, though not beyond the memory", func(t *testing.T) {
		_, err := g.Read(infer.New(), &pool, shm.Range{Region: "r", Offset: 100, Size: 101}, tensor.FP32, &shm.Quota{})
		wantErr(t, err, status.InvalidArg, "Invalid offset + byte size for shared memory region: 'r'")
		_, err = g.Slot(shm.Range{Region: "r", Offset: 200, Size: 1})
		wantErr(t, err, status.InvalidArg, "Invalid offset for shared memory region: 'r'")
		wantErr(t, g.RegisterCUDA("s", handle[:], 0, 257), status.InvalidArg,
			"failed to register shared memory region 's': invalid args")
	})
	t.Run("C5 the device does not answer", func(t *testing.T) {
		fail(t, "cuStreamSynchronize", 700)
		const says = " bytes at offset 8 of shared memory region 'r': CUDA says an illegal memory access was " +
			"encountered " +
			"(CUDA_ERROR_ILLEGAL_ADDRESS); the client may have freed it after its registration"
		_, err := g.Read(infer.New(), &pool, shm.Range{Region: "r", Offset: 8, Size: 16}, tensor.FP32, &shm.Quota{})
		wantErr(t, err, status.InvalidArg, "cannot read 16"+says)
		slot, err := g.Slot(shm.Range{Region: "r", Offset: 8, Size: 16})
		if err != nil {
			t.Fatal(err)
		}
		defer slot.Release()
		wantErr(t, slot.Write(make([]byte, 4)), status.InvalidArg, "cannot write 4"+says)
	})
	t.Run("C6 unregistered while a request uses it", func(t *testing.T) {
		if err := g.RegisterCUDA("short", handle[:], 0, 64); err != nil {
			t.Fatal(err)
		}
		slot, err := g.Slot(shm.Range{Region: "short", Offset: 60, Size: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Unregister(shm.CUDA, "short"); err != nil {
			t.Error(err)
		}
		if err := slot.Write([]byte("last")); err != nil {
			t.Error(err)
		}
		slot.Release()
		now, err := os.ReadFile(path)
		if err != nil || string(now[60:64]) != "last" {
			t.Errorf("%q, %v; want what was written", now[60:64], err)
		}
	})
	t.Run("C9 many regions", func(t *testing.T) {
		var err error
		for i := 0; err == nil; i++ {
			other, _ := export(t, 1, counting(16))
			if err = g.RegisterCUDA(fmt.Sprint(i), other[:], 1, 16); i > 100 {
				t.Fatal("there is no limit")
			}
		}
		if status.CodeOf(err) != status.Unavailable || held(t, "open") != 50 {
			t.Errorf("%v with %d handles open", err, held(t, "open"))
		}
		if err := g.Unregister(shm.CUDA, ""); err != nil || held(t, "open") != 0 {
			t.Errorf("%v with %d handles open after all were unregistered", err, held(t, "open"))
		}
	})
	t.Run("a handle that cannot be closed", func(t *testing.T) {
		if err := g.RegisterCUDA("stuck", handle[:], 0, 64); err != nil {
			t.Fatal(err)
		}
		fail(t, "cuStreamDestroy", 999)
		wantErr(t, g.Unregister(shm.CUDA, "stuck"), status.Internal,
			"Failed to unregister the following cuda shared memory regions: stuck")
	})
}
