package cgroup

import (
	"bytes"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/system/proc"
)

// Group is the control group of a process for one controller: the folder of the group and those of its parents, which
// limit it too.
type Group struct {
	folders  []string // that of the group itself first
	version1 bool
}

// Own returns the group of this process for a controller, such as "memory". On a system without control groups, its
// files do not exist.
func Own(controller string) Group {
	text, err := proc.ReadFile("/proc/self/cgroup")
	if err != nil {
		text = nil // a kernel without control groups
	}
	return Of(text, "/sys/fs/cgroup", controller)
}

// Of returns the group that text, a /proc/<pid>/cgroup, names. root is the mount point, usually /sys/fs/cgroup. In a
// container, the path in text may be the one outside; then the container's own group is mounted at root.
func Of(text []byte, root, controller string) Group {
	var g Group
	path := ""
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if slices.Contains(strings.Split(parts[1], ","), controller) { // version 1
			root, path, g.version1 = filepath.Join(root, controller), parts[2], true
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

// Files returns the paths of a file in the folders of the group and its parents, in that order. version1 and version2
// are the file's names. Some of the files may not exist.
func (g Group) Files(version1, version2 string) []string {
	name := version2
	if g.version1 {
		name = version1
	}
	all := make([]string, len(g.folders))
	for i, folder := range g.folders {
		all[i] = filepath.Join(folder, name)
	}
	return all
}

// Memory applies the limits of the controller "memory" to a machine with total bytes, of which free bytes are free.
// have is what the group may use, left is what it may still allocate.
func (g Group) Memory(total, free int64) (have, left int64) {
	have, left = total, free
	used := g.Files("memory.usage_in_bytes", "memory.current")
	for i, file := range g.Files("memory.limit_in_bytes", "memory.max") {
		most, err := number(file)
		if err != nil || most >= total {
			continue // "max", or the root group, which has no such file
		}
		have, left = min(have, most), min(left, most)
		if n, err := number(used[i]); err == nil {
			left = min(left, max(0, most-n))
		}
	}
	return have, left
}

func number(path string) (int64, error) {
	b, err := proc.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
}
