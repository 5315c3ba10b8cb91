//go:build unix

package folders

import "golang.org/x/sys/unix"

// Writable reports whether this process may create files in a folder.
func Writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
