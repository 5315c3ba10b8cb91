//go:build linux || darwin

package proc

import "golang.org/x/sys/unix"

// FreeBytes returns how many bytes this process may still write to the file system of dir, and whether it is known.
func FreeBytes(dir string) (uint64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Bsize <= 0 {
		return 0, false
	}
	return uint64(s.Bavail) * uint64(s.Bsize), true //nolint:unconvert // not these types on every system
}
