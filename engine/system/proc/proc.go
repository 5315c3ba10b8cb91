// Package proc reads the resource usage of processes from /proc. On systems without /proc it finds nothing. It starts
// no goroutines.
package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Usage is the resource usage of a process and its descendants.
type Usage struct {
	CPU       float64 // seconds
	RSSMB     float64 // in 10^6 bytes; pages that processes share count for each
	Processes []int   // the process ids, in no order
}

// Tree returns the usage of pid and all its descendants. The CPU time of children that exited counts for their parent.
func Tree(pid int) (Usage, error) {
	entries, err := os.ReadDir(Root)
	if err != nil {
		return Usage{}, err
	}
	all := map[int]Stat{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if all[id], err = ReadStat(Root, e.Name()); err != nil {
			delete(all, id) // it has just exited
		}
	}
	if _, ok := all[pid]; !ok {
		return Usage{}, fmt.Errorf("there is no process %d", pid)
	}
	var u Usage
	for id, p := range all {
		for at := id; at != 0; at = all[at].parent {
			if at == pid {
				u.CPU += (p.CPU + p.Children).Seconds()
				u.RSSMB += float64(p.Resident) / 1e6
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
	folder := filepath.Join(Root, strconv.Itoa(pid))
	if n, err := kilobytes(filepath.Join(folder, "smaps_rollup"), "Pss:"); err == nil && n > 0 {
		return n
	}
	n, _ := kilobytes(filepath.Join(folder, "status"), "VmRSS:")
	return n
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
