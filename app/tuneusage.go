package app

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cores is how many this process may use.
func cores() int { return runtime.GOMAXPROCS(0) }

// consumption is what a process and those that it started take, as /proc tells; all zero where there is none.
type consumption struct {
	pid    int
	begin  time.Time
	first  time.Duration // of processors, when it began
	last   time.Duration
	end    time.Time
	memory int64 // bytes at most
	left   int64 // bytes that the machine had left at least
}

func newConsumption(pid int) *consumption {
	u := &consumption{pid: pid, begin: time.Now()}
	u.end = u.begin
	for _, p := range tree(pid) {
		u.first += processorTime(p)
	}
	u.last = u.first
	return u
}

// look reads what is taken now.
func (u *consumption) look() {
	var memory int64
	u.last, u.end = 0, time.Now()
	for _, p := range tree(u.pid) {
		u.last += processorTime(p)
		memory += share(p)
	}
	u.memory = max(u.memory, memory)
	if left := procField("/proc/meminfo", "MemAvailable:"); u.left == 0 || left < u.left {
		u.left = left
	}
}

// cores is how many were busy on average.
func (u *consumption) cores() float64 {
	if wall := u.end.Sub(u.begin); wall > 0 {
		return max(0, (u.last-u.first).Seconds()/wall.Seconds())
	}
	return 0
}

// tree is a process and all below it.
func tree(pid int) []int {
	out := []int{pid}
	for i := 0; i < len(out); i++ {
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(out[i]) + "/task/*/children") // none: it has ended, or there is no /proc
		for _, path := range lists {
			text, _ := os.ReadFile(path) // as above
			for _, word := range strings.Fields(string(text)) {
				if child, err := strconv.Atoi(word); err == nil && !slices.Contains(out, child) {
					out = append(out, child)
				}
			}
		}
	}
	return out
}

// tick is the unit of times in /proc/<pid>/stat: Linux shows hundredths of a second to programs on every machine.
const tick = 10 * time.Millisecond

// processorTime is what a process has used. Format: proc_pid_stat(5), fields 14 and 15; the name in parentheses may hold
// anything.
func processorTime(pid int) time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	words := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(words) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(string(words[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(words[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * tick
}

// share is the memory of a process, what it shares with others in equal parts; where the system does not tell, all of it.
func share(pid int) int64 {
	folder := "/proc/" + strconv.Itoa(pid)
	if n := procField(folder+"/smaps_rollup", "Pss:"); n > 0 {
		return n
	}
	return procField(folder+"/status", "VmRSS:")
}

// procField is a number of kilobytes in a file of lines "name: number kB", in bytes; 0 if there is none.
func procField(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			words := strings.Fields(rest)
			if len(words) == 0 {
				return 0
			}
			n, err := strconv.ParseInt(words[0], 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}
