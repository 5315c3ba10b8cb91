package device

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"nereid/engine/system/cgroup"
)

// Host reads what the machine does now. Sources of the formats: proc(5), /proc/stat and /proc/meminfo.
func Host() HostUse {
	var u HostUse
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		u.Busy, u.Total = parseStat(b)
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		u.Memory, u.Free = parseMeminfo(b)
	}
	u.Memory, u.Free = cgroup.Own("memory").Memory(u.Memory, u.Free)
	return u
}

// parseStat reads the line "cpu": user, nice, system, idle, iowait, irq, softirq, steal; guests count as user already.
func parseStat(b []byte) (busy, total time.Duration) {
	b, _, _ = bytes.Cut(b, []byte("\n"))
	f := bytes.Fields(b)
	if len(f) < 6 || string(f[0]) != "cpu" {
		return 0, 0
	}
	for i, field := range f[1:min(len(f), 9)] {
		n, err := strconv.ParseInt(string(field), 10, 62)
		if err != nil {
			return 0, 0
		}
		d := time.Duration(n) * tick
		total += d
		if i != 3 && i != 4 {
			busy += d
		}
	}
	return busy, total
}

// parseMeminfo reads MemTotal and MemAvailable.
func parseMeminfo(b []byte) (total, free int64) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseInt(string(f[1]), 10, 53)
		if err != nil {
			continue
		}
		switch string(f[0]) {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			free = n << 10
		}
	}
	return total, free
}
