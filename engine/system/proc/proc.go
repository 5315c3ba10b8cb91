// Package proc reads from /proc what processes have used. It finds nothing where there is no /proc, and starts no goroutine.
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
	Processes []int   // their numbers, in no order
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
				u.Processes = append(u.Processes, id)
				break
			}
		}
	}
	return u, nil
}

// Memory returns the bytes of memory of a process, what it shares with others in equal parts; where the system does not tell
// that, all of it. 0: there is no such process. Source of the fields: proc(5), smaps_rollup and status.
func Memory(pid int) int64 {
	folder := "/proc/" + strconv.Itoa(pid)
	if n := kilobytes(folder+"/smaps_rollup", "Pss:"); n > 0 {
		return n
	}
	return kilobytes(folder+"/status", "VmRSS:")
}

// kilobytes is a number in a file of lines "name: number kB", in bytes; 0 if there is none.
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

// OwnCPU returns the CPU seconds that this process has used.
func OwnCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(r.Utime) + seconds(r.Stime)
}
