//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

// read and write make one system call without the Go scheduler. b must not be empty.

func read(fd uintptr, b []byte) (int, syscall.Errno) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(p), uintptr(len(b)))
	return int(n), errno
}

func write(fd uintptr, b []byte) (int, syscall.Errno) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(p), uintptr(len(b)))
	return int(n), errno
}
