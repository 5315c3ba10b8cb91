//go:build linux

package proc

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestTree(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u, err := Tree(os.Getpid())
	if err != nil || u.CPU < 0 || u.RSSMB <= 0 || !slices.Contains(u.Processes, os.Getpid()) ||
		!slices.Contains(u.Processes, cmd.Process.Pid) {
		t.Errorf("Tree of this process = %+v, %v; want it and %d", u, err, cmd.Process.Pid)
	}
	if one, err := Tree(cmd.Process.Pid); err != nil || !slices.Equal(one.Processes, []int{cmd.Process.Pid}) {
		t.Errorf("Tree of a process without others = %+v, %v", one, err)
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if u, err := Tree(cmd.Process.Pid); err == nil {
		t.Errorf("Tree of a process that has ended = %+v", u)
	}
	if n := Memory(cmd.Process.Pid); n != 0 {
		t.Errorf("a process that has ended has %d bytes", n)
	}
}

func TestMemory(t *testing.T) {
	before := Memory(os.Getpid())
	b := make([]byte, 64<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	if n := Memory(os.Getpid()) - before; n < 32<<20 {
		t.Errorf("after 64 MiB more this process has %d bytes more than %d", n, before)
	}
	if b[0] != 1 {
		t.Error("it is used")
	}
}

func TestOwnCPU(t *testing.T) {
	before := OwnCPU()
	for i := 0; OwnCPU() == before; i++ {
		if t.Context().Err() != nil {
			t.Fatal("a loop uses no CPU time")
		}
	}
}
