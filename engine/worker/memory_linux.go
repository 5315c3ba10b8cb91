package worker

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nereid/engine/system/cgroup"
)

// availableMemory returns the bytes of memory that the server may use at most: the machine's or its control group's.
// 0: not known.
func availableMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	most, _ := cgroup.Own("memory").Memory(int64(info.Totalram)*int64(info.Unit), 0)
	return most
}

// oomKills returns how many processes of the server's control group, or of the machine, the kernel has ended for want of
// memory.
func oomKills() int64 {
	files := cgroup.Own("memory").Files("memory.oom_control", "memory.events")
	for _, file := range append(files, "/proc/vmstat") {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				if v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64); err == nil {
					return v
				}
			}
		}
	}
	return 0
}

// preferWorker has the kernel end a worker before the server where memory is short. Not every container allows to say so:
// then the larger one goes first.
func preferWorker(pid int) {
	own := 0
	if b, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		if n, err := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil {
			own = n
		}
	}
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(oomScore(own))), 0)
}

// oomScore is that of a worker of a server with a score: Kubernetes gives up to 1000 to containers without guarantees.
func oomScore(server int) int { return min(max(600, server+200), 1000) }
