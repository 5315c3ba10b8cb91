// Package proc reads from /proc what processes and the machine have used. Linux only; it starts no goroutine.
package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ticksPerSecond is the unit of the times in /proc; Linux fixes it at 100 for user space.
const ticksPerSecond = 100

// Usage is what a process and its descendants have used.
type Usage struct {
	CPU       float64 // seconds
	RSSMB     float64 // pages shared between processes count in each
	Processes int
}

// Tree reads the CPU time and memory of pid and all its descendants; children that ended and were waited for
// count through their parent. Source of the fields: proc(5).
func Tree(pid int) (Usage, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return Usage{}, err
	}
	type process struct {
		parent int
		cpu    float64
		pages  float64
	}
	all := map[int]process{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			continue // it has just ended
		}
		s := string(data)
		f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
		number := func(field int) float64 { // field as numbered in proc(5)
			v, _ := strconv.ParseFloat(f[field-3], 64)
			return v
		}
		all[id] = process{
			parent: int(number(4)),
			cpu:    (number(14) + number(15) + number(16) + number(17)) / ticksPerSecond,
			pages:  number(24),
		}
	}
	if _, ok := all[pid]; !ok {
		return Usage{}, fmt.Errorf("there is no process %d", pid)
	}
	var u Usage
	for id, p := range all {
		for at := id; at != 0; at = all[at].parent {
			if at == pid {
				u.CPU += p.cpu
				u.RSSMB += p.pages * float64(os.Getpagesize()) / 1e6
				u.Processes++
				break
			}
		}
	}
	return u, nil
}

// MachineCPU returns the busy CPU seconds of the whole machine since it started.
func MachineCPU() float64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(data), "\n")
	busy := 0.0
	for i, f := range strings.Fields(line)[1:] {
		// user nice system idle iowait irq softirq steal; guest time is in user already.
		if i == 3 || i == 4 || i > 7 {
			continue
		}
		v, _ := strconv.ParseFloat(f, 64)
		busy += v
	}
	return busy / ticksPerSecond
}

// OwnCPU returns the CPU seconds that this process has used.
func OwnCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(r.Utime) + seconds(r.Stime)
}
