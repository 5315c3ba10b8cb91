package worker

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryGroup(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		files      map[string]string // below what is mounted
		most       int64
	}{
		{"version 2, the group's own bound", "0::/pod/c\n", map[string]string{"pod/c/memory.max": "1000\n", "pod/memory.max": "5000\n"}, 1000},
		{"version 2, a bound further out", "0::/pod/c\n", map[string]string{"pod/c/memory.max": "max\n", "pod/memory.max": "5000\n"}, 5000},
		{"version 2, the container's path from outside", "0::/kubepods/x\n", map[string]string{"memory.max": "3000\n"}, 3000},
		{"version 2, above the machine's", "0::/c\n", map[string]string{"c/memory.max": "1000000\n"}, 9000},
		{"version 1", "5:cpu,cpuacct:/c\n4:memory:/c\n0::/\n", map[string]string{"memory/c/memory.limit_in_bytes": "2000\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 2000},
		{"version 1, the container's path from outside", "4:memory:/docker/y\n", map[string]string{"memory/memory.limit_in_bytes": "4000\n"}, 4000},
		{"no groups", "", nil, 9000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range tt.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := groupOf([]byte(tt.text), root).most(9000); got != tt.most {
				t.Errorf("groupOf(%q).most(9000) = %d, want %d", tt.text, got, tt.most)
			}
		})
	}
}

func TestOOMScore(t *testing.T) {
	for server, want := range map[int]int{0: 600, -999: 600, 300: 600, 500: 700, 950: 1000, 1000: 1000} {
		if got := oomScore(server); got != want {
			t.Errorf("oomScore(%d) = %d, want %d", server, got, want)
		}
	}
}

// Of two processes that were ended by SIGKILL, the kernel's count of one tells of one.
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
		t.Error("the end of one process tells of another")
	}
	third := a.before()
	kernel++
	if !a.since(third) || a.since(third) {
		t.Error("the kernel's second end does not tell of the third process, and of no other")
	}
}
