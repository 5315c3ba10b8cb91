//go:build unix

package httpapi

import (
	"crypto/tls"
	"net"
	"syscall"
)

// hungUp reports whether the client closed its side: nothing more to read, and no bytes of a next request waiting.
// It does not block and takes nothing from the stream. Only the watcher calls it.
func (c *conn) hungUp() bool {
	if c.raw == nil {
		var under net.Conn = c.Conn
		if t, ok := under.(*tls.Conn); ok {
			under = t.NetConn()
		}
		sc, ok := under.(syscall.Conn)
		if !ok {
			return false
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			return false
		}
		c.raw = raw
	}
	hungUp := false
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			hungUp = n == 0
		case syscall.EAGAIN, syscall.EINTR:
		default:
			hungUp = true
		}
	})
	return hungUp || err != nil
}
