package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A process that is about to be killed is held by a pidfd while it is looked at. A later process of the same number,
// which that does not refer to, is so never killed.
func TestKillHoldsTheProcessWhileItLooks_D20(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	killIf(pid, func() bool { return false })
	state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil || strings.Contains(string(state), ") Z ") {
		t.Errorf("the process was killed although it is another one: %s %v", state, err)
	}
	before := pidfds(t, pid)
	killIf(pid, func() bool {
		if n := pidfds(t, pid); n != before+1 {
			t.Errorf("%d descriptors refer to the process, want %d", n, before+1)
		}
		return true
	})
	if err := child.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v, want a kill", err)
	}
	killIf(pid, func() bool { return true }) // there is no such process
}

// pidfds returns how many descriptors of this program refer to a process.
func pidfds(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(b), "\nPid:\t"+strconv.Itoa(pid)+"\n") {
			n++
		}
	}
	return n
}
