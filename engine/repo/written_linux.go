package repo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// fSetLease is F_SETLEASE of fcntl(2).
const fSetLease = 1024

// Written returns a file below a folder that a process has open for writing, "" if there is none. It detects only
// processes on this machine, and only files of this process's user (all files with CAP_LEASE).
func Written(folder string) (path string) {
	_ = filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && p != folder && Ignored(d.Name()) {
			if d != nil && d.IsDir() {
				return filepath.SkipDir
			}
			return nil //nolint:nilerr // the load reports files that cannot be read
		}
		if d.Type().IsRegular() && !Ignored(d.Name()) && written(p) {
			path = p
			return filepath.SkipAll
		}
		return nil
	})
	return path
}

// written requests a read lease and releases it. The kernel refuses it with EAGAIN while a process has the file open
// for writing.
func written(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close() // read only
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), fSetLease, syscall.F_RDLCK)
	if errno != 0 {
		return errors.Is(errno, syscall.EAGAIN)
	}
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), fSetLease, syscall.F_UNLCK) // closing the file releases it too
	return false
}
