//go:build unix

package listen

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// connectedPair returns the two ends of a connection inside this process.
func connectedPair() (a, b net.Conn, err error) {
	syscall.ForkLock.RLock() // no child process may inherit the descriptors
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot connect inside the process: %w", err)
	}
	ends := make([]net.Conn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, cerr := net.FileConn(f)
		_ = f.Close() // FileConn has a separate descriptor
		if cerr != nil {
			err = cerr
		}
		ends[i] = c
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, nil, fmt.Errorf("cannot connect inside the process: %w", err)
	}
	return ends[0], ends[1], nil
}
