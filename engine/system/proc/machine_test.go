package proc

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// write makes a proc file system with one file.
func write(t *testing.T, name, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestCPUTimesCountWaitingAsIdleAndGuestsOnce(t *testing.T) {
	busy, total, err := CPUTimes(write(t, "stat", "cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5\n"))
	if err != nil || busy != 810*time.Millisecond || total != 5310*time.Millisecond {
		t.Errorf("CPUTimes = %v, %v, %v; want 810ms, 5.31s", busy, total, err)
	}
	for _, bad := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6", "cpu a b c d e f", "cpu 1 2 x 4 5\n"} {
		if busy, total, err := CPUTimes(write(t, "stat", bad)); err == nil || busy != 0 || total != 0 {
			t.Errorf("CPUTimes of %q = %v, %v, %v", bad, busy, total, err)
		}
	}
}

func TestMachineMemory(t *testing.T) {
	total, available, err := MachineMemory(write(t, "meminfo",
		"MemTotal:       100 kB\nMemFree: 1 kB\nMemAvailable:    40 kB\nHugePages_Total: x\n"))
	if err != nil || total != 100<<10 || available != 40<<10 {
		t.Errorf("MachineMemory = %d, %d, %v", total, available, err)
	}
	for _, bad := range []string{"", "MemTotal: 5 kB\n", "MemTotal:\nMemAvailable: 1 kB\n",
		"MemTotal: x kB\nMemAvailable: 1 kB\n"} {
		if _, _, err := MachineMemory(write(t, "meminfo", bad)); err == nil {
			t.Errorf("MachineMemory of %q passes", bad)
		}
	}
}

func TestReadStatFindsTheFieldsAfterAnyName(t *testing.T) {
	const text = "42 (a (b) c) S 7 1 1 0 -1 4194304 100 0 0 0 150 50 20 10 20 0 9 0 1000 1000000 3 1\n"
	s, err := ReadStat(write(t, "42/stat", text), "42")
	want := Stat{
		CPU: 2 * time.Second, Children: 300 * time.Millisecond, Resident: 3 * int64(os.Getpagesize()),
		Start: 1000, parent: 7,
	}
	if err != nil || s != want {
		t.Errorf("ReadStat = %+v, %v; want %+v", s, err, want)
	}
	for _, bad := range []string{"", "42 (a) S 7", "42 (a) S x 1 1 0 -1 4 1 0 0 0 1 5 2 1 2 0 9 0 1 1 3"} {
		if _, err := ReadStat(write(t, "42/stat", bad), "42"); err == nil {
			t.Errorf("ReadStat of %q passes", bad)
		}
	}
}
