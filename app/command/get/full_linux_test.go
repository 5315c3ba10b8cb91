package get

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A disk that fills up during a download, of which the server does not say how long it is, is named, and nothing stays.
// The disk is a file system of 1 MiB that only a child process sees.
func TestAFullDiskIsReported(t *testing.T) {
	const inside = "NEREID_TEST_FULL_DISK"
	if dir := os.Getenv(inside); dir != "" {
		getOnFullDisk(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAFullDiskIsReported$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSPC),
		strings.Contains(string(out), "NO MOUNT"):
		t.Skipf("this system gives no file systems to users: %v %s", err, out)
	case err != nil || !strings.Contains(string(out), "--- PASS: TestAFullDisk"):
		t.Errorf("%v\n%s", err, out)
	}
}

func getOnFullDisk(t *testing.T, dir string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Fatalf("NO MOUNT: %v", err)
	}
	url := serve(t, nil, func(w http.ResponseWriter, _ *http.Request) bool {
		for range 4 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return true
			}
		}
		return true
	})
	status, text := run(t.Context(), dir, url+"/x.onnx")
	if status == 0 || !strings.Contains(text, "no space left on device") {
		t.Errorf("status %d: %s", status, text)
	}
	if names := entries(t, dir); len(names) > 0 {
		t.Errorf("the repository has %v", names)
	}
}
