package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuSampler measures the share of the cores' time that was not idle, between two reads of /proc/stat.
type cpuSampler struct {
	proc  string
	every time.Duration

	last        time.Time // when total and idle were read; zero: never
	total, idle uint64    // in ticks
	value       float64   // of the interval that ended at last
}

// utilization returns the share, 0 to 1, in the last interval of at least c.every. It is 0 during the first interval.
func (c *cpuSampler) utilization(now time.Time) (float64, error) {
	if !c.last.IsZero() && now.Sub(c.last) < c.every {
		return c.value, nil
	}
	b, err := os.ReadFile(filepath.Join(c.proc, "stat"))
	if err != nil {
		return 0, err
	}
	total, idle, err := parseStat(string(b))
	if err != nil {
		return 0, err
	}
	if !c.last.IsZero() && total > c.total {
		c.value = 1 - float64(idle-min(idle, c.idle))/float64(total-c.total)
		c.value = max(0, min(1, c.value))
	}
	c.last, c.total, c.idle = now, total, idle
	return c.value, nil
}

// parseStat sums the first line of /proc/stat: all ticks, and the idle ones (idle, iowait).
func parseStat(s string) (total, idle uint64, err error) {
	line, _, _ := strings.Cut(s, "\n")
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "cpu" {
		return 0, 0, fmt.Errorf("stat begins with %q, want the line of all CPUs", line)
	}
	for i, v := range f[1:] {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("stat field %d: %w", i+1, err)
		}
		if i >= 8 { // guest times are part of user and nice
			break
		}
		total += n
		if i == 3 || i == 4 {
			idle += n
		}
	}
	return total, idle, nil
}

// memory returns the machine's memory and how much of it is not available, in bytes.
func memory(proc string) (total, used uint64, err error) {
	b, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		return 0, 0, err
	}
	var available uint64
	found := 0
	for line := range strings.Lines(string(b)) {
		var dst *uint64
		switch name, _, _ := strings.Cut(line, ":"); name {
		case "MemTotal":
			dst = &total
		case "MemAvailable":
			dst = &available
		default:
			continue
		}
		f := strings.Fields(line)
		if len(f) < 2 {
			return 0, 0, fmt.Errorf("meminfo line %q has no value", line)
		}
		kib, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("meminfo line %q: %w", line, err)
		}
		*dst = kib << 10
		found++
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("meminfo has %d of MemTotal and MemAvailable", found)
	}
	return total, total - min(total, available), nil
}

// usage is the memory and CPU time of this process.
type usage struct {
	resident uint64  // bytes
	cpu      float64 // seconds
}

const ticksPerSecond = 100 // USER_HZ, the same on every Linux that Go runs on

// process reads the usage of this process.
func process(proc string) (usage, error) {
	var u usage
	b, err := os.ReadFile(filepath.Join(proc, "self", "stat"))
	if err != nil {
		return u, err
	}
	// pid (comm) state ...: comm may contain spaces and parentheses.
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	const utime, stime, rss = 14 - 3, 15 - 3, 24 - 3 // numbers of proc(5), which counts from 1, less pid, comm, and 1
	if len(f) <= rss {
		return u, fmt.Errorf("self/stat has %d fields after the name", len(f))
	}
	var n [3]uint64
	for i, at := range []int{utime, stime, rss} {
		if n[i], err = strconv.ParseUint(f[at], 10, 64); err != nil {
			return u, fmt.Errorf("self/stat field %d: %w", at+3, err)
		}
	}
	u.cpu = float64(n[0]+n[1]) / ticksPerSecond
	u.resident = n[2] * uint64(os.Getpagesize())
	return u, nil
}
