package device

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"nereid/engine/system/cgroup"
)

// tick is the unit of /proc/stat: USER_HZ is 100 on every architecture that Go supports.
const tick = 10 * time.Millisecond

// Host returns the current use of the machine. Sources of the formats: proc(5), /proc/stat and /proc/meminfo.
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

// idleTime returns the idle time of all cores together. It allocates nothing but the file.
func idleTime() (time.Duration, bool) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0, false
	}
	defer f.Close() // read only
	var line [256]byte
	n, err := f.Read(line[:])
	if err != nil {
		return 0, false
	}
	return parseIdle(line[:n])
}

func parseIdle(b []byte) (time.Duration, bool) {
	busy, total := parseStat(b)
	return total - busy, total > 0
}

// parseStat reads the line "cpu": user, nice, system, idle, iowait, irq, softirq, steal. The time of guests is in
// user. It returns 0 for another format.
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
