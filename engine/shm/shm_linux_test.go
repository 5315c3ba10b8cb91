package shm

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// object makes a memory object under /dev/shm and returns its key.
func object(t testing.TB, content []byte) (key, path string) {
	t.Helper()
	key = "/nereid_test_" + rand.Text()
	path = "/dev/shm" + key
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	return key, path
}

func registry(t testing.TB, o Options) *Registry {
	t.Helper()
	g := New(o)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// check compares an error's code and text; "" wants none.
func check(t *testing.T, err error, code status.Code, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("%v; want no error", err)
		}
		return
	}
	if err == nil || status.CodeOf(err) != code || err.Error() != text {
		t.Errorf("%v: %v\nwant %v: %s", status.CodeOf(err), err, code, text)
	}
}

func read(g *Registry, at Range, dt tensor.DataType) ([]byte, error) {
	var pool tensor.Pool
	buf, err := g.Read(infer.New(), &pool, at, dt, &Quota{})
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	return bytes.Clone(buf.Bytes()), nil
}

func TestRegisterSystem(t *testing.T) {
	g := registry(t, Options{})
	key, _ := object(t, counting(4096))
	const reserved = "cannot register shared memory region 'r' with key '%s' as the key contains the reserved prefix " +
		"'triton_python_backend_shm_region_'"
	badKey := func(key string) string {
		return fmt.Sprintf("cannot register shared memory region 'r' - invalid shm key '%s'", key)
	}
	invalid := "failed to register shared memory region 'r': invalid args"
	long := strings.Repeat("k", 300)
	for _, tt := range []struct {
		name, region, key string
		offset, size      uint64
		code              status.Code
		text              string // "": accepted
	}{
		{name: "the whole object", region: "r", key: key, size: 4096},
		{name: "a key without its slash", region: "r", key: key[1:], size: 1},
		{name: "a key with more slashes", region: "r", key: "//" + key, size: 1},
		{name: "DV39 a part that begins inside a page", region: "r", key: key, offset: 100, size: 3996},
		{name: "no name", key: key, size: 1, code: status.InvalidArg,
			text: "'region name' is necessary to register system shared memory region"},
		{name: "a name that is no text", region: "\xff", key: key, size: 1, code: status.InvalidArg,
			text: `the name of a shared memory region must be UTF-8 without NUL, it is "\xff"`},
		{name: "a long name", region: strings.Repeat("n", 1025), key: key, size: 1, code: status.InvalidArg,
			text: "the name of a shared memory region must have at most 1024 bytes, it has 1025"},
		{name: "no object", region: "r", key: "/nereid_no_such_object", size: 1, code: status.Internal,
			text: "Unable to open shared memory region: '/nereid_no_such_object'"},
		{name: "C1 another server's memory", region: "r", key: reservedPrefix + "0", size: 1, code: status.InvalidArg,
			text: fmt.Sprintf(reserved, reservedPrefix+"0")},
		{name: "C1 another server's memory behind slashes", region: "r", key: "///" + reservedPrefix + "0", size: 1,
			code: status.InvalidArg,
			text: fmt.Sprintf(reserved, "///"+reservedPrefix+"0")},
		{name: "C1 another server's memory behind a dot", region: "r", key: "./" + reservedPrefix + "0", size: 1,
			code: status.InvalidArg,
			text: badKey("./" + reservedPrefix + "0")},
		{name: "C1 another server's memory, URL-coded", region: "r", key: "%2f" + reservedPrefix + "0", size: 1,
			code: status.Internal,
			text: "Unable to open shared memory region: '%2f" + reservedPrefix + "0'"},
		{name: "C1 DV37 a semaphore", region: "r", key: "/sem.mp-x", size: 1, code: status.InvalidArg,
			text: badKey("/sem.mp-x")},
		{name: "C3 a way out", region: "r", key: "../../etc/hostname", size: 1, code: status.InvalidArg,
			text: badKey("../../etc/hostname")},
		{name: "C3 a way out behind a slash", region: "r", key: "/../../etc/hostname", size: 1, code: status.InvalidArg,
			text: badKey("/../../etc/hostname")},
		{name: "C3 the folder above", region: "r", key: "..", size: 1, code: status.InvalidArg, text: badKey("..")},
		{name: "C3 the folder itself", region: "r", key: "/.", size: 1, code: status.InvalidArg, text: badKey("/.")},
		{name: "C3 DV36 empty", region: "r", size: 1, code: status.InvalidArg, text: badKey("")},
		{name: "C3 a slash", region: "r", key: "/", size: 1, code: status.InvalidArg, text: badKey("/")},
		{name: "C3 a folder's", region: "r", key: "a/b", size: 1, code: status.InvalidArg, text: badKey("a/b")},
		{name: "C3 300 characters", region: "r", key: long, size: 1, code: status.InvalidArg, text: badKey(long)},
		{name: "C3 a NUL", region: "r", key: key + "\x00x", size: 1, code: status.InvalidArg,
			text: badKey(key + "\x00x")},
		{name: "C4 offset and size wrap 2^64", region: "r", key: key, offset: 16, size: math.MaxUint64 - 15,
			code: status.InvalidArg, text: invalid},
		{name: "C4 offset and size wrap 2^63", region: "r", key: key, offset: math.MaxInt64, size: 2,
			code: status.InvalidArg, text: invalid},
		{name: "C4 a negative offset", region: "r", key: key, offset: ^uint64(0), size: 1, code: status.InvalidArg,
			text: invalid},
		{name: "C4 a negative size", region: "r", key: key, size: ^uint64(0), code: status.InvalidArg, text: invalid},
		{name: "C4 one byte more than there is", region: "r", key: key, offset: 1, size: 4096, code: status.InvalidArg,
			text: invalid},
		{name: "C4 nothing", region: "r", key: key, code: status.InvalidArg, text: invalid},
	} {
		t.Run("B017 "+tt.name, func(t *testing.T) {
			check(t, g.RegisterSystem(tt.region, tt.key, tt.offset, tt.size, Self), tt.code, tt.text)
			list, err := g.Status(System, "")
			if want := map[bool]int{true: 1}[tt.text == ""]; err != nil || len(list) != want {
				t.Errorf("%d regions, %v; want %d", len(list), err, want)
			}
			check(t, g.Unregister(System, ""), 0, "")
		})
	}
}

// The server could open objects that its client must not read.
func TestObjectsOfOtherUsersAreRefused_C11(t *testing.T) {
	key, _ := object(t, counting(64))
	mine := os.Getuid()
	for _, tt := range []struct {
		name     string
		uid      int
		known    bool
		anyOwner bool
		text     string // part of the refusal; "": it passes
	}{
		{name: "the owner", uid: mine, known: true},
		{name: "root", uid: 0, known: true},
		{name: "another user", uid: mine + 1, known: true, text: "it belongs to another user than the client"},
		{name: "a client that is not known", text: "cannot tell which user"},
		{name: "another user, allowed", uid: mine + 1, known: true, anyOwner: true},
		{name: "a client that is not known, allowed", anyOwner: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := registry(t, Options{AnyOwner: tt.anyOwner})
			err := g.RegisterSystem("r", key, 0, 64, func() (int, bool) { return tt.uid, tt.known })
			if (err == nil) != (tt.text == "") || err != nil && (status.CodeOf(err) != status.InvalidArg ||
				!strings.Contains(err.Error(), tt.text)) {
				t.Errorf("%v; want %q", err, tt.text)
			}
		})
	}
}

func TestObjectsThatAreNotMemory(t *testing.T) {
	dir := t.TempDir()
	g := registry(t, Options{Folder: dir})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, counting(64), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(string) error{
		"C3 a link out of the folder": func(p string) error { return os.Symlink(secret, p) },
		"C3 a folder":                 func(p string) error { return os.Mkdir(p, 0o700) },
		"C3 a FIFO":                   func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			object := strings.ReplaceAll(name, " ", "-")
			if err := make(filepath.Join(dir, object)); err != nil {
				t.Fatal(err)
			}
			err := g.RegisterSystem("r", object, 0, 16, Self)
			if status.CodeOf(err) != status.Internal ||
				!strings.HasSuffix(err.Error(), "shared memory region: '"+object+"'") {
				t.Errorf("%v; want a refusal", err)
			}
		})
	}
}

func TestStatusAndUnregister(t *testing.T) {
	g := registry(t, Options{CUDA: fakeCUDA{}})
	key, _ := object(t, counting(64))
	for _, name := range []string{"b", "a"} {
		check(t, g.RegisterSystem(name, key, 8, 16, Self), 0, "")
	}
	check(t, g.RegisterCUDA("c", make([]byte, HandleSize), 3, 32), 0, "")
	for _, taken := range []string{"a", "c"} {
		check(t, g.RegisterSystem(taken, key, 0, 64, Self), status.AlreadyExists,
			"shared memory region '"+taken+"' already in manager")
	}

	list, err := g.Status(System, "")
	want := []Status{{Name: "a", Key: key, Offset: 8, ByteSize: 16}, {Name: "b", Key: key, Offset: 8, ByteSize: 16}}
	if err != nil || fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("Status = %v, %v; want %v", list, err, want)
	}
	list, err = g.Status(CUDA, "c")
	if err != nil || fmt.Sprint(list) != fmt.Sprint([]Status{{Name: "c", DeviceID: 3, ByteSize: 32}}) {
		t.Errorf("Status of a CUDA region = %v, %v", list, err)
	}
	_, err = g.Status(System, "none")
	check(t, err, status.NotFound, "Unable to find system shared memory region: 'none'")
	_, err = g.Status(CUDA, "none")
	check(t, err, status.NotFound, "Unable to find cuda shared memory region: 'none'")
	_, err = g.Status(System, "c")
	check(t, err, status.NotFound, "The region named 'c' is registered as CUDA shared memory, not system shared memory")
	_, err = g.Status(CUDA, "a")
	check(t, err, status.NotFound, "The region named 'a' is registered as system shared memory, not CUDA shared memory")

	check(t, g.Unregister(System, "none"), 0, "")
	check(t, g.Unregister(System, "c"), 0, "") // of the other kind: it stays
	check(t, g.Unregister(System, "a"), 0, "")
	if list, _ = g.Status(System, ""); len(list) != 1 || list[0].Name != "b" {
		t.Errorf("after one was unregistered: %v", list)
	}
	check(t, g.Unregister(System, ""), 0, "")
	if list, _ = g.Status(System, ""); len(list) != 0 {
		t.Errorf("after all were unregistered: %v", list)
	}
	if list, _ = g.Status(CUDA, ""); len(list) != 1 {
		t.Errorf("CUDA regions after the system's were unregistered: %v", list)
	}
}

func TestDisabledSharedMemory(t *testing.T) {
	key, _ := object(t, counting(64))
	const text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
	for name, g := range map[string]*Registry{"C10 disabled": New(Options{Disabled: true, CUDA: fakeCUDA{}}),
		"C10 none": nil} {
		t.Run(name, func(t *testing.T) {
			check(t, g.RegisterSystem("r", key, 0, 64, Self), status.Unsupported, text)
			check(t, g.RegisterCUDA("r", make([]byte, HandleSize), 0, 64), status.Unsupported, text)
			check(t, g.Unregister(System, "r"), status.Unsupported, text)
			check(t, g.Unregister(CUDA, ""), status.Unsupported, text)
			_, err := g.Status(System, "r")
			check(t, err, status.NotFound, "Unable to find system shared memory region: 'r'")
			if list, err := g.Status(CUDA, ""); err != nil || len(list) != 0 {
				t.Errorf("Status = %v, %v; want none", list, err)
			}
			_, err = read(g, Range{Region: "r", Size: 1}, tensor.Uint8)
			check(t, err, status.NotFound, "Unable to find shared memory region: 'r'")
			_, err = g.Slot(Range{Region: "r", Size: 1})
			check(t, err, status.NotFound, "Unable to find shared memory region: 'r'")
			if g.Allows(System) || g.Allows(CUDA) {
				t.Error("regions are said to be allowed")
			}
			check(t, g.Close(), 0, "")
		})
	}
}

func TestDisable_H086(t *testing.T) {
	key, _ := object(t, counting(64))
	g := registry(t, Options{})
	check(t, g.RegisterSystem("r", key, 0, 64, Self), 0, "")
	check(t, g.Disable(true), 0, "")
	_, err := read(g, Range{Region: "r", Size: 1}, tensor.Uint8)
	check(t, err, status.NotFound, "Unable to find shared memory region: 'r'")
	check(t, g.RegisterSystem("r", key, 0, 64, Self), status.Unsupported, errDisabled.Error())
	if g.Allows(System) {
		t.Error("regions are said to be allowed")
	}
	check(t, g.Disable(false), 0, "")
	check(t, g.RegisterSystem("r", key, 0, 64, Self), 0, "")
}

func TestRegisterCUDA(t *testing.T) {
	handle := make([]byte, HandleSize)
	t.Run("C10 CUDA without a GPU", func(t *testing.T) {
		g := registry(t, Options{})
		check(t, g.RegisterCUDA("r", handle, 0, 64), status.InvalidArg,
			"failed to register CUDA shared memory region: 'r', GPUs not supported")
		if g.Allows(CUDA) {
			t.Error("CUDA regions are said to be allowed")
		}
	})
	g := registry(t, Options{CUDA: fakeCUDA{}})
	check(t, g.RegisterCUDA("", handle, 0, 64), status.InvalidArg,
		"'region name' is necessary to register cuda shared memory region")
	check(t, g.RegisterCUDA("r", handle[:63], 0, 64), status.InvalidArg,
		"failed to register CUDA shared memory region 'r': its handle has 63 bytes, want 64")
	check(t, g.RegisterCUDA("r", handle, -1, 64), status.InvalidArg,
		"failed to register shared memory region 'r': invalid args")
	check(t, g.RegisterCUDA("r", handle, 0, 1<<40), status.InvalidArg,
		"failed to register CUDA shared memory region 'r': failed to open CUDA IPC handle: out of memory")
	check(t, g.RegisterCUDA("r", handle, 0, 1<<50), status.InvalidArg,
		"failed to register shared memory region 'r': invalid args")
	check(t, g.RegisterCUDA("r", handle, 9, 64), status.InvalidArg,
		"failed to register CUDA shared memory region: 'r', GPUs not supported")
	check(t, g.RegisterCUDA("r", handle, 0, 64), 0, "")
	got, err := read(g, Range{Region: "r", Offset: 8, Size: 4}, tensor.Uint8)
	if err != nil || !bytes.Equal(got, []byte{8, 9, 10, 11}) {
		t.Errorf("Read = %v, %v", got, err)
	}
}

// fakeCUDA imports memory that counts from 0.
type fakeCUDA struct{}

func (fakeCUDA) Import(_ [HandleSize]byte, device int64, size uint64) (Memory, error) {
	switch {
	case device == 9:
		return nil, fmt.Errorf("%w: it is lost", ErrNoGPU)
	case size > 1<<45:
		return nil, ErrBeyond
	case size > 1<<20:
		return nil, errors.New("failed to open CUDA IPC handle: out of memory")
	}
	return &fakeDevice{b: counting(int(size))}, nil
}

type fakeDevice struct{ b []byte }

func (d *fakeDevice) ReadAt(p []byte, off int64) (int, error)  { return copy(p, d.b[off:]), nil }
func (d *fakeDevice) WriteAt(p []byte, off int64) (int, error) { return copy(d.b[off:], p), nil }
func (d *fakeDevice) Close() error                             { return nil }

func TestRead(t *testing.T) {
	content := counting(256)
	key, _ := object(t, content)
	for _, direct := range []bool{false, true} {
		g := registry(t, Options{Direct: direct})
		check(t, g.RegisterSystem("r", key, 56, 200, Self), 0, "")
		for _, tt := range []struct {
			name string
			at   Range
			dt   tensor.DataType
			code status.Code
			text string
		}{
			{name: "the whole region", at: Range{Region: "r", Size: 200}, dt: tensor.Uint8},
			{name: "its last byte", at: Range{Region: "r", Offset: 199, Size: 1}, dt: tensor.Uint8},
			{name: "a part that is not aligned", at: Range{Region: "r", Offset: 3, Size: 8}, dt: tensor.FP64},
			{name: "strings", at: Range{Region: "r", Offset: 8, Size: 8}, dt: tensor.Bytes},
			{name: "nothing", at: Range{Region: "r", Offset: 8}, dt: tensor.FP32},
			{name: "C4 an offset behind the end", at: Range{Region: "r", Offset: 200, Size: 1}, code: status.InvalidArg,
				text: "Invalid offset for shared memory region: 'r'"},
			{name: "C4 a negative offset", at: Range{Region: "r", Offset: ^uint64(0), Size: 1}, code: status.InvalidArg,
				text: "Invalid offset for shared memory region: 'r'"},
			{name: "C4 a size behind the end", at: Range{Region: "r", Offset: 1, Size: 200}, code: status.InvalidArg,
				text: "Invalid offset + byte size for shared memory region: 'r'"},
			{name: "C4 a size over 2^63", at: Range{Region: "r", Offset: 1, Size: 1 << 63}, code: status.InvalidArg,
				text: "Invalid offset + byte size for shared memory region: 'r'"},
			{name: "C4 DV42 offset and size wrap 2^64", at: Range{Region: "r", Offset: 8, Size: math.MaxUint64},
				code: status.InvalidArg,
				text: "Integer overflow detected: byte_size (18446744073709551615) + offset (8) exceeds maximum " +
					"value (18446744073709551615) for region 'r'"},
			{name: "no region", at: Range{Region: "none", Size: 1}, code: status.NotFound,
				text: "Unable to find shared memory region: 'none'"},
		} {
			t.Run(fmt.Sprintf("B050 %s, direct %v", tt.name, direct), func(t *testing.T) {
				got, err := read(g, tt.at, tt.dt)
				check(t, err, tt.code, tt.text)
				slot, serr := g.Slot(tt.at)
				check(t, serr, tt.code, tt.text)
				if err != nil || serr != nil {
					return
				}
				defer slot.Release()
				if want := content[56+tt.at.Offset:][:tt.at.Size]; !bytes.Equal(got, want) ||
					slot.Size() != tt.at.Size {
					t.Errorf("Read = %v, want %v; a slot of %d bytes", got, want, slot.Size())
				}
			})
		}
	}
}

// Without Options.Direct what was read does not change; with it, fixed-size types are the client's memory itself.
func TestReadOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		direct  bool
		dt      tensor.DataType
		changes bool
	}{
		{name: "copied", dt: tensor.FP32},
		{name: "mapped", direct: true, dt: tensor.FP32, changes: true},
		{name: "strings are copied even so", direct: true, dt: tensor.Bytes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, path := object(t, counting(64))
			g := registry(t, Options{Direct: tt.direct})
			check(t, g.RegisterSystem("r", key, 8, 32, Self), 0, "")
			var pool tensor.Pool
			buf, err := g.Read(infer.New(), &pool, Range{Region: "r", Size: 4}, tt.dt, &Quota{})
			if err != nil {
				t.Fatal(err)
			}
			check(t, g.Unregister(System, "r"), 0, "")
			overwrite(t, path, 8, []byte{99})
			if got := buf.Bytes()[0]; (got == 99) != tt.changes {
				t.Errorf("the first byte is %d after the client changed it from 8 to 99", got)
			}
			buf.Release()
		})
	}
}

func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func TestAShrunkObjectIsAnError(t *testing.T) {
	key, path := object(t, counting(8192))
	g := registry(t, Options{})
	check(t, g.RegisterSystem("r", key, 0, 8192, Self), 0, "")
	slot, err := g.Slot(Range{Region: "r", Offset: 4096, Size: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	if err := os.Truncate(path, 4097); err != nil {
		t.Fatal(err)
	}
	t.Run("C5 DV41 an input in memory that was shrunk", func(t *testing.T) {
		_, err := read(g, Range{Region: "r", Size: 8192}, tensor.Uint8)
		check(t, err, status.InvalidArg,
			"cannot read 8192 bytes at offset 0 of shared memory region 'r': it ends before that; "+
				"the client may have shrunk it after its registration")
		if got, err := read(g, Range{Region: "r", Size: 4097}, tensor.Uint8); err != nil || len(got) != 4097 {
			t.Errorf("what is left cannot be read: %v", err)
		}
	})
	t.Run("C5 an output in memory that was shrunk", func(t *testing.T) {
		check(t, slot.Write(counting(2)), status.InvalidArg,
			"cannot write 2 bytes at offset 4096 of shared memory region 'r': it ends before that; "+
				"the client may have shrunk it after its registration")
		check(t, slot.Write(counting(1)), 0, "")
		if info, err := os.Stat(path); err != nil || info.Size() != 4097 {
			t.Errorf("the object has %d bytes, %v; want 4097: it is not the server's to lengthen", info.Size(), err)
		}
	})
}

func TestUnregisteredWhileInUse(t *testing.T) {
	t.Run("C6 DV43 unregistered and unlinked while a request uses it", func(t *testing.T) {
		key, path := object(t, counting(64))
		g := registry(t, Options{})
		before := descriptors(t)
		check(t, g.RegisterSystem("r", key, 0, 64, Self), 0, "")
		slot, err := g.Slot(Range{Region: "r", Size: 8})
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		check(t, g.Unregister(System, "r"), 0, "")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		check(t, slot.Write([]byte{7}), 0, "")
		var b [1]byte
		if _, err := f.Read(b[:]); err != nil || b[0] != 7 {
			t.Errorf("the object's first byte is %d, %v; want 7", b[0], err)
		}
		if n := descriptors(t); n != before+2 { // the request's and the test's own
			t.Errorf("%d descriptors while the request runs, want %d", n, before+2)
		}
		slot.Release()
		if n := descriptors(t); n != before+1 {
			t.Errorf("%d descriptors after the request, want %d", n, before+1)
		}
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// wanting makes a request for outputs at places in shared memory.
func wanting(t *testing.T, g *Registry, at map[string]Range) *infer.Request {
	t.Helper()
	r := infer.New()
	for name, place := range at {
		slot, err := g.Slot(place)
		if err != nil {
			t.Fatal(err)
		}
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: name, Shared: slot})
	}
	return r
}

func TestStore(t *testing.T) {
	answer := func(r *infer.Request, outputs map[string][]byte) *infer.Response {
		resp := r.NewResponse()
		for name, b := range outputs {
			resp.AddOutput(name, tensor.Uint8, []int64{int64(len(b))}, b, nil)
		}
		return resp
	}
	t.Run("B050 an output goes to its place", func(t *testing.T) {
		key, path := object(t, make([]byte, 16))
		g := registry(t, Options{})
		check(t, g.RegisterSystem("r", key, 4, 12, Self), 0, "")
		r := wanting(t, g, map[string]Range{"A": {Region: "r", Offset: 2, Size: 4}})
		defer r.Release()
		resp := answer(r, map[string][]byte{"A": {1, 2, 3}, "B": {9}})
		check(t, Store(r, resp), 0, "")
		if a, b := resp.Output("A"), resp.Output("B"); a.Data != nil || a.Shape[0] != 3 || len(b.Data) != 1 {
			t.Errorf("the response has %v and %v", a, b)
		}
		if got, err := os.ReadFile(path); err != nil ||
			!bytes.Equal(got, []byte{0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0}) {
			t.Errorf("the object holds %v, %v", got, err)
		}
	})
	t.Run("C7 an output larger than its slot", func(t *testing.T) {
		key, path := object(t, counting(16))
		g := registry(t, Options{})
		check(t, g.RegisterSystem("r", key, 0, 16, Self), 0, "")
		r := wanting(t, g, map[string]Range{"A": {Region: "r", Size: 4}, "B": {Region: "r", Offset: 4, Size: 4}})
		defer r.Release()
		resp := answer(r, map[string][]byte{"A": {9, 9}, "B": {9, 9, 9, 9, 9}})
		check(t, Store(r, resp), status.Internal,
			"shared memory size specified with the request for output 'B' (4 bytes) should be at least 5 bytes to "+
				"hold the results")
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, counting(16)) {
			t.Errorf("the object was changed to %v, %v", got, err)
		}
	})
	t.Run("C8 an input's place is an output's too", func(t *testing.T) {
		key, path := object(t, counting(16))
		g := registry(t, Options{})
		check(t, g.RegisterSystem("r", key, 0, 16, Self), 0, "")
		in, err := read(g, Range{Region: "r", Size: 8}, tensor.Uint8)
		if err != nil {
			t.Fatal(err)
		}
		r := wanting(t, g, map[string]Range{"A": {Region: "r", Offset: 4, Size: 8}})
		defer r.Release()
		check(t, Store(r, answer(r, map[string][]byte{"A": in})), 0, "")
		if got, err := os.ReadFile(path); err != nil ||
			!bytes.Equal(got, []byte{0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15}) {
			t.Errorf("the object holds %v, %v; want the input as it was, at the output's place", got, err)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Run("C9 DV40 10000 registrations", func(t *testing.T) {
		var files syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
			t.Fatal(err)
		}
		if files.Cur < 1200 {
			t.Skipf("a process may open %d files here; 1,024 regions and the test's own need 1,200", files.Cur)
		}
		key, _ := object(t, counting(64))
		g := registry(t, Options{})
		before := descriptors(t)
		refused := 0
		for i := range 10_000 {
			if err := g.RegisterSystem(fmt.Sprint(i), key, 0, 64, Self); err != nil {
				if refused++; refused == 1 {
					check(t, err, status.Unavailable,
						"failed to register shared memory region '1024': 1024 regions are registered, "+
							"which is the limit; unregister what is not used")
				}
			}
		}
		if refused != 10_000-1024 {
			t.Errorf("%d of 10000 registrations refused, want %d", refused, 10_000-1024)
		}
		check(t, g.Unregister(System, ""), 0, "")
		if n := descriptors(t); n != before {
			t.Errorf("%d descriptors after all regions were unregistered, want %d", n, before)
		}
		check(t, g.RegisterSystem("again", key, 0, 64, Self), 0, "")
	})
	t.Run("a sparse object", func(t *testing.T) { // takes no memory of the client's, but would of the server's
		key, path := object(t, nil)
		if err := os.Truncate(path, 1<<40); err != nil {
			t.Fatal(err)
		}
		g := registry(t, Options{})
		check(t, g.RegisterSystem("r", key, 0, 1<<40, Self), 0, "")
		_, err := read(g, Range{Region: "r", Size: 1 << 40}, tensor.Uint8)
		check(t, err, status.InvalidArg,
			"the inputs of a request may have 2147483647 bytes in shared memory; split the request")
		var pool tensor.Pool
		b := &Quota{taken: MaxRequest - 10}
		_, err = g.Read(infer.New(), &pool, Range{Region: "r", Size: 11}, tensor.Uint8, b)
		check(t, err, status.InvalidArg,
			"the inputs of a request may have 2147483647 bytes in shared memory; split the request")
	})
}

// Registering, using and unregistering at once, with the race detector's eyes on it.
func TestConcurrentUse(t *testing.T) {
	key, path := object(t, counting(64))
	g := registry(t, Options{})
	before := descriptors(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				err := g.RegisterSystem("r", key, 0, 64, Self)
				if err != nil && status.CodeOf(err) != status.AlreadyExists {
					t.Error(err)
				}
				if got, err := read(g, Range{Region: "r", Offset: 32, Size: 8}, tensor.Uint8); err == nil &&
					!bytes.Equal(got, counting(64)[32:40]) {
					t.Errorf("read %v", got)
				} else if err != nil && status.CodeOf(err) != status.NotFound {
					t.Error(err)
				}
				if slot, err := g.Slot(Range{Region: "r", Size: 8}); err == nil {
					if err := slot.Write(counting(8)); err != nil {
						t.Error(err)
					}
					slot.Release()
				}
				if _, err := g.Status(System, ""); err != nil {
					t.Error(err)
				}
				check(t, g.Unregister(System, "r"), 0, "")
			}
		})
	}
	wg.Wait()
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors at the end, want %d", n, before)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, counting(64)) {
		t.Errorf("the object holds %v, %v", got, err)
	}
}

func TestAClosedRegistryRefuses(t *testing.T) {
	key, _ := object(t, counting(64))
	g := New(Options{})
	check(t, g.RegisterSystem("r", key, 0, 64, Self), 0, "")
	check(t, g.Close(), 0, "")
	check(t, g.RegisterSystem("s", key, 0, 64, Self), status.Unavailable, "the server is shutting down")
	_, err := read(g, Range{Region: "r", Size: 1}, tensor.Uint8)
	check(t, err, status.NotFound, "Unable to find shared memory region: 'r'")
}

// FuzzRegister: whatever clients say, nothing outside the folder is opened, and no range outside the region is read.
func FuzzRegister(f *testing.F) {
	dir := f.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shm"), 0o700); err != nil {
		f.Fatal(err)
	}
	for _, p := range []string{"shm/inside", "outside"} {
		if err := os.WriteFile(filepath.Join(dir, p), []byte(p+strings.Repeat(".", 54)), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	for _, key := range []string{"inside", "/inside", "../outside", "./inside", "//inside\x00", "/",
		strings.Repeat("a", 300)} {
		f.Add("r", key, uint64(0), uint64(64), uint64(0), uint64(64), uint8(2))
	}
	f.Add("r", "inside", uint64(8), ^uint64(0)-7, uint64(16), ^uint64(0)-15, uint8(13))
	f.Add("\xff", "inside", uint64(1)<<63, uint64(1)<<63, ^uint64(0), uint64(1), uint8(0))
	f.Fuzz(func(t *testing.T, name, key string, offset, size, from, length uint64, dt uint8) {
		for _, direct := range []bool{false, true} {
			g := New(Options{Folder: filepath.Join(dir, "shm"), Direct: direct})
			if err := g.RegisterSystem(name, key, offset, size, Self); err != nil {
				check(t, g.Close(), 0, "")
				continue
			}
			if strings.TrimLeft(key, "/") != "inside" || offset > 64 || size > 64-offset {
				t.Fatalf("registered %d bytes at %d of %q", size, offset, key)
			}
			whole := "shm/inside" + strings.Repeat(".", 54)
			got, err := read(g, Range{Region: name, Offset: from, Size: length}, tensor.DataType(dt%15))
			if err == nil && string(got) != whole[offset+from:][:length] {
				t.Fatalf("read %q", got)
			}
			if err == nil && (from > size || length > size-from) {
				t.Fatalf("read %d bytes at %d of a region of %d", length, from, size)
			}
			check(t, g.Close(), 0, "")
		}
	})
}

// Options.InputBuffer returns the memory for larger inputs of fixed-size types. It is released when reading fails.
func TestInputBuffer(t *testing.T) {
	key, path := object(t, counting(64<<10))
	let := 0
	var asked []string
	g := registry(t, Options{InputBuffer: func(model string, version int64, n int) *tensor.Buffer {
		asked = append(asked, fmt.Sprint(model, version, n))
		if model == "none" {
			return nil
		}
		return tensor.NewBuffer(make([]byte, n), func(*tensor.Buffer) { let++ })
	}})
	check(t, g.RegisterSystem("r", key, 0, 64<<10, Self), 0, "")
	var pool tensor.Pool
	for _, tt := range []struct {
		name, model string
		size        uint64
		dt          tensor.DataType
		asked, near bool
	}{
		{"large", "m", 64 << 10, tensor.FP32, true, true},
		{"from a model without such memory", "none", 64 << 10, tensor.FP32, true, false},
		{"small", "m", 1000, tensor.FP32, false, false},
		{"strings", "m", 64 << 10, tensor.Bytes, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := infer.New()
			defer r.Release()
			r.ModelName, r.Version = tt.model, 3
			asked, let = nil, 0
			buf, err := g.Read(r, &pool, Range{Region: "r", Size: tt.size}, tt.dt, &Quota{})
			if err != nil || !bytes.Equal(buf.Bytes(), counting(int(tt.size))) {
				t.Fatalf("%v, or other bytes", err)
			}
			buf.Release()
			if near := let == 1; near != tt.near || (len(asked) > 0) != tt.asked || tt.asked &&
				asked[0] != fmt.Sprint(tt.model, 3, tt.size) {
				t.Errorf("asked %v, near %v; want %v, %v", asked, near, tt.asked, tt.near)
			}
		})
	}
	t.Run("C5 a shrunk object", func(t *testing.T) {
		if err := os.Truncate(path, 100); err != nil {
			t.Fatal(err)
		}
		r := infer.New()
		defer r.Release()
		let = 0
		_, err := g.Read(r, &pool, Range{Region: "r", Size: 64 << 10}, tensor.FP32, &Quota{})
		if status.CodeOf(err) != status.InvalidArg || let != 1 {
			t.Errorf("%v; its memory was released %d times, want once", err, let)
		}
	})
}
