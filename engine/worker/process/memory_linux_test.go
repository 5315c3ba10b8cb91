package process

import "testing"

func TestOOMScore(t *testing.T) {
	for server, want := range map[int]int{0: 600, -999: 600, 300: 600, 500: 700, 950: 1000, 1000: 1000} {
		if got := oomScore(server); got != want {
			t.Errorf("oomScore(%d) = %d, want %d", server, got, want)
		}
	}
}

// If SIGKILL ended two processes and the kernel counts one out-of-memory kill, it explains only one of them.
func TestOOMAccount(t *testing.T) {
	var kernel int64 = 7 // before the server
	a := oomAccount{count: func() int64 { return kernel }}
	first, second := a.before(), a.before()
	if a.since(first) {
		t.Error("the kernel killed no process, but one is reported as out of memory")
	}
	kernel++
	if !a.since(first) {
		t.Error("a process that the kernel killed is not reported as out of memory")
	}
	if a.since(second) {
		t.Error("one kill is reported for two processes")
	}
	third := a.before()
	kernel++
	if !a.since(third) || a.since(third) {
		t.Error("the second kill is not reported for the third process, or more than once")
	}
}
