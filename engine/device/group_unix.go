//go:build unix

package device

import "syscall"

// groupOf returns the process group of a process, -1 if there is no such process.
func groupOf(pid int) int {
	group, err := syscall.Getpgid(pid)
	if err != nil {
		return -1
	}
	return group
}
