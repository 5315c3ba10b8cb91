//go:build unix

package console

import "syscall"

// writable says whether this process may make files in a folder.
func writable(dir string) bool { return syscall.Access(dir, 2|1) == nil } // W_OK and X_OK
