//go:build race

package socket

import "syscall"

// The race detector takes what package syscall reads and writes for an order of events, as it is.

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
