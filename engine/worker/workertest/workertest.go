// Package workertest makes control groups with little memory, for tests of workers.
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

// Group is the folder of a control group with limited memory. Linux only.
type Group string

// NewGroup makes the control group name, with so many bytes, in the group of this process or in one of its parents.
// This needs root or a delegated group. Errors: those of the system.
func NewGroup(name string, most int64) (Group, error) {
	var errs []error
	// A group that has processes cannot limit the memory of groups in it. Its parents may.
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
	// Version 1 has no such file. If it is needed and cannot be written, writing the limit fails too.
	_ = os.WriteFile(filepath.Join(filepath.Dir(string(g)), "cgroup.subtree_control"), []byte("+memory"), 0)
	if err := os.Mkdir(string(g), 0o755); err != nil {
		return err
	}
	bound := []byte(strconv.FormatInt(most, 10))
	if err := os.WriteFile(filepath.Join(string(g), file), bound, 0); err != nil {
		return errors.Join(err, os.Remove(string(g)))
	}
	// Swapping would only make tests slow. Not every kernel has this file.
	_ = os.WriteFile(filepath.Join(string(g), "memory.swap.max"), []byte("0"), 0)
	_ = os.WriteFile(filepath.Join(string(g), "memory.memsw.limit_in_bytes"), bound, 0)
	return nil
}

// Procs returns the file to which the number of a process is written to put it into the group; 0: the writer itself.
func (g Group) Procs() string { return filepath.Join(string(g), "cgroup.procs") }

// Kills returns how many of its processes the kernel has killed because memory ran out.
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

// Remove removes the group. The error wraps syscall.EBUSY while it has processes.
func (g Group) Remove() error { return os.Remove(string(g)) }
