//go:build race

package socket

import "syscall"

// The race detector orders events by the reads and writes that package syscall makes.

func read(fd uintptr, b []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), b)
	return n, errnoOf(err)
}

func write(fd uintptr, b []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), b)
	return n, errnoOf(err)
}

func errnoOf(err error) syscall.Errno {
	errno, _ := err.(syscall.Errno) //nolint:errorlint // package syscall returns nothing else
	return errno
}
