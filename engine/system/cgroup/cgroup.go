package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Group is where a controller has its files for a process: the group's folder and those of the groups that it is in, which
// bound it too.
type Group struct {
	folders []string // its own first
	first   bool     // version 1
}

// Own returns the group of this process for a controller, such as "memory". On a system without control groups no file of it
// is there.
func Own(controller string) Group {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		text = nil // a kernel without
	}
	return Of(text, "/sys/fs/cgroup", controller)
}

// Of returns the group of a process by its /proc/<pid>/cgroup, where root is what is mounted at /sys/fs/cgroup. In a container,
// the path may be the one that it has outside: then what is mounted is the container's own group.
func Of(text []byte, root, controller string) Group {
	var g Group
	path := ""
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if slices.Contains(strings.Split(parts[1], ","), controller) { // version 1, whose controllers version 2 does not have
			root, path, g.first = filepath.Join(root, controller), parts[2], true
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

// Files returns the paths of a file that has those names in version 1 and in version 2: the group's own first, the outermost
// last. Not each of them need be there.
func (g Group) Files(first, second string) []string {
	name := second
	if g.first {
		name = first
	}
	all := make([]string, len(g.folders))
	for i, folder := range g.folders {
		all[i] = filepath.Join(folder, name)
	}
	return all
}

// Memory returns what a process may have of total bytes, and what it could still get if free bytes are free, by the bounds of
// the controller "memory".
func (g Group) Memory(total, free int64) (have, left int64) {
	have, left = total, free
	used := g.Files("memory.usage_in_bytes", "memory.current")
	for i, file := range g.Files("memory.limit_in_bytes", "memory.max") {
		most, err := number(file)
		if err != nil || most >= total {
			continue // "max", or the outermost, which has no such file
		}
		have, left = min(have, most), min(left, most)
		if n, err := number(used[i]); err == nil {
			left = min(left, max(0, most-n))
		}
	}
	return have, left
}

func number(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
}
