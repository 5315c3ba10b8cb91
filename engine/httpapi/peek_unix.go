//go:build unix

package httpapi

import (
	"crypto/tls"
	"syscall"
)

// hungUp reports whether the client closed its side: nothing more to read, and no bytes of a next request waiting. Under
// TLS, bytes that are waiting may be the client's goodbye.
// It does not block and takes nothing from the stream. Only the watcher calls it.
func (c *conn) hungUp() bool {
	raw, err := c.rawConn()
	if err != nil {
		return false
	}
	_, secure := c.Conn.(*tls.Conn)
	hungUp := false
	err = raw.Control(func(fd uintptr) {
		var b [maxGoodbye]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			hungUp = n == 0 || secure && goodbye(b[:n])
		case syscall.EAGAIN, syscall.EINTR:
		default:
			hungUp = true
		}
	})
	return hungUp || err != nil
}
