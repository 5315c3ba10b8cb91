//go:build unix

package device

import "syscall"

// groupOf returns the process group of a process, -1 for one that is not there.
func groupOf(pid int) int {
	group, err := syscall.Getpgid(pid)
	if err != nil {
		return -1
	}
	return group
}
