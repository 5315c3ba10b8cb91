package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nereid/engine/system/cgroup"
)

// availableMemory returns how much memory in bytes the server may use: that of the machine or of its control group.
// 0: not known.
func availableMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	most, _ := cgroup.Own("memory").Memory(int64(info.Totalram)*int64(info.Unit), 0)
	return most
}

// oomKills returns how many processes of the server's control group, or of the machine, the kernel has killed because
// it was out of memory.
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

// preferOOMKill makes the kernel kill this process before the server when it is out of memory. Not every container
// permits that; then the kernel kills the larger one.
func preferOOMKill(pid int) {
	own := 0
	if b, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		if n, err := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil {
			own = n
		}
	}
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(oomScore(own))), 0)
}

// oomScore returns the score of a process of a server with this score. Kubernetes gives up to 1000 to containers
// without guarantees.
func oomScore(server int) int { return min(max(600, server+200), 1000) }
