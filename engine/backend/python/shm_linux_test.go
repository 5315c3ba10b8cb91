package python_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nereid/engine/shm"
)

// smallShmVar is the environment variable with which the test program serves in a separate mount namespace, with
// another /dev/shm.
const smallShmVar = "NEREID_TEST_SHM"

// Models are served if /dev/shm is small, as in a container (64 MB), or missing.
func TestSmallOrMissingShm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if how := os.Getenv(smallShmVar); how != "" {
		serveWithSmallShm(t, how)
		return
	}
	interpreter(t)
	for how, name := range map[string]string{"small": "D057 of 64 MB", "full": "D057 without room",
		"none": "D057 that is not there"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestSmallOrMissingShm$", "-test.v", "-test.timeout=5m")
			cmd.WaitDelay = 10 * time.Second // for a process that outlives the test program and has its output open
			cmd.Env = append(os.Environ(), smallShmVar+"="+how)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
			if os.Getuid() != 0 {
				cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
			}
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Skipf("this process may not make a mount namespace: %v", err)
			}
			if strings.Contains(string(out), cannotMount) {
				t.Skipf("this process may not mount in its own namespace:\n%s", out)
			}
			if err != nil || !strings.Contains(string(out), "served with /dev/shm "+how) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

const cannotMount = "cannot mount: "

// remount gives this process another /dev/shm.
func remount(t *testing.T, how string) {
	t.Helper()
	mount := func(source, target, kind string, flags uintptr, data string) {
		t.Helper()
		if err := unix.Mount(source, target, kind, flags, data); err != nil {
			t.Fatalf("%s%s on %s: %v", cannotMount, kind, target, err)
		}
	}
	switch how {
	case "small":
		mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64m")
		var fs unix.Statfs_t
		if err := unix.Statfs("/dev/shm", &fs); err != nil || int64(fs.Blocks)*fs.Bsize != 64<<20 {
			t.Fatalf("/dev/shm has %d blocks, %v", fs.Blocks, err)
		}
	case "full":
		mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_RDONLY, "size=4k")
	case "none":
		// A new /dev with the devices that programs need.
		devices := map[string]*os.File{}
		for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
			f, err := os.OpenFile("/dev/"+name, unix.O_PATH, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}()
			devices[name] = f
		}
		mount("tmpfs", "/dev", "tmpfs", 0, "size=64k,mode=755")
		for name, f := range devices {
			if err := os.WriteFile("/dev/"+name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), "/dev/"+name, "", unix.MS_BIND, "")
		}
		if _, err := os.Stat("/dev/shm"); !os.IsNotExist(err) {
			t.Fatalf("/dev/shm is there: %v", err)
		}
	}
}

// serveWithSmallShm makes clients send more at once than fits into /dev/shm, in three sizes.
func serveWithSmallShm(t *testing.T, how string) {
	remount(t, how)
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt":    config("instance_group [ { count: 4 } ]"),
		"m/1/model.py":      code("y = x + 1", ""),
		"onto/config.pbtxt": config(""),
		"onto/1/model.py": callerOf(
			`call = pb_utils.InferenceRequest(model_name="m", requested_output_names=["OUT"],
    inputs=[pb_utils.Tensor("IN", x)])
y = pb_utils.get_output_tensor_by_name(call.exec(), "OUT").as_numpy()`),
		"inplace/config.pbtxt": config(""),
		"inplace/1/model.py":   code("y = x", ""),
	}).ready()
	for _, round := range []struct {
		model string
		n     int // floats
		times int
		adds  float32
	}{{"m", 4, 4, 1}, {"m", 1 << 18, 4, 1}, {"onto", 1 << 18, 1, 1}, {"inplace", 1 << 18, 2, 0}, {"m", 1 << 21, 1, 1}} {
		var wg sync.WaitGroup
		for client := range 16 {
			wg.Go(func() {
				in := make([]float32, round.n)
				for i := range in {
					in[i] = float32(client)
				}
				for range round.times {
					a := r.one(request(round.model, map[string][]float32{"IN": in}))
					out := a.outputs["OUT"]
					want := in[0] + round.adds
					got := a.floats("OUT")
					if a.err != nil || len(got) != round.n || got[0] != want || got[len(got)-1] != want {
						t.Errorf("%s with %d floats: %d bytes, %v", round.model, round.n, len(out), a.err)
					}
				}
			})
		}
		wg.Wait()
	}
	var fs unix.Statfs_t
	switch err := unix.Statfs("/dev/shm", &fs); {
	case how == "none" && errors.Is(err, unix.ENOENT):
	case err != nil:
		t.Error(err)
	case fs.Bfree != fs.Blocks:
		t.Errorf("%d of %d blocks of /dev/shm are taken", fs.Blocks-fs.Bfree, fs.Blocks)
	}
	// Clients' regions are objects in /dev/shm. Without it, none can be registered, and the error says so.
	if err := r.SharedMemory().RegisterSystem("r", "nereid-none", 0, 64, shm.Self); err == nil {
		t.Error("a region that is not there was registered")
	} else {
		t.Log(err)
	}
	if !t.Failed() {
		fmt.Println("served with /dev/shm " + how)
	}
}
