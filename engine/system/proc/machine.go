package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Root is where the proc file system usually is mounted. Functions with a parameter root read the one that is there.
const Root = "/proc"

// tick is the unit of the times in /proc. USER_HZ is 100 on every architecture that Go supports.
const tick = 10 * time.Millisecond

// CPUTimes returns the time that has passed for all cores together since the start of the machine, and how much of it
// they were busy. Waiting for a disk counts as idle. Source of the format: proc(5), /proc/stat.
func CPUTimes(root string) (busy, total time.Duration, err error) {
	text, err := ReadFile(filepath.Join(root, "stat"))
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 6 || string(fields[0]) != "cpu" {
		return 0, 0, fmt.Errorf("stat begins with %q, want the line of all CPUs", line)
	}
	// user, nice, system, idle, iowait, irq, softirq, steal. Guest times follow; they are part of user and nice.
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseInt(string(field), 10, 62)
		if err != nil {
			return 0, 0, fmt.Errorf("stat field %d: %w", i+1, err)
		}
		total += time.Duration(n) * tick
		if i != 3 && i != 4 {
			busy += time.Duration(n) * tick
		}
	}
	return busy, total, nil
}

// MachineMemory returns the memory of the machine and how much of it is available, in bytes.
func MachineMemory(root string) (total, available int64, err error) {
	path := filepath.Join(root, "meminfo")
	text, err := ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	total, err = find(text, path, "MemTotal:")
	if err != nil {
		return 0, 0, err
	}
	available, err = find(text, path, "MemAvailable:")
	return total, available, err
}

// kilobytes reads a number from a file of lines "name: number kB". It returns bytes.
func kilobytes(path, name string) (int64, error) {
	b, err := ReadFile(path)
	if err != nil {
		return 0, err
	}
	return find(b, path, name)
}

// find is kilobytes for the text of a file.
func find(b []byte, path, name string) (int64, error) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 0 || string(f[0]) != name {
			continue
		}
		if len(f) < 2 {
			return 0, fmt.Errorf("%s: line %q has no value", path, line)
		}
		n, err := strconv.ParseInt(string(f[1]), 10, 53)
		if err != nil {
			return 0, fmt.Errorf("%s: line %q: %w", path, line, err)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// Stat is what a process has used itself.
type Stat struct {
	CPU      time.Duration // its own
	Children time.Duration // CPU time of the children that exited
	Resident int64         // bytes; pages that processes share count for each
	Start    int64         // when it was started, in ticks since the machine was; distinguishes processes of one number
	parent   int
}

// ReadStat returns what a process has used. pid is a number, or "self". Source of the fields: proc(5),
// /proc/<pid>/stat.
func ReadStat(root, pid string) (Stat, error) {
	b, err := ReadFile(filepath.Join(root, pid, "stat"))
	if err != nil {
		return Stat{}, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name before it may contain spaces and parentheses
	var errs []error
	number := func(at int) int64 { // at is the field's number in proc(5), which counts from 1
		if at -= 3; at >= len(fields) { // the process's id and its name come before
			errs = append(errs, fmt.Errorf("%s/stat has %d fields after the name", pid, len(fields)))
			return 0
		}
		n, err := strconv.ParseInt(string(fields[at]), 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s/stat field %d: %w", pid, at+3, err))
		}
		return n
	}
	s := Stat{
		CPU:      time.Duration(number(14)+number(15)) * tick,
		Children: time.Duration(number(16)+number(17)) * tick,
		Resident: number(24) * int64(os.Getpagesize()),
		Start:    number(22),
		parent:   int(number(4)),
	}
	return s, errors.Join(errs...)
}
