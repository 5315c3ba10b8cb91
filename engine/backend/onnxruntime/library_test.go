package onnxruntime

import (
	"bytes"
	"crypto/rand"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/klauspost/compress/zstd"
	ort "github.com/yalue/onnxruntime_go"

	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

func packed(t *testing.T, library string) fstest.MapFS {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{
		embeddedLibrary: {Data: e.EncodeAll([]byte(library), nil)},
		embeddedVersion: {Data: []byte("1.99.0\n")},
	}
}

func TestUnpack(t *testing.T) {
	files, folder := packed(t, "a library"), filepath.Join(t.TempDir(), "cache", "deep")
	path, err := unpack(files, folder)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "a library" ||
		!strings.Contains(path, "libonnxruntime-1.99.0-") {
		t.Fatalf("unpack to %s: %q, %v", path, got, err)
	}
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := unpack(files, folder); err != nil || again != path {
		t.Fatalf("second unpack = %s, %v; want %s", again, err, path)
	}
	if second, err := os.Stat(path); err != nil || !os.SameFile(first, second) {
		t.Errorf("an intact copy was unpacked again, %v", err)
	}
	for name, damage := range map[string]func() error{
		"changed library":  func() error { return os.WriteFile(path, []byte("another"), 0o700) },
		"half a library":   func() error { return os.Truncate(path, 3) },
		"library gone":     func() error { return os.Remove(path) },
		"checksum gone":    func() error { return os.Remove(sumName(path)) },
		"checksum damaged": func() error { return os.WriteFile(sumName(path), []byte("00"), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(files, folder); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "a library" || !intact(path) {
			t.Errorf("%s: it was not mended: %q, %v", name, got, err)
		}
	}
	if other, err := unpack(packed(t, "another library"), folder); err != nil || other == path {
		t.Errorf("another library unpacks to %s, %v; want a separate path", other, err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*.part")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func randomText(size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// A server that unpacks the library is not larger afterwards than one that finds it: nereid tune compares the two.
func TestUnpackKeepsNoMemory_F036(t *testing.T) {
	const size = 16 << 20
	files, folder := packed(t, randomText(size)), t.TempDir()
	held := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapSys - m.HeapReleased)
	}
	for _, start := range []string{"first", "second"} {
		debug.FreeOSMemory()
		before := held()
		if _, err := unpack(files, folder); err != nil {
			t.Fatal(err)
		}
		if more := held() - before; more > size/4 {
			t.Errorf("the %s unpack keeps %d bytes of memory", start, more)
		}
	}
}

func TestUnpackDamaged(t *testing.T) {
	files, folder := packed(t, strings.Repeat("a library ", 1000)), t.TempDir()
	data := files[embeddedLibrary].Data
	data[len(data)-1] ^= 1 // in the checksum
	if _, err := unpack(files, folder); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("unpack of a damaged library: %v", err)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestUnpackWithoutLibrary(t *testing.T) {
	if _, err := unpack(fstest.MapFS{"lib/.gitkeep": {}}, t.TempDir()); !os.IsNotExist(err) {
		t.Errorf("unpack = %v, want fs.ErrNotExist", err)
	}
	o := Options{CacheFolder: t.TempDir()}
	if path, err := o.findLibrary(fstest.MapFS{}); err != nil ||
		path != libraryName && !strings.HasPrefix(path, "/usr/lib/nereid/") {
		t.Errorf("findLibrary = %s, %v; want the system's", path, err)
	}
}

func TestUnpackIntoAFileFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(packed(t, "a library"), filepath.Join(file, "cache")); err == nil ||
		!strings.Contains(err.Error(), "unpack onnxruntime") {
		t.Errorf("unpack into a file = %v", err)
	}
}

func TestLibraryOption(t *testing.T) {
	o := Options{Library: filepath.Join(t.TempDir(), "libonnxruntime.so")}
	if _, err := o.findLibrary(embedded); err == nil || !strings.Contains(err.Error(), o.Library) {
		t.Errorf("findLibrary of a missing path = %v, want an error with the path and no other library", err)
	}
	if err := os.WriteFile(o.Library, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := o.findLibrary(embedded); err != nil || path != o.Library {
		t.Errorf("findLibrary = %s, %v; want %s", path, err, o.Library)
	}
}

// The name of a folder is no pattern.
func TestLibraryOptionNamesAFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "runtime[1]")
	library := filepath.Join(folder, "onnxruntime", "capi", libraryName+".1.31.1")
	if err := os.MkdirAll(filepath.Dir(library), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := (&Options{Library: folder}).findLibrary(embedded); err != nil || path != library {
		t.Errorf("findLibrary = %s, %v; want %s", path, err, library)
	}
}

// TestOpenRefuses opens invalid and too old libraries in a separate process, because an opened library stays open.
func TestOpenRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if what := os.Getenv("NEREID_TEST_OPEN"); what != "" {
		b := New(Options{Library: what, Log: slog.New(slog.DiscardHandler)})
		_, err := b.Version()
		if err == nil {
			t.Fatal("it opens")
		}
		os.Stdout.WriteString("refused: " + status.CodeOf(err).String() + ": " + err.Error() + "\n")
		return
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to make an old library with")
	}
	folder := t.TempDir()
	old := filepath.Join(folder, "old.so")
	source := `#include <stdint.h>
#include <stdlib.h>
static const void *api(uint32_t v) { abort(); }
static const char *version(void) { return "1.23.2"; }
static const struct { const void *(*a)(uint32_t); const char *(*v)(void); } base = {api, version};
const void *OrtGetApiBase(void) { return &base; }`
	build := func(out, source string) {
		c := exec.Command(cc, "-shared", "-fPIC", "-x", "c", "-", "-o", out)
		c.Stdin = strings.NewReader(source)
		if msg, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, msg)
		}
	}
	build(old, source)
	other := filepath.Join(folder, "other.so")
	build(other, "int x;")
	text := filepath.Join(folder, "text.so")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		old:   "refused: Unsupported: onnxruntime 1.23.2 at " + old + " is too old: version 1.24 or newer is needed",
		other: "refused: Unavailable: cannot open onnxruntime: it has no function OrtGetApiBase",
		text:  "refused: Unavailable: cannot open onnxruntime: " + text,
	} {
		c := exec.Command(os.Args[0], "-test.run", "^TestOpenRefuses$")
		c.Env = append(os.Environ(), "NEREID_TEST_OPEN="+path)
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("opening %s: %v, %s; want %q", filepath.Base(path), err, out, want)
		}
	}
}

// TestOptionsLayout checks the struct of onnxruntime_go that sessionOptions.pointer reads.
func TestOptionsLayout(t *testing.T) {
	if n := unsafe.Sizeof(ort.SessionOptions{}); n != unsafe.Sizeof(unsafe.Pointer(nil)) {
		t.Errorf("ort.SessionOptions has %d bytes; pin the version whose struct is one pointer", n)
	}
}

func TestEmbeddedFolder(t *testing.T) {
	if _, err := fs.Stat(embedded, "lib"); err != nil {
		t.Errorf("the folder lib is not embedded: %v", err)
	}
}

func TestSecondLibrary(t *testing.T) {
	path := os.Getenv("NEREID_ONNXRUNTIME_LIBRARY")
	b := New(Options{Library: path, CacheFolder: filepath.Join("..", "..", "..", ".cache", "onnxruntime")})
	if _, err := b.Version(); err != nil {
		t.Skipf("no onnxruntime: %v", err)
	}
	if _, err := capi.Open("/elsewhere/libonnxruntime.so", 0, 0); err == nil ||
		!strings.Contains(err.Error(), "is in use already") {
		t.Errorf("opening a second library = %v", err)
	}
}

func TestGraphLevel_C084_D014(t *testing.T) {
	for level, want := range map[int32]ort.GraphOptimizationLevel{
		-1: ort.GraphOptimizationLevelEnableBasic, 0: ort.GraphOptimizationLevelEnableAll,
		1: ort.GraphOptimizationLevelEnableExtended, 2: ort.GraphOptimizationLevelDisableAll,
	} {
		graph := &inferencepb.ModelOptimizationPolicy_Graph{Level: level}
		c := &inferencepb.ModelConfig{Optimization: &inferencepb.ModelOptimizationPolicy{Graph: graph}}
		if got := graphLevel(c); got != want {
			t.Errorf("optimization.graph.level %d is %v, want %v", level, got, want)
		}
	}
	if got := graphLevel(&inferencepb.ModelConfig{}); got != ort.GraphOptimizationLevelEnableAll {
		t.Errorf("without a level: %v, want all", got)
	}
}
