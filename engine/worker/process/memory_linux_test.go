package process

import "testing"

func TestOOMScore(t *testing.T) {
	for server, want := range map[int]int{0: 600, -999: 600, 300: 600, 500: 700, 950: 1000, 1000: 1000} {
		if got := oomScore(server); got != want {
			t.Errorf("oomScore(%d) = %d, want %d", server, got, want)
		}
	}
}

// If two processes were ended by SIGKILL and the kernel counts one kill, the kill explains only one of them.
func TestOOMAccount(t *testing.T) {
	var kernel int64 = 7 // before the server
	a := oomAccount{count: func() int64 { return kernel }}
	first, second := a.before(), a.before()
	if a.since(first) {
		t.Error("a process is out of memory although the kernel ended none")
	}
	kernel++
	if !a.since(first) {
		t.Error("a process that the kernel ended is not out of memory")
	}
	if a.since(second) {
		t.Error("the end of one process reports another")
	}
	third := a.before()
	kernel++
	if !a.since(third) || a.since(third) {
		t.Error("the kernel's second end does not tell of the third process, and of no other")
	}
}
