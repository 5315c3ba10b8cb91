// Package workertest makes what tests and measurements of the ends of workers need: control groups whose memory ends.
package workertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"nereid/engine/system/cgroup"
)

// Group is a control group with a bound of its memory; its path is the folder. Linux only.
type Group string

// NewGroup makes a control group with so many bytes, in that of this process or one further out, for name. Errors:
// what the machine does not allow; it takes root's rights or a delegated group.
func NewGroup(name string, most int64) (Group, error) {
	var errs []error
	// One with processes of its own gives no memory to groups in it; those further out may.
	for _, limit := range cgroup.Own("memory").Files("memory.limit_in_bytes", "memory.max") {
		g := Group(filepath.Join(filepath.Dir(limit), name))
		err := g.limit(filepath.Base(limit), most)
		if err == nil {
			return g, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no control group with a bound of its memory can be made, which takes root's rights or a "+
		"delegated group: %w", errors.Join(errs...))
}

func (g Group) limit(file string, most int64) error {
	// Version 1 has no such file; where it is needed and cannot be written, the bound cannot either, and says so.
	_ = os.WriteFile(filepath.Join(filepath.Dir(string(g)), "cgroup.subtree_control"), []byte("+memory"), 0)
	if err := os.Mkdir(string(g), 0o755); err != nil {
		return err
	}
	bound := []byte(strconv.FormatInt(most, 10))
	if err := os.WriteFile(filepath.Join(string(g), file), bound, 0); err != nil {
		return errors.Join(err, os.Remove(string(g)))
	}
	// Swapping would only make it slow. Not every kernel counts it.
	_ = os.WriteFile(filepath.Join(string(g), "memory.swap.max"), []byte("0"), 0)
	_ = os.WriteFile(filepath.Join(string(g), "memory.memsw.limit_in_bytes"), bound, 0)
	return nil
}

// Procs is the file that takes the number of a process, which is in the group from then on; 0: the one that writes.
func (g Group) Procs() string { return filepath.Join(string(g), "cgroup.procs") }

// Kills returns how many of its processes the kernel has ended for want of memory.
func (g Group) Kills() (int64, error) {
	for _, name := range []string{"memory.events", "memory.oom_control"} {
		text, err := os.ReadFile(filepath.Join(string(g), name))
		if err != nil {
			continue // of the other version
		}
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("the control group %s does not count what the kernel ends", g)
}

// Remove removes the group. The error wraps syscall.EBUSY while there are processes in it.
func (g Group) Remove() error { return os.Remove(string(g)) }
