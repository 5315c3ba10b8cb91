package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// CanSharePorts reports whether several servers can listen on one port.
const CanSharePorts = true

// sharePort lets the sockets of several servers of one user have the same port. The kernel distributes the connections.
func sharePort(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT,
			1)
	}); e != nil {
		return e
	}
	return err
}
