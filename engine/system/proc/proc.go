// Package proc reads the resource usage of processes from /proc. On systems without /proc it finds nothing. It starts
// no goroutines.
package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ticksPerSecond is the unit of the times in /proc, which Linux fixes at 100 for user space.
const ticksPerSecond = 100

// Usage is the resource usage of a process and its descendants.
type Usage struct {
	CPU       float64 // seconds
	RSSMB     float64 // in 10^6 bytes; pages that processes share count for each
	Processes []int   // the process ids, in no order
}

// Tree returns the usage of pid and all its descendants. The CPU time of children that exited counts for their parent.
// Source of the fields: proc(5).
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
			continue // it has just exited
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
				u.Processes = append(u.Processes, id)
				break
			}
		}
	}
	return u, nil
}

// Memory returns the memory of a process in bytes, 0 if there is no such process. Shared memory counts in equal parts
// for each process; if the system does not report that, it counts in full. Source of the fields: proc(5),
// smaps_rollup and status.
func Memory(pid int) int64 {
	folder := "/proc/" + strconv.Itoa(pid)
	if n := kilobytes(folder+"/smaps_rollup", "Pss:"); n > 0 {
		return n
	}
	return kilobytes(folder+"/status", "VmRSS:")
}

// kilobytes reads a number from a file of lines "name: number kB". It returns bytes, 0 if there is none.
func kilobytes(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != name {
			continue
		}
		n, err := strconv.ParseInt(words[1], 10, 53)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return 0
}

// OwnCPU returns the CPU time of this process in seconds.
func OwnCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(r.Utime) + seconds(r.Stime)
}
