package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryGroup is the control group that bounds the memory of a process. Source of the formats: cgroups(7) and the kernel's
// documentation of control groups, version 1 and 2.
type memoryGroup struct {
	// folders are its own and those of the groups that it is in, which bound it too.
	folders       []string
	limit, events string // the names of files in them
}

// groupOf returns the group of a process by its /proc/<pid>/cgroup, where root is what is mounted at /sys/fs/cgroup. In a
// container, the path may be the one that it has outside: then what is mounted is the container's own group.
func groupOf(text []byte, root string) memoryGroup {
	g := memoryGroup{limit: "memory.max", events: "memory.events"}
	path := ""
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if slices.Contains(strings.Split(parts[1], ","), "memory") { // version 1, whose controllers version 2 does not have
			g.limit, g.events = "memory.limit_in_bytes", "memory.oom_control"
			root, path = filepath.Join(root, "memory"), parts[2]
			break
		}
		if parts[0] == "0" {
			path = parts[2]
		}
	}
	for path = filepath.Join("/", path); path != "/"; path = filepath.Dir(path) {
		g.folders = append(g.folders, filepath.Join(root, path))
	}
	g.folders = append(g.folders, root)
	return g
}

func ownGroup() memoryGroup {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		text = nil // a kernel without
	}
	return groupOf(text, "/sys/fs/cgroup")
}

// most returns the least of the limits, at most total.
func (g memoryGroup) most(total int64) int64 {
	for _, folder := range g.folders {
		b, err := os.ReadFile(filepath.Join(folder, g.limit))
		if err != nil {
			continue // the outermost has none
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil { // "max": there is none
			total = min(total, n)
		}
	}
	return total
}

// availableMemory returns the bytes of memory that the server may use at most: the machine's or its control group's.
// 0: not known.
func availableMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return ownGroup().most(int64(info.Totalram) * int64(info.Unit))
}

// oomKills returns how many processes of the server's control group, or of the machine, the kernel has ended for want of
// memory.
func oomKills() int64 {
	g := ownGroup()
	files := []string{}
	for _, folder := range g.folders {
		files = append(files, filepath.Join(folder, g.events))
	}
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
