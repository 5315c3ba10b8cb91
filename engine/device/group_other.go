//go:build !unix

package device

// groupOf returns the process itself: there are no groups.
func groupOf(pid int) int { return pid }
