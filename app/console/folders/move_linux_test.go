package folders

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A move between file systems succeeds once the target is complete, though the rest of the source cannot be removed.
// An error would make the caller remove the only complete copy.
func TestB23MoveThatCannotRemoveKeepsTheCopy(t *testing.T) {
	const nobody = 65534
	other, err := os.MkdirTemp("/dev/shm", "nereid-") //nolint:usetesting // in another file system
	if err != nil {
		t.Skipf("there is no second file system: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) }) // also on failure
	from, to := filepath.Join(t.TempDir(), "m"), filepath.Join(other, "m")
	version := filepath.Join(from, "1")
	if err := os.MkdirAll(version, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(version, "model.onnx"), []byte("good"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(version, 0o555); err != nil { //nolint:gosec // nothing in it can be removed
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // root removes all: this thread is another user
		for _, dir := range []string{filepath.Dir(filepath.Dir(from)), filepath.Dir(from), from, other} {
			if err := os.Chown(dir, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
		runtime.LockOSThread() // and ends with the test's goroutine
		if err := unix.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
	}
	err = Move(from, to)
	if os.Getuid() == 0 {
		if err := unix.Setfsuid(0); err != nil {
			t.Fatal(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(from), ".nereid-*-part"))
	for _, dir := range left {
		_ = os.Chmod(filepath.Join(dir, "1"), 0o755) //nolint:gosec // so that the test's folder can be removed
	}
	if err != nil || len(left) != 1 {
		t.Errorf("%v; left %v", err, left)
	}
	if text, err := os.ReadFile(filepath.Join(to, "1/model.onnx")); err != nil || string(text) != "good" {
		t.Errorf("the copy: %q, %v", text, err)
	}
}
