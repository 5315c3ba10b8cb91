package staging

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// H12: a disk that fills up during an upload keeps nothing of it, says so, and takes the next file that fits. The
// disk is a file system of 1 MiB that only a child process sees.
func TestH12_TheDiskIsNearlyFull(t *testing.T) {
	const inside = "NEREID_TEST_FULL_DISK"
	if dir := os.Getenv(inside); dir != "" {
		putOnFullDisk(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestH12_TheDiskIsNearlyFull$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(),
			Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSPC),
		strings.Contains(string(out), "NO MOUNT"):
		t.Skipf("this system gives no file systems to users: %v %s", err, out)
	case err != nil || !strings.Contains(string(out), "--- PASS: TestH12"):
		t.Errorf("%v\n%s", err, out)
	}
}

func putOnFullDisk(t *testing.T, dir string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Fatalf("NO MOUNT: %v", err)
	}
	a, err := NewArea(filepath.Join(dir, "area"), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Put("model.onnx", bytes.NewReader(make([]byte, 4<<20))); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put = %v, want no space left on device", err)
	}
	if a.bytes != 0 || len(a.Files()) != 0 {
		t.Errorf("the area says it has %d bytes in %v", a.bytes, a.Files())
	}
	if err := a.Put("model.onnx", bytes.NewReader(make([]byte, 512<<10))); err != nil {
		t.Errorf("a file that fits: %v", err)
	}
	if err := a.Remove(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left on the disk: %v, %v", left, err)
	}
}
