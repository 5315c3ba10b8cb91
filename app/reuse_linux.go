package app

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const canReusePorts = true

// reusePort lets sockets of several servers of one user have the same port; the kernel spreads connections over them.
func reusePort(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); e != nil {
		return e
	}
	return err
}
