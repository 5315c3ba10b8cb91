package device

import (
	"testing"
	"time"
)

func TestHost(t *testing.T) {
	t.Run("this machine", func(t *testing.T) {
		u := Host()
		if u.Total <= 0 || u.Busy <= 0 || u.Busy > u.Total {
			t.Errorf("cores: busy %v of %v", u.Busy, u.Total)
		}
		if u.Memory <= 0 || u.Free <= 0 || u.Free > u.Memory {
			t.Errorf("memory: %d free of %d", u.Free, u.Memory)
		}
	})
	t.Run("stat", func(t *testing.T) {
		busy, total := parseStat([]byte("cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5\n"))
		if busy != 810*time.Millisecond || total != 5310*time.Millisecond {
			t.Errorf("parseStat = %v, %v; want 810ms, 5.31s", busy, total)
		}
		for _, bad := range []string{"", "cpu 1 2", "cpu a b c d e f"} {
			if busy, total := parseStat([]byte(bad)); busy != 0 || total != 0 {
				t.Errorf("parseStat(%q) = %v, %v", bad, busy, total)
			}
		}
	})
	t.Run("meminfo", func(t *testing.T) {
		total, free := parseMeminfo([]byte("MemTotal:       100 kB\nMemFree: 1 kB\nMemAvailable:    40 " +
			"kB\nHugePages_Total: x\n"))
		if total != 100<<10 || free != 40<<10 {
			t.Errorf("parseMeminfo = %d, %d", total, free)
		}
	})
}
